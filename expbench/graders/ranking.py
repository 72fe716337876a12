"""Rankings of candidates: positions out of a reply, and NDCG@10 of the one relevant item.

Prompts ask for a numbered list of candidate numbers, best first; lists of titles, JSON and
`[14] > [6]` are read too. Items count once, unknown items are dropped without using a rank, and
candidates that are not listed are not appended.
"""

import math
from collections.abc import Sequence

from expbench.core import Output, Sample, Score
from expbench.errors import GradingError
from expbench.graders.ranking_list import read_ranking

CUTOFF = 10


def grade_ranking(sample: Sample, output: Output) -> Score:
    """Score NDCG@10 of the true item, with `hr@10` and `mrr` (no cut-off) beside it.

    Args:
        sample: `target[0]` is the 0-based position of the true item in `candidates`.
        output: `ranking` if the method gives one, else its text is read.

    Raises:
        GradingError: the true item is not among the candidates, or `output.ranking` holds a
            position twice or one that does not exist.
    """
    target = _target(sample)
    if output.ranking is None:
        ranking = read_ranking(output.text, sample.candidates)
    else:
        ranking = list(output.ranking)
        _check_ranking(ranking, len(sample.candidates))
    rank = ranking.index(target) + 1 if target in ranking else 0
    hit = 0 < rank <= CUTOFF
    return Score(
        value=1 / math.log2(rank + 1) if hit else 0.0,
        answer=", ".join(str(position + 1) for position in ranking) or None,
        explanation=f"True item {target + 1} at rank {rank}." if rank else "True item not listed.",
        metrics={"hr@10": float(hit), "mrr": 1 / rank if rank else 0.0},
    )


def _target(sample: Sample) -> int:
    """Read the true position."""
    text = sample.target[0] if sample.target else ""
    if not text.isdecimal() or int(text) >= len(sample.candidates):
        raise GradingError(
            f"Sample {sample.id!r} has target {text!r} for {len(sample.candidates)} candidates; "
            "the true item must be one of them, given by its position from 0."
        )
    return int(text)


def _check_ranking(ranking: Sequence[int], count: int) -> None:
    """Refuse positions that do not exist or come twice."""
    wrong = [p for p in ranking if not 0 <= p < count]
    twice = len(set(ranking)) < len(ranking)
    if wrong or twice:
        fault = f"position {wrong[0]}" if wrong else "a position twice"
        raise GradingError(
            f"A ranking of {count} candidates holds {fault}; give positions from 0 to {count - 1}, "
            "each at most once."
        )
