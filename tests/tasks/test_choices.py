"""Choice rows: labels, null options, shuffling."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.data import Row
from expbench.errors import DataError
from expbench.tasks.choices import choice_sample, labelled, shuffle_options


def row(**values: object) -> Row:
    return Row(values, "x.jsonl", 4)


def test_a_null_option_is_no_option() -> None:
    sample = choice_sample(
        row(), id="1", input="q", options=[("A", "x"), ("B", None), ("C", "None")], key="C"
    )
    assert (sample.labels, sample.choices) == (("A", "C"), ("x", "None"))


@pytest.mark.parametrize("key", ["B", "E", "1", ""])
def test_a_key_that_is_not_among_the_labels_names_the_row(key: str) -> None:
    with pytest.raises(DataError, match=r"x\.jsonl, line 4: the key is .*Correct or remove"):
        choice_sample(row(), id="1", input="q", options=[("A", "x"), ("B", None)], key=key)


def test_lists_of_different_length_name_the_row() -> None:
    with pytest.raises(DataError, match="line 4: 2 labels for 3 choice texts"):
        labelled(row(choices={"label": ["A", "B"], "text": ["x", "y", "z"]}))


@pytest.mark.parametrize(
    "last",
    [
        "None of the above",
        "All of the above.",
        "Both of the above",
        "none of these",
        "Neither of the other options",
        "Both",
    ],
)
def test_options_that_point_at_all_others_stay_last(last: str) -> None:
    for seed in range(20):
        order = shuffle_options(["12", last, "15", "Neither"], str(seed))
        assert order[2:] == [last, "Neither"]


@pytest.mark.parametrize(
    "pointing",
    ["A and B", "Both A and C are right", "(A) or (B)", "A, B and D", "Option C", "B only"],
)
def test_nothing_moves_where_an_option_names_others_by_label(pointing: str) -> None:
    options = ["12", "15", pointing, "7"]
    assert all(shuffle_options(options, str(seed)) == options for seed in range(20))


@pytest.mark.parametrize(
    "plain", ["A ring", "vitamin A", "both sides grow", "none", "Band structure", "E = mc^2"]
)
def test_ordinary_options_do_move(plain: str) -> None:
    options = ["12", "15", plain if plain != "none" else "no change", "7"]
    assert len({tuple(shuffle_options(options, str(seed))) for seed in range(40)}) > 10


@given(st.lists(st.text(max_size=6), min_size=2, max_size=6, unique=True), st.text())
def test_shuffling_keeps_the_options_and_repeats_itself(options: list[str], key: str) -> None:
    order = shuffle_options(options, key)
    assert sorted(order) == sorted(options)
    assert shuffle_options(options, key) == order


def test_right_answers_end_up_everywhere() -> None:
    counts = Counter(
        shuffle_options(["right", "x", "y", "z"], str(n)).index("right") for n in range(200)
    )
    assert all(0.12 <= counts[position] / 200 <= 0.38 for position in range(4))
