"""`expbench train`."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from expbench.checkpoints import Checkpoint
from expbench.commands.run import Request, load_backbone, plan_request
from expbench.console import Bars, say
from expbench.courses import Course, prepare
from expbench.errors import ConfigError
from expbench.fitting import learn, rank, training_account
from expbench.jobs import Backbone, Plan
from expbench.records import read_lines


def train_methods(request: Request) -> None:
    """Collect experience and train, without answering; say where each checkpoint is.

    Raises:
        ConfigError: a method that keeps no checkpoint, or nothing to train.
        ExpBenchError: a leak, a broken method, an unusable folder.
    """
    if request.force and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("--force does not go with several processes; remove the checkpoint.")
    todo = plan_request(request)
    courses = _courses(todo)
    for name, reason in todo.left_out.items():
        say(f"Not trained: {name}: {reason}")
    backbone = load_backbone(request, todo)
    with Bars(len(courses), quiet=request.as_json or rank() > 0) as bars:
        made = [
            _train(course, backbone, bars, force=request.force, number=number)
            for number, course in enumerate(courses, start=1)
        ]
    if rank() == 0:
        _report(made, as_json=request.as_json)


def _courses(todo: Plan) -> tuple[Course, ...]:
    """Give what is to be learnt.

    Raises:
        ConfigError: a method that keeps no checkpoint, or nothing to train.
    """
    if not todo.courses:
        raise ConfigError(f"Nothing to train. {'. '.join(dict.fromkeys(todo.declined.values()))}.")
    for course in todo.courses:
        if not course.keeps:
            raise ConfigError(
                f"Method {course.method.name!r} keeps no checkpoint: it learns anew in every run. "
                f"`expbench run --method {course.method.name}` is all it needs."
            )
    return todo.courses


def _report(made: Sequence[Checkpoint], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_value(checkpoint) for checkpoint in made], ensure_ascii=False))
        return
    for checkpoint in made:
        _show(checkpoint)


def _train(
    course: Course, backbone: Backbone, bars: Bars, *, force: bool, number: int
) -> Checkpoint:
    for lesson in course.lessons:
        course.refuse_leaks(lesson.data.train, where="train split")
    model = backbone() if course.method.uses_model else None
    study = prepare(course, model, bars)
    checkpoint = study.checkpoint
    if checkpoint is None:
        raise ConfigError(f"Method {course.method.name!r} keeps no checkpoint.")
    if force and rank() == 0:
        with checkpoint.lock():
            checkpoint.set_aside()
    learn(course, model, study, bars)
    bars.finished(number, f"{checkpoint.path.name} has learnt {course.scope}")
    return checkpoint


def _value(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "path": str(checkpoint.path),
        "seed": checkpoint.info["seed"],
        **training_account(checkpoint),
        "log": progress_of(checkpoint.log),
    }


def progress_of(log: Path) -> list[dict[str, Any]]:
    """Sum `train.jsonl` up: every number that its first and last step share.

    Returns:
        `name`, `first`, `last` of each, in the order of the log.
    """
    steps = [v for _, v in read_lines(log) if isinstance(v, Mapping)]
    if not steps:
        return []
    first, last = steps[0], steps[-1]
    return [
        {"name": name, "first": value, "last": last[name]}
        for name, value in first.items()
        if _is_number(value) and _is_number(last.get(name))
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _show(checkpoint: Checkpoint) -> None:
    """Print where a checkpoint is, what it cost, and how the reward moved."""
    value, console = _value(checkpoint), Console(highlight=False)
    spent = [f"{value['seconds']:.1f} s"]
    spent += [
        f"{number:,.0f} {name.replace('_', ' ')}"
        for name, number in value["cost"].items()
        if name != "seconds"  # Measured around the whole fit already.
    ]
    pools = sum(pool["tokens"] for pool in value["pools"].values())
    console.print(f"{checkpoint.path}", soft_wrap=True, markup=False)
    console.print(f"  learnt from {', '.join(value['tasks'])}; seed {value['seed']}", markup=False)
    console.print(f"  cost {', '.join(spent)}; its pool {pools:,} tokens", markup=False)
    if value["log"]:
        grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
        for index, column in enumerate(("train.jsonl", "first", "last")):
            grid.add_column(column, justify="right" if index else "left")
        for line in value["log"]:
            grid.add_row(line["name"], _number(line["first"]), _number(line["last"]))
        console.print(grid)
    console.print(
        f"  answer with it: expbench run --checkpoint {checkpoint.path} ...", markup=False
    )


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"
