"""What both ways of searching share: the largest of many scores, and scores that are exact.

Shapes: N rows, D their width, B queries, C candidates, P pairs of a query and a row.
"""

import torch
from torch import Tensor

BLOCK = 16
"""Rows whose maximum stands for them: the C best lie in the C blocks of largest maximum."""
MOST_NUMBERS = 1 << 24
"""Numbers in one matrix of scores: 64 MB of float32."""
CACHED_NUMBERS = 1 << 18
"""Numbers of gathered rows at a time: 2 MB of float64 stay in the cache."""


def largest(scores_NB: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest scores of each query with their rows, largest first, (B, C).

    The same values as `topk` (of equal ones any), faster where there are many rows. A block is
    every M-th row, so that the maxima of all blocks and queries are one pass along the memory.
    """
    rows, queries = scores_NB.shape
    blocks = rows // BLOCK
    if blocks < 4 * count:
        whole = scores_NB.T.topk(count)
        return whole.values, whole.indices
    device = scores_NB.device
    peaks_MB = scores_NB[: blocks * BLOCK].view(BLOCK, blocks, queries).amax(0)
    block_BC = peaks_MB.T.topk(count, sorted=False).indices
    step_W1 = torch.arange(0, blocks * BLOCK, blocks, device=device).unsqueeze(1)
    row_BX = (block_BC.unsqueeze(1) + step_W1).flatten(1)
    if blocks * BLOCK < rows:
        rest = torch.arange(blocks * BLOCK, rows, device=device)
        row_BX = torch.cat([row_BX, rest.expand(queries, -1)], dim=1)
    best = scores_NB.T.gather(1, row_BX).topk(count)
    return best.values, row_BX.gather(1, best.indices)


def cosines(q_BD: Tensor, rows_ND: Tensor, at_BC: Tensor) -> Tensor:
    """Score rows, C a query, (B, C) float64; both sides are float32, so every product is exact.

    Each score is a sum of its own over D and not part of a product of matrices, so that equal
    vectors get equal scores, whatever is scored beside them.
    """
    count, width = at_BC.shape[1], rows_ND.shape[1]
    most = max(1, CACHED_NUMBERS // max(1, width))
    if count > most:
        pieces = torch.split(at_BC, most, dim=1)
        return torch.cat([cosines(q_BD, rows_ND, piece) for piece in pieces], dim=1)
    exact_BD = q_BD.double()
    step = max(1, CACHED_NUMBERS // max(1, count * width))
    parts = []
    for first in range(0, len(q_BD), step):
        part = slice(first, first + step)
        # Widened in one go: a product of mixed kinds would go through slow copies.
        rows_PD = rows_ND.index_select(0, at_BC[part].flatten()).double()
        rows_PD.view(-1, count, width).mul_(exact_BD[part].unsqueeze(1))
        parts.append(rows_PD.sum(-1))
    return torch.cat(parts).view(at_BC.shape)


def ranked(scores_BC: Tensor, at_BC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Order candidates by score, then position; keep K; scores become float32 in [-1, 1]."""
    at_BC, order_BC = at_BC.sort(dim=1)
    scores_BC, by_score_BC = scores_BC.gather(1, order_BC).sort(dim=1, descending=True, stable=True)
    return scores_BC[:, :k].float().clamp(-1.0, 1.0), at_BC.gather(1, by_score_BC[:, :k])
