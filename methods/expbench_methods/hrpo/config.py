"""Settings of `hrpo`; the README of this folder says where each default comes from."""

from dataclasses import dataclass

from expbench.errors import ConfigError
from expbench.training.settings import GRPOSettings


@dataclass(frozen=True, kw_only=True)
class HRPOConfig(GRPOSettings):
    """The training budget, and what is HRPO's own.

    Raises:
        ConfigError: a number out of its range.
    """

    r_min: float = 0.99
    """Least exp(-c softplus(-Lambda)) of a dimension at the start."""
    r_max: float = 0.999
    """Greatest one; 1 for both leaves every input as it is, which is plain GRPO."""
    gate_rate: float = 1e-4
    """Learning rate of the gates."""
    decay_rate: float = 1e-3
    """Learning rate of the decay parameter Lambda."""
    answer_markers: str = "\\boxed|Answer:|```"
    """Where the answer part begins: any of these strings, separated by `|`; empty for nowhere."""

    def __post_init__(self) -> None:
        """Refuse what cannot be built."""
        super().__post_init__()
        if not (0 < self.r_min <= self.r_max < 1 or self.r_min == self.r_max == 1):
            raise ConfigError(
                f"r_min is {self.r_min} and r_max {self.r_max}; it must hold that "
                "0 < r_min <= r_max < 1, or both are 1."
            )
        for name in ("gate_rate", "decay_rate"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more.")

    @property
    def is_plain(self) -> bool:
        """Tell whether nothing is mixed at all: a = 1 has no finite Lambda to train."""
        return self.r_min == 1

    @property
    def markers(self) -> tuple[str, ...]:
        r"""Return the strings any of which begins the answer part.

        >>> HRPOConfig().markers
        ('\\boxed', 'Answer:', '```')
        """
        return tuple(marker for marker in self.answer_markers.split("|") if marker)
