"""The generated files of the mini suite: reproducible, well formed and right."""

import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from expbench.mini.generate import FOLDER, contents, differing, main, write

Row = dict[str, Any]

NOTE = re.compile(r"<<([^=]+)=(-?\d+)>>(-?[\d,]*\d)")


def rows(name: str) -> list[Row]:
    """Read a generated JSONL file as it stands in the package."""
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


def table(name: str) -> tuple[str, list[list[str]]]:
    """Read a RecBole file: header line and split rows."""
    header, *lines = (FOLDER / name).read_text("utf-8").splitlines()
    return header, [line.split("\t") for line in lines]


def value(expression: str) -> Fraction:
    """Evaluate terms that are joined by one kind of sign."""
    sign = next(sign for sign in "*/+-" if sign in expression[1:])
    first, *others = (Fraction(term) for term in expression.split(sign))
    for other in others:
        if sign == "*":
            first *= other
        elif sign == "/":
            first /= other
        else:
            first += other if sign == "+" else -other
    return first


def last_boxed(text: str) -> str:
    r"""Take the content of the last \boxed{}, with balanced braces."""
    start = text.rindex(r"\boxed{") + len(r"\boxed{")
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    raise ValueError(f"Unbalanced braces in {text!r}.")


def test_the_files_in_the_package_are_what_the_generators_make() -> None:
    assert differing() == []
    assert main(["--check"]) == 0


def test_a_changed_and_a_missing_file_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    assert differing(tmp_path) == []
    with (tmp_path / "gsm8k/test.jsonl").open("a") as file:
        file.write("\n")
    (tmp_path / "math/train.jsonl").unlink()
    assert differing(tmp_path) == ["gsm8k/test.jsonl", "math/train.jsonl"]


def test_every_file_ends_with_one_line_end_and_has_no_carriage_return() -> None:
    for text in contents().values():
        assert text.endswith("\n") and not text.endswith("\n\n") and "\r" not in text


@pytest.mark.parametrize(
    ("name", "count", "fields"),
    [
        ("gsm8k/train.jsonl", 32, "question answer"),
        ("gsm8k/test.jsonl", 32, "question answer"),
        (
            "gsm_symbolic/test.jsonl",
            64,
            "id instance question answer original_id original_question original_answer canary",
        ),
        ("math/train.jsonl", 32, "problem level type solution"),
        ("math/test.jsonl", 32, "problem solution answer subject level unique_id"),
    ],
)
def test_a_file_has_its_rows_and_fields(name: str, count: int, fields: str) -> None:
    assert len(rows(name)) == count
    assert all(list(row) == fields.split() for row in rows(name))


@pytest.mark.parametrize("split", ["train", "test"])
def test_calculator_notes_are_right_and_the_last_one_is_the_answer(split: str) -> None:
    for row in rows(f"gsm8k/{split}.jsonl"):
        *steps, last = row["answer"].split("\n")
        notes = [note for step in steps for note in NOTE.findall(step)]
        assert len(notes) == len(steps), "one note a step"
        for expression, result, shown in notes:
            assert value(expression) == int(result), row
            assert int(shown.replace(",", "")) == int(result), row
        assert last == f"#### {int(notes[-1][1]):,}"


def test_two_answers_have_a_thousands_comma_and_one_is_negative() -> None:
    answers = [
        row["answer"].split("#### ")[1]
        for split in ("train", "test")
        for row in rows(f"gsm8k/{split}.jsonl")
    ]
    assert sum("," in answer for answer in answers) == 2
    assert sum(answer.startswith("-") for answer in answers) == 1


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_third_of_the_word_problems_takes_one_step_and_a_third_takes_three_or_more(
    split: str,
) -> None:
    steps = [row["answer"].count("<<") for row in rows(f"gsm8k/{split}.jsonl")]
    assert (steps.count(1), steps.count(2)) == (11, 11)
    assert max(steps) <= 5


def test_no_word_problem_appears_twice_in_any_split() -> None:
    questions = [
        row["question"]
        for name in ("gsm8k/train.jsonl", "gsm8k/test.jsonl", "gsm_symbolic/test.jsonl")
        for row in rows(name)
    ]
    assert len(set(questions)) == len(questions)


def test_a_count_of_one_is_never_followed_by_a_plural() -> None:
    for name in ("gsm8k/train.jsonl", "gsm8k/test.jsonl", "gsm_symbolic/test.jsonl"):
        for row in rows(name):
            assert not re.search(r"(?<![\d,])1 [a-z]+s\b", row["question"] + row["answer"]), row


def test_symbolic_templates_have_four_instances_and_point_at_their_original() -> None:
    symbolic = rows("gsm_symbolic/test.jsonl")
    originals = rows("gsm8k/test.jsonl")
    assert [(row["id"], row["instance"]) for row in symbolic] == [
        (template, instance) for template in range(16) for instance in range(4)
    ]
    for row in symbolic:
        original = originals[row["original_id"]]
        assert row["original_question"] == original["question"]
        assert row["original_answer"] == re.sub(r"<<.*?>>", "", original["answer"])


def test_symbolic_answers_have_no_notes_and_end_with_their_last_result() -> None:
    for row in rows("gsm_symbolic/test.jsonl"):
        *steps, last = row["answer"].split("\n")
        assert "<<" not in row["answer"]
        for step in steps:
            left, right = re.search(r"([\d,*/+ -]+) = \$?([\d,]*\d)", step).groups()  # type: ignore[union-attr]
            assert value(re.sub("[ ,]", "", left)) == int(right.replace(",", "")), row
        assert last == f"#### {right}"


def test_no_exercise_is_in_both_splits() -> None:
    problems = [
        row["problem"] for split in ("train", "test") for row in rows(f"math/{split}.jsonl")
    ]
    assert len(set(problems)) == len(problems)


def test_math_answers_are_the_last_boxed_of_their_solutions() -> None:
    for row in rows("math/test.jsonl"):
        assert row["answer"] == last_boxed(row["solution"])
    for row in rows("math/train.jsonl"):
        assert last_boxed(row["solution"])


def test_latex_is_balanced() -> None:
    for name in ("math/train.jsonl", "math/test.jsonl"):
        for row in rows(name):
            for text in (row["problem"], row["solution"]):
                assert text.count("$") % 2 == 0
                assert text.count("{") == text.count("}")
                assert "@" not in text


def test_math_has_all_subjects_and_levels_and_a_third_at_level_one() -> None:
    test, train = rows("math/test.jsonl"), rows("math/train.jsonl")
    assert {row["subject"] for row in test} == {row["type"] for row in train}
    assert len({row["subject"] for row in test}) == 7
    assert Counter(row["level"] for row in test) == {1: 11, 2: 6, 3: 7, 4: 5, 5: 3}
    assert sorted(row["level"] for row in train) == sorted(f"Level {row['level']}" for row in test)
    assert len({row["unique_id"] for row in test}) == len(test)


RECBOLE = {
    "movielens": (
        "user_id:token\titem_id:token\trating:float\ttimestamp:float",
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tgenre:token_seq",
    ),
    "amazon_games": (
        "user_id:token\titem_id:token\ttimestamp:float",
        "item_id:token\ttitle:token_seq",
    ),
}


@pytest.mark.parametrize("task", RECBOLE)
def test_histories_are_in_time_order_and_long_enough(task: str) -> None:
    header, lines = table(f"{task}/{task}.inter")
    item_header, items = table(f"{task}/{task}.item")
    assert (header, item_header) == RECBOLE[task]
    known = {item[0] for item in items}
    assert len(known) == len(items)
    histories: dict[str, list[list[str]]] = {}
    for line in lines:
        histories.setdefault(line[0], []).append(line)
    assert len(histories) == 64
    for history in histories.values():
        ids, times = [line[1] for line in history], [int(line[-1]) for line in history]
        assert 21 <= len(history) <= 24
        assert set(ids) <= known and len(set(ids)) == len(ids)
        assert times == sorted(set(times))


def test_the_target_is_usually_of_a_genre_that_the_user_met_often() -> None:
    genres = {row[0]: row[3] for row in table("movielens/movielens.item")[1]}
    histories: dict[str, list[str]] = {}
    for user, item, *_ in table("movielens/movielens.inter")[1]:
        histories.setdefault(user, []).append(genres[item])
    hits = sum(
        history[20] in dict(Counter(history[:20]).most_common(2)) for history in histories.values()
    )
    assert 0.6 <= hits / len(histories) <= 0.85


def test_nobody_meets_a_sequel_before_its_predecessor() -> None:
    titles = {row[0]: row[1] for row in table("movielens/movielens.item")[1]}
    met: set[tuple[str, str]] = set()
    for user, item, *_ in table("movielens/movielens.inter")[1]:
        name, _, part = titles[item].partition(", Part ")
        if part in ("2", "3"):
            assert (user, f"{name}, Part {int(part) - 1}") in met
        met.add((user, titles[item]))


def test_film_titles_are_distinct_and_some_games_repeat_or_hold_html_entities() -> None:
    films = [row[1] for row in table("movielens/movielens.item")[1]]
    games = [row[1] for row in table("amazon_games/amazon_games.item")[1]]
    assert len(set(films)) == len(films) == 240
    assert len(games) - len(set(games)) == 4
    assert sum("&amp;" in title for title in games) >= 5
    assert any("&quot;" in title for title in games) and any("&#39;" in title for title in games)
