"""Method `direct`."""

from collections.abc import Sequence

from expbench.core import Experience, Model, NoConfig, Output, Prompt, Question, Reward, Sample


class Direct:
    """Zero-shot: the task's prompt and nothing else, decoded greedily."""

    version = 1
    Config = NoConfig

    def __init__(self, config: NoConfig, model: Model, seed: int) -> None:
        self.model = model
        self.seed = seed

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Learn nothing."""

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Generate one greedy answer a question."""
        return self.model.generate([Prompt(question=q) for q in questions], seed=self.seed)
