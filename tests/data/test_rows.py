"""Rows: typed getters and their complaints."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.core import Sample
from expbench.data import Row, unique
from expbench.errors import DataError


def row(**values: Any) -> Row:
    return Row(values, "some/train.jsonl", 7)


def complaint(call: Any, *arguments: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("getter", "value"),
    [
        ("text", None),
        ("text", 3),
        ("text", ["a"]),
        ("integer", "many"),
        ("integer", 1.5),
        ("integer", True),
        ("integer", None),
        ("number", "ten"),
        ("number", []),
        ("texts", "abc"),
        ("texts", ["a", None]),
        ("texts", ["a", 1]),
        ("optional_texts", {"a": 1}),
        ("nested", ["a"]),
    ],
)
def test_a_wrong_type_names_file_line_field_and_remedy(getter: str, value: Any) -> None:
    message = complaint(getattr(row(field=value), getter), "field")
    assert "some/train.jsonl, line 7" in message
    assert "'field'" in message
    assert "Correct or remove this row." in message


@pytest.mark.parametrize("getter", ["text", "integer", "number", "texts", "nested"])
def test_a_missing_field_names_the_fields_that_are_there(getter: str) -> None:
    message = complaint(getattr(row(question="q", key="A"), getter), "answer")
    assert "some/train.jsonl, line 7" in message
    assert "'answer'" in message
    assert "question, key" in message


def test_a_nested_field_is_named_with_its_path() -> None:
    inner = row(choices={"label": ["A", 2]}).nested("choices")
    assert "'choices.label'" in complaint(inner.texts, "label")
    assert "'choices.text'" in complaint(inner.texts, "text")


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_text_that_no_tokenizer_can_take_is_refused(text: str) -> None:
    assert "line 7" in complaint(row(q=text).text, "q")
    assert "line 7" in complaint(row(q=[text]).texts, "q")


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_any_other_text_comes_back_unchanged(text: str) -> None:
    assert row(q=text).text("q") == text
    assert row(q=[text, None]).optional_texts("q") == [text, None]


def test_the_text_none_is_a_text() -> None:
    assert row(q="None").text("q") == "None"


@given(st.integers(-(10**9), 10**9))
def test_whole_numbers_are_read_from_numbers_and_from_text(number: int) -> None:
    assert row(y=number).integer("y") == number
    assert row(y=str(number)).integer("y") == number
    assert row(y=f"{number}.0").integer("y") == number


def test_the_first_field_that_is_there_and_not_null_is_taken() -> None:
    assert row(a=None, b=1, c=2).any_of("a", "b", "c") == "b"
    assert "'x' or 'y'" in complaint(row(a=1).any_of, "x", "y")


def test_a_repeated_id_names_both_places() -> None:
    sample = Sample(id="q1", task="t", kind="math", input="1+1", target=("2",))
    pairs = [(Row({}, "a.jsonl", 2), sample), (Row({}, "a.jsonl", 9), sample)]
    message = complaint(list, unique(pairs))
    assert "'q1'" in message
    assert "a.jsonl, line 9" in message
    assert "line 2" in message
