"""Settings of `expweaver`; the README of this folder says where each default comes from."""

from dataclasses import dataclass
from typing import Literal

from expbench.errors import ConfigError
from expbench.training.settings import GRPOSettings


@dataclass(frozen=True, kw_only=True)
class FusionSettings:
    """What the fusion module itself is built from."""

    k: int = 8
    """Entries retrieved at a decoding step."""
    heads: int = 8
    """Heads of the cross-attention; must divide the backbone's hidden size."""
    aggregation: Literal["cross_attention", "mean", "max", "top1"] = "cross_attention"
    query: Literal["token+state", "token"] = "token+state"
    """Whether the learnable query is conditioned on the current state."""
    gate_low: float = 0.9
    """Least share of the state that is retained in a dimension at the start (a_t)."""
    gate_high: float = 0.99
    """Greatest one."""
    norm_alignment: bool = True
    """Scale the retrieved vector to the length of the state."""
    frequency: Literal["every", "once", "never"] = "every"
    """Retrieve at every decoding step, once an answer, or never."""


@dataclass(frozen=True, kw_only=True)
class ExpWeaverConfig(GRPOSettings, FusionSettings):
    """The training budget, the fusion, and what is ExpWeaver's own.

    Raises:
        ConfigError: a number out of its range.
    """

    capacity: int = 2000
    """Entries of the bank at most."""
    bank_policy: Literal["fifo", "best_reward", "random"] = "fifo"
    """What leaves a full bank: the oldest, the lowest reward, or any."""
    normalise: Literal["none", "centre", "standardise"] = "standardise"
    """What happens to states before similarity, keys and values."""
    summary: Literal["policy", "extractive"] = "policy"
    """Who writes the text of an experience: the policy itself, or a template."""
    summary_tokens: int = 48
    """Tokens of a summary that the policy writes, at most."""
    fresh: int = 16
    """Experiences that enter the bank after a window of rollouts, at most."""

    attention_rate: float = 1e-4
    """Learning rate of the query token and the attention."""
    gate_rate: float = 1e-4
    """Learning rate of the gates."""
    decay_rate: float = 1e-3
    """Learning rate of the decay parameter Lambda."""
    rank_prompts: int = 8
    """Different ranking questions a step."""
    rank_group: int = 64
    """Sampled orders a ranking question: they cost no forward pass, so there are more of them."""
    score_rate: float = 1e-2
    """Learning rate of the temperature of ranking scores (of its logarithm)."""

    control: Literal["none", "empty", "random", "shuffled", "closed_gate"] = "none"
    """Answer with the trained weights but another bank: the controls of an ablation."""
    trace: bool = False
    """Keep for each generated token what was retrieved, with which weight, and the gate."""

    def __post_init__(self) -> None:
        """Refuse what cannot be built."""
        super().__post_init__()
        least = {"capacity": 1, "summary_tokens": 1, "k": 1, "heads": 1, "rank_prompts": 1}
        for name, bound in (*least.items(), ("rank_group", 2)):
            if getattr(self, name) < bound:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {bound}.")
        if self.fresh < 0:
            raise ConfigError(f"fresh is {self.fresh}; it must be 0 or more.")
        if not 0 < self.gate_low <= self.gate_high < 1:
            raise ConfigError(
                f"The gate range is {self.gate_low} to {self.gate_high}; "
                "it must satisfy 0 < gate_low <= gate_high < 1."
            )
        for name in ("attention_rate", "gate_rate", "decay_rate", "score_rate"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more.")


def _one(**settings: str) -> dict[str, str]:
    return settings


ABLATIONS = {
    "controls": {
        "bank": _one(),
        "random bank": _one(control="random"),
        "shuffled bank": _one(control="shuffled"),
        "closed gate": _one(control="closed_gate"),
    },
    "aggregation": {
        name.replace("_", "-"): _one(aggregation=name)
        for name in ("cross_attention", "mean", "max", "top1")
    },
    "query": {name: _one(query=name) for name in ("token+state", "token")},
    "gates": {
        f"a in {low} to {high}": _one(gate_low=low, gate_high=high)
        for low, high in (("0.9", "0.99"), ("0.1", "0.5"), ("0.99", "0.999"))
    },
    "frequency": {name: _one(frequency=name) for name in ("every", "once", "never")},
    "bank": {name: _one(bank_policy=name) for name in ("fifo", "best_reward", "random")},
    "summary": {name: _one(summary=name) for name in ("policy", "extractive")},
    "normalise": {name: _one(normalise=name) for name in ("standardise", "centre", "none")},
}
"""Sets of rows for `expbench ablate`: set -> row -> settings."""
