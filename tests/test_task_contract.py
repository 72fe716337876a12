"""What every task must keep, over every task that a scan finds: sizes, splits, gold, prompts."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path

import pytest

import expbench.tasks
from expbench import suites
from expbench.core import KINDS, Output, Question, Sample, Score, Task
from expbench.data import lock, status
from expbench.data.draws import normalised
from expbench.suites import TaskData

OFFICIAL = {
    "mmlu": "qa",
    "commonsense_qa": "qa",
    "openbookqa": "qa",
    "arc_challenge": "qa",
    "gpqa_diamond": "qa",
    "gsm8k": "reasoning",
    "gsm_symbolic": "reasoning",
    "math": "reasoning",
    "humaneval_plus": "coding",
    "mbpp_plus": "coding",
    "chem_tdc": "chem",
    "movielens": "rec",
    "amazon_games": "rec",
}
"""The thirteen tasks and their groups."""
MINI_SIZE = {"choice": 24, "code": 16, "math": 32, "chem": 32, "ranking": 32}
METRIC = {
    "qa": "accuracy",
    "reasoning": "exact match",
    "coding": "pass@1",
    "chem": "accuracy",
    "rec": "NDCG@10",
}


def found() -> list[Task]:
    tasks = []
    for module in pkgutil.iter_modules(expbench.tasks.__path__):
        text = (Path(expbench.tasks.__path__[0]) / f"{module.name}.py").read_text("utf-8")
        if "\nTASK = " in text:
            tasks.append(importlib.import_module(f"expbench.tasks.{module.name}").TASK)
    return tasks


TASKS = found()
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: str(task.name))


@cache
def mini(name: str) -> TaskData:
    return suites.load(next(task for task in TASKS if task.name == name))


def samples(task: Task) -> tuple[Sample, ...]:
    return mini(task.name).train + mini(task.name).test


def grade(task: Task, sample: Sample, text: str) -> Score:
    return task.grade(sample, Output(text=text))


def wrong_answer(sample: Sample) -> str:
    """A reply in the right form with another answer."""
    match sample.kind:
        case "choice":
            return f"Answer: {next(k for k in sample.labels if k not in sample.target)}"
        case "chem":
            return f"Answer: {'No' if sample.target[0] == 'Yes' else 'Yes'}"
        case "math":
            return "The answer is \\boxed{-987654321.25}."
        case "ranking":
            position = int(sample.target[0])
            others = [i for i in range(len(sample.candidates)) if i != position]
            return ", ".join(str(i + 1) for i in others[:10])
        case "code":
            return (
                f"```python\ndef {sample.metadata['entry_point']}(*given):\n    return given\n```"
            )


def test_the_thirteen_tasks_are_found_with_their_groups() -> None:
    assert {task.name: task.group for task in TASKS} == OFFICIAL


def test_importing_all_tasks_is_light() -> None:
    code = (
        "import importlib, json, sys, time\n"
        "start = time.perf_counter()\n"
        f"for name in {sorted(OFFICIAL)!r}:\n"
        "    importlib.import_module('expbench.tasks.' + name)\n"
        "heavy = {'torch', 'datasets', 'rdkit', 'numpy', 'pandas', 'math_verify', 'transformers'}\n"
        "print(json.dumps([time.perf_counter() - start, sorted(heavy & set(sys.modules))]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    seconds, heavy = json.loads(answer.stdout)
    assert heavy == []
    assert seconds < 1.0  # 0.1 s on an idle core


@every_task
def test_the_module_opens_with_source_and_an_example_row(task: Task) -> None:
    module = importlib.import_module(f"expbench.tasks.{task.name}")
    assert module.__doc__ is not None
    assert "https://" in module.__doc__
    assert "invented" in module.__doc__
    assert task.version >= 1
    assert task.title and task.source.licence and task.source.paper


@every_task
def test_metric_kind_and_limits_are_declared(task: Task) -> None:
    assert task.kind in KINDS
    assert task.metric == METRIC[task.group]
    assert 32 <= task.max_tokens <= 1024
    assert task.macro_over == ("property" if task.name == "chem_tdc" else "")


@every_task
def test_the_official_source_is_pinned_and_has_its_entries_in_the_lock(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPBENCH_CACHE", str(tmp_path))
    sources = status(task)
    assert sources
    for source in sources:
        assert source.state == "missing"
        assert source.key in lock.committed()
        if source.key.startswith("hub://"):
            assert source.revision is not None and len(source.revision) == 40


def test_every_bundled_file_is_in_the_lock_and_nothing_else() -> None:
    folder = Path(str(importlib.resources.files("expbench"))) / "mini"
    files = {
        f"mini/{path.parent.name}/{path.name}"
        for path in folder.glob("*/*.*")
        if path.suffix in (".jsonl", ".inter", ".item")
    }
    assert files == {key for key in lock.committed() if key.startswith("mini/")}


@every_task
def test_the_mini_suite_has_the_documented_sizes(task: Task) -> None:
    data = mini(task.name)
    size = MINI_SIZE[task.kind]
    assert (len(data.train), len(data.test)) == (size, size)
    assert data.suite == "mini"
    assert data.files
    assert not any("dropped" in said for said in data.notes)


@every_task
def test_ids_are_unique_and_splits_are_disjoint(task: Task) -> None:
    data = mini(task.name)
    ids = [sample.id for sample in samples(task)]
    assert len(set(ids)) == len(ids)
    assert all(sample.id.strip() == sample.id != "" for sample in samples(task))
    fold: Callable[[str], str] = str if task.kind == "chem" else normalised
    assert not {fold(s.input) for s in data.train} & {fold(s.input) for s in data.test}


@every_task
def test_the_gold_answer_scores_one_and_others_score_zero(task: Task) -> None:
    chosen: Sequence[Sample] = samples(task)
    for sample in chosen[:4] if task.kind == "code" else chosen:
        assert grade(task, sample, task.gold(sample)).value == 1.0, sample.id
        assert grade(task, sample, "").value == 0.0, sample.id
        assert grade(task, sample, wrong_answer(sample)).value == 0.0, sample.id


@every_task
@pytest.mark.slow
def test_every_gold_program_passes_its_tests(task: Task) -> None:
    if task.kind != "code":
        pytest.skip("the default lane grades every sample of this task")
    for sample in samples(task):
        score = grade(task, sample, task.gold(sample))
        assert score.value == 1.0, (sample.id, score.explanation)


@every_task
def test_the_prompt_holds_everything_that_is_needed(task: Task) -> None:
    for sample in samples(task):
        for part in (*sample.choices, *sample.candidates):
            assert part in sample.prompt
        if task.kind != "code":
            assert sample.input.strip() in sample.prompt
        form = {
            "choice": '"Answer: " and its ',
            "chem": "`Answer: Yes` or `Answer: No`",
            "math": "\\boxed{",
            "code": "```python",
            "ranking": "best first",
        }
        assert form[task.kind] in sample.prompt
        if task.kind == "code":
            assert sample.metadata["entry_point"] in sample.prompt
        if task.kind == "chem":
            assert sample.input.split("SMILES: ")[1] in sample.prompt
        if task.kind == "choice":
            for label, choice in zip(sample.labels, sample.choices, strict=True):
                assert f"\n{label}. {choice}\n" in f"{sample.prompt}\n"


@every_task
def test_a_question_holds_no_target_anywhere(task: Task) -> None:
    for sample in samples(task):
        marked = replace(sample, target=("TARGET-MARK",), metadata={"test": "TARGET-MARK"})
        seen = json.dumps(asdict(marked.question()), default=str)
        assert "TARGET-MARK" not in seen
        assert {field.name for field in fields(marked.question())} == {
            field.name for field in fields(Question)
        }
        shown = json.dumps(asdict(sample.question()), default=str)
        if task.kind == "code":
            hidden = str(sample.metadata["test"]).strip().splitlines()[-1]
            assert hidden not in sample.prompt
            body = sample.target[0].removeprefix(str(sample.metadata["prompt"])).strip()
            assert json.dumps(body)[1:-1] not in shown


@every_task
def test_prompts_do_not_depend_on_the_target(task: Task) -> None:
    for sample in samples(task):
        other = replace(sample, target=("something else",), metadata={}, tags={})
        assert task.prompt(other.question()) == sample.prompt


@every_task
def test_right_answers_are_spread_over_labels_and_positions(task: Task) -> None:
    if task.kind not in ("choice", "chem", "ranking"):
        pytest.skip("free answers have no positions")
    for split in (mini(task.name).train, mini(task.name).test):
        counts = Counter(sample.target[0] for sample in split)
        limit = {"choice": 0.4, "chem": 0.7, "ranking": 0.25}[task.kind]
        assert max(counts.values()) <= limit * len(split)


@every_task
def test_loading_twice_gives_the_same_samples(task: Task) -> None:
    again = suites.load(task)
    assert again.checksums == mini(task.name).checksums
    assert again.test == mini(task.name).test


@every_task
def test_a_limit_gives_a_prefix_and_changes_no_sample(task: Task) -> None:
    data = mini(task.name)
    for limit in (1, 5, 11):
        few = suites.load(task, train_limit=limit, test_limit=limit)
        assert few.test == data.test[:limit]
        assert few.train == data.train[:limit]
        assert few.sizes["test"] == {"available": len(data.test), "drawn": limit}


@every_task
def test_ranking_samples_are_twenty_against_a_history_of_twenty(task: Task) -> None:
    if task.kind != "ranking":
        pytest.skip("not a ranking task")
    for sample in samples(task):
        features = sample.features
        assert len(sample.candidates) == len(set(sample.candidates)) == 20
        assert len(features["candidate_ids"]) == len(set(features["candidate_ids"])) == 20
        assert len(features["history"]) == len(features["history_ids"]) == 20
        assert not set(features["history_ids"]) & set(features["candidate_ids"])
        assert not set(features["history"]) & set(sample.candidates)
        assert features["user"] == sample.tags["user"]
    users = [
        {s.tags["user"] for s in split} for split in (mini(task.name).train, mini(task.name).test)
    ]
    assert not users[0] & users[1]
