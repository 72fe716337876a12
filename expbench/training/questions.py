"""Which questions a training asks, in which order: a function of samples and seed alone."""

import random
from collections.abc import Iterator, Sequence

from expbench.core import Sample


def plan_windows(
    samples: Sequence[Sample], *, windows: int, questions: int, seed: int
) -> list[list[Sample]]:
    """Lay out the questions of all windows, the same for any number of processes.

    Epochs are reshuffled, and within an epoch tasks are interleaved in proportion to their size. A
    window asks different questions as long as there are enough of them.

    Args:
        samples: At least one.
        windows: How many sets of questions.
        questions: Of each set.
        seed: Decides the order.
    """
    stream = _endless(samples, seed)
    waiting: list[Sample] = []
    plan = []
    for _ in range(windows):
        chosen: list[Sample] = []
        while len(chosen) < questions:
            taken = {(sample.task, sample.id) for sample in chosen}
            fresh = next((s for s in waiting if (s.task, s.id) not in taken), None)
            if fresh is not None:
                waiting.remove(fresh)
            else:
                fresh = next(stream)
                if (fresh.task, fresh.id) in taken and len(taken) < len(samples):
                    waiting.append(fresh)
                    continue
            chosen.append(fresh)
        plan.append(chosen)
    return plan


def _endless(samples: Sequence[Sample], seed: int) -> Iterator[Sample]:
    epoch = 0
    while True:
        yield from _epoch(samples, random.Random(f"{seed}/epoch/{epoch}"))
        epoch += 1


def _epoch(samples: Sequence[Sample], dice: random.Random) -> list[Sample]:
    """Shuffle each task and spread it evenly over the epoch."""
    tasks: dict[str, list[Sample]] = {}
    for sample in samples:
        tasks.setdefault(sample.task, []).append(sample)
    placed = []
    for part in tasks.values():
        dice.shuffle(part)
        shift = dice.random()
        placed += [((i + shift) / len(part), dice.random(), s) for i, s in enumerate(part)]
    return [sample for _, _, sample in sorted(placed, key=lambda item: item[:2])]
