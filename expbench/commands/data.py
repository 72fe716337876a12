"""`expbench data status` and `expbench data pull`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expbench.console import Download, say
from expbench.core import Task
from expbench.data import SourceStatus, cache_dir, pull, status
from expbench.errors import DataError
from expbench.registry import select_tasks
from expbench.suites import load


def show_status(words: str, *, data_dir: Path | None, as_json: bool) -> None:
    """Say for each task what the three sources have; nothing is fetched."""
    tasks = select_tasks(words)
    lines = [_local(task, data_dir) for task in tasks]
    official = [part for task in tasks for part in status(task)]
    if as_json:
        print(json.dumps({"local": lines, "official": _plain(official)}, indent=1))
        return
    where = str(data_dir) if data_dir else "bundled mini suite"
    grid = Table("task", "train", "test", "checksum of test", "remarks", title=where)
    for line in lines:
        cells = (line["task"], line["train"], line["test"], line["checksum"], line["remarks"])
        grid.add_row(*(escape(str(cell)) for cell in cells))
    Console().print(grid)
    _print_official(official)


def _local(task: Task, data_dir: Path | None) -> dict[str, Any]:
    """Load a task from the folder or the mini suite, or say why that does not work."""
    try:
        data = load(task, suite="mini", data_dir=data_dir)
    except DataError as error:
        return {
            "task": task.name,
            "train": "-",
            "test": "-",
            "checksum": "-",
            "remarks": str(error),
        }
    return {
        "task": task.name,
        "train": len(data.train),
        "test": len(data.test),
        "checksum": data.checksums["test"][:12],
        "remarks": " ".join(data.notes),
    }


def _plain(parts: Sequence[SourceStatus]) -> list[dict[str, Any]]:
    return [{**asdict(part), "path": str(part.path)} for part in parts]


def _print_official(parts: Sequence[SourceStatus]) -> None:
    grid = Table(
        "task", "source", "state", "MB", "revision", "hash known to", title="full suite (official)"
    )
    for part in parts:
        colour = {"ready": "green", "missing": "yellow", "changed": "red"}[part.state]
        grid.add_row(
            escape(part.task),
            escape(part.key),
            f"[{colour}]{part.state}[/{colour}]",
            f"{part.size_bytes / 1e6:.1f}" if part.size_bytes else "-",
            (part.revision or "first pull")[:12],
            part.locked,
        )
    Console().print(grid)
    say(f"Cache: {cache_dir()}. `expbench data pull --task NAME` fetches what is missing.")


def pull_data(words: str, *, as_json: bool) -> None:
    """Fetch the official data of tasks; a task that cannot be had does not stop the others.

    Raises:
        DataError: after the last task, naming those that failed.
    """
    done: list[SourceStatus] = []
    failed: dict[str, str] = {}
    for task in select_tasks(words):
        try:
            with Download(task.name, quiet=as_json) as progress:
                done += pull(task, progress)
        except DataError as error:
            failed[task.name] = str(error)
            say(f"{task.name}: {error}")
    if as_json:
        print(json.dumps({"pulled": _plain(done), "failed": failed}, indent=1))
    else:
        _print_official(done)
    for part in done:
        if part.note:
            say(f"{part.task}: {part.note}")
    if failed:
        raise DataError(f"Not pulled: {', '.join(failed)}; the reasons stand above.")
