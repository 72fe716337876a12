"""Method `few_shot`."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from expbench.core import Experience, Model, Output, Prompt, Question, Reward, Sample
from expbench.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class FewShotConfig:
    """Settings of `few_shot`."""

    k: int = 4
    """Demonstrations in the prompt at most; fewer where the pool has fewer successes."""
    min_score: float = 1.0
    """Lowest score in [0, 1] of an attempt that counts as a success."""

    def __post_init__(self) -> None:
        """Refuse a negative count."""
        if self.k < 0:
            raise ConfigError(f"few_shot.k is {self.k}; it must be 0 or more.")


class FewShot:
    """Few-shot: k successful attempts at train samples as earlier turns of the chat."""

    version = 1
    Config = FewShotConfig
    uses_experience = True

    def __init__(self, config: FewShotConfig, model: Model, seed: int) -> None:
        self.config = config
        self.model = model
        self.seed = seed
        self.shots: tuple[tuple[str, str], ...] = ()
        self.ids: tuple[str, ...] = ()
        self.notes: list[str] = []

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Draw k successes with the run's seed, the same ones for all questions."""
        wins = [e for e in experience if e.score.value >= self.config.min_score]
        wins = random.Random(self.seed).sample(wins, min(self.config.k, len(wins)))
        self.shots = tuple((e.sample.prompt, e.output.strip()) for e in wins)
        self.ids = tuple(e.sample.id for e in wins)
        if len(wins) < self.config.k:
            self.notes = [f"The pool held {len(wins)} of {self.config.k} demonstrations asked for."]

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Generate one greedy answer a question; the trace names the demonstrations."""
        prompts = [Prompt(question=q, shots=self.shots) for q in questions]
        outputs = self.model.generate(prompts, seed=self.seed)
        return [replace(output, trace=({"shots": self.ids},)) for output in outputs]
