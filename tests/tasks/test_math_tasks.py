"""Rows of GSM8K, GSM-Symbolic and MATH."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench import suites
from expbench.core import Task
from expbench.data import Row
from expbench.errors import DataError
from expbench.suites import TaskData
from expbench.tasks.gsm8k import TASK as GSM8K
from expbench.tasks.gsm8k import key_of
from expbench.tasks.gsm_symbolic import TASK as SYMBOLIC
from expbench.tasks.math import TASK as MATH
from expbench.tasks.math import last_boxed


def load(folder: Path, task: Task, **splits: Sequence[Mapping[str, Any]]) -> TaskData:
    place = folder / task.name
    place.mkdir(exist_ok=True)
    for split, rows in splits.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return suites.load(task, data_dir=folder)


def answer(text: object) -> Row:
    return Row({"answer": text}, "x.jsonl", 4)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("30,000+15,500 <<30000+15500=45500>>45500\n#### 45,500", "45500"),
        ("#### not yet\n#### -7", "-7"),
        ("so 45.0\n#### 45.0", "45.0"),
        ("####12\n", "12"),
    ],
)
def test_the_key_is_the_number_after_the_last_marker(text: str, key: str) -> None:
    assert key_of(answer(text)) == key


@pytest.mark.parametrize("text", ["12", "#### ", "#### twelve", "#### 1.2.3", "#### 3 apples", ""])
def test_an_answer_without_a_number_names_the_row(text: str) -> None:
    with pytest.raises(DataError, match=r"x\.jsonl, line 4: field 'answer' ends with .*remove"):
        key_of(answer(text))


def test_gsm8k_keeps_a_repeated_question_once(tmp_path: Path) -> None:
    rows = [{"question": f"Q{n}?", "answer": f"#### {n}"} for n in (1, 2, 1)]
    data = load(tmp_path, GSM8K, train=rows, test=[{"question": "T", "answer": "#### 1"}])
    assert len(data.train) == 2
    assert any("1 rows of train repeat" in said for said in data.notes)


def symbolic(template: int, instance: int) -> dict[str, Any]:
    return {
        "id": template,
        "instance": instance,
        "question": f"Q {template} {instance}",
        "answer": f"#### {instance}",
        "original_answer": "SECRET",
    }


def test_no_template_is_on_both_sides(tmp_path: Path) -> None:
    rows = [symbolic(template, n) for template in range(11) for n in range(4)]
    data = load(tmp_path, SYMBOLIC, test=rows)
    sides = [{s.tags["template"] for s in split} for split in (data.train, data.test)]
    assert not sides[0] & sides[1]
    assert (len(sides[0]), len(sides[1])) == (5, 6)
    assert "SECRET" not in repr(data)


def test_a_template_keeps_its_side_when_rows_are_added_to_it(tmp_path: Path) -> None:
    few = load(tmp_path, SYMBOLIC, test=[symbolic(t, 0) for t in range(10)])
    many = load(tmp_path, SYMBOLIC, test=[symbolic(t, n) for t in range(10) for n in range(3)])
    assert {s.tags["template"] for s in few.train} == {s.tags["template"] for s in many.train}


@pytest.mark.parametrize(
    ("solution", "key"),
    [
        (r"$\boxed{\frac{1}{2}}$", r"\frac{1}{2}"),
        (r"$\boxed{1}$ and then $\boxed{\{1, 2\}}$.", r"\{1, 2\}"),
        (r"\boxed{\text{(A)} }", r"\text{(A)}"),
        (r"\fbox{7}", "7"),
        (r"$\boxed 9$", "9"),
        (r"\boxed {x^{2^{y}}}", "x^{2^{y}}"),
        (r"\boxed{[0, 1)}", "[0, 1)"),
        (r"\boxed{\left\{ 3 \right.}", r"\left\{ 3 \right."),
        (r"no box", None),
        (r"\boxed{never closed", None),
        (r"\boxed{}", None),
        ("ends with \\boxed", None),
    ],
)
def test_the_key_of_a_solution_is_its_last_box(solution: str, key: str | None) -> None:
    assert last_boxed(solution) == key


@given(st.text("ab{}\\,^_ 12"), st.sampled_from(["{", "}", "\\"]))
def test_a_box_is_read_back_whenever_its_braces_match(inner: str, tail: str) -> None:
    depth, matched, escaped = 0, True, False
    for sign in inner:
        if escaped:
            escaped = False
        elif sign == "\\":
            escaped = True
        else:
            depth += {"{": 1, "}": -1}.get(sign, 0)
            matched = matched and depth >= 0
    if matched and depth == 0 and not escaped and inner.strip():
        assert last_boxed(f"x \\boxed{{{inner}}} {tail}") == inner.strip()


def train_problem(problem: str, solution: str = r"$\boxed{2}$") -> dict[str, Any]:
    return {"problem": problem, "level": "Level 2", "type": "Algebra", "solution": solution}


def math500(problem: str, number: int = 0) -> dict[str, Any]:
    return {
        "problem": problem,
        "solution": "s",
        "answer": r"(-\infty, 2)",
        "subject": "Algebra",
        "level": 3,
        "unique_id": f"test/algebra/{number}.json",
    }


def test_problems_of_math_500_are_taken_out_of_train(tmp_path: Path) -> None:
    train = [train_problem("Find  $x$."), train_problem("Find $y$."), train_problem("Find $y$.")]
    data = load(tmp_path, MATH, train=train, test=[math500("find $x$")])
    assert [sample.input for sample in data.train] == ["Find $y$."]
    assert "1 problems of MATH-500 were dropped from train." in data.notes
    assert data.test[0].target == (r"(-\infty, 2)",)
    assert data.test[0].tags == {"subject": "Algebra", "level": "Level 3"}
    assert data.train[0].tags == {"subject": "Algebra", "level": "Level 2"}


def test_a_solution_without_a_box_names_the_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: field 'solution'"):
        load(
            tmp_path,
            MATH,
            train=[train_problem("a"), train_problem("b", "It is 2.")],
            test=[math500("c")],
        )
