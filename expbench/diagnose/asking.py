"""Asking about test worlds under every control, and noting what the answers show."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from expbench.core import Experience, Output, Question
from expbench.diagnose.findings import Control, Reading
from expbench.diagnose.traces import read_trace
from expbench.diagnose.worlds import Wording, World, is_right, make_world, noise

TEST_SEED = 1_000_000
"""Added to the seed of test worlds: training never sees them."""


class Progress(Protocol):
    """Who watches; `expbench.console.Bars` is one."""

    def stage(self, label: str, total: int) -> None:
        """Begin a stage of `total` steps; 0 where the number is not known."""
        ...

    def advance(self, count: int) -> None:
        """Report finished steps of the stage."""
        ...


Ask = Callable[[Control, Sequence[Experience], Sequence[Question]], Sequence[Output]]
"""(control, the experience it leaves, questions of one world) -> answers."""


@dataclass(kw_only=True)
class Notes:
    """What the answers to questions with the world's own experience showed."""

    hits: list[bool] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    gates: list[float] = field(default_factory=list)

    def take(self, world: World, outputs: Sequence[Output]) -> None:
        """Read the traces of a world's answers."""
        for question, output in zip(world.questions, outputs, strict=True):
            seen = read_trace(output)
            if seen is None:
                continue
            self.hits.append(world.sources[question.id] in seen.ids)
            self.places.append(len(seen.ids))
            if seen.gate is not None:
                self.gates.append(seen.gate)


def given(control: Control, world: World, other: World) -> Sequence[Experience]:
    """Choose the experience that a control leaves a method with."""
    if control == "empty":
        return ()
    if control == "shuffled":
        return other.experience
    return noise(world) if control == "random" else world.experience


def examine(
    ask: Ask,
    *,
    seed: int,
    controls: Sequence[Control],
    count: int,
    wording: Wording,
    progress: Progress,
    numbers: Mapping[str, float] | None = None,
    start: float | None = None,
) -> Reading:
    """Ask about `count` worlds that training never saw, under every control.

    Args:
        ask: Answers the questions of one world.
        seed: Decides the worlds.
        controls: `none` among them.
        count: Worlds; each gives 8 questions.
        wording: Of the worlds.
        progress: Told of every world and control.
        numbers: What the method said about its training.
        start: When the seed's work began (`time.perf_counter`), None for now.
    """
    start = time.perf_counter() if start is None else start
    tests = [make_world(i, seed=TEST_SEED + seed, wording=wording) for i in range(count + 1)]
    marks: dict[Control, list[bool]] = {control: [] for control in controls}
    notes = Notes()
    progress.stage(f"seed {seed}: answering", count * len(controls))
    for world, other in itertools.pairwise(tests):
        questions = [sample.question() for sample in world.questions]
        for control in controls:
            outputs = ask(control, given(control, world, other), questions)
            pairs = zip(world.questions, outputs, strict=True)
            marks[control] += [is_right(question, output) for question, output in pairs]
            if control == "none":
                notes.take(world, outputs)
            progress.advance(1)
    return Reading(
        seed=seed,
        marks={control: tuple(row) for control, row in marks.items()},
        hits=tuple(notes.hits),
        places=sum(notes.places) / len(notes.places) if notes.places else 0.0,
        gates=tuple(notes.gates),
        seconds=time.perf_counter() - start,
        numbers=dict(numbers or {}),
    )
