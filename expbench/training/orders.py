"""A Plackett-Luce policy over orders: sampling, log-probability, GRPO's objective.

Shapes: B questions, G orders of a question, C candidates of the longest question.
"""

import torch
from torch import Tensor

TOP = 10
"""Places of an order that count: NDCG@10 does not see the others."""
CLIP = 0.2
"""Change of an order's probability ratio within which it is rewarded, as in GRPO."""
EPSILON = 1e-4
"""Added to the deviation that advantages are divided by, as in TRL."""
ABSENT = -1e9
"""A finite score that no real candidate comes near: -inf would give NaN gradients."""


def sample_orders(scores_BC: Tensor, group: int, generator: torch.Generator) -> Tensor:
    """Draw orders from the Plackett-Luce distribution of the scores.

    Sorting scores with Gumbel noise draws without replacement in proportion to exp(score).

    Args:
        scores_BC: Logits; -inf marks a place without a candidate, which is sorted last.
        group: G.
        generator: On the CPU, where the noise is drawn, so that devices agree.

    Returns:
        (B, G, C) positions, best first.
    """
    rows, count = scores_BC.shape
    uniform_BGC = torch.rand(rows, group, count, generator=generator, dtype=torch.float64)
    noise_BGC = -torch.log(-torch.log(uniform_BGC.clamp(1e-300, 1 - 1e-16)))
    noisy_BGC = scores_BC.detach().double().cpu().unsqueeze(1) + noise_BGC
    return noisy_BGC.argsort(dim=-1, descending=True, stable=True).to(scores_BC.device)


def log_prob(scores_BC: Tensor, orders_BGC: Tensor, top: int = TOP) -> Tensor:
    """Return the log-probability that an order begins as it does.

    It is the sum over the first `top` places of score - logsumexp(scores not placed before), which
    is the probability of all orders with these first places: a reward that looks at no other place
    has the same expected gradient as with the whole order, and less noise.

    Args:
        scores_BC: Logits; -inf marks a place without a candidate.
        orders_BGC: Positions, best first, absent ones last.
        top: Places that count, at least 1; more than there are candidates means all.

    Returns:
        (B, G), of the scores' dtype.

    >>> scores = torch.log(torch.tensor([[0.5, 0.3, 0.2]]))
    >>> orders = torch.tensor([[[0, 1, 2], [2, 0, 1]]])
    >>> [round(p, 4) for p in log_prob(scores, orders).exp()[0].tolist()]
    [0.3, 0.125]
    >>> [round(p, 4) for p in log_prob(scores, orders, top=1).exp()[0].tolist()]
    [0.5, 0.2]
    """
    absent_BC = torch.isneginf(scores_BC)
    finite_BC = scores_BC.masked_fill(absent_BC, ABSENT)
    shape = orders_BGC.shape
    placed_BGC = finite_BC.unsqueeze(1).expand(shape).gather(-1, orders_BGC)
    left_BGC = placed_BGC.flip(-1).logcumsumexp(-1).flip(-1)
    terms_BGC = placed_BGC - left_BGC
    empty_BGC = absent_BC.unsqueeze(1).expand(shape).gather(-1, orders_BGC)
    return terms_BGC.masked_fill(empty_BGC, 0.0)[..., :top].sum(-1)


def advantages(rewards_BG: Tensor, scale: str) -> Tensor:
    """Return rewards minus their question's mean, divided by a deviation.

    Args:
        rewards_BG: NaN where there is no grade: the advantage is 0 and no mean sees it.
        scale: `group`: the question's own deviation; anything else: 1 (`batch_deviation` divides
            a whole step).

    >>> advantages(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), "none").tolist()
    [[0.5, -0.5], [0.0, 0.0]]
    """
    centred_BG = rewards_BG - rewards_BG.nanmean(1, keepdim=True)
    if scale == "group":
        centred_BG = centred_BG / (_deviation(centred_BG).unsqueeze(1) + EPSILON)
    return centred_BG.nan_to_num(0.0)


def batch_deviation(rewards_BG: Tensor) -> float:
    """Return what the advantages of a step are divided by when all questions share a scale."""
    flat_N = rewards_BG.flatten()
    return float(_deviation((flat_N - flat_N.nanmean()).unsqueeze(0))[0]) + EPSILON


def _deviation(centred_BG: Tensor) -> Tensor:
    """Return the deviation of each row, without the NaN in it."""
    count_B = (~centred_BG.isnan()).sum(1)
    return (centred_BG.square().nansum(1) / (count_B - 1).clamp_min(1)).sqrt()


def objective(new_BG: Tensor, old_BG: Tensor, advantages_BG: Tensor) -> Tensor:
    """Return GRPO's clipped loss of each question, (B,): the mean over its orders.

    On the first step of a window new and old are equal and the gradient is the policy gradient.
    """
    ratio_BG = torch.exp(new_BG - old_BG)
    clipped_BG = ratio_BG.clamp(1 - CLIP, 1 + CLIP)
    return -torch.minimum(ratio_BG * advantages_BG, clipped_BG * advantages_BG).mean(1)
