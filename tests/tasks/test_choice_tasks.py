"""Rows of the five choice tasks, one trap each."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from expbench import suites
from expbench.core import Task
from expbench.errors import DataError
from expbench.suites import TaskData
from expbench.tasks.arc_challenge import TASK as ARC
from expbench.tasks.commonsense_qa import TASK as CSQA
from expbench.tasks.gpqa_diamond import TASK as GPQA
from expbench.tasks.mmlu import TASK as MMLU
from expbench.tasks.openbookqa import TASK as OBQA


def load(folder: Path, task: Task, **splits: Sequence[Mapping[str, Any]]) -> TaskData:
    place = folder / task.name
    place.mkdir(exist_ok=True)
    for split, rows in splits.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return suites.load(task, data_dir=folder)


def arc(name: str, **changes: Any) -> dict[str, Any]:
    choices = {"text": ["honey", "glass", "salt"], "label": ["A", "B", "C"]}
    return {"id": name, "question": f"Q {name}", "choices": choices, "answerKey": "B", **changes}


def mmlu(question: str, **changes: Any) -> dict[str, Any]:
    row = {"question": question, "subject": "law", "choices": ["a", "b", "c", "d"], "answer": 2}
    return {**row, **changes}


def gpqa(name: str, **changes: Any) -> dict[str, Any]:
    row = {"Record ID": name, "Question": f"Q {name}?\n", "Correct Answer": "right\n"}
    return {**row, **{f"Incorrect Answer {n}": f"wrong {n}" for n in (1, 2, 3)}, **changes}


def test_numeric_labels_are_keys_and_are_shown(tmp_path: Path) -> None:
    choices = {"text": ["w", "x", "y", "z"], "label": ["1", "2", "3", "4"]}
    test = [arc("b", choices=choices, answerKey="3")]
    sample = load(tmp_path, ARC, train=[arc("a")], test=test).test[0]
    assert sample.labels.index(sample.target[0]) == 2
    assert "\n3. y\n" in sample.prompt
    assert "and its number" in sample.prompt


def test_a_key_outside_the_labels_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: the key is 'E'"):
        load(tmp_path, ARC, train=[arc("a"), arc("b", answerKey="E")], test=[arc("c")])


def test_a_repeated_id_is_an_error_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 3: id 'a' was used before in .*line 1"):
        load(tmp_path, ARC, train=[arc("a"), arc("b"), arc("a")], test=[arc("c")])


def test_a_renamed_field_is_an_error_that_lists_the_fields(tmp_path: Path) -> None:
    rows = [{"id": "a", "question": "q", "choices": {}, "answerKey": "A"}]
    with pytest.raises(DataError, match=r"'question_stem' is missing.*id, question, choices"):
        load(tmp_path, OBQA, train=rows, test=rows)


def test_equal_choice_texts_are_told_apart_by_label(tmp_path: Path) -> None:
    choices = {"label": list("ABCDE"), "text": ["x", "y", "x", "z", "w"]}
    rows = [arc("a", choices=choices, answerKey="C")]
    sample = load(tmp_path, CSQA, train=[arc("t")], validation=rows).test[0]
    assert sample.target == ("C",)
    assert sample.choices[0] == sample.choices[2]


def test_mmlu_trains_on_validation_and_dev(tmp_path: Path) -> None:
    data = load(tmp_path, MMLU, validation=[mmlu("v")], dev=[mmlu("d")], test=[mmlu("t")])
    assert {sample.input for sample in data.train} == {"v", "d"}
    assert data.test[0].target == ("C",)
    assert data.test[0].tags == {"subject": "law"}


def test_mmlu_counts_a_repeated_question_once_and_says_so(tmp_path: Path) -> None:
    test = [mmlu("t"), mmlu(" t "), mmlu("t", subject="physics"), mmlu("t", choices=list("wxyz"))]
    data = load(tmp_path, MMLU, validation=[mmlu("v")], dev=[mmlu("d")], test=test)
    assert len(data.test) == 3
    assert any(said.startswith("1 rows of test repeat") for said in data.notes)


def test_mmlu_drops_questions_whose_repeats_contradict_each_other(tmp_path: Path) -> None:
    test = [mmlu("t"), mmlu("t", answer=1), mmlu("u")]
    data = load(tmp_path, MMLU, validation=[mmlu("v")], dev=[mmlu("d")], test=test)
    assert [sample.input for sample in data.test] == ["u"]
    assert any("1 questions whose repeats contradict" in said for said in data.notes)


def test_mmlu_keeps_the_text_none_and_drops_null(tmp_path: Path) -> None:
    test = [mmlu("t", choices=["None", "b", None, "d"], answer=3)]
    data = load(tmp_path, MMLU, validation=[mmlu("v")], dev=[mmlu("d")], test=test)
    sample = data.test[0]
    assert sample.choices == ("None", "b", "d")
    assert sample.labels == ("A", "B", "D")
    assert sample.target == ("D",)
    assert sample.prompt.count("None") == 1


@pytest.mark.parametrize("answer", [4, -1, "C", None, 1.5, True])
def test_mmlu_refuses_an_answer_that_is_no_position(tmp_path: Path, answer: Any) -> None:
    with pytest.raises(DataError, match=r"test\.jsonl, line 1"):
        load(
            tmp_path,
            MMLU,
            validation=[mmlu("v")],
            dev=[mmlu("d")],
            test=[mmlu("t", answer=answer)],
        )


def test_gpqa_options_are_shuffled_for_each_question_alone(tmp_path: Path) -> None:
    rows = [gpqa(f"r{number}") for number in range(200)]
    data = load(tmp_path, GPQA, train=rows)
    both = data.train + data.test
    counts = Counter(sample.target[0] for sample in both)
    assert all(0.12 <= counts[label] / 200 <= 0.38 for label in "ABCD")
    assert all(s.choices[s.labels.index(s.target[0])] == "right" for s in both)
    alone = load(tmp_path, GPQA, train=rows[5:9])
    order = {sample.id: sample.choices for sample in both}
    assert all(order[s.id] == s.choices for s in alone.train + alone.test)
    assert (len(data.train), len(data.test)) == (100, 100)


def test_gpqa_refuses_two_equal_answers(tmp_path: Path) -> None:
    rows = [gpqa("a"), gpqa("b", **{"Incorrect Answer 2": "right"})]
    with pytest.raises(DataError, match="line 2: two of the answers are the same text"):
        load(tmp_path, GPQA, train=rows)


def test_gpqa_without_record_ids_gets_ids_from_the_question(tmp_path: Path) -> None:
    rows = [{k: v for k, v in gpqa(n).items() if k != "Record ID"} for n in "ab"]
    first = load(tmp_path, GPQA, train=rows)
    again = load(tmp_path, GPQA, train=rows[::-1])
    assert first.test == again.test
