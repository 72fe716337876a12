"""The training budget that every trained method shares, as fields of its own Config.

A method's Config inherits these fields, so that `--set steps=40` and a preset's budget mean the
same for all. Defaults follow the ExpWeaver paper's setting where it is public (LoRA rank 32,
policy learning rate 5e-6) and TRL's GRPO elsewhere.
"""

from dataclasses import dataclass
from typing import Literal

from expbench.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GRPOSettings:
    """Budget and objective of GRPO.

    Raises:
        ConfigError: a number out of its range.
    """

    steps: int = 200
    """Optimizer steps; 0 trains nothing."""
    prompts: int = 8
    """Different questions a step."""
    group: int = 8
    """Rollouts a question (ranking: sampled orders a question); at least 2."""
    max_completion: int = 256
    """Tokens a rollout may have at most; the question's own limit holds as well."""
    micro_batch: int = 16
    """Rollouts a backward pass; only speed and memory depend on it."""
    window: int = 1
    """Optimizer steps a set of rollouts is used for; the bank is frozen within a window."""
    temperature: float = 1.0
    """Of the rollouts."""
    learning_rate: float = 5e-6
    """Of the policy (LoRA or all weights)."""
    lora_rank: int = 32
    """Rank on all linear layers; 0 trains all weights of the backbone."""
    beta: float = 0.0
    """Weight of the KL penalty against the untouched backbone."""
    loss: Literal["dapo", "grpo", "bnpo", "dr_grpo"] = "dapo"
    """Normaliser of the loss as TRL names it; `dapo` divides by the active tokens of a step."""
    scale_rewards: Literal["group", "batch", "none"] = "group"
    """Deviation that advantages are divided by."""
    max_grad_norm: float = 1.0
    save_every: int = 50
    """Steps between checkpoints from which a killed training goes on."""
    mix: Literal["scenario", "task"] = "scenario"
    """Train once on all tasks of a scenario, or for each task alone."""

    def __post_init__(self) -> None:
        """Refuse budgets that cannot be trained with."""
        least = {
            "steps": 0,
            "prompts": 1,
            "group": 2,
            "max_completion": 1,
            "micro_batch": 1,
            "window": 1,
            "lora_rank": 0,
            "save_every": 1,
        }
        for name, bound in least.items():
            value = getattr(self, name)
            if value < bound:
                raise ConfigError(f"{name} is {value}; it must be at least {bound}.")
        for name in ("temperature", "learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be above 0.")
        if self.beta < 0:
            raise ConfigError(f"beta is {self.beta}; it must be 0 or more.")
