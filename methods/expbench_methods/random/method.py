"""Method `random`."""

import random
from collections.abc import Sequence

from expbench.core import Experience, Model, NoConfig, Output, Question, Reward, Sample


class Random:
    """Reference: a uniform choice, a random order, a train answer; no program for coding."""

    version = 1
    Config = NoConfig
    uses_model = False
    reference = True

    def __init__(self, config: NoConfig, model: Model | None, seed: int) -> None:
        self.seed = seed
        self.seen: list[str] = []

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Keep the train targets: math answers are drawn from them."""
        self.seen = [s.target[0] for s in train]

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Guess; a guess depends on the seed and the question id only."""
        return [self._guess(q, random.Random(f"{self.seed}/{q.task}/{q.id}")) for q in questions]

    def _guess(self, question: Question, rng: random.Random) -> Output:
        if question.kind == "ranking":
            order = rng.sample(range(len(question.candidates)), len(question.candidates))
            return Output(ranking=tuple(order), stop_reason="none")
        if question.kind == "choice":
            text = f"Answer: {rng.choice(question.labels)}"
        elif question.kind == "chem":
            text = f"Answer: {rng.choice(('Yes', 'No'))}"
        elif question.kind == "math":
            text = f"\\boxed{{{rng.choice(self.seen)}}}" if self.seen else ""
        else:
            text = ""
        return Output(text=text, stop_reason="none")
