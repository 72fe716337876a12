import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.core import Output, Sample
from expbench.errors import GradingError
from expbench.graders.ranking import grade_ranking
from expbench.graders.ranking_list import read_ranking

TITLES = tuple(f"Title {word}" for word in "a bb cc dd ee ff gg hh ii jj kk ll".split())
LISTS = {
    "numbered": lambda items: "\n".join(f"{i}. {x}" for i, x in enumerate(items, 1)),
    "parentheses": lambda items: "\n".join(f"{i}) {x}" for i, x in enumerate(items, 1)),
    "bold": lambda items: "\n".join(f"**{i}.** **{x}**" for i, x in enumerate(items, 1)),
    "bullets": lambda items: "My ranking:\n\n" + "\n".join(f"- {x}" for x in items),
    "arrows": lambda items: " > ".join(f"[{x}]" for x in items),
    "commas": lambda items: "Ranking: " + ", ".join(map(str, items)),
}
orders = st.permutations(range(12)).flatmap(lambda o: st.integers(2, 12).map(lambda n: o[:n]))


@pytest.mark.parametrize("form", LISTS)
@given(order=orders)
def test_candidate_numbers_are_read_in_every_form(form: str, order: list[int]) -> None:
    assert read_ranking(LISTS[form]([i + 1 for i in order]), TITLES) == order


@pytest.mark.parametrize("form", [form for form in LISTS if form != "arrows"])
@given(order=orders)
def test_titles_are_read_in_every_form(form: str, order: list[int]) -> None:
    assert read_ranking(LISTS[form]([TITLES[i] for i in order]), TITLES) == order


def test_long_titles_with_commas_and_dashes_are_one_item() -> None:
    rng = random.Random(0)
    titles = [
        f"{i}st Pack - Cable, 2m (Black), " + " ".join(rng.choices(["for", "PC,", "X-1"], k=150))
        for i in range(20)
    ]
    order = list(range(20))
    rng.shuffle(order)
    assert read_ranking(LISTS["numbered"]([titles[i] for i in order]), titles) == order
    assert read_ranking(LISTS["numbered"]([titles[i][:60] + "..." for i in order]), titles) == order


def test_titles_that_are_numbers_are_not_candidate_numbers() -> None:
    games = ("1942", "2048", "007", "Tetris")
    assert read_ranking("1. 2048\n2. 007\n3. 1942", games) == [1, 2, 0]
    assert read_ranking("1. 2\n2. 4", games) == [1, 3]


def sample(target: str = "1") -> Sample:
    return Sample(id="1", task="t", kind="ranking", input="", candidates=TITLES, target=(target,))


@given(order=st.permutations(range(12)))
def test_the_score_is_that_of_the_true_items_rank(order: list[int]) -> None:
    score = grade_ranking(sample(), Output(ranking=tuple(order)))
    rank = order.index(1) + 1
    assert score.value == pytest.approx(1 / math.log2(rank + 1) if rank <= 10 else 0)
    assert score.metrics == {"hr@10": float(rank <= 10), "mrr": pytest.approx(1 / rank)}


@pytest.mark.parametrize("ranking", [(0, 12), (-1,), (3, 3)])
def test_a_method_that_ranks_impossible_positions_is_an_error(ranking: tuple[int, ...]) -> None:
    with pytest.raises(GradingError, match="each at most once"):
        grade_ranking(sample(), Output(ranking=ranking))


@pytest.mark.parametrize("target", ["12", "-1", "", "Title a"])
def test_a_true_item_that_is_no_candidate_is_an_error(target: str) -> None:
    with pytest.raises(GradingError, match="must be one of them"):
        grade_ranking(sample(target), Output(text="1. 1"))


def test_an_empty_order_of_a_method_ranks_nothing() -> None:
    assert grade_ranking(sample("0"), Output(ranking=())).value == 0.0
