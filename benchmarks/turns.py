"""Timing of two sides in turns, and the ratio of their times with its interval."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def in_turns(
    sides: Mapping[str, Callable[[], object]], rounds: int, *, calls: int = 1
) -> dict[str, list[float]]:
    """Time each side once a round, in milliseconds; who begins changes from round to round.

    Args:
        sides: What to call, by name.
        rounds: How often each side has its turn.
        calls: Calls in a turn, of which the last is timed: with two, short calls find their own
            data in the cache and no thread that the other side left spinning.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for _ in range(rounds):
        for name in names:
            for _ in range(calls - 1):
                sides[name]()
            begin = time.perf_counter()
            sides[name]()
            times[name].append(1000 * (time.perf_counter() - begin))
        names.reverse()
    return times


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Return the median of the rounds' ratios with its 95 % interval, which assumes no shape.

    Of n sorted ratios the interval goes from place n / 2 - 0.98 sqrt(n) to its mirror image; with
    fewer than six rounds it is the whole range, and narrower than 95 %.
    """
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    low = max(0, math.floor(len(ratios) / 2 - 0.98 * math.sqrt(len(ratios))))
    return {
        "ratio": round(statistics.median(ratios), 3),
        "low": round(ratios[low], 3),
        "high": round(ratios[-1 - low], 3),
    }
