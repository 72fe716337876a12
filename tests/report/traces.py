"""Made-up records with traces, hostile text among them."""

from collections.abc import Mapping, Sequence
from typing import Any

from expbench.core import Output, Record, Score

HOSTILE = (
    "</script><img src=x onerror=\"document.title='owned'\"><!-- "
    "\u2028\u202e\x1b[31m &amp; @@DATA@@"
)


def entry(number: int, summary: str = "Divide first.") -> dict[str, Any]:
    return {
        "task": "gsm8k",
        "sample_id": f"train-{number}",
        "reward": 0.5,
        "step": number,
        "summary": summary,
    }


def bank(*names: str, summary: str = "Divide first.") -> dict[str, Any]:
    entries = {name: entry(i, summary) for i, name in enumerate(names)}
    return {"kind": "bank", "entries": entries}


def token(
    text: str, ids: Sequence[str] = (), weights: Sequence[float] = (), gate: float = 0.5
) -> dict[str, Any]:
    return {"token": text, "ids": list(ids), "weights": list(weights), "gate": gate}


def record(
    sample_id: str,
    *trace: Mapping[str, Any],
    text: str = "",
    ranking: tuple[int, ...] | None = None,
    error: str | None = None,
) -> Record:
    return Record(
        run_id="abc",
        sample_id=sample_id,
        output=Output(text=text, ranking=ranking, trace=trace),
        score=None if error else Score(value=1.0, answer="2", explanation="2 equals 2."),
        error=error,
        seconds=0.1,
        target="2",
    )
