"""Plain GRPO (Shao et al. 2024, arXiv 2402.03300), the baseline of all methods that retrieve."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from expbench.core import Experience, Model, Output, Prompt, Question, Reward, Sample, Workbench
from expbench.training.settings import GRPOSettings

if TYPE_CHECKING:
    from expbench.training.policy import Policy


class GRPO:
    """The backbone trained on the tasks' own graders, asked as `direct` asks it.

    Departs from the paper: the loss divides by the active tokens of a step (`loss = dapo`), and
    there is no KL penalty (`beta = 0`); both are TRL's defaults. It sees the train samples and the
    reward, not the experience pool.
    """

    version = 1
    Config = GRPOSettings
    needs_weights = True
    workbench: Workbench | None = None

    def __init__(self, config: GRPOSettings, model: Model, seed: int) -> None:
        from expbench.training.policy import build_policy

        self.seed = seed
        self.policy: Policy = build_policy(config, model, seed=seed, method="grpo")
        self.training_cost: dict[str, float] = {}

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Train the policy; a killed training goes on where it stopped."""
        from expbench.training.policy import train_policy

        self.training_cost = train_policy(
            self.policy, train, reward, seed=self.seed, workbench=self.workbench
        )

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Generate one greedy answer a question."""
        with self.policy.for_answers() as model:
            return model.generate([Prompt(question=q) for q in questions], seed=self.seed)

    def save(self, folder: Path) -> None:
        """Keep adapter or weights."""
        self.policy.save(folder)

    def load(self, folder: Path) -> None:
        """Read what `save` kept.

        Raises:
            DataError: a damaged checkpoint, or one of another backbone.
        """
        self.policy.load(folder)
