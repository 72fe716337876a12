"""What both ways of searching share: the largest of many scores, and scores that are exact.

Shapes: N rows, D their width, B queries, C candidates, P pairs of a query and a row.
"""

import torch
from torch import Tensor

BLOCK = 64
"""Columns whose maximum stands for them: the C best lie in the C blocks of largest maximum."""
BLOCKS_FROM = 8192
"""Columns from which looking for the best by blocks is faster than `topk` alone."""
MOST_NUMBERS = 1 << 24
"""Numbers in one matrix of scores: 64 MB of float32."""
CACHED_NUMBERS = 1 << 17
"""Numbers of gathered rows at a time: 1 MB of float64 stays in the cache."""


def largest(scores_BN: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest scores of each query with their columns, largest first.

    The same values as `topk` (of equal ones any), faster where there are many columns.
    """
    columns = scores_BN.shape[1]
    blocks = columns // BLOCK
    if columns < BLOCKS_FROM or blocks < 4 * count:
        whole = scores_BN.topk(count)
        return whole.values, whole.indices
    within = torch.arange(BLOCK, device=scores_BN.device)
    peaks_BM = scores_BN[:, : blocks * BLOCK].view(len(scores_BN), blocks, BLOCK).amax(-1)
    chosen_BC = peaks_BM.topk(count, sorted=False).indices
    columns_BX = (chosen_BC[..., None] * BLOCK + within).flatten(1)
    rest = torch.arange(blocks * BLOCK, columns, device=scores_BN.device)
    columns_BX = torch.cat([columns_BX, rest.expand(len(scores_BN), -1)], dim=1)
    best = scores_BN.gather(1, columns_BX).topk(count)
    return best.values, columns_BX.gather(1, best.indices)


def cosines(q_BD: Tensor, rows_ND: Tensor, query_P: Tensor, row_P: Tensor) -> Tensor:
    """Score pairs of unit vectors in float64, (P,).

    Each is a sum of its own over D and not part of a product of matrices, so that equal vectors get
    equal scores, whatever is scored beside them.
    """
    exact_BD = q_BD.double()
    step = max(1, CACHED_NUMBERS // max(1, rows_ND.shape[1]))
    pieces = zip(torch.split(query_P, step), torch.split(row_P, step), strict=True)
    parts = [(rows_ND.index_select(0, r) * exact_BD[q]).sum(-1) for q, r in pieces]
    return torch.cat(parts) if parts else exact_BD.new_zeros(0)


def ranked(scores_BC: Tensor, at_BC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Order candidates by score, then position; keep K; scores become float32 in [-1, 1]."""
    at_BC, order_BC = at_BC.sort(dim=1)
    scores_BC, by_score_BC = scores_BC.gather(1, order_BC).sort(dim=1, descending=True, stable=True)
    return scores_BC[:, :k].float().clamp(-1.0, 1.0), at_BC.gather(1, by_score_BC[:, :k])
