"""Whatever a model writes, a grader answers: in [0, 1], the same twice, and in linear time."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.core import Grader, Output, Sample
from expbench.graders.chem import grade_chem, read_yes_no
from expbench.graders.choice import grade_choice, read_choice
from expbench.graders.math import grade_math, read_math
from expbench.graders.ranking import grade_ranking
from expbench.graders.ranking_list import read_ranking

TITLES = ("Heat", "Up", "1942", "The Good, the Bad and the Ugly", *(f"Item {i}" for i in range(16)))
PLANETS = ("Mercury", "Venus", "Earth", "Mars")
SAMPLES: dict[Grader, Sample] = {
    grade_choice: Sample(
        id="c", task="t", kind="choice", input="", labels=tuple("ABCD"), choices=PLANETS,
        target=("B",),
    ),
    grade_chem: Sample(id="y", task="t", kind="chem", input="Is it toxic?", target=("Yes",)),
    grade_ranking: Sample(
        id="r", task="t", kind="ranking", input="", candidates=TITLES, target=("0",)
    ),
}  # fmt: skip
PIECES = st.sampled_from(
    r"\boxed{ } { \frac{1}{2} <answer> </answer> <think> </think> Answer: A B C. (D) not or and "
    r"Yes No 1. 2) [14] > , = $ 7 12,345 wait, Heat Up - * ** Question: é 👩 ' ^ ! \text{ I a #### "
    r"\\ inf 1e999 ² ٣ Ⅷ ſ İ K".split()
)
replies = st.one_of(
    st.text(max_size=200),
    st.lists(PIECES | st.sampled_from("\n \ue000\x00"), max_size=40).map("".join),
)
READERS: dict[str, Callable[[str], object]] = {
    "math": read_math,
    "choice": lambda text: read_choice(text, "ABCD", PLANETS),
    "chem": lambda text: read_yes_no(text, "Does this molecule cross the barrier?"),
    "ranking": lambda text: read_ranking(text, TITLES),
}


@pytest.mark.parametrize("grade", SAMPLES, ids=lambda grade: grade.__name__)
@given(reply=replies)
def test_any_reply_gets_the_same_score_twice(grade: Grader, reply: str) -> None:
    first = grade(SAMPLES[grade], Output(text=reply))
    assert 0.0 <= first.value <= 1.0
    assert grade(SAMPLES[grade], Output(text=reply)) == first


@given(reply=replies)
def test_any_reply_gets_the_same_mathematical_score_twice(reply: str) -> None:
    sample = Sample(id="m", task="t", kind="math", input="", target=("7",))
    first = grade_math(sample, Output(text=reply))
    assert first.value in (0.0, 1.0)
    assert grade_math(sample, Output(text=reply)) == first


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "piece",
    ["(", "{", "1,", r"\boxed{", "<answer>", "Answer: ", "the answer is ", "A or ", "not A ",
     "Question:\n", "1\n", "- x\n", " ", "yes ", "Heat, ", "wait, ", "=", "1/", "q "],
)  # fmt: skip
def test_a_megabyte_is_read_in_linear_time(reader: str, piece: str) -> None:
    def seconds(characters: int) -> float:
        text = piece * (characters // len(piece))
        start = time.process_time()
        READERS[reader](text)
        return time.process_time() - start

    assert seconds(1_000_000) < 1.5
