"""Seeded choices."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.data.draws import content_id, draw_indices, first_half, normalised, ordered, shuffled

names = st.lists(st.text(max_size=4), unique=True, max_size=30)


@given(st.integers(0, 60), st.text())
def test_every_index_is_drawn_once(size: int, key: str) -> None:
    assert sorted(draw_indices(size, key)) == list(range(size))


def test_every_index_is_equally_likely_first_and_last() -> None:
    draws = [list(draw_indices(5, str(seed))) for seed in range(5000)]
    for place in (0, 2, 4):
        counts = Counter(drawn[place] for drawn in draws)
        assert all(880 < counts[index] < 1120 for index in range(5))


def test_known_draws_stay_the_same_in_every_python() -> None:
    assert shuffled("abcdefgh", "key") == list("aghdecbf")
    assert content_id("What is 2 + 2?") == "38d46ad36188"


@given(names, st.text(), st.randoms())
def test_halves_do_not_depend_on_the_order_of_names(
    found: list[str], key: str, generator: random.Random
) -> None:
    other = list(found)
    generator.shuffle(other)
    assert first_half(found, key) == first_half(other, key)
    assert len(first_half(found, key)) == len(found) // 2


@given(names, st.text())
def test_removing_a_name_leaves_the_order_of_the_others(found: list[str], key: str) -> None:
    order = ordered(found, key, str)
    for gone in found[:3]:
        rest = [name for name in found if name != gone]
        assert ordered(rest, key, str) == [name for name in order if name != gone]


@pytest.mark.parametrize("other", ["what IS  2 + 2", "What is 2 + 2 ?", "\n“What is ２ + 2?”"])
def test_spelling_that_means_nothing_is_folded(other: str) -> None:
    assert normalised(other).strip("“ ") == normalised("What is 2 + 2?")


def test_signs_in_formulas_are_kept() -> None:
    assert normalised("2 + 3") != normalised("2 - 3")
    assert normalised("f(x)=x!y") != normalised("f(x)=xy")


def test_parts_of_an_id_are_kept_apart() -> None:
    assert content_id("ab", "c") != content_id("a", "bc")
