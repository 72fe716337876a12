"""A pool inside a checkpoint: a loaded method must search what the trained one searched."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from expbench.core import Experience, Sample, Score, canonical_json, checksum
from expbench.errors import DataError

FILE = "pool.jsonl"
_TUPLES = ("labels", "choices", "candidates", "stop", "target")


def write_pool(entries: Sequence[Experience], folder: Path) -> None:
    """Write a line with number and checksum of the entries, then one line an entry."""
    rows = [asdict(entry) for entry in entries]
    head = {"entries": len(rows), "checksum": checksum(rows)}
    lines = [canonical_json(row) for row in (head, *rows)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def read_pool(folder: Path) -> list[Experience]:
    """Read what `write_pool` wrote; sequences inside features come back as lists.

    Raises:
        DataError: the file is missing, damaged or cut.
    """
    path = folder / FILE
    try:
        # Not splitlines: a text may hold any of the separators that it knows.
        lines = path.read_bytes().decode("utf-8").split("\n")
        head, *rows = [json.loads(line) for line in lines if line]
        entries = [_entry(row) for row in rows]
        if head != {"entries": len(rows), "checksum": checksum(rows)}:
            raise ValueError("its checksum is another one")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"The pool in {path} cannot be read ({error}); delete the checkpoint and train again."
        ) from error
    return entries


def _entry(row: dict[str, Any]) -> Experience:
    values = {**row["sample"]}
    for name in _TUPLES:
        values[name] = tuple(values[name])
    return Experience(
        sample=Sample(**values),
        output=row["output"],
        score=Score(**row["score"]),
        summary=row["summary"],
    )
