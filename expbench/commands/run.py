"""`expbench run`."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from expbench import sandbox
from expbench.checkpoints import Checkpoint
from expbench.config import parse_settings
from expbench.console import Bars, say
from expbench.core import Model
from expbench.errors import ConfigError, ExpBenchError
from expbench.jobs import Backbone, Plan, Shelf, plan
from expbench.models import load_model
from expbench.presets import get_preset
from expbench.records import RunFolder
from expbench.registry import select_methods, select_tasks
from expbench.report.render import as_json, print_boards
from expbench.report.rows import RunRow, read_row
from expbench.report.tables import boards
from expbench.runner import Job, execute


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
    dtype: str | None
    out: Path
    force: bool
    unsafe_code: bool
    as_json: bool
    checkpoint: Path | None = None


def run_jobs(request: Request) -> None:
    """Run every job, print a line for each, then the leaderboard of exactly these runs.

    Raises:
        ExpBenchError: nothing could be planned, or a job failed; the other jobs are finished first.
    """
    todo, backbone = begin(request)
    rows, failed = work(todo, backbone, request)
    if request.as_json:
        print(json.dumps({"boards": as_json(boards(rows)), "not_run": dict(todo.missing)}))
    else:
        print_boards(boards(rows))
        say(f"Runs are in {request.out}. `expbench show RUN --wrong` shows what went wrong.")
    complain(failed, len(todo.jobs))


def complain(failed: Sequence[str], jobs: int) -> None:
    """End with an error where jobs failed.

    Raises:
        ExpBenchError: at least one did.
    """
    if failed:
        raise ExpBenchError(f"{len(failed)} of {jobs} jobs failed: " + " ".join(failed))


def begin(request: Request) -> tuple[Plan, Backbone]:
    """Plan a request, say what is left out, and load the backbone where a job needs it.

    Raises:
        ExpBenchError: nothing could be planned, or the backbone cannot be had.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "Several processes work together in `expbench train` alone; "
            "train first, then start this command once."
        )
    todo = plan_request(request)
    if not todo.jobs:
        reasons = dict.fromkeys(f"{name}: {why}." for name, why in todo.declined.items())
        raise ConfigError(f"Nothing to run. {next(iter(reasons), '')}")
    for left_out, reason in todo.left_out.items():
        say(f"Not run: {left_out}: {reason}")
    return todo, load_backbone(request, todo)


def load_backbone(request: Request, todo: Plan) -> Backbone:
    """Get the backbone of a request ready; it is loaded now if any job needs it."""
    name = model_name(request)

    def load() -> Model:
        say(f"Loading the backbone {name}; its files are fetched the first time.")
        return load_model(name, device=request.device, dtype=_dtype(request))

    backbone = Backbone(load)
    if any(job.method.uses_model for job in todo.jobs):
        backbone()  # A backbone that cannot be had is one error, not one a job.
    return backbone


def _dtype(request: Request) -> str:
    """Name the number format: the user's; the preset's for its own model; else the fastest."""
    own = request.model is None
    return request.dtype or (get_preset(request.preset).dtype if own else "auto")


def model_name(request: Request) -> str:
    """Name the backbone: the user's, or the preset's."""
    return request.model or get_preset(request.preset).model


def plan_request(
    request: Request, settings: Mapping[str, str] | None = None, *, shelf: Shelf | None = None
) -> Plan:
    """Plan a request, with further settings that win over the user's, on data loaded before.

    Raises:
        ExpBenchError: options that exclude each other, or nothing could be planned.
    """
    if request.data_dir is not None and request.suite is not None:
        raise ConfigError("--suite and --data-dir exclude each other; give one of them.")
    sandbox.configure(unsafe=request.unsafe_code)
    preset = get_preset(request.preset)
    given = request.limits
    return plan(
        select_tasks(request.task),
        select_methods(request.method),
        preset=preset,
        suite=request.suite or preset.suite,
        data_dir=request.data_dir,
        seeds=request.seeds or _checkpoint_seed(request.checkpoint) or preset.seeds,
        settings={**parse_settings(request.settings), **(settings or {})},
        limits={
            "train": preset.train_limit if given["train"] is None else int(given["train"]),
            "test": preset.test_limit if given["test"] is None else int(given["test"]),
            "pool": preset.pool_limit if given["pool"] is None else int(given["pool"]),
        },
        out=request.out,
        # `all` means whatever is there; a task named by the user must be there.
        skip_missing=request.task == "all" or request.data_dir is not None,
        model=model_name(request),
        checkpoint=request.checkpoint,
        shelf=shelf,
    )


def _checkpoint_seed(path: Path | None) -> tuple[int, ...]:
    """Give the seed that a checkpoint was trained with; nothing without one."""
    info = Checkpoint(path).info if path else {}
    return (int(info["seed"]),) if info else ()


def work(todo: Plan, backbone: Backbone, request: Request) -> tuple[list[RunRow], list[str]]:
    """Run every job of a plan and print a line for each.

    Returns:
        The rows of finished runs, and one sentence for each job that failed.
    """
    rows: list[RunRow] = []
    failed: list[str] = []
    samples = 0
    with Bars(todo.samples, quiet=request.as_json) as bars:
        for job in todo.jobs:
            name = f"{job.task.name:<14} {_label(job, todo):<9} seed {job.seed}"
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


def _label(job: Job, todo: Plan) -> str:
    """Name a job's method, with the settings that its other jobs in the plan have otherwise."""
    kin = [asdict(other.config) for other in todo.jobs if other.method.name == job.method.name]
    mine = asdict(job.config)
    differing = [f"{k}={v}" for k, v in mine.items() if any(other[k] != v for other in kin)]
    return f"{job.method.name}({', '.join(differing)})" if differing else job.method.name


def _result(row: RunRow) -> str:
    text = f"{row.metric:<11} {100 * row.score:5.1f} [{100 * row.low:3.0f},{100 * row.high:3.0f}]"
    return f"{text}, {row.errors} errors" if row.errors else text
