"""`expbench report`."""

import json
from collections.abc import Sequence
from pathlib import Path

from expbench.console import say
from expbench.errors import ConfigError, RecordError
from expbench.records import find_runs
from expbench.report.render import as_json as boards_json
from expbench.report.render import markdown, print_boards
from expbench.report.rows import RunRow, read_row
from expbench.report.tables import boards


def load_rows(paths: Sequence[Path]) -> tuple[list[RunRow], list[str]]:
    """Read all runs below some folders.

    Returns:
        The rows, and one sentence for every run that could not be read.

    Raises:
        ConfigError: a folder that does not exist, or no run in any.
    """
    rows: list[RunRow] = []
    problems: list[str] = []
    for path in paths:
        if not path.is_dir():
            raise ConfigError(f"There is no folder {str(path)!r}; give the --out of a run.")
        for folder in find_runs(path):
            try:
                rows.append(read_row(folder))
            except RecordError as error:
                problems.append(str(error))
    if not rows and not problems:
        where = ", ".join(map(str, paths))
        raise ConfigError(f"No runs in {where}; make one with `expbench run -m direct -t all`.")
    return rows, problems


def make_report(
    paths: Sequence[Path], *, output: Path | None, as_markdown: bool, as_json: bool
) -> None:
    """Print or write the tables of all runs below some folders.

    Raises:
        ConfigError: no runs, or an output file of another kind than .md and .json.
    """
    rows, problems = load_rows(paths)
    made = boards(rows)
    value = {"boards": boards_json(made), "unreadable": problems}
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    if output is not None:
        if output.suffix not in (".md", ".json"):
            raise ConfigError(f"--output is {str(output)!r}; its name must end in .md or .json.")
        output.write_text(markdown(made) if output.suffix == ".md" else text, encoding="utf-8")
    if as_json:
        print(text, end="")
    elif as_markdown:
        print(markdown(made))
    elif output is None:
        print_boards(made)
    for problem in problems:
        say(f"Left out: {problem}")
