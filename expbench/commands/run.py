"""`expbench run`."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from expbench import sandbox
from expbench.config import parse_settings
from expbench.console import Bars, say
from expbench.core import Model
from expbench.errors import ConfigError, ExpBenchError
from expbench.jobs import Backbone, Plan, plan
from expbench.models import load_model
from expbench.presets import get_preset
from expbench.records import RunFolder
from expbench.registry import select_methods, select_tasks
from expbench.report.render import as_json, print_boards
from expbench.report.rows import RunRow, read_row
from expbench.report.tables import boards
from expbench.runner import execute


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user typed; None where the preset decides."""

    method: str
    task: str
    preset: str
    model: str | None
    suite: str | None
    data_dir: Path | None
    seeds: tuple[int, ...] | None
    settings: tuple[str, ...]
    limits: Mapping[str, int | None]
    device: str
    dtype: str
    out: Path
    force: bool
    unsafe_code: bool
    as_json: bool


def run_jobs(request: Request) -> None:
    """Run every job, print a line for each, then the leaderboard of exactly these runs.

    Raises:
        ExpBenchError: nothing could be planned, or a job failed; the other jobs are finished first.
    """
    if request.data_dir is not None and request.suite is not None:
        raise ConfigError("--suite and --data-dir exclude each other; give one of them.")
    sandbox.configure(unsafe=request.unsafe_code)
    todo = _plan(request)
    name = request.model or get_preset(request.preset).model

    def load_backbone() -> Model:
        say(f"Loading the backbone {name}; its files are fetched the first time.")
        return load_model(name, device=request.device, dtype=request.dtype)

    backbone = Backbone(load_backbone)
    for left_out, reason in {**todo.missing, **todo.declined}.items():
        say(f"Not run: {left_out}: {reason}")
    if any(job.method.uses_model for job in todo.jobs):
        backbone()  # A backbone that cannot be had is one error, not one a job.
    rows, failed = _work(todo, backbone, request)
    if request.as_json:
        print(json.dumps({"boards": as_json(boards(rows)), "not_run": dict(todo.missing)}))
    else:
        print_boards(boards(rows))
        say(f"Runs are in {request.out}. `expbench show RUN --wrong` shows what went wrong.")
    if failed:
        raise ExpBenchError(f"{len(failed)} of {len(todo.jobs)} jobs failed: " + " ".join(failed))


def _plan(request: Request) -> Plan:
    preset = get_preset(request.preset)
    given = request.limits
    return plan(
        select_tasks(request.task),
        select_methods(request.method),
        preset=preset,
        suite=request.suite or preset.suite,
        data_dir=request.data_dir,
        seeds=request.seeds or preset.seeds,
        settings=parse_settings(request.settings),
        limits={
            "train": preset.train_limit if given["train"] is None else int(given["train"]),
            "test": preset.test_limit if given["test"] is None else int(given["test"]),
            "pool": preset.pool_limit if given["pool"] is None else int(given["pool"]),
        },
        out=request.out,
        # `all` means whatever is there; a task named by the user must be there.
        skip_missing=request.task == "all" or request.data_dir is not None,
    )


def _work(todo: Plan, backbone: Backbone, request: Request) -> tuple[list[RunRow], list[str]]:
    rows: list[RunRow] = []
    failed: list[str] = []
    samples = 0
    with Bars(todo.samples, quiet=request.as_json) as bars:
        for job in todo.jobs:
            name = f"{job.task.name:<14} {job.method.name:<9} seed {job.seed}"
            start = time.perf_counter()
            try:
                folder: RunFolder = execute(job, backbone, bars, force=request.force)
                row = read_row(folder)
            except ExpBenchError as error:
                failed.append(f"{job.task.name}/{job.method.name}: {error}")
                say(f"{name}  failed: {error}")
                continue
            finally:
                samples += len(job.data.test)
            rows.append(row)
            seconds = time.perf_counter() - start
            bars.finished(samples, f"{row.run_id} {name} {_result(row)} {seconds:6.1f} s")
    return rows, failed


def _result(row: RunRow) -> str:
    text = f"{row.metric:<11} {100 * row.score:5.1f} [{100 * row.low:3.0f},{100 * row.high:3.0f}]"
    return f"{text}, {row.errors} errors" if row.errors else text
