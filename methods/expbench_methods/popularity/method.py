"""Candidates in the order of how many train users met them: what popularity alone is worth."""

from collections import Counter
from collections.abc import Sequence

from expbench.core import Experience, Kind, Model, NoConfig, Output, Question, Reward, Sample
from expbench.features import feature


class Popularity:
    """Reference: the candidates that most train users chose or hold in their history come first.

    Items are told apart by `features["history_ids"]` and `features["candidate_ids"]`. A candidate
    that was only shown does not count. Ties stay in the order of the candidates.
    """

    version = 1
    Config = NoConfig
    uses_model = False
    reference = True
    kinds: tuple[Kind, ...] = ("ranking",)

    def __init__(self, config: NoConfig, model: Model | None, seed: int) -> None:
        self.users: Counter[tuple[str, str]] = Counter()
        """How many train users met an item, by task and item id."""

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Count every train user's items once each.

        Raises:
            DataError: a sample has no item ids.
        """
        self.users = Counter(
            (sample.task, item)
            for sample in train
            for item in {*feature(sample, "history_ids"), _chosen(sample)}
        )

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Rank all candidates.

        Raises:
            DataError: a question has no item ids.
        """
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Output:
        counts = [self.users[question.task, item] for item in feature(question, "candidate_ids")]
        order = sorted(range(len(counts)), key=lambda place: -counts[place])
        return Output(ranking=tuple(order), stop_reason="none")


def _chosen(sample: Sample) -> str:
    return str(feature(sample, "candidate_ids")[int(sample.target[0])])
