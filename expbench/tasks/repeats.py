"""Repeated questions inside a split: one rule for every task whose rows have no ids of their own.

A question that is repeated with the same target is kept once; where the repeats have different
targets, the key is wrong somewhere and none of them is kept. Both are counted in a note.
"""

from collections.abc import Iterable

from expbench.core import Rows, Sample
from expbench.data import Row, note


def without_repeats(rows: Rows, split: str, pairs: Iterable[tuple[Row, Sample]]) -> list[Sample]:
    """Apply the rule to samples whose id is made from their content."""
    kept: dict[str, Sample] = {}
    contradicted: set[str] = set()
    repeats = 0
    for _, sample in pairs:
        first = kept.setdefault(sample.id, sample)
        if first is not sample:
            repeats += 1
            if first.target != sample.target:
                contradicted.add(sample.id)
    if repeats:
        note(
            rows,
            f"{repeats} rows of {split} repeat an earlier question and are counted once;"
            f" {len(contradicted)} questions whose repeats contradict each other were dropped.",
        )
    return [sample for sample in kept.values() if sample.id not in contradicted]
