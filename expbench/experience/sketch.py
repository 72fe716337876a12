"""Thinning out a large bank before the exact search, without losing one of the best.

A unit row z is cut to its first coordinates z' in the basis of the rows' principal directions, and
the length of the rest, c, is kept as one coordinate more. For a query cut likewise,
q'z' + c(q) c(z) is at least qz, by Cauchy-Schwarz, and (z', c) has length 1 again. Both are turned
by one random rotation, which evens out the coordinates, and rounded to integers of 8 and 7 bits:
the lengths of the rounding errors, measured, are the only margin. A product of small integers costs
a quarter of one in float32 for a few rows, and one of a third of the coordinates a twelfth.

Shapes: N rows, D their width, L coordinates kept, B queries, P pairs of a query and a row.
"""

import itertools
import warnings
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from expbench.experience.selection import CACHED_NUMBERS, cosines, largest

BLOCK = 64
"""Rows that are looked through only where the largest of their bounds is large enough."""
WIDTHS = (128, 192, 256, 384)
"""Coordinates that may be kept; all of them too."""
CHUNK = 8192
"""Rows multiplied at once: small enough that the scores stay in the cache."""
PROBES = 32
PROBE_K = 8
PAIR_COST = 200.0
"""Scoring a pair exactly, as a multiple of scoring it in the sketch, both for each coordinate."""
FULL_COST = 3.0
"""Scoring a pair in the full float32 product, likewise."""
MOST_PAIRS = 0.015
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
        self._parts: list[tuple[Any, int]] = []
        self._error = 0.0
        for piece_ND in torch.split(rows_ND, CHUNK):
            cut_NL = self._cut(piece_ND)
            step_N = cut_NL.abs().amax(1).clamp_min(1e-12) / 127
            small_NL = (cut_NL / step_N[:, None]).round()
            error_N = (cut_NL - small_NL * step_N[:, None]).norm(dim=1)
            self._error = max(self._error, float(error_N.max()))
            self._parts.append((_pack(small_NL, step_N), len(piece_ND)))

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
        tau_B = largest(functional.linear(rows_ND, probes_BD), PROBE_K + 1)[0][:, -1]
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
        bounds_BMW, peaks_BM = self._product(small_BL)
        # The K best by the sketch tell how good the K-th best is at least.
        at_BK = _largest(bounds_BMW, peaks_BM, k)
        tau_B = cosines(q_BD, self._rows_ND, at_BK).amin(1)
        margin_B = error_B + (1 + error_B) * self._error + 8 * ROUNDING * q_BD.shape[1]
        pairs = _at_least(bounds_BMW, peaks_BM, (tau_B - margin_B).float() / step_B)
        if len(pairs[0]) > max(MOST_PAIRS * bounds_BMW.numel(), 4 * at_BK.numel()):
            return None
        return _table(self._scored(q_BD, *pairs), *pairs, count=len(q_BD))

    def _scored(self, q_BD: Tensor, query_P: Tensor, row_P: Tensor) -> Tensor:
        step = max(1, CACHED_NUMBERS // q_BD.shape[1])
        pieces = zip(torch.split(query_P, step), torch.split(row_P, step), strict=True)
        parts = [cosines(q_BD[q], self._rows_ND, r.unsqueeze(1)).squeeze(1) for q, r in pieces]
        return torch.cat(parts)

    def _cut(self, x_ND: Tensor) -> Tensor:
        kept_NL = x_ND @ self._turned_DL
        return torch.addcmul(kept_NL, _rest(x_ND, kept_NL), self._rest_L)

    def _product(self, small_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bounds in units of each query's step, (B, M, W), and their maxima, (B, M).

        M blocks of W rows; where the last block has fewer, minus infinity fills it up.
        """
        count, blocks = len(small_BL), -(-len(self._rows_ND) // BLOCK)
        bounds_BN = torch.empty(count, blocks * BLOCK)
        bounds_BN[:, len(self._rows_ND) :] = -torch.inf
        peaks_BM = torch.empty(count, blocks)
        for first, (packed, rows) in zip(itertools.count(0, CHUNK), self._parts, strict=False):
            bounds_BN[:, first : first + rows] = _multiply(small_BL, packed)
            # At once, while they are in the cache.
            part_BN = bounds_BN[:, first : min(first + CHUNK, blocks * BLOCK)]
            start = first // BLOCK
            torch.amax(
                part_BN.view(count, -1, BLOCK),
                dim=-1,
                out=peaks_BM[:, start : start + part_BN.shape[1] // BLOCK],
            )
        return bounds_BN.view(count, blocks, BLOCK), peaks_BM


def _pack(small_NL: Tensor, step_N: Tensor) -> Any:
    """Lay rows of integers in [-127, 127] out for products, each with its step.

    FBGEMM's product of 16 rows takes half the time of oneDNN's on a processor with AVX2.
    """
    zeros_N = torch.zeros(len(step_N), dtype=torch.int64)
    engine = torch.backends.quantized.engine
    with warnings.catch_warnings(), ExitStack() as stack:
        stack.callback(setattr, torch.backends.quantized, "engine", engine)
        # The engine that has the product below, on every x86.
        torch.backends.quantized.engine = "fbgemm"
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
        rows_NL = torch._make_per_channel_quantized_tensor(
            small_NL.to(torch.int8), step_N.double(), zeros_N, 0
        )
        return torch.ops.quantized.linear_prepack(rows_NL, None)


def _multiply(small_BL: Tensor, packed: Any) -> Tensor:
    """Return integers in [-64, 63] times rows, exact in the integers, times each row's step."""
    product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
        small_BL, 1.0, 64, packed
    )
    return product


def _multiplies_integers() -> bool:
    """Tell whether this build of torch multiplies 8-bit integers exactly on this processor."""
    try:
        small_BL = torch.tensor([[-63.0, 63.0] * 64])
        rows_NL = torch.tensor([[-127.0, 127.0] * 64, [127.0, 127.0] * 64])
        found = _multiply(small_BL, _pack(rows_NL, torch.ones(2)))
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


def _largest(bounds_BMW: Tensor, peaks_BM: Tensor, k: int) -> Tensor:
    """Return the places of the K largest bounds; they lie in the K blocks of largest maximum."""
    block_BC = peaks_BM.topk(min(k, peaks_BM.shape[1]), sorted=False).indices
    among_BCW = bounds_BMW.gather(1, block_BC[..., None].expand(-1, -1, BLOCK))
    at_BK = among_BCW.flatten(1).topk(k, sorted=False).indices
    return block_BC.gather(1, at_BK // BLOCK) * BLOCK + at_BK % BLOCK


def _at_least(bounds_BMW: Tensor, peaks_BM: Tensor, cut_B: Tensor) -> tuple[Tensor, Tensor]:
    """Return query and place of every bound that reaches the query's cut, in order."""
    query_X, block_X = (peaks_BM >= cut_B[:, None]).nonzero(as_tuple=True)
    reaches_XW = bounds_BMW[query_X, block_X] >= cut_B[query_X, None]
    within_P, place_P = reaches_XW.nonzero(as_tuple=True)
    return query_X[within_P], block_X[within_P] * BLOCK + place_P


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
