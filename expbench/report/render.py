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
        parts += [_markdown_table(table) for table in board.tables]
        ids = " ".join(f"`{row.run_id}`" for row in board.rows)
        parts.append(f"Runs: {ids}\n")
    return "\n".join(parts)


def _markdown_table(table: Table) -> str:
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
    """Print all boards to standard output."""
    from rich.console import Console

    console = Console(highlight=False, width=width)
    for board in boards:
        console.rule(board.name)
        for table in board.tables:
            console.print(_rich_table(table))
            for note in table.notes:
                console.print(f"  {note}", style="dim", markup=False)
            console.print()


def _rich_table(table: Table) -> Any:
    from rich.markup import escape
    from rich.table import Table as RichTable

    grid = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
    for index, name in enumerate(table.columns):
        grid.add_column(escape(name), justify="right" if index else "left", no_wrap=index == 0)
    for index, row in enumerate(table.rows):
        if index in table.rules:
            grid.add_section()
        grid.add_row(*(escape(_text(cell)) for cell in row))
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
