"""Rates with intervals, and the sentences that say what they mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from expbench.diagnose.worlds import CHANCE, KEYS
from expbench.stats import compare_paired, wilson_interval

Control = Literal["none", "empty", "shuffled", "random", "closed_gate"]
LATENT_CONTROLS: tuple[Control, ...] = ("none", "empty", "shuffled", "random", "closed_gate")
TEXT_CONTROLS: tuple[Control, ...] = ("none", "empty", "shuffled", "random")
WHAT: Mapping[Control, str] = {
    "none": "the world's own experience",
    "empty": "no experience",
    "shuffled": "another world's experience",
    "random": "random experience",
    "closed_gate": "a closed gate",
}
SOLVED = 0.9
"""Accuracy from which a method counts as reading its experience well."""
GUESSING = 0.2
"""Accuracy up to which a control counts as chance, 1/8."""
CLOSED = 0.02
"""Gate openness below which hardly anything retrieved reaches the head."""
TELLING = 0.1
"""A fall of more than this that is not significant calls for more questions."""
ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something was right, with its Wilson interval of 95 %."""

    right: int
    n: int
    low: float
    high: float

    @classmethod
    def of(cls, marks: Sequence[bool]) -> "Rate":
        """Count marks.

        >>> Rate.of([True, True, False, True]).value
        0.75
        """
        low, high = wilson_interval(sum(marks), len(marks))
        return cls(right=sum(marks), n=len(marks), low=low, high=high)

    @property
    def value(self) -> float:
        """The share of right ones; 0 without any."""
        return self.right / self.n if self.n else 0.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one seed showed: a mark a question, in the same order under every control."""

    seed: int
    marks: Mapping[Control, tuple[bool, ...]]
    hits: tuple[bool, ...] = ()
    """Whether the entry that tells the answer was retrieved; empty where the method says nothing
    about what it retrieved."""
    places: float = 0.0
    """Entries retrieved a question, on average."""
    gates: tuple[float, ...] = ()
    """Gate openness a question, in [0, 1]; empty for methods without a gate."""
    seconds: float = 0.0
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What the method said about its training."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One verdict."""

    topic: Literal["learning", "reading", "retrieval", "gate"]
    good: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All seeds of a method, and what they show together."""

    method: str
    protocol: Literal["latent", "text"]
    backbone: str
    mode: str
    """How the method learnt to read: `supervised`, `grpo` or `none`."""
    settings: Mapping[str, str]
    readings: tuple[Reading, ...]

    @property
    def rates(self) -> Mapping[Control, Rate]:
        """Accuracy under each control, over all seeds."""
        return {control: Rate.of(self._marks(control)) for control in self.readings[0].marks}

    @property
    def hit(self) -> Rate | None:
        """How often the right entry was among the retrieved ones."""
        hits = [hit for reading in self.readings for hit in reading.hits]
        return Rate.of(hits) if hits else None

    @property
    def places(self) -> float:
        """Entries retrieved a question, on average over seeds."""
        return sum(reading.places for reading in self.readings) / len(self.readings)

    @property
    def gate(self) -> float | None:
        """Mean gate openness."""
        gates = [gate for reading in self.readings for gate in reading.gates]
        return sum(gates) / len(gates) if gates else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdicts, most important first."""
        own, controls = self.rates["none"], [c for c in self.rates if c != "none"]
        found = [_learning(own)]
        if own.low > CHANCE:
            found += [self._reading(own, control) for control in controls]
        if self.hit is not None:
            found.append(_retrieval(self.hit, self.places, own))
        if self.gate is not None:
            found.append(_gate(self.gate))
        return tuple(found)

    def _marks(self, control: Control) -> list[bool]:
        return [mark for reading in self.readings for mark in reading.marks[control]]

    def _reading(self, own: Rate, control: Control) -> Finding:
        rate, what = self.rates[control], WHAT[control]
        change = f"({own.value:.2f} to {rate.value:.2f})"
        pair = compare_paired(self._marks("none"), self._marks(control))
        if pair.p >= ALPHA and own.value - rate.value > TELLING:
            text = f"Too few questions to tell whether the score falls with {what} {change}."
            return Finding(topic="reading", good=False, text=text)
        if pair.p >= ALPHA or pair.rate_a <= pair.rate_b:
            verb = "need" if control == "closed_gate" else "read"
            text = f"Does not {verb} its bank: the score does not fall with {what} {change}."
            return Finding(topic="reading", good=False, text=text)
        if rate.value > GUESSING:
            return Finding(
                topic="reading",
                good=False,
                text=f"The score falls with {what}, but not to chance {change}: "
                "something besides the right experience tells answers.",
            )
        return Finding(
            topic="reading", good=True, text=f"The score falls to chance with {what} {change}."
        )


def _learning(own: Rate) -> Finding:
    share = f"{100 * own.value:.0f} % of the questions about unseen worlds (chance: 12.5 %)"
    if own.value >= SOLVED:
        return Finding(topic="learning", good=True, text=f"Answers {share}.")
    if own.low > CHANCE:
        return Finding(topic="learning", good=False, text=f"Answers only {share}.")
    return Finding(
        topic="learning", good=False, text=f"Learnt nothing from experience: answers {share}."
    )


def _retrieval(hit: Rate, places: float, own: Rate) -> Finding:
    blind = min(1.0, places / KEYS)
    share = (
        f"the entry that tells the answer is among {places:.0f} retrieved of {KEYS} for "
        f"{100 * hit.value:.0f} % of the questions"
    )
    if hit.value >= SOLVED and own.value < SOLVED:
        return Finding(
            topic="retrieval", good=blind >= 1, text=f"Finds it and does not use it: {share}."
        )
    if hit.low <= blind < 1:
        return Finding(
            topic="retrieval",
            good=False,
            text=f"The search is blind: {share}; drawing at random finds {100 * blind:.0f} %.",
        )
    return Finding(topic="retrieval", good=hit.value >= SOLVED, text=f"Retrieval: {share}.")


def _gate(gate: float) -> Finding:
    if gate < CLOSED:
        return Finding(
            topic="gate",
            good=False,
            text=f"The gate is shut ({gate:.3f}): hardly anything retrieved reaches the head.",
        )
    return Finding(topic="gate", good=True, text=f"The gate is open by {gate:.2f} on average.")
