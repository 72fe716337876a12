"""A score with its 95 % interval: Wilson for rates, bootstrap for everything else."""

from collections.abc import Mapping, Sequence

from expbench.stats import wilson_interval

RESAMPLES = 2000
Estimate = tuple[float, float, float]
"""(score, low, high), each in [0, 1]."""


def estimate_mean(scores: Sequence[float | None]) -> Estimate:
    """Estimate a mean over all samples; None (an error or a missing sample) counts as 0.

    >>> [round(x, 3) for x in estimate_mean([1.0, 1.0, 0.0, None])]
    [0.5, 0.15, 0.85]
    """
    values = [score or 0.0 for score in scores]
    if all(value in (0.0, 1.0) for value in values):
        low, high = wilson_interval(int(sum(values)), len(values))
        return (sum(values) / len(values) if values else 0.0, low, high)
    return estimate_macro({"all": scores})


def estimate_macro(strata: Mapping[str, Sequence[float | None]]) -> Estimate:
    """Estimate the mean over strata of the mean within each, resampling within strata.

    The bootstrap has a fixed seed. It draws a stratum's n scores with replacement.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    means, resampled = [], np.zeros(RESAMPLES)
    for name in sorted(strata):
        values = np.array([score or 0.0 for score in strata[name]])
        means.append(values.mean())
        draws = rng.integers(0, len(values), size=(RESAMPLES, len(values)))
        resampled += values[draws].mean(axis=1) / len(strata)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return (float(np.mean(means)), float(low), float(high))
