"""Suites: drawing, checking and what the record says."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expbench import suites
from expbench.core import Kind, Rows, Sample, Split, Task
from expbench.data import note
from expbench.errors import ConfigError, DataError, MissingData
from expbench.tasks.arc_challenge import TASK as ARC
from expbench.tasks.gpqa_diamond import TASK as GPQA
from expbench.tasks.gsm8k import TASK as GSM8K


def with_samples(task: Task, **splits: Sequence[Sample]) -> Task:
    def load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
        note(rows, "Said by the task.")
        return {"train": splits["train"], "test": splits["test"]}

    return replace(task, load=load)


def math_sample(name: str, **changes: Any) -> Sample:
    known = {"id": name, "task": "", "kind": "math", "input": f"Problem {name}", "target": ("1",)}
    return Sample(**{**known, **changes})


def some(prefix: str, count: int) -> list[Sample]:
    return [math_sample(f"{prefix}{number}") for number in range(count)]


def complaint(task: Task, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        suites.load(task, **options)
    return str(caught.value)


@given(st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=30, deadline=None)
def test_a_smaller_limit_is_a_prefix_of_a_larger_one(first: int, second: int) -> None:
    small, large = sorted([first, second], key=lambda limit: limit or 1000)
    few = suites.load(GPQA, train_limit=small, test_limit=small)
    many = suites.load(GPQA, train_limit=large, test_limit=large)
    assert few.test == many.test[: len(few.test)]
    assert few.train == many.train[: len(few.train)]
    assert len(few.test) == min(small or 1000, few.sizes["test"]["available"])


def test_limits_of_one_split_do_not_touch_the_other() -> None:
    assert suites.load(GPQA, train_limit=3).test == suites.load(GPQA, train_limit=9).test


def test_the_draw_does_not_depend_on_the_order_of_rows() -> None:
    train, test = some("a", 9), some("b", 9)
    one = suites.load(with_samples(GSM8K, train=train, test=test), test_limit=4)
    other = suites.load(with_samples(GSM8K, train=train[::-1], test=test[::-1]), test_limit=4)
    assert one.test == other.test
    assert one.checksums == other.checksums


def test_the_draw_of_train_and_test_is_not_the_order_of_the_file() -> None:
    data = suites.load(with_samples(GSM8K, train=some("a", 30), test=some("b", 30)))
    assert [sample.id for sample in data.test] != [f"b{number}" for number in range(30)]


def test_everything_the_task_fixes_is_filled_in() -> None:
    task = replace(with_samples(GSM8K, train=some("a", 1), test=some("b", 1)), stop=("Q:",))
    sample = suites.load(task).test[0]
    assert (sample.task, sample.kind, sample.stop) == ("gsm8k", "math", ("Q:",))
    assert sample.max_tokens == task.max_tokens
    assert sample.prompt == task.prompt(sample.question())


def test_questions_of_the_test_split_are_dropped_from_train_and_counted() -> None:
    train = [
        math_sample("a", input="What  is 2 + 2 ?"),
        math_sample("t"),
        math_sample("b", input="What is 2 - 2?"),
    ]
    test = [math_sample("t", input="What is 2 + 2?")]
    data = suites.load(with_samples(GSM8K, train=train, test=test))
    assert [sample.id for sample in data.train] == ["b"]
    assert data.notes[0] == "Said by the task."
    assert data.notes[1].startswith("2 of 3 train samples")


def test_molecules_that_differ_in_case_are_different() -> None:
    def molecule(name: str, smiles: str) -> Sample:
        return math_sample(name, kind="chem", input=f"Toxic?\nSMILES: {smiles}", target=("No",))

    task = replace(GSM8K, kind="chem")
    split = {"train": [molecule("a", "c1ccccc1")], "test": [molecule("b", "C1CCCCC1")]}
    assert len(suites.load(with_samples(task, **split)).train) == 1


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("math", {"target": ()}, "target is empty"),
        ("math", {"target": ("",)}, "target is empty"),
        ("math", {"input": " \n"}, "question is empty"),
        ("math", {"id": ""}, "id is empty"),
        ("choice", {"labels": ("A", "B"), "choices": ("x",)}, "2 labels for 1 choices"),
        ("choice", {"labels": ("A", "A"), "choices": ("x", "y"), "target": ("A",)}, "repeat"),
        ("choice", {"labels": ("A", "B"), "choices": ("x", "y")}, "key ['1'] is not among"),
        ("ranking", {"candidates": ("x", "x")}, "same title"),
        ("ranking", {"candidates": ("x",)}, "true item ['1'] is not among the candidates"),
        ("chem", {"target": ("yes",)}, "not Yes or No"),
        ("code", {"metadata": {"test": "t"}}, "'entry_point'"),
    ],
)
def test_a_sample_that_cannot_be_graded_is_refused(
    kind: Kind, changes: Mapping[str, Any], said: str
) -> None:
    task = replace(GSM8K, kind=kind)
    bad = [math_sample("bad", **changes)]
    message = complaint(with_samples(task, train=bad, test=some("a", 1)))
    assert said in message
    assert "'gsm8k'" in message
    assert "Correct the row" in message


def test_an_empty_prompt_is_refused() -> None:
    task = replace(with_samples(GSM8K, train=some("a", 1), test=some("b", 1)), prompt=lambda _: "")
    assert "the prompt is empty" in complaint(task)


def test_repeated_ids_and_empty_splits_are_refused() -> None:
    twice = [math_sample("x"), math_sample("x", input="other")]
    assert "'x'" in complaint(with_samples(GSM8K, train=some("a", 1), test=twice))
    assert "no sample in split 'train'" in complaint(
        with_samples(GSM8K, train=[], test=some("a", 1))
    )
    assert "no sample in split 'train'" in complaint(
        with_samples(GSM8K, train=some("a", 1), test=some("a", 1))
    )


def test_an_unknown_suite_and_a_negative_limit_are_refused() -> None:
    with pytest.raises(ConfigError, match="No suite named 'maxi'"):
        suites.load(GSM8K, suite="maxi")
    with pytest.raises(ConfigError, match=r"0 .all. or more"):
        suites.load(GSM8K, test_limit=-1)


def longer(value: Any) -> Any:
    return (*value, "x") if isinstance(value, tuple) else value + "x"


def test_the_checksum_covers_every_field_of_a_sample() -> None:
    sample = suites.load(ARC, test_limit=1).test[0]
    known = suites.samples_checksum([sample])
    changed: dict[str, Callable[[Any], Any]] = {
        "max_tokens": lambda value: value + 1,
        "features": lambda value: {"x": 1},
        "metadata": lambda value: {"x": 1},
        "tags": lambda value: {"x": "1"},
    }
    for field in fields(Sample):
        turn = changed.get(field.name, longer)
        other = replace(sample, **{field.name: turn(getattr(sample, field.name))})
        assert suites.samples_checksum([other]) != known, field.name


def test_the_record_of_a_folder_names_suite_files_and_sizes(tmp_path: Path) -> None:
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    for split, count in (("train", 3), ("test", 5)):
        rows = [{"question": f"{split} {n}?", "answer": f"#### {n}"} for n in range(count)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    data = suites.load(GSM8K, suite="full", data_dir=tmp_path, test_limit=2)
    assert data.suite == "dir"
    assert data.revision is None
    assert data.sizes == {
        "train": {"available": 3, "drawn": 3},
        "test": {"available": 5, "drawn": 2},
    }
    assert sorted(data.files) == ["test.jsonl", "train.jsonl"]
    spec = data.spec()
    assert json.loads(json.dumps(spec)) == spec
    with pytest.raises(MissingData):
        suites.load(ARC, data_dir=tmp_path)
