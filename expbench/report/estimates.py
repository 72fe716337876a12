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
    """Estimate the mean over strata of the mean within each; None counts as 0.

    Rates get a normal interval whose variance is the sum over strata of p(1 - p) / n, each with two
    successes and two failures added (Agresti and Coull 1998), so that a stratum of few molecules
    that are all right does not look certain. Other scores get a bootstrap within strata (n draws
    with replacement, fixed seed).
    """
    import numpy as np

    values = [np.array([score or 0.0 for score in strata[name]]) for name in sorted(strata)]
    mean = float(np.mean([v.mean() for v in values]))
    if all(np.isin(v, (0.0, 1.0)).all() for v in values):
        rates = [((v.sum() + 2) / (len(v) + 4), len(v) + 4) for v in values]
        error = 1.96 * sum(p * (1 - p) / n for p, n in rates) ** 0.5 / len(values)
        return (mean, max(0.0, mean - error), min(1.0, mean + error))
    rng = np.random.default_rng(0)
    resampled = np.zeros(RESAMPLES)
    for v in values:
        draws = rng.integers(0, len(v), size=(RESAMPLES, len(v)))
        resampled += v[draws].mean(axis=1) / len(values)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return (mean, float(low), float(high))
