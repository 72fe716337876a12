"""Exact top-K by cosine, without approximation and without a library of its own.

One matrix product finds who may be among the K best, with the product's rounding error as margin;
those few are scored again row by row, in float64 and always by the same sums. So equal vectors get
equal scores wherever they lie, ties go by position, and a query's result depends neither on the
batch it comes in nor on its place there. A large bank is first thinned out by a sketch, whose
bounds are exact too (`sketch`). Shapes: N rows, D their width, B queries, K results, C candidates.
"""

import math
import threading
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn import functional

from expbench.errors import ConfigError, DataError
from expbench.experience.selection import MOST_NUMBERS, cosines, largest, ranked
from expbench.experience.sketch import Sketch

SLACK = 2
"""Candidates looked at beyond K: where the margin holds no more, one pass is enough."""
CHUNK = 1 << 13
"""Rows prepared at once: in float64, small beside the index itself."""
SKETCH_FROM = 16384
"""Rows from which thinning out pays."""
TINY = 1e-60
"""Below the length of every float32 row but zeros, which it leaves as they are."""
INPUT_ROUNDING = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}
"""Relative error of a product's inputs by `torch.get_float32_matmul_precision`: float32, TF32,
bfloat16, both inputs together."""


class Index:
    """Rows that are searched by direction; their lengths do not count."""

    def __init__(self, rows_ND: Tensor) -> None:
        """Prepare rows, given in the order that decides ties.

        Args:
            rows_ND: (N, D) of any floating type; N may be 0. A row of zeros has no direction and
                scores 0 with every query.

        Raises:
            DataError: not a matrix, NaN or infinity.
        """
        if rows_ND.ndim != 2:
            raise DataError(f"An index is built of an (N, D) matrix, not {tuple(rows_ND.shape)}.")
        self.width = rows_ND.shape[1]
        parts = [_unit(part, "A row of the index") for part in torch.split(rows_ND.detach(), CHUNK)]
        self._rows_ND = torch.cat(parts) if parts else rows_ND.detach().float()
        self._sketch: Sketch | None = None
        self._is_sketched = False
        # Several threads decode with one index.
        self._sketching = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows_ND)

    def __deepcopy__(self, memo: object) -> "Index":
        # Nothing in an index changes, and packed rows cannot be copied.
        return self

    def to(self, device: torch.device | str) -> "Index":
        """Return the same index on a device."""
        copy = Index(self._rows_ND[:0])
        copy._rows_ND = self._rows_ND.to(device)
        return copy

    @torch.no_grad()
    def search(self, queries_BD: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Find the rows of largest cosine with each query.

        Args:
            queries_BD: (B, D) of any floating type, on any device. Zeros score 0 with every row.
            k: At least 1; with fewer rows, all of them are returned.

        Returns:
            Scores (B, K) float32 in [-1, 1], best first, and positions (B, K) int64, the lower one
            first where scores are equal; both on the queries' device. K is min(k, N).

        Raises:
            ConfigError: k below 1.
            DataError: a query of another width, or with NaN or infinity.
        """
        if k < 1:
            raise ConfigError(f"k is {k}; it must be at least 1.")
        if queries_BD.ndim != 2 or queries_BD.shape[1] != self.width:
            raise DataError(
                f"The queries have shape {tuple(queries_BD.shape)} and the index is {self.width} "
                "wide; encode both with the same model."
            )
        k = min(k, len(self))
        device = self._rows_ND.device
        if not k or not len(queries_BD):
            empty = torch.zeros(len(queries_BD), k, device=queries_BD.device)
            return empty, empty.long()
        # Mixed precision around us must not reach the products here.
        mixed = torch.is_autocast_enabled(device.type)
        with torch.autocast(device.type, enabled=False) if mixed else nullcontext():
            q_BD = _unit(queries_BD.detach().to(device), "A query")
            parts = [
                self._best(part, k) for part in torch.split(q_BD, max(1, MOST_NUMBERS // len(self)))
            ]
        scores, positions = (
            parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        )
        return scores.to(queries_BD.device), positions.to(queries_BD.device)

    def _best(self, q_BD: Tensor, k: int) -> tuple[Tensor, Tensor]:
        exactly = torch.get_float32_matmul_precision() == "highest"
        sketch = self._thinned() if exactly else None
        found = None if sketch is None else sketch.candidates(q_BD, k)
        if found is not None:
            return ranked(*found, k)
        at_BC = self._candidates(q_BD, k)
        return ranked(cosines(q_BD, self._rows_ND, at_BC), at_BC, k)

    def _thinned(self) -> Sketch | None:
        """Return the sketch of a large bank in main memory, made at the first search."""
        with self._sketching:
            if not self._is_sketched:
                if len(self) >= SKETCH_FROM and self._rows_ND.device.type == "cpu":
                    self._sketch = Sketch.of(self._rows_ND)
                self._is_sketched = True
        return self._sketch

    def _candidates(self, q_BD: Tensor, k: int) -> Tensor:
        """Return (B, C) positions that hold the K best of each query, whatever was rounded."""
        # This way round the product is up to twice as fast with several threads.
        scores_NB = functional.linear(self._rows_ND, q_BD)
        rounding = (self.width + 2) * 2.0**-24
        rounding += INPUT_ROUNDING[torch.get_float32_matmul_precision()]
        # One more for the difference of the two.
        margin = 2 * rounding + 2.0**-22
        count = min(k + SLACK, len(self))
        while True:
            best_BC, at_BC = largest(scores_NB, count)
            # A row that far below the K-th is truly below at least K others.
            if count == len(self) or float((best_BC[:, k - 1] - best_BC[:, -1]).min()) > margin:
                return at_BC
            count = min(4 * count, len(self))


def _unit(x_ND: Tensor, what: str) -> Tensor:
    """Scale rows to length 1, float32; in float64 no square of a number leaves the range."""
    x_ND = x_ND.float().double()
    if not x_ND.numel():
        return x_ND.float()
    length_N1 = torch.linalg.vector_norm(x_ND, dim=1, keepdim=True)
    if not math.isfinite(float(length_N1.amax())):  # NaN is the greatest of all
        raise DataError(f"{what} holds NaN or infinity; its encoder is broken.")
    unit_ND: Tensor = (x_ND / length_N1.clamp_min(TINY)).float()
    return unit_ND
