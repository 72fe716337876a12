"""`expbench tasks` and `expbench methods`."""

import json

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expbench.registry import MethodInfo, method_table, select_tasks

WIDE = 110
"""Columns of a terminal from which titles are shown."""


def list_tasks(*, as_json: bool) -> None:
    """Print every task with scenario, metric and source."""
    tasks = select_tasks("all")
    if as_json:
        lines = [
            {
                "name": t.name,
                "version": t.version,
                "title": t.title,
                "scenario": t.scenario,
                "group": t.group,
                "kind": t.kind,
                "metric": t.metric,
                "dataset": t.source.dataset,
                "config": t.source.config,
                "licence": t.source.licence,
                "paper": t.source.paper,
            }
            for t in tasks
        ]
        print(json.dumps(lines, ensure_ascii=False, indent=1))
        return
    console = Console()
    wide = console.width >= WIDE
    grid = Table("task", "v", "group", "metric", "source", *(["title"] if wide else []))
    grid.box = box.SIMPLE_HEAD
    scenario = tasks[0].scenario
    for t in tasks:
        if t.scenario != scenario:
            grid.add_section()
            scenario = t.scenario
        cells = (t.name, str(t.version), t.group, t.metric, t.source.dataset)
        grid.add_row(*map(escape, (*cells, *([t.title] if wide else []))))
    console.print(grid)


def list_methods(*, as_json: bool) -> None:
    """Print every method; one that cannot be loaded with the reason, and the rest all the same."""
    table = method_table()
    good = [m for m in table if isinstance(m, MethodInfo)]
    broken = [entry for entry in table if not isinstance(entry, MethodInfo)]
    if as_json:
        lines = [
            {
                "name": m.name,
                "version": m.version,
                "summary": m.summary,
                "origin": m.origin,
                "uses_model": m.uses_model,
                "uses_experience": m.uses_experience,
                "reference": m.reference,
                "kinds": m.kinds,
            }
            for m in good
        ]
        lines += [{"name": name, "error": reason} for name, reason in broken]
        print(json.dumps(lines, ensure_ascii=False, indent=1))
        return
    grid = Table("method", "version", "learns from", "from", "what it does")
    grid.box = box.SIMPLE_HEAD
    for m in good:
        learns = "pool" if m.uses_experience else "train labels" if m.reference else "nothing"
        grid.add_row(*map(escape, (m.name, str(m.version), learns, m.origin, m.summary)))
    for name, reason in broken:
        grid.add_row(escape(name), "-", "-", "-", f"[red]broken:[/red] {escape(reason)}")
    Console().print(grid)
