"""Real rows of eleven tasks: every row loads, its gold answer scores 1 and a wrong one 0.

Needs a folder of real subsets in the Hub's field names, named by EXPBENCH_REAL_DATA.
"""

import importlib
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expbench import suites
from expbench.core import Output, Sample, Task
from expbench.data.draws import normalised
from expbench.errors import MissingData
from expbench.grading import grade_all
from expbench.suites import TaskData

AVAILABLE = {
    "gsm8k": (1500, 1319),
    "gsm_symbolic": (750, 750),
    "mmlu": (1809, 1480),
    "commonsense_qa": (1500, 1221),
    "openbookqa": (1496, 500),
    "arc_challenge": (1113, 1172),
    "humaneval_plus": (82, 82),
    "mbpp_plus": (266, 378),
    "amazon_games": (180, 181),
}
"""Samples a split: rows minus exact repeats and train questions that the test split asks."""
GRADED = ("gsm8k", "gsm_symbolic", "mmlu", "commonsense_qa", "openbookqa", "arc_challenge")


def task(name: str) -> Task:
    found: Task = importlib.import_module(f"expbench.tasks.{name}").TASK
    return found


@cache
def loaded(name: str, folder: Path) -> TaskData:
    return suites.load(task(name), data_dir=folder)


def samples(name: str, folder: Path) -> tuple[Sample, ...]:
    data = loaded(name, folder)
    return data.train + data.test


def raw(folder: Path, name: str, *splits: str) -> Iterator[dict[str, Any]]:
    """Rows by plain `json`, apart from our reader."""
    for split in splits:
        with (folder / name / f"{split}.jsonl").open(encoding="utf-8", newline="\n") as stream:
            yield from map(json.loads, stream)


def values(name: str, pairs: list[tuple[Sample, Output]]) -> list[float]:
    scores = grade_all(task(name).grade, pairs)
    broken = [score for score in scores if isinstance(score, str)]
    assert not broken, broken[:3]
    return [score.value for score in scores if not isinstance(score, str)]


def wrong(sample: Sample) -> str:
    if sample.kind == "choice":
        return f"Answer: {next(label for label in sample.labels if label not in sample.target)}"
    if sample.kind == "chem":
        return f"Answer: {'No' if sample.target[0] == 'Yes' else 'Yes'}"
    if sample.kind == "ranking":
        position = int(sample.target[0])
        return ", ".join(str(i + 1) for i in range(len(sample.candidates)) if i != position)
    return f"\\boxed{{{float(sample.target[0]) + 1}}}"


def nothing(sample: Sample) -> str:
    return f"def {sample.metadata['entry_point']}(*values, **named):\n    return None\n"


@pytest.mark.parametrize("name", AVAILABLE)
def test_every_row_is_a_sample(name: str, real_data: Path) -> None:
    data = loaded(name, real_data)
    assert (len(data.train), len(data.test)) == AVAILABLE[name]


@pytest.mark.parametrize("name", [*GRADED, "amazon_games"])
def test_gold_scores_one_and_a_wrong_answer_zero_on_every_fourth_row(
    name: str, real_data: Path
) -> None:
    found = samples(name, real_data)[::4]  # all of them in the slow lane
    gold = [(sample, Output(text=task(name).gold(sample))) for sample in found]
    assert set(values(name, gold)) == {1.0}
    assert set(values(name, [(sample, Output(text=wrong(sample))) for sample in found])) == {0.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GRADED, "amazon_games", "chem_tdc"])
def test_gold_scores_one_and_a_wrong_answer_zero_on_every_row(name: str, real_data: Path) -> None:
    found = samples(name, real_data)
    gold = [(sample, Output(text=task(name).gold(sample))) for sample in found]
    assert set(values(name, gold)) == {1.0}
    assert set(values(name, [(sample, Output(text=wrong(sample))) for sample in found])) == {0.0}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["humaneval_plus", "mbpp_plus"])
def test_every_canonical_program_passes_its_own_tests_and_an_empty_one_does_not(
    name: str, real_data: Path
) -> None:
    found = samples(name, real_data)
    ids = [sample.id for sample in found]
    gold = [(sample, Output(text=task(name).gold(sample))) for sample in found]
    assert [i for i, value in zip(ids, values(name, gold), strict=True) if value != 1.0] == []
    empty = [(sample, Output(text=nothing(sample))) for sample in found]
    assert [i for i, value in zip(ids, values(name, empty), strict=True) if value != 0.0] == []


def test_questions_of_both_splits_are_never_the_same(real_data: Path) -> None:
    for name in AVAILABLE:
        data = loaded(name, real_data)
        sides = [{normalised(s.input) for s in split} for split in (data.train, data.test)]
        assert not sides[0] & sides[1], name


def test_gsm8k_keys_lose_their_commas_and_keep_their_sign(real_data: Path) -> None:
    targets = [sample.target[0] for sample in loaded("gsm8k", real_data).test]
    assert not any("," in target for target in targets)
    assert sum(target.startswith("-") for target in targets) == 2
    commas = [r for r in raw(real_data, "gsm8k", "test") if "," in r["answer"].split("####")[1]]
    assert len(commas) == 14


def test_decimals_of_gsm_symbolic_are_kept(real_data: Path) -> None:
    targets = [sample.target[0] for sample in samples("gsm_symbolic", real_data)]
    assert sum("." in target for target in targets) == 60
    assert len(loaded("gsm_symbolic", real_data).test) == 25 * 30


def test_the_choice_none_stays_a_text(real_data: Path) -> None:
    shown = [s for s in samples("mmlu", real_data) if "None" in s.choices]
    assert shown
    assert all(". None" in sample.prompt for sample in shown)


def test_no_choice_is_lost_or_renamed(real_data: Path) -> None:
    rows = {row["id"]: row for row in raw(real_data, "arc_challenge", "train", "test")}
    for sample in samples("arc_challenge", real_data):
        row = rows[sample.id]
        assert list(sample.labels) == row["choices"]["label"]
        assert list(sample.choices) == row["choices"]["text"]
        assert sample.target == (row["answerKey"],)
    numeric = [s for s in loaded("arc_challenge", real_data).test if "1" in s.labels]
    assert len(numeric) == 22
    assert {len(s.labels) for s in samples("arc_challenge", real_data)} == {3, 4, 5}


def test_repeated_choice_texts_are_scored_by_label(real_data: Path) -> None:
    grade = task("commonsense_qa").grade
    repeated = [
        s
        for s in samples("commonsense_qa", real_data)
        if Counter(s.choices)[s.choices[s.labels.index(s.target[0])]] > 1
    ]
    assert len(repeated) == 15
    for sample in repeated:
        right = sample.choices[sample.labels.index(sample.target[0])]
        other = next(
            label
            for label, text in zip(sample.labels, sample.choices, strict=True)
            if text == right and label not in sample.target
        )
        assert grade(sample, Output(text=f"Answer: {other}")).value == 0.0


def test_rows_with_other_line_separators_stay_whole(real_data: Path) -> None:
    for name in AVAILABLE:
        if name != "amazon_games":
            files = (real_data / name).glob("*.jsonl")
            lines = sum(path.read_bytes().count(b"\n") for path in files)
            assert len(samples(name, real_data)) <= lines


def test_tests_of_code_are_not_shown(real_data: Path) -> None:
    for name in ("humaneval_plus", "mbpp_plus"):
        for sample in samples(name, real_data):
            assert len(sample.prompt) < 8000
            assert str(sample.metadata["test"])[-60:] not in sample.prompt


def test_mbpp_programs_have_plain_line_ends_and_named_functions(real_data: Path) -> None:
    for sample in samples("mbpp_plus", real_data):
        assert "\r" not in sample.target[0]
        assert f"def {sample.metadata['entry_point']}" in sample.target[0].replace("  ", " ")
    assert "root" in next(
        str(s.metadata["test"]) for s in samples("mbpp_plus", real_data) if s.id == "927"
    )


def test_the_repair_of_humaneval_32_is_in_the_notes(real_data: Path) -> None:
    assert any("HumanEval/32" in said for said in loaded("humaneval_plus", real_data).notes)


def test_games_have_distinct_readable_titles(real_data: Path) -> None:
    for sample in samples("amazon_games", real_data):
        assert len(set(sample.candidates)) == 20
        assert not any("&amp;" in title or "&#39;" in title for title in sample.candidates)
        assert len(sample.prompt) < 40 * 140 + 400


def test_the_synthetic_movielens_is_refused_in_one_sentence(real_data: Path) -> None:
    with pytest.raises(MissingData, match="No user of movielens has 21 interactions"):
        loaded("movielens", real_data)


@pytest.mark.parametrize("name", ["math", "gpqa_diamond"])
def test_tasks_that_are_not_there_say_what_is_expected(name: str, real_data: Path) -> None:
    with pytest.raises(MissingData, match=rf"Task '{name}' needs the file .*\.jsonl in "):
        loaded(name, real_data)


def test_molecules_of_all_files_are_split_by_scaffold(real_data: Path) -> None:
    from expbench.molecules import scaffold

    data = loaded("chem_tdc", real_data)
    rows = list(raw(real_data, "chem_tdc", "train", "validation", "test"))
    assert sum(row["Drug_ID"] is None for row in rows) == 15
    assert len(data.train) + len(data.test) == len(rows) - 6
    assert any("2 questions whose repeats contradict" in said for said in data.notes)
    sides = [{scaffold(s.features["smiles"]) for s in split} for split in (data.train, data.test)]
    assert not sides[0] & sides[1]
    assert len({s.tags["property"] for s in data.test}) == 8
    gold = [(s, Output(text=task("chem_tdc").gold(s))) for s in data.test[::5]]
    assert set(values("chem_tdc", gold)) == {1.0}
