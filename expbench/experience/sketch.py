"""Thinning out a large bank before the exact search, without losing one of the best.

A unit row z is cut to its first coordinates z' in the basis of the rows' principal directions, and
the length of the rest, c, is kept as one coordinate more. For a query cut likewise,
q'z' + c(q) c(z) is at least qz, by Cauchy-Schwarz, and (z', c) has length 1 again. Both are turned
by one random rotation, which evens out the coordinates, and rounded to integers of 8 and 7 bits:
the lengths of the rounding errors, measured, are the only margin. A product of small integers costs
a third of one in float32, and one of a third of the coordinates a ninth.

Shapes: N rows, D their width, L coordinates kept, B queries, P pairs of a query and a row.
"""

import torch
from torch import Tensor

from expbench.experience.selection import BLOCK, cosines, largest

WIDTHS = (128, 192, 256, 384)
"""Coordinates that may be kept; all of them too."""
CHUNK = 8192
"""Rows multiplied at once: small enough that the scores stay in the cache."""
PROBES = 32
PROBE_K = 8
PAIR_COST = 125.0
"""Scoring a pair exactly, as a multiple of scoring it in the sketch, both for each coordinate."""
FULL_COST = 3.0
"""Scoring a pair in the full float32 product, likewise."""
MOST_PAIRS = 0.02
"""Share of all pairs beyond which a search is done by the full product."""
ROUNDING = 2.0**-24
"""Relative error of one float32 operation; a sum over D has at most D times as much."""
MARGIN = 0.03
"""Rounding to integers as expected when a width is chosen; the search measures it."""


class Sketch:
    """A smaller copy of the rows that says which of them may be among the best."""

    def __init__(self, rows_ND: Tensor, width: int, basis_DL: Tensor) -> None:
        """Cut, turn and round the rows.

        Args:
            rows_ND: (N, D) float32 of length 1, or 0.
            width: Coordinates kept, the rest's length among them.
            basis_DL: (D, width - 1) orthonormal.
        """
        self._rows_ND = rows_ND
        generator = torch.Generator().manual_seed(0)
        turn_LL = torch.linalg.qr(torch.randn(width, width, generator=generator))[0]
        self.width = width
        # A rotation keeps lengths, so one product cuts and turns.
        self._turned_DL = basis_DL @ turn_LL[:-1]
        self._rest_L = turn_LL[-1]
        self._parts: list[tuple[Tensor, Tensor]] = []
        self._error = 0.0
        for piece_ND in torch.split(rows_ND, CHUNK):
            cut_NL = self._cut(piece_ND)
            step_N = cut_NL.abs().amax(1).clamp_min(1e-12) / 127
            small_NL = (cut_NL / step_N[:, None]).round()
            error_N = (cut_NL - small_NL * step_N[:, None]).norm(dim=1)
            self._error = max(self._error, float(error_N.max()))
            packed = torch.ops.onednn.qlinear_prepack(small_NL.to(torch.int8), [PROBES, width])
            self._parts.append((packed, step_N))

    @classmethod
    def of(cls, rows_ND: Tensor) -> "Sketch | None":
        """Choose the width that makes searches cheapest; None where the full product is cheaper.

        What a width costs is measured with rows of the bank as queries.
        """
        if not _multiplies_integers():
            return None
        width = rows_ND.shape[1]
        sample_SD = rows_ND[:: max(1, len(rows_ND) // CHUNK)]
        basis_DD = torch.linalg.eigh(sample_SD.T @ sample_SD).eigenvectors.flip(1)
        probes_BD = rows_ND[:: max(1, len(rows_ND) // PROBES)][:PROBES]
        # A probe finds itself first, which says nothing.
        scores_BN = probes_BD @ rows_ND.T
        tau_B = largest(scores_BN, PROBE_K + 1)[0][:, -1]
        costs = {}
        for kept in (*(w for w in WIDTHS if w < width), width):
            basis_DL = basis_DD[:, : kept - 1]
            bound_BS = _with_rest(probes_BD, basis_DL) @ _with_rest(sample_SD, basis_DL).T
            share = float((bound_BS >= tau_B[:, None] - MARGIN).float().mean())
            costs[kept] = kept + PAIR_COST * width * share
        best = min(costs, key=costs.__getitem__)
        if costs[best] > FULL_COST * width:
            return None
        return cls(rows_ND, best, basis_DD[:, : best - 1].contiguous())

    def candidates(self, q_BD: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
        """Return exact scores (B, C) float64 and positions (B, C) that hold the K best.

        A query with fewer candidates than C is filled up with scores of minus infinity. None where
        the bounds leave so many that the full product is cheaper.
        """
        cut_BL = self._cut(q_BD)
        step_B = cut_BL.abs().amax(1).clamp_min(1e-12) / 63
        small_BL = (cut_BL / step_B[:, None]).round()
        error_B = (cut_BL - small_BL * step_B[:, None]).norm(dim=1)
        bounds_BN = self._product((small_BL + 64).to(torch.uint8))
        # The K best by the sketch tell how good the K-th best is at least.
        at_BK = largest(bounds_BN, k)[1]
        query_P = torch.arange(len(q_BD)).repeat_interleave(k)
        tau_B = cosines(q_BD, self._rows_ND, query_P, at_BK.flatten()).view(-1, k).amin(1)
        margin_B = error_B + (1 + error_B) * self._error + 8 * ROUNDING * q_BD.shape[1]
        pairs = _at_least(bounds_BN, (tau_B - margin_B).float() / step_B)
        if len(pairs[0]) > max(MOST_PAIRS * bounds_BN.numel(), 4 * at_BK.numel()):
            return None
        return _table(cosines(q_BD, self._rows_ND, *pairs), *pairs, count=len(q_BD))

    def _cut(self, x_ND: Tensor) -> Tensor:
        kept_NL = x_ND @ self._turned_DL
        return torch.addcmul(kept_NL, _rest(x_ND, kept_NL), self._rest_L)

    def _product(self, small_BL: Tensor) -> Tensor:
        """Return the bounds in units of each query's step, (B, N)."""
        bounds_BN = torch.empty(len(small_BL), len(self._rows_ND))
        start = 0
        for packed, step_N in self._parts:
            end = start + len(step_N)
            bounds_BN[:, start:end] = _multiply(small_BL, packed, step_N)
            start = end
        return bounds_BN


def _multiply(small_BL: Tensor, packed: Tensor, step_N: Tensor) -> Tensor:
    """Return (small - 64) times rows, exact in the integers, times each row's step."""
    zeros_N = torch.zeros(len(step_N), dtype=torch.int64)
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        small_BL, 1.0, 64, packed, step_N, zeros_N, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product


def _multiplies_integers() -> bool:
    """Tell whether this build of torch multiplies 8-bit integers exactly on this processor."""
    try:
        small_BL = torch.tensor([[1, 127] * 64], dtype=torch.uint8)
        rows_NL = torch.tensor([[-127, 127] * 64, [127, 127] * 64], dtype=torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(rows_NL, [1, 128])
        found = _multiply(small_BL, packed, torch.ones(2))
    except (AttributeError, RuntimeError):  # an operator that is not there, or not supported
        return False
    return found.tolist() == [[64.0 * 127 * 126, 0.0]]


def _rest(x_ND: Tensor, kept_NL: Tensor) -> Tensor:
    """Return at least the length of what was not kept of each row, (N, 1)."""
    rest_N = x_ND.square().sum(1, keepdim=True) - kept_NL.square().sum(1, keepdim=True)
    # What float32 may have taken away comes back, or the bound would be none.
    return (rest_N.clamp_min(0) + 4 * ROUNDING * x_ND.shape[1]).sqrt()


def _with_rest(x_ND: Tensor, basis_DL: Tensor) -> Tensor:
    kept_NL = x_ND @ basis_DL
    return torch.cat([kept_NL, _rest(x_ND, kept_NL)], dim=1)


def _at_least(scores_BN: Tensor, cut_B: Tensor) -> tuple[Tensor, Tensor]:
    """Return query and column of every score that reaches the query's cut, in order."""
    whole = scores_BN.shape[1] // BLOCK * BLOCK
    blocked_BMW = scores_BN[:, :whole].view(len(scores_BN), -1, BLOCK)
    query_X, block_X = (blocked_BMW.amax(-1) >= cut_B[:, None]).nonzero(as_tuple=True)
    place, column = (blocked_BMW[query_X, block_X] >= cut_B[query_X, None]).nonzero(as_tuple=True)
    rest_query, rest = (scores_BN[:, whole:] >= cut_B[:, None]).nonzero(as_tuple=True)
    query_P = torch.cat([query_X[place], rest_query])
    row_P = torch.cat([block_X[place] * BLOCK + column, rest + whole])
    order = query_P.argsort(stable=True)
    return query_P[order], row_P[order]


def _table(
    scores_P: Tensor, query_P: Tensor, row_P: Tensor, *, count: int
) -> tuple[Tensor, Tensor]:
    """Lay pairs, sorted by query, out as one line a query."""
    size_B = query_P.bincount(minlength=count)
    longest = int(size_B.max())
    column_P = torch.arange(len(query_P)) - (size_B.cumsum(0) - size_B)[query_P]
    scores_BC = scores_P.new_full((count, longest), -torch.inf)
    at_BC = row_P.new_full((count, longest), torch.iinfo(torch.int64).max)
    scores_BC[query_P, column_P] = scores_P
    at_BC[query_P, column_P] = row_P
    return scores_BC, at_BC
