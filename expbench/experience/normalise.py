"""Centring and scaling of hidden states, for the bank's vectors and for the queries.

The last hidden states of a trained language model are almost parallel: their common mean hides
what differs. Shapes: N states, D their width, X any leading dimensions.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from expbench.errors import ConfigError, DataError

Normalisation = Literal["none", "centre", "standardise"]
NORMALISATIONS: tuple[Normalisation, ...] = ("none", "centre", "standardise")


@dataclass(frozen=True, eq=False)
class Statistics:
    """A mean and one number: `apply` subtracts the first and divides by the second."""

    centre_D: Tensor
    """(D,) float32."""
    scale: float
    """Above 0."""

    def __post_init__(self) -> None:
        """Refuse what would turn every state into NaN."""
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise DataError(f"The scale is {self.scale}; it must be finite and above 0.")
        if self.centre_D.ndim != 1 or not bool(torch.isfinite(self.centre_D).all()):
            raise DataError("The centre must be one vector of finite numbers.")

    @classmethod
    def identity(cls, width: int) -> "Statistics":
        """Return the statistics that change nothing."""
        return cls(torch.zeros(width), 1.0)

    @classmethod
    def of(cls, x_ND: Tensor, how: Normalisation) -> "Statistics":
        """Measure states.

        Args:
            x_ND: (N, D) states of any floating type; none at all give the identity.
            how: `none`: change nothing. `centre`: the mean. `standardise`: the mean, and the root
                mean square over all components of what is left; 1 where nothing is left, as with
                one state or with equal ones.

        Raises:
            ConfigError: unknown `how`.
            DataError: NaN or infinite states.

        >>> Statistics.of(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), "centre").centre_D.tolist()
        [2.0, 5.0]
        """
        if how not in NORMALISATIONS:
            raise ConfigError(
                f"normalise is {how!r}; it must be one of {', '.join(NORMALISATIONS)}."
            )
        if how == "none" or not len(x_ND):
            return cls(torch.zeros(x_ND.shape[-1], device=x_ND.device), 1.0)
        # In float64 the mean of equal states is exactly that state.
        exact_ND = x_ND.detach().double()
        centre_D = exact_ND.mean(0).float()
        if how == "centre":
            return cls(centre_D, 1.0)
        scale = float((exact_ND - centre_D.double()).square().mean().sqrt())
        return cls(centre_D, scale or 1.0)

    def apply(self, x_XD: Tensor) -> Tensor:
        """Return (x - centre) / scale; half precision is computed and returned in float32."""
        # Adding float32 to bfloat16 or float16 gives float32, to float64 float64.
        return (x_XD - self.centre_D.to(x_XD.device)) / self.scale

    def moved(self, fresh: "Statistics", rate: float) -> "Statistics":
        """Return the running mean: `1 - rate` of these statistics and `rate` of fresh ones.

        Raises:
            ConfigError: rate outside [0, 1].
        """
        if not 0.0 <= rate <= 1.0:
            raise ConfigError(f"The rate is {rate}; it must lie in [0, 1].")
        centre_D = torch.lerp(self.centre_D, fresh.centre_D.to(self.centre_D.device), rate)
        return Statistics(centre_D, (1.0 - rate) * self.scale + rate * fresh.scale)

    def to(self, device: torch.device | str) -> "Statistics":
        """Return the same statistics on a device."""
        return Statistics(self.centre_D.to(device), self.scale)
