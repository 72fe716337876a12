"""From records to a `Trace`: which experiences touched which token of each answer, and how much.

A latent method's `Output.trace` is one mapping `{"kind": "bank", "entries": {id: {"task",
"sample_id", "reward", "step", "summary"}}}` and then one mapping a generated token, `{"token",
"ids", "weights", "gate"}`. A ranking answer has one such mapping with an empty token: the prompt's
last state. Whatever else a trace holds, as the chosen examples of a text method, is kept as notes.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from expbench.core import Record
from expbench.errors import RecordError
from expbench.report.visible import visible


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An experience of the bank."""

    id: str
    task: str = ""
    sample_id: str = ""
    reward: float | None = None
    step: int | None = None
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class Token:
    """A generated token and what was read from the bank for it."""

    text: str
    entries: tuple[int, ...]
    """Positions in `Trace.entries`, as retrieved."""
    weights: tuple[float, ...]
    """Attention weight of each of `entries`."""
    gate: float
    """How open the gate was: 0 leaves the hidden state as it is."""


@dataclass(frozen=True, kw_only=True)
class Influence:
    """How much one experience touched one answer."""

    entry: int
    mean: float
    """Mean of weight x gate over all tokens of the answer; 0 where it was not retrieved."""
    peak: float
    """Largest weight x gate of a token."""
    tokens: int
    """Tokens it was retrieved for."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer with its tokens."""

    sample_id: str
    question: str
    text: str
    """The answer in words: the model's text or the ranking."""
    target: str
    score: float | None
    """None where grading failed."""
    explanation: str
    tokens: tuple[Token, ...]
    notes: tuple[Mapping[str, Any], ...]
    """What the trace holds besides tokens."""

    @property
    def mean_gate(self) -> float:
        """Mean gate over the tokens; 0 without tokens."""
        return sum(t.gate for t in self.tokens) / len(self.tokens) if self.tokens else 0.0

    def influences(self) -> list[Influence]:
        """Rank the experiences by mean weight x gate, largest first; equal ones by position."""
        found: dict[int, list[float]] = {}
        for token in self.tokens:
            touched: dict[int, float] = {}
            for entry, weight in zip(token.entries, token.weights, strict=True):
                touched[entry] = touched.get(entry, 0.0) + weight * token.gate
            for entry, value in touched.items():
                found.setdefault(entry, []).append(value)
        ranked = [
            Influence(entry=e, mean=sum(v) / len(self.tokens), peak=max(v), tokens=len(v))
            for e, v in found.items()
        ]
        return sorted(ranked, key=lambda i: (-i.mean, i.entry))


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All answers of a run that hold a trace, with one table of the experiences they name."""

    run_id: str
    title: str
    entries: tuple[Entry, ...]
    answers: tuple[Answer, ...]

    @property
    def widest_gate(self) -> float:
        """Largest gate of any token, the upper end of the colour scale; 0 without tokens."""
        return max((t.gate for a in self.answers for t in a.tokens), default=0.0)


def read_trace(
    records: Iterable[Record], *, run_id: str, title: str, questions: Mapping[str, str]
) -> Trace:
    """Read the traces of records; a record without one is left out.

    Args:
        records: of one run.
        run_id: its id.
        title: what the view is headed with.
        questions: sample id -> the question's words; may lack some.

    Raises:
        RecordError: a token's mapping is damaged; the message names sample and token.
    """
    table = _Table()
    answers = [
        _answer(record, questions.get(record.sample_id, ""), table)
        for record in records
        if record.output.trace
    ]
    return Trace(
        run_id=run_id, title=visible(title), entries=tuple(table.entries), answers=tuple(answers)
    )


class _Table:
    """The entries that tokens name, each once, in order of appearance."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._positions: dict[str, int] = {}

    def position(self, name: str, bank: Mapping[str, Any]) -> int:
        if name not in self._positions:
            self._positions[name] = len(self.entries)
            self.entries.append(_entry(name, bank.get(name, {})))
        return self._positions[name]


def _entry(name: str, fields: Mapping[str, Any]) -> Entry:
    reward, step = fields.get("reward"), fields.get("step")
    return Entry(
        id=visible(name),
        task=visible(str(fields.get("task", ""))),
        sample_id=visible(str(fields.get("sample_id", ""))),
        reward=None if reward is None else _number(reward),
        step=None if step is None else int(step),
        summary=visible(str(fields.get("summary", ""))),
    )


def _answer(record: Record, question: str, table: _Table) -> Answer:
    bank: dict[str, Any] = {}
    tokens: list[Token] = []
    notes: list[Mapping[str, Any]] = []
    for item in record.output.trace:
        try:
            if item.get("kind") == "bank":
                bank |= item["entries"]
            elif "token" in item:
                tokens.append(_token(item, bank, table))
            else:
                notes.append(item)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"The trace of sample {record.sample_id!r} is damaged at token {len(tokens)} "
                f"({type(error).__name__}: {error}); run it again."
            ) from error
    ranking = record.output.ranking
    text = record.output.text.strip()
    if ranking is not None:
        text = "ranking: " + ", ".join(str(p + 1) for p in ranking)
    return Answer(
        sample_id=visible(record.sample_id),
        question=visible(question.strip()),
        text=visible(text),
        target=visible(record.target),
        score=None if record.score is None else record.score.value,
        explanation=visible(record.score.explanation if record.score else record.error or ""),
        tokens=tuple(tokens),
        notes=tuple(notes),
    )


def _token(item: Mapping[str, Any], bank: Mapping[str, Any], table: _Table) -> Token:
    ids = [str(name) for name in item["ids"]]
    weights = tuple(_number(weight) for weight in item["weights"])
    if len(ids) != len(weights):
        raise ValueError(f"{len(ids)} ids but {len(weights)} weights")
    return Token(
        text=visible(str(item["token"])),
        entries=tuple(table.position(name, bank) for name in ids),
        weights=weights,
        gate=_number(item["gate"]),
    )


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number
