"""What the bank is made of, and what the fusion reads of it.

Shapes: N entries, D the hidden size.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from expbench.core import Sample
from expbench.experience import leaks
from expbench.experience.normalise import Statistics
from expbench.experience.search import Index


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of one experience in the bank besides its vector."""

    id: str
    """Unique within the bank; decides the order of equal vectors."""
    sample_id: str
    task: str
    split: str
    """Split of the sample: only `train` is let in."""
    reward: float
    """The grade, in [0, 1]."""
    step: int
    """Optimizer steps the policy had taken when it was encoded."""
    encoder: str
    """Fingerprint of the model that encoded it."""
    summary: str
    """The text that was encoded."""
    identities: tuple[tuple[str, ...], ...] = ()
    """By what its sample would be recognised among test samples (see `leaks.identities`)."""


def entry_of(
    sample: Sample, *, n: int, step: int, reward: float, summary: str, encoder: str
) -> Entry:
    """Describe the n-th attempt of a step, made at a train sample."""
    return Entry(
        id=f"{sample.task}/{sample.id}/{step}/{n}",
        sample_id=sample.id,
        task=sample.task,
        split="train",
        reward=reward,
        step=step,
        encoder=encoder,
        summary=summary,
        identities=tuple(sorted(leaks.identities(sample))),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Memory:
    """The bank as the fusion reads it: frozen, normalised, in the order of the ids."""

    entries: tuple[Entry, ...]
    z_ND: Tensor
    """(N, D) float32, normalised: what attention sees of the entry at a position."""
    index: Index
    """Finds positions of entries by similarity to a normalised query."""
    query: Statistics
    """How a state is normalised before it becomes a query."""

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids, sorted."""
        return tuple(entry.id for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def to(self, device: torch.device | str) -> "Memory":
        """Return the same memory on a device."""
        return Memory(
            entries=self.entries,
            z_ND=self.z_ND.to(device),
            index=self.index.to(device),
            query=self.query.to(device),
        )
