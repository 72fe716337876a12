"""HRPO (Yue et al. 2025, arXiv 2505.18454) as a method of ExpBench.

This module says what the method is and loads no torch; `policy` decodes and trains.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from expbench.core import Experience, Model, Output, Prompt, Question, Reward, Sample, Workbench
from expbench_methods.hrpo.config import HRPOConfig

if TYPE_CHECKING:
    from expbench.training.policy import Policy
    from expbench_methods.hrpo.policy import HybridModel

GATES = "gates.safetensors"


class HRPO:
    """Hybrid latent reasoning: while it thinks, the policy reads mixtures instead of tokens.

    The input after each sampled token mixes its embedding with that of all tokens that were likely
    there, by gates that GRPO trains together with the policy. It sees the train samples and the
    reward, not the experience pool.

    Departures from the paper are numbered in this folder's README.md.
    """

    version = 1
    Config = HRPOConfig
    needs_weights = True
    workbench: Workbench | None = None

    def __init__(self, config: HRPOConfig, model: Model, seed: int) -> None:
        from expbench_methods.hrpo.policy import build_hybrid

        self.config = config
        self.seed = seed
        self.policy: Policy = build_hybrid(config, model, seed=seed)
        self.training_cost: dict[str, float] = {}

    @property
    def hybrid(self) -> "HybridModel | None":
        """The policy's model with its gates; None where nothing is mixed."""
        from expbench_methods.hrpo.policy import HybridModel

        return self.policy.model if isinstance(self.policy.model, HybridModel) else None

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Train policy and gates; a killed training goes on where it stopped."""
        from expbench.training.policy import train_policy

        model, seed, bench = self.hybrid, self.seed, self.workbench
        if model is None:
            self.training_cost = train_policy(
                self.policy, train, reward, seed=seed, workbench=bench
            )
            return
        with model.learning() as hooks:
            self.training_cost = train_policy(
                self.policy,
                train,
                reward,
                seed=seed,
                workbench=bench,
                hooks=hooks,
                groups=model.groups(),
            )

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Generate one greedy answer a question, with mixed inputs as in training."""
        with self.policy.for_answers() as model:
            return model.generate([Prompt(question=q) for q in questions], seed=self.seed)

    def save(self, folder: Path) -> None:
        """Keep adapter or weights, and the gates."""
        from expbench.training.policy import save_tensors

        self.policy.save(folder)
        if self.hybrid is not None:
            save_tensors(self.hybrid.embedding.gates, folder / GATES)

    def load(self, folder: Path) -> None:
        """Read what `save` kept.

        Raises:
            DataError: a damaged checkpoint, or one of another backbone.
        """
        from expbench.training.policy import load_tensors, reading

        self.policy.load(folder)
        if self.hybrid is not None:
            with reading(folder):
                load_tensors(self.hybrid.embedding.gates, folder / GATES)
