"""Candidates by how often train users met them together with the items of the history.

Sarwar et al., "Item-based collaborative filtering recommendation algorithms", 2001, on implicit
feedback: the similarity of two items is the cosine of their columns in the user-item matrix, with a
shrinkage term in the denominator that discounts pairs of rare items.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from expbench.core import Experience, Kind, Model, Output, Question, Reward, Sample
from expbench.errors import ConfigError
from expbench.features import feature

Item = tuple[str, str]
"""Task and item id."""


@dataclass(frozen=True, kw_only=True)
class ItemKNNConfig:
    """Settings of `item_knn`.

    Raises:
        ConfigError: shrinkage below 0.
    """

    shrinkage: float = 5.0
    """Added to the denominator of the cosine; 0 is the plain cosine."""

    def __post_init__(self) -> None:
        """Refuse a negative shrinkage, and NaN."""
        if not self.shrinkage >= 0:
            raise ConfigError(f"shrinkage is {self.shrinkage}; it must be 0 or more.")


class ItemKNN:
    """Reference: the sum of a candidate's similarities to the items of the history.

    Items are told apart by `features["history_ids"]` and `features["candidate_ids"]`. Train users
    count with history and target. Ties go to the item that more train users met, then to the order
    of the candidates.
    """

    version = 1
    Config = ItemKNNConfig
    uses_model = False
    reference = True
    kinds: tuple[Kind, ...] = ("ranking",)

    def __init__(self, config: ItemKNNConfig, model: Model | None, seed: int) -> None:
        self.config = config
        self.users: Counter[Item] = Counter()
        """How many train users met an item."""
        self.together: Counter[tuple[Item, Item]] = Counter()
        """How many met both items; the smaller of a pair comes first."""

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Count items and pairs of items over the train users.

        Raises:
            DataError: a sample has no item ids.
        """
        self.users.clear()
        self.together.clear()
        for sample in train:
            chosen = _items(sample, "candidate_ids")[int(sample.target[0])]
            met = sorted({*_items(sample, "history_ids"), chosen})
            self.users.update(met)
            self.together.update(combinations(met, 2))

    def similarity(self, one: Item, other: Item) -> float:
        """Return the shrunk cosine of two items, in [0, 1]; 0 for an item that nobody met."""
        both = self.users[one] if one == other else self.together[min(one, other), max(one, other)]
        if not both:
            return 0.0
        return both / (math.sqrt(self.users[one] * self.users[other]) + self.config.shrinkage)

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Rank all candidates.

        Raises:
            DataError: a question has no item ids.
        """
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Output:
        history = _items(question, "history_ids")
        keys = [
            (math.fsum(self.similarity(candidate, item) for item in history), self.users[candidate])
            for candidate in _items(question, "candidate_ids")
        ]
        order = sorted(range(len(keys)), key=lambda place: keys[place], reverse=True)
        return Output(ranking=tuple(order), stop_reason="none")


def _items(question: Question, name: str) -> list[Item]:
    return [(question.task, item) for item in feature(question, name)]
