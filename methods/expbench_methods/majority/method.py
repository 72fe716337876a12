"""Method `majority`."""

from collections import Counter
from collections.abc import Sequence

from expbench.core import Experience, Model, NoConfig, Output, Question, Reward, Sample


class Majority:
    """Reference: the most frequent train answer; no program for coding.

    Molecules are counted per property. Rankings list the candidate positions by how often each held
    the target in the train split. Ties go to the answer that sorts first.
    """

    version = 1
    Config = NoConfig
    uses_model = False
    reference = True

    def __init__(self, config: NoConfig, model: Model | None, seed: int) -> None:
        self.counts: dict[str, Counter[str]] = {}

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Count the train targets."""
        for sample in train:
            counts = self.counts.setdefault(self._class(sample), Counter())
            counts[sample.target[0]] += 1

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Give the most frequent answer."""
        return [self._answer(q) for q in questions]

    def _class(self, question: Question) -> str:
        return str(question.features.get("property", ""))

    def _answer(self, question: Question) -> Output:
        counts = self.counts.get(self._class(question), Counter())
        ranked = sorted(counts, key=lambda answer: (-counts[answer], answer))
        if question.kind == "ranking":
            held = {int(position): count for position, count in counts.items()}
            order = sorted(range(len(question.candidates)), key=lambda p: (-held.get(p, 0), p))
            return Output(ranking=tuple(order), stop_reason="none")
        if question.kind == "choice":
            ranked = [label for label in ranked if label in question.labels]
        if not ranked or question.kind == "code":
            return Output(stop_reason="none")
        text = f"\\boxed{{{ranked[0]}}}" if question.kind == "math" else f"Answer: {ranked[0]}"
        return Output(text=text, stop_reason="none")
