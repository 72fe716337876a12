"""`expbench ablate`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from expbench.commands.run import Request, begin, complain, plan_request, work
from expbench.console import say
from expbench.core import checksum
from expbench.errors import ConfigError, RecordError, UnknownName
from expbench.jobs import Plan
from expbench.records import RunFolder
from expbench.registry import MethodInfo, select_methods
from expbench.report.ablation import Pair, ablation_lines, ablation_table, read_pair
from expbench.report.render import markdown_table, print_table
from expbench.report.rows import RunRow
from expbench.runner import Job

EMPTY = {"control": "empty"}


@dataclass(frozen=True, kw_only=True)
class _Variant:
    """One row: its jobs with and without the bank, in the same order."""

    jobs: tuple[Job, ...]
    without: tuple[Job, ...]


def ablate_method(request: Request, *, set_name: str | None, as_markdown: bool) -> None:
    """Run every variant of a set with and without its bank and print one table.

    Raises:
        ConfigError: not one method, or one that has no ABLATIONS or no `control`.
        UnknownName: no such set.
        ExpBenchError: a job failed; the other jobs are finished first.
    """
    method = _method(request.method)
    name, settings = _choose(method, set_name)
    base, backbone = begin(request)
    variants = {
        label: _Variant(
            jobs=plan_request(request, values, shelf=base.shelf).jobs,
            without=plan_request(request, {**values, **EMPTY}, shelf=base.shelf).jobs,
        )
        for label, values in settings.items()
    }
    todo = _all_jobs(variants)
    rows, failed = work(todo, backbone, request)
    pairs = {label: _pairs(variant, rows, request) for label, variant in variants.items()}
    jobs = next(iter(variants.values())).jobs
    lines = ablation_lines(
        pairs,
        tasks={job.task.name: job.task.scenario for job in jobs},
        seeds=list(dict.fromkeys(job.seed for job in jobs)),
    )
    table = ablation_table(f"Ablation of {method.name}: {name}", lines)
    if request.as_json:
        value = {"method": method.name, "set": name, "settings": settings}
        shown: dict[str, Any] = {"table": asdict(table), "lines": [asdict(x) for x in lines]}
        print(json.dumps({**value, **shown}, ensure_ascii=False))
    elif as_markdown:
        print(markdown_table(table))
    else:
        print_table(table)
        say(f"Runs are in {request.out}; `expbench report {request.out}` shows each in full.")
    complain(failed, len(todo.jobs))


def _method(text: str) -> MethodInfo:
    methods = select_methods(text)
    if len(methods) != 1:
        raise ConfigError(f"--method is {text!r}; an ablation takes one method.")
    [method] = methods
    fields = getattr(method.cls.Config, "__dataclass_fields__", {})
    if not getattr(method.cls, "ABLATIONS", None):
        raise ConfigError(
            f"Method {method.name!r} declares no ABLATIONS, so there is nothing to compare."
        )
    if "control" not in fields:
        raise ConfigError(
            f"The Config of method {method.name!r} has no field `control`, so it cannot answer "
            "without its bank."
        )
    return method


def _choose(method: MethodInfo, name: str | None) -> tuple[str, Mapping[str, Mapping[str, str]]]:
    sets: Mapping[str, Mapping[str, Mapping[str, str]]] = method.cls.ABLATIONS
    chosen = name if name is not None else next(iter(sets))
    if chosen not in sets:
        raise UnknownName.among(f"ablation of method {method.name!r}", chosen, sets)
    return chosen, sets[chosen]


def _key(job: Job) -> str:
    return checksum([job.task.name, asdict(job.config), job.seed])


def _all_jobs(variants: Mapping[str, _Variant]) -> Plan:
    """Put the jobs of all variants into one plan, each once: variants may share runs."""
    jobs = [
        job
        for v in variants.values()
        for pair in zip(v.jobs, v.without, strict=True)
        for job in pair
    ]
    unique = {_key(job): job for job in jobs}
    return Plan(jobs=tuple(unique.values()), missing={}, declined={})


def _pairs(variant: _Variant, rows: list[RunRow], request: Request) -> list[Pair]:
    """Read the pairs whose two runs are there."""
    by_key = {checksum([row.task, row.config, row.seed]): row.run_id for row in rows}
    pairs = []
    for job, other in zip(variant.jobs, variant.without, strict=True):
        ids = [by_key.get(_key(job)), by_key.get(_key(other))]
        if None in ids:
            continue
        try:
            pairs.append(read_pair(*(RunFolder(request.out, str(name)) for name in ids)))
        except RecordError as error:
            say(f"Left out: {error}")
    return pairs
