"""Rows of HumanEval+ and MBPP+."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from expbench import suites
from expbench.core import Task
from expbench.data import Row
from expbench.errors import DataError
from expbench.suites import TaskData
from expbench.tasks import humaneval_plus, mbpp_plus
from expbench.tasks.code_tests import SLOW_TIMEOUT_S, TIMEOUT_S, called_function
from expbench.tasks.humaneval_plus import TASK as HUMANEVAL
from expbench.tasks.mbpp_plus import TASK as MBPP


def load(folder: Path, task: Task, **splits: Sequence[Mapping[str, Any]]) -> TaskData:
    place = folder / task.name
    place.mkdir(exist_ok=True)
    for split, rows in splits.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return suites.load(task, data_dir=folder)


def humaneval(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": f"def f{number}(x):\n",
        "canonical_solution": "    return x\n",
        "entry_point": f"f{number}",
        "test": "def check(candidate):\n    assert candidate(1) == 1\n",
        **changes,
    }


def mbpp(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "task_id": number,
        "prompt": f"Write function {number}.",
        "code": f"def f{number}(x):\r\n  return x",
        "test_imports": [],
        "test_list": [f"assert set(f{number}([1])) == {{1}}", "assert True"],
        "test": f"for i in range(3):\r\n    assert f{number}(i) == i\r\n",
        **changes,
    }


def test_half_of_the_problems_are_train(tmp_path: Path) -> None:
    data = load(tmp_path, HUMANEVAL, test=[humaneval(n) for n in range(20)])
    assert (len(data.train), len(data.test)) == (10, 10)


def test_the_broken_test_is_repaired_with_a_note_and_only_there(tmp_path: Path) -> None:
    broken = f"def check(candidate):\n    for inp in []:\n        {humaneval_plus.BROKEN}\n"
    rows = [humaneval(32, test=broken), humaneval(33, test=broken)]
    data = load(tmp_path, HUMANEVAL, test=rows)
    tests = {sample.id: sample.metadata["test"] for sample in data.train + data.test}
    assert humaneval_plus.REPAIRED in tests["HumanEval/32"]
    assert humaneval_plus.BROKEN not in tests["HumanEval/32"]
    assert tests["HumanEval/33"] == broken
    assert humaneval_plus.REPAIR_NOTE in data.notes


def test_slow_problems_get_more_time(tmp_path: Path) -> None:
    data = load(tmp_path, HUMANEVAL, test=[humaneval(n) for n in (14, 15, 130, 139)])
    limits = {sample.id: sample.metadata["timeout_s"] for sample in data.train + data.test}
    assert limits.pop("HumanEval/14") == TIMEOUT_S
    assert set(limits.values()) == {SLOW_TIMEOUT_S}
    numbers = [2, *map(int, mbpp_plus.SLOW)]
    data = load(tmp_path, MBPP, train=[mbpp(601)], test=[mbpp(n) for n in numbers])
    limits = {sample.id: sample.metadata["timeout_s"] for sample in data.test}
    assert limits.pop("2") == TIMEOUT_S
    assert set(limits.values()) == {SLOW_TIMEOUT_S}


def test_a_published_test_that_never_asserts_gets_its_assert_back(tmp_path: Path) -> None:
    published = (
        "def assertion(out, exp, atol):\n"
        "    if isinstance(out, bool):\n"
        "        exact_match = out == exp\n"
        "    else:\n"
        "        exact_match = exp == (out is not None)\n"
        "\n\n"
        "for i in range(3):\n"
        "    assertion(f2(i), True, 0)\n"
    )
    data = load(tmp_path, MBPP, train=[mbpp(601)], test=[mbpp(2, test=published)])
    script = data.test[0].metadata["test"]
    assert "(out is not None)\n    assert exact_match\n" in script
    assert mbpp_plus.REPAIR_NOTE in data.notes
    names: dict[str, object] = {"f2": lambda i: "" if i else None}
    with pytest.raises(AssertionError):
        exec(script, names)  # noqa: S102 - the test above


def test_mbpp_shows_the_sentence_and_the_first_test(tmp_path: Path) -> None:
    sample = load(tmp_path, MBPP, train=[mbpp(601)], test=[mbpp(2)]).test[0]
    assert "Write function 2." in sample.prompt
    assert "assert set(f2([1])) == {1}" in sample.prompt
    assert "range(3)" not in sample.prompt
    assert sample.metadata["entry_point"] == "f2"
    assert "\r" not in sample.target[0] + sample.metadata["test"]


def test_rows_of_the_original_mbpp_are_read_too(tmp_path: Path) -> None:
    row = {key: value for key, value in mbpp(601).items() if key not in ("prompt", "test")}
    row |= {"text": "Write function 601.", "test_setup_code": "import math"}
    sample = load(tmp_path, MBPP, train=[row], test=[mbpp(2)]).train[0]
    assert sample.metadata["test"].splitlines() == ["import math", *row["test_list"]]


def test_ids_of_mbpp_plus_are_taken_out_of_train(tmp_path: Path) -> None:
    data = load(tmp_path, MBPP, train=[mbpp(2), mbpp(601)], test=[mbpp(2)])
    assert [sample.id for sample in data.train] == ["601"]


@pytest.mark.parametrize(
    ("code", "test", "name"),
    [
        ("class Pair: pass\ndef longest(x): return x", "assert longest([Pair()]) == 1", "longest"),
        ("def a(x): return x\ndef b(x): return a(x)", "assert b(a(1)) == 1", "b"),
        ("def f(x): return x", "assert (max(f([3])) == 3)", "f"),
        ("def f(x): return '\\d'", "assert f(1) == 1", "f"),
    ],
)
def test_the_function_under_test_is_the_outermost_call(code: str, test: str, name: str) -> None:
    assert called_function(Row({}, "x", 1), code, test) == name


@pytest.mark.parametrize(
    ("code", "test", "said"),
    [
        ("def f(x): return x", "assert g(1) == 1", "calls none of the functions ['f']"),
        ("def f(x) return x", "assert f(1) == 1", "not valid Python"),
        ("def f(x): return x", "assert f(1", "not valid Python"),
    ],
)
def test_a_problem_whose_function_is_unknown_names_the_row(code: str, test: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        called_function(Row({}, "x.jsonl", 9), code, test)
    assert "x.jsonl, line 9" in str(caught.value)
    assert said in str(caught.value)


def test_an_empty_test_list_names_the_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"test\.jsonl, line 1: field 'test_list' is empty"):
        load(tmp_path, MBPP, train=[mbpp(601)], test=[mbpp(2, test_list=[])])
