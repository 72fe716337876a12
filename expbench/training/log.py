"""The step log of a training: `train.jsonl`, one line an optimizer step."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = "train.jsonl"


class StepLog:
    """Appends the rows of one loop to a folder's `train.jsonl`; several loops may share the file.

    Args:
        folder: Where the file is.
        loop: Name of the loop, in every row: `grpo` or `ranking`.
    """

    def __init__(self, folder: Path, loop: str) -> None:
        self.path = folder / FILE
        self._loop = loop

    def rewind(self, step: int) -> None:
        """Drop this loop's rows after a step, and a last line that a kill cut in half.

        Args:
            step: Optimizer steps that the training goes on from; 0 for a fresh start.
        """
        if not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            row = _parsed(line)
            if row and (row.get("loop") != self._loop or row.get("step", 0) <= step):
                kept.append(line + "\n")
        fresh = self.path.with_suffix(".new")
        fresh.write_text("".join(kept), encoding="utf-8")
        os.replace(fresh, self.path)

    def write(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Append one row; a number that is not finite is written as null."""
        row = {"loop": self._loop, "step": step}
        row.update({name: _finite(value) for name, value in numbers.items()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError):
        return None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
