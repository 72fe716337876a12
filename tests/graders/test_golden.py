"""Known traps, one line each: every grader gives the value written there."""

import json
from pathlib import Path
from typing import Any

import pytest

from expbench.core import Grader, Output, Sample
from expbench.graders.chem import grade_chem
from expbench.graders.choice import grade_choice
from expbench.graders.math import grade_math
from expbench.graders.ranking import grade_ranking

FOLDER = Path(__file__).parent.parent / "golden" / "graders"
GRADERS: dict[str, Grader] = {
    "math": grade_math,
    "choice": grade_choice,
    "chem": grade_chem,
    "ranking": grade_ranking,
}


def golden_lines() -> list[Any]:
    cases = []
    for kind in GRADERS:
        for line in (FOLDER / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            cases.append(pytest.param(kind, row, id=f"{kind}: {row['why']} ({row['target']})"))
    return cases


@pytest.mark.parametrize(("kind", "row"), golden_lines())
def test_a_known_trap_gets_its_value(kind: str, row: dict[str, Any]) -> None:
    given = row["input"]
    sample = Sample(
        id="golden",
        task="golden",
        kind=kind,  # type: ignore[arg-type]
        input=given.get("question", ""),
        labels=tuple(given.get("labels", ())),
        choices=tuple(given.get("choices", ())),
        candidates=tuple(given.get("candidates", ())),
        target=(row["target"],),
    )
    output = Output(text=row["output"], stop_reason=row.get("stop_reason", "stop"))
    score = GRADERS[kind](sample, output)
    assert score.value == pytest.approx(row["value"]), score
