"""The contract, run over every method that the registry finds, with the fake model."""

import copy
import itertools
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expbench.config import build_config
from expbench.core import Experience, Output, Prompt, Question, Sample
from expbench.errors import PluginError
from expbench.grading import grade_one
from expbench.models import load_model
from expbench.presets import get_preset
from expbench.registry import MethodInfo, get_method, method_names, select_tasks
from expbench.suites import TaskData, load

METHODS = method_names()


@cache
def data_of(name: str) -> TaskData:
    return load(select_tasks(name)[0], suite="mini", train_limit=8, test_limit=4)


@cache
def pool_of(name: str) -> tuple[Experience, ...]:
    """Gold answers and one failure: a pool in which every learner finds something."""
    task = select_tasks(name)[0]
    entries = []
    for index, sample in enumerate(data_of(name).train):
        text = "" if index == 0 else f"Answer: {sample.target[0]}"
        score = grade_one(task.grade, sample, Output(text=text)) if task.kind != "code" else None
        if score is None or isinstance(score, str):
            continue
        entries.append(Experience(sample=sample, output=text, score=score, summary=text))
    return tuple(entries)


def built(info: MethodInfo, *, seed: int = 1) -> Any:
    """Build a method with the smallest budget, on a model with weights where it needs them."""
    known = {field.name for field in fields(info.cls.Config)}
    budget = {k: v for k, v in get_preset("smoke").settings.items() if k in known}
    config = build_config(info.cls.Config, budget, method=info.name)
    model = load_model("tiny" if info.needs_weights else "fake") if info.uses_model else None
    return info.cls(config, model, seed)


def fitted(info: MethodInfo, task: str, *, seed: int = 1, pool: bool = True) -> Any:
    data = data_of(task)
    method = built(info, seed=seed)
    method.fit(data.train, pool_of(task) if pool else (), lambda sample, output: 0.0)
    return method


def questions_of(task: str) -> list[Question]:
    """Return questions with a limit that a model with weights reaches quickly."""
    return [replace(sample.question(), max_tokens=16) for sample in data_of(task).test]


PAIRS = [
    (name, task.name)
    for name, task in itertools.product(METHODS, select_tasks("all"))
    if task.kind in get_method(name).kinds
]


def home(name: str, *wished: str) -> str:
    """Return the first wished task that a method answers, else the first task that it answers."""
    answered = [task for method, task in PAIRS if method == name]
    return next((task for task in wished if task in answered), answered[0])


@pytest.mark.parametrize(("name", "task"), PAIRS)
def test_every_question_gets_one_output_in_order(name: str, task: str) -> None:
    info = get_method(name)
    questions = questions_of(task)
    outputs = fitted(info, task).answer(questions)
    assert len(outputs) == len(questions)
    assert all(isinstance(output, Output) for output in outputs)
    # Learning again for every question is only affordable where nothing is trained.
    method = fitted(info, task) if info.needs_weights else None
    alone = [(method or fitted(info, task)).answer([question])[0] for question in questions]
    assert [o.text for o in alone] == [o.text for o in outputs]
    assert [o.ranking for o in alone] == [o.ranking for o in outputs]


@pytest.mark.parametrize(("name", "task"), PAIRS)
def test_same_seed_same_answers_and_inputs_stay_as_they_are(name: str, task: str) -> None:
    info = get_method(name)
    questions = questions_of(task)
    before = copy.deepcopy((questions, data_of(task).train, pool_of(task)))
    first = fitted(info, task).answer(questions)
    assert fitted(info, task).answer(questions) == first
    assert (questions, data_of(task).train, pool_of(task)) == before


@pytest.mark.parametrize("name", METHODS)
def test_no_questions_no_experience_and_one_question_work(name: str) -> None:
    task = home(name, "mmlu")
    method = fitted(get_method(name), task, pool=False)
    assert method.answer([]) == []
    assert len(method.answer(questions_of(task)[:1])) == 1


@pytest.mark.parametrize("name", METHODS)
def test_strange_and_very_long_questions_are_answered(name: str) -> None:
    info = get_method(name)
    task = home(name, "mmlu")
    method = fitted(info, task)
    base = questions_of(task)[0]
    # What does not fit a model's context is refused, never cut.
    long = "word " * (300 if info.needs_weights else 20_000)
    texts = ["", "\x00\ud7ff\u202e \N{PILE OF POO}", long, "<|im_end|>"]
    strange = [replace(base, id=f"odd-{i}", input=t, prompt=t) for i, t in enumerate(texts)]
    assert len(method.answer(strange)) == len(texts)


@pytest.mark.parametrize("name", METHODS)
def test_the_meter_is_honest(name: str) -> None:
    """Count again what the method put to the model and what came back."""
    info = get_method(name)
    if not info.uses_model:
        task = home(name, "gsm8k")
        outputs = fitted(info, task).answer(questions_of(task))
        assert all(output.segments == () for output in outputs)
        return
    if info.needs_weights:
        model = load_model("tiny")
        questions = questions_of("gsm8k")
        outputs = fitted(info, "gsm8k").answer(questions)
        for question, output in zip(questions, outputs, strict=True):
            rendered = model.render(Prompt(question=question))  # type: ignore[attr-defined]
            assert output.tokens("prompt") == len(rendered.ids)
            assert info.uses_experience or output.tokens("retrieved") == 0
            assert 1 <= output.tokens("generated") <= question.max_tokens
        return
    seen: list[Prompt] = []
    written: list[Output] = []
    method = fitted(info, "gsm8k")
    generate = method.model.generate

    def watch(prompts: Sequence[Prompt], **options: Any) -> list[Output]:
        found: list[Output] = generate(prompts, **options)
        seen.extend(prompts)
        written.extend(found)
        return found

    method.model.generate = watch
    outputs = method.answer(questions_of("gsm8k"))
    for role in ("prompt", "retrieved", "generated"):
        assert sum(o.tokens(role) for o in outputs) == sum(o.tokens(role) for o in written)
    added = any(p.context or p.shots for p in seen)
    assert added == any(output.tokens("retrieved") for output in outputs)


@pytest.mark.parametrize("name", METHODS)
def test_another_method_cannot_be_imported_and_the_folder_documents_itself(name: str) -> None:
    info = get_method(name)
    assert info.summary.endswith(".")
    assert info.version >= 1
    asdict(info.cls.Config())


@pytest.mark.parametrize("name", METHODS)
def test_what_is_saved_answers_the_same_after_loading(name: str, tmp_path: Path) -> None:
    info = get_method(name)
    task = home(name, "gsm8k")
    method = fitted(info, task)
    if not (hasattr(method, "save") and hasattr(method, "load")):
        pytest.skip(f"{name} keeps no checkpoint: it learns anew in no time")
    method.save(tmp_path)
    again = built(info)
    again.load(tmp_path)
    questions = questions_of(task)
    assert again.answer(questions) == method.answer(questions)


def test_few_shot_shows_k_successes_and_says_when_there_are_fewer() -> None:
    info = get_method("few_shot")
    for k, shown in ((0, 0), (2, 2), (50, 7)):
        method = info.cls(info.cls.Config(k=k), load_model("fake"), 1)
        method.fit(data_of("gsm8k").train, pool_of("gsm8k"), lambda s, o: 0.0)
        assert len(method.shots) == shown
        assert bool(method.notes) == (shown < k)
    wins = {e.sample.prompt for e in pool_of("gsm8k") if e.score.value == 1}
    assert {user for user, _ in method.shots} == wins


def test_majority_gives_the_most_frequent_label_per_property() -> None:
    info = get_method("majority")
    method = fitted(info, "chem_tdc")
    train: Sequence[Sample] = data_of("chem_tdc").train
    for question, output in zip(
        questions_of("chem_tdc"), method.answer(questions_of("chem_tdc")), strict=True
    ):
        labels = [
            s.target[0] for s in train
            if s.features["property"] == question.features["property"]
        ]  # fmt: skip
        best = max(sorted(set(labels), key=lambda x: x), key=labels.count, default=None)
        assert output.text == (f"Answer: {best}" if best else "")


def test_a_method_that_does_not_exist_is_a_clear_error() -> None:
    with pytest.raises(Exception, match="No method named"):
        get_method("nothing")
    assert issubclass(PluginError, ImportError)
