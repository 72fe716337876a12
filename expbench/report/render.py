"""Tables as Markdown, as terminal output and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from expbench.report.tables import Board, Cell, Table


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def markdown(boards: Iterable[Board]) -> str:
    """Render all boards as one Markdown document."""
    parts = ["# Leaderboard\n"]
    for board in boards:
        parts.append(f"## {board.name[0].upper()}{board.name[1:]}\n")
        parts += [markdown_table(table) for table in board.tables]
        ids = " ".join(f"`{row.run_id}`" for row in board.rows)
        parts.append(f"Runs: {ids}\n")
    return "\n".join(parts)


def markdown_table(table: Table) -> str:
    """Render one table as Markdown."""
    lines = [f"### {table.title}\n"]
    right = [" ---: " if i else " --- " for i in range(len(table.columns))]
    lines.append(_markdown_row(table.columns))
    lines.append(f"|{'|'.join(right)}|")
    lines += [_markdown_row([_text(cell) for cell in row]) for row in table.rows]
    lines.append("")
    lines += [f"- {note}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def print_boards(boards: Iterable[Board], *, width: int | None = None) -> None:
    """Print all boards to standard output; a table too wide for the screen comes in parts."""
    from rich.console import Console

    console = Console(highlight=False, width=width)
    for board in boards:
        console.rule(board.name)
        for table in board.tables:
            _print(console, table)


def print_table(table: Table, *, width: int | None = None) -> None:
    """Print one table to standard output."""
    from rich.console import Console

    _print(Console(highlight=False, width=width), table)


def _print(console: Any, table: Table) -> None:
    for columns in _parts(table, console.width):
        console.print(_rich_table(table, columns))
    for note in table.notes:
        console.print(f"  {note}", style="dim", markup=False)
    console.print()


def _parts(table: Table, width: int) -> list[list[int]]:
    """Split columns so that each part fits; the first column heads every part."""
    needed = [
        max(len(text) for text in (name, *(_text(row[i]) for row in table.rows))) + 2
        for i, name in enumerate(table.columns)
    ]
    parts = [[0]]
    for i in range(1, len(needed)):
        if len(parts[-1]) > 1 and sum(needed[j] for j in parts[-1]) + needed[i] + 2 > width:
            parts.append([0])
        parts[-1].append(i)
    return parts


def _rich_table(table: Table, columns: Sequence[int]) -> Any:
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    grid = RichTable(
        title=escape(table.title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    for i in columns:
        grid.add_column(escape(table.columns[i]), justify="right" if i else "left", no_wrap=True)
    for index, row in enumerate(table.rows):
        if index in table.rules:
            grid.add_section()
        grid.add_row(*(escape(_text(row[i])) for i in columns))
    return grid


def as_json(boards: Iterable[Board]) -> list[dict[str, Any]]:
    """Give all boards as plain values: tables and the rows they were made from."""
    return [
        {
            "board": board.name,
            "tables": [asdict(table) for table in board.tables],
            "runs": [{**asdict(row), "is_ranked": row.is_ranked} for row in board.rows],
        }
        for board in boards
    ]
