"""Checkpoints: made once, shared by all that learn the same, resumed, guarded, never guessed."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expbench import fitting, jobs
from expbench.checkpoints import Checkpoint
from expbench.core import Kind, Output, RunSpec, Sample, Score, Task
from expbench.courses import Lesson, prepare
from expbench.errors import (
    ConfigError,
    DataError,
    GradingError,
    MissingData,
    PluginError,
    RecordError,
)
from expbench.fitting import learn
from expbench.presets import get_preset
from expbench.records import RunFolder
from expbench.registry import get_method, get_task
from expbench.report.rows import label_methods, read_row
from expbench.report.tables import boards
from expbench.runner import Job, execute
from tests.toy import CountingModel, Echo, Silent, info_of, toy_data, toy_job, toy_task
from tests.trainee import Trainee, TraineeConfig

ROOT = Path(__file__).parent.parent
TOY = Lesson(task=toy_task(), data=toy_data())
OTHER = Lesson(task=toy_task(name="other"), data=toy_data(task="other"))


def job_of(out: Path, lesson: Lesson = TOY, **changes: Any) -> Job:
    """Build a job whose method learns from both tasks."""
    mixed: dict[str, Any] = {
        "config": TraineeConfig(),
        "task": lesson.task,
        "data": lesson.data,
        "lessons": (TOY, OTHER),
    }
    return toy_job(out, Trainee, **{**mixed, **changes})


def run(job: Job, model: CountingModel | None = None, **options: Any) -> RunFolder:
    backbone = model or CountingModel()
    return execute(job, lambda: backbone, Silent(), **options)


def checkpoints(out: Path) -> list[Checkpoint]:
    found = (path for path in (out / "checkpoints").iterdir() if path.name[0] != ".")
    return [Checkpoint(path) for path in sorted(found)]


def log(out: Path) -> list[Mapping[str, Any]]:
    [checkpoint] = checkpoints(out)
    return [json.loads(line) for line in checkpoint.log.read_text().splitlines()]


def test_all_tasks_of_a_mix_share_one_training_and_learn_from_all_of_it(tmp_path: Path) -> None:
    first, second = run(job_of(tmp_path)), run(job_of(tmp_path, OTHER))
    assert first.run_id != second.run_id
    [checkpoint] = checkpoints(tmp_path)
    assert [line["step"] for line in log(tmp_path)] == [1, 2, 3]
    learnt = json.loads((checkpoint.learnt / "learnt.json").read_text())
    assert len(learnt["samples"]) == 16
    assert {name.split("/")[0] for name in learnt["samples"]} == {"toy", "other"}
    assert learnt["experience"] == 16
    for folder in (first, second):
        training = folder.info["training"]
        assert training["key"] == folder.info["spec"]["training"]["key"]
        assert training["cost"] == {"steps": 3, "prompt_tokens": 30, "generated_tokens": 5}
        assert training["tasks"] == ["other", "toy"]
        assert training["seconds"] > 0
        assert folder.info["notes"] == ["Learnt in steps."]
        assert folder.info["spec"]["pool"] is None
        assert "pool" not in folder.info


def test_what_is_asked_for_beside_a_task_does_not_move_its_run_id(tmp_path: Path) -> None:
    preset = get_preset("smoke")
    ids = []
    for number, names in enumerate((["gsm8k"], ["gsm8k", "movielens", "mmlu"])):
        todo = planned([get_task(name) for name in names], tmp_path / str(number), preset=preset)
        [job] = [job for job in todo.jobs if job.task.name == "gsm8k"]
        ids.append(run(job).run_id)
    assert ids[0] == ids[1]


def planned(tasks: list[Task], out: Path, cls: type[Any] = Trainee, **changes: Any) -> jobs.Plan:
    kinds: tuple[Kind, ...] = ("math", "choice", "chem", "ranking")
    options: dict[str, Any] = {
        "preset": get_preset("smoke"), "suite": "mini", "data_dir": None, "seeds": (1,),
        "settings": {}, "limits": {"train": 4, "test": 2, "pool": 2}, "out": out,
        "skip_missing": False,
    }  # fmt: skip
    method = replace(info_of(cls), kinds=kinds)
    return jobs.plan(tasks, [method], **{**options, **changes})


def test_a_plan_learns_a_scenario_together_and_each_course_once(tmp_path: Path) -> None:
    names = ("gsm8k", "mmlu", "movielens", "chem_tdc")
    todo = planned([get_task(name) for name in names], tmp_path)
    assert [course.scope for course in todo.courses] == [
        "general", "recommendation", "pharma-chemistry"
    ]  # fmt: skip
    general = [lesson.task.name for lesson in todo.courses[0].lessons]
    assert {"gsm8k", "math", "mmlu"} < set(general)
    assert not {"humaneval_plus", "movielens"} & set(general)
    alone = planned([get_task("gsm8k")], tmp_path, settings={"mix": "task"})
    assert [x.task.name for x in alone.courses[0].lessons] == ["gsm8k"]


def test_a_task_that_is_not_there_is_not_learnt_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "gsm8k"
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        rows = [{"question": f"{split} {i}+1?", "answer": f"#### {i + 1}"} for i in range(3)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    todo = planned([get_task("gsm8k")], tmp_path, data_dir=tmp_path / "data")
    assert [x.task.name for x in todo.jobs[0].course.lessons] == ["gsm8k"]
    assert "mmlu" in todo.unlearnt
    assert "learning mmlu" in todo.left_out
    with pytest.raises(MissingData):
        planned([get_task("mmlu")], tmp_path, data_dir=tmp_path / "data")


def test_settings_of_answering_share_the_checkpoint_and_make_runs_of_their_own(
    tmp_path: Path,
) -> None:
    runs = [
        run(job_of(tmp_path, config=TraineeConfig(control=control)))
        for control in ("none", "empty", "shuffled")
    ]
    assert len({folder.run_id for folder in runs}) == 3
    assert len(checkpoints(tmp_path)) == 1
    assert len(log(tmp_path)) == 3
    scores = [read_row(folder).score for folder in runs]
    assert scores == [1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"config": TraineeConfig(steps=2)},
        {"lessons": (TOY,)},
        {"lessons": (TOY, replace(OTHER, task=toy_task(name="other", version=2)))},
        {"lessons": (TOY, replace(OTHER, data=toy_data(train=7, task="other")))},
        {"limits": {"train": 0, "test": 0, "pool": 2}},
        {"method": replace(info_of(Trainee), version=2)},
    ],
    ids=["seed", "steps", "tasks", "task version", "train samples", "pool", "method version"],
)
def test_everything_that_decides_what_is_learnt_makes_another_checkpoint(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    runs = [run(job_of(tmp_path)), run(job_of(tmp_path, **change))]
    assert len(checkpoints(tmp_path)) == 2
    assert len({folder.info["training"]["key"] for folder in runs}) == 2
    assert len({folder.run_id for folder in runs}) == 2


def test_another_backbone_makes_another_checkpoint(tmp_path: Path) -> None:
    run(job_of(tmp_path))
    run(job_of(tmp_path), CountingModel(fingerprint="1" * 64))
    assert len(checkpoints(tmp_path)) == 2


def _run_in_child(out: Path, dies_at: str) -> None:
    os.environ["TRAINEE_DIES_AT"] = dies_at
    run(job_of(out))


def child(target: Callable[..., None], *args: Any) -> Any:
    process = multiprocessing.get_context("fork").Process(target=target, args=args)
    process.start()
    return process


def test_a_training_killed_in_the_middle_goes_on_where_it_stopped(tmp_path: Path) -> None:
    killed = child(_run_in_child, tmp_path, "2")
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    [checkpoint] = checkpoints(tmp_path)
    assert not checkpoint.is_complete()
    with pytest.raises(RecordError, match="no finished checkpoint"):
        checkpoint.verify()
    folder = run(job_of(tmp_path))
    lines = log(tmp_path)
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert [line["process"] == os.getpid() for line in lines] == [False, False, True]
    assert len(checkpoint.info["sessions"]) == 2
    assert folder.run_id == run(job_of(tmp_path / "undisturbed")).run_id


def test_the_time_of_a_killed_training_is_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "SAVE_EVERY_S", 0.0)
    child(_run_in_child, tmp_path, "2").join(60)
    [checkpoint] = checkpoints(tmp_path)
    first = checkpoint.info["sessions"][0]["seconds"]
    assert first > 0
    folder = run(job_of(tmp_path))
    second = checkpoint.info["sessions"][1]["seconds"]
    assert folder.info["training"]["seconds"] == pytest.approx(first + second)


def test_what_a_killed_training_goes_on_from_is_removed_when_nothing_needs_it(
    tmp_path: Path,
) -> None:
    class Heavy(Trainee):
        def fit(self, train: Any, experience: Any, reward: Any) -> None:
            super().fit(train, experience, reward)
            assert self.workbench is not None
            (self.workbench.folder / "state").mkdir()

    run(job_of(tmp_path, method=info_of(Heavy)))
    [checkpoint] = checkpoints(tmp_path)
    assert not (checkpoint.path / "state").exists()
    checkpoint.verify()


def test_a_method_is_told_to_a_person_while_it_learns(tmp_path: Path) -> None:
    said: list[str] = []

    class Watched(Silent):
        def stage(self, label: str, total: int) -> None:
            said.append(f"{label} of {total}")

        def advance(self, count: int) -> None:
            said.append(f"+{count}")

    execute(job_of(tmp_path), CountingModel, Watched())
    start = said.index("general / trainee / seed 1: learning (steps) of 3")
    assert said[start + 1 : start + 4] == ["+1", "+1", "+1"]
    assert said[start + 4] == "toy / trainee / seed 1: answering of 8"


def test_of_two_processes_one_trains_and_the_other_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINEE_SLEEPS", "0.5")
    first = child(_run_in_child, tmp_path, "none")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("checkpoints/*/train.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    said: list[str] = []

    class Watched(Silent):
        def stage(self, label: str, total: int) -> None:
            said.append(label)

    execute(job_of(tmp_path, OTHER), CountingModel, Watched())
    first.join(60)
    assert first.exitcode == 0
    assert "general / trainee / seed 1: waiting for another process that trains this method" in said
    assert not any("learning" in label for label in said)
    assert [line["step"] for line in log(tmp_path)] == [1, 2, 3]
    assert {line["process"] for line in log(tmp_path)} == {first.pid}


def test_a_finished_training_is_loaded_and_not_repeated(tmp_path: Path) -> None:
    folder = run(job_of(tmp_path))
    run(job_of(tmp_path), force=True)
    assert (tmp_path / f"{folder.run_id}.old1").exists()
    assert len(log(tmp_path)) == 3


def damaged(tmp_path: Path, how: Callable[[Checkpoint], Any]) -> Job:
    run(job_of(tmp_path))
    [checkpoint] = checkpoints(tmp_path)
    how(checkpoint)
    return job_of(tmp_path, OTHER)


@pytest.mark.parametrize(
    "how",
    [
        lambda c: (c.learnt / "learnt.json").write_text('{"steps": 3}'),
        lambda c: (c.learnt / "learnt.json").unlink(),
        lambda c: (c.path / "fit.json").write_text('{"schema": 1'),
        lambda c: (c.path / "fit.json").write_text('{"schema": 1}'),
    ],
    ids=["changed", "missing", "cut", "empty"],
)
def test_a_damaged_checkpoint_is_one_clear_error(
    tmp_path: Path, how: Callable[[Checkpoint], Any]
) -> None:
    job = damaged(tmp_path, how)
    with pytest.raises(RecordError, match=r"Checkpoint .* is damaged .*remove the folder"):
        run(job)


def test_a_checkpoint_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    job = damaged(tmp_path, lambda c: (c.path / "fit.json").write_text(
        '{"schema": 99, "training": {"key": "x"}}'
    ))  # fmt: skip
    with pytest.raises(RecordError, match="schema 99"):
        run(job)


def test_an_interrupted_save_is_not_taken_for_a_checkpoint(tmp_path: Path) -> None:
    run(job_of(tmp_path))
    [checkpoint] = checkpoints(tmp_path)
    (checkpoint.path / "COMPLETE").unlink()
    (checkpoint.learnt / "learnt.json").write_text("half")
    run(job_of(tmp_path, OTHER))
    checkpoint.verify()


@pytest.mark.parametrize("where", ["toy", "other"])
def test_a_test_sample_of_any_task_of_the_mix_is_refused_in_training(
    tmp_path: Path, where: str
) -> None:
    leak = replace(TOY.data.train[0], input=OTHER.data.test[0].input)
    lessons = (replace(TOY, data=replace(TOY.data, train=(leak,))), OTHER)
    lesson = lessons[0] if where == "toy" else OTHER
    with pytest.raises(DataError, match="same text"):
        run(job_of(tmp_path, lesson, lessons=lessons))


def test_the_bank_checks_itself_before_it_answers(tmp_path: Path) -> None:
    class Remembering(Trainee):
        def refuse_leaks(self, questions: Any) -> None:
            assert all(not hasattr(q, "target") for q in questions)
            raise DataError(f"{len(questions)} questions looked at")

    with pytest.raises(DataError, match="8 questions looked at"):
        run(job_of(tmp_path, method=info_of(Remembering)))


def test_the_reward_grades_each_sample_by_its_own_task(tmp_path: Path) -> None:
    def grade_half(sample: Sample, output: Output) -> Score:
        return Score(value=0.5, answer=output.text)

    other = replace(OTHER, task=toy_task(grade_half, name="other"))

    class Asking(Trainee):
        def fit(self, train: Any, experience: Any, reward: Any) -> None:
            super().fit(train, experience, reward)
            answers = {s.task: reward(s, Output(text=s.target[0])) for s in train}
            assert answers == {"toy": 1.0, "other": 0.5}
            with pytest.raises(PluginError, match="task 'third'"):
                reward(replace(train[0], task="third"), Output())

    run(job_of(tmp_path, method=info_of(Asking), lessons=(TOY, other)))


def test_a_method_that_mixes_must_keep_what_it_learnt(tmp_path: Path) -> None:
    class Forgetful(Echo):
        Config = TraineeConfig  # type: ignore[assignment]

    with pytest.raises(PluginError, match="must have `save` and `load`"):
        run(job_of(tmp_path, method=info_of(Forgetful)))


def test_a_later_process_of_a_distributed_training_learns_and_writes_no_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    course = job_of(tmp_path).course
    study = prepare(course, CountingModel(), Silent())
    learn(course, CountingModel(), study, Silent())
    [checkpoint] = checkpoints(tmp_path)
    assert len(log(tmp_path)) == 3
    assert not checkpoint.is_complete()
    assert not (checkpoint.path / "fit.json").exists()


def test_a_broken_grader_is_an_error_of_grading_and_not_a_reward(tmp_path: Path) -> None:
    def crash(sample: Sample, output: Output) -> Score:
        raise ZeroDivisionError("boom")

    broken = replace(TOY, task=toy_task(crash))

    class Asking(Trainee):
        uses_experience = False

    with pytest.raises(GradingError, match="ZeroDivisionError: boom"):
        run(job_of(tmp_path, method=info_of(Asking), lessons=(broken,)))


# A given checkpoint


def trained(tmp_path: Path, **changes: Any) -> Path:
    run(job_of(tmp_path / "a", **changes))
    return checkpoints(tmp_path / "a")[0].path


def third_task(**changes: Any) -> Lesson:
    return Lesson(task=toy_task(name="third"), data=toy_data(task="third"), **changes)


def test_a_checkpoint_answers_a_task_that_it_never_saw_and_learns_nothing(tmp_path: Path) -> None:
    path = trained(tmp_path)
    model = CountingModel()
    folder = run(job_of(tmp_path / "b", third_task(), lessons=(), checkpoint=path), model)
    assert model.asked == 0
    assert folder.info["spec"]["training"]["key"] == path.name.rpartition("-")[2]
    row = read_row(folder)
    assert row.score == 1.0
    assert label_methods([row]) == {row.run_id: "trainee from general"}


def test_answering_with_the_checkpoint_that_a_run_would_make_is_that_run(tmp_path: Path) -> None:
    path = trained(tmp_path)
    own = run(job_of(tmp_path / "a"))
    given = run(job_of(tmp_path / "b", lessons=(), checkpoint=path))
    assert own.run_id == given.run_id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": replace(info_of(Trainee), version=2)}, "another method version"),
        ({"method": replace(info_of(Trainee), name="other")}, "another method "),
        ({"seed": 2}, "another seed"),
        ({"config": TraineeConfig(steps=9)}, "another settings"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = trained(tmp_path)
    with pytest.raises(ConfigError, match=said):
        run(job_of(tmp_path / "b", lessons=(), checkpoint=path, **change))


def test_a_checkpoint_of_another_backbone_is_refused(tmp_path: Path) -> None:
    path = trained(tmp_path)
    job = job_of(tmp_path / "b", lessons=(), checkpoint=path)
    with pytest.raises(ConfigError, match="another backbone"):
        run(job, CountingModel(fingerprint="1" * 64))


def test_a_checkpoint_is_not_asked_what_it_learnt_from(tmp_path: Path) -> None:
    path = trained(tmp_path)
    third = third_task()
    leak = replace(third.data.test[3], input=OTHER.data.train[2].input)
    data = replace(third.data, test=(*third.data.test[:3], leak))
    with pytest.raises(DataError, match=r"'test-3' of third was learnt from as 'other/train-2'"):
        run(job_of(tmp_path / "b", third, data=data, lessons=(), checkpoint=path))


def test_the_settings_of_a_given_checkpoint_are_its_own(tmp_path: Path) -> None:
    path = trained(tmp_path, config=TraineeConfig(steps=2))
    task = [get_task("gsm8k")]
    todo = planned(task, tmp_path, checkpoint=path, settings={"control": "empty"})
    assert todo.jobs[0].config == TraineeConfig(steps=2, control="empty")
    assert todo.jobs[0].lessons == ()
    with pytest.raises(ConfigError, match=r"made with steps=2; --set steps"):
        planned(task, tmp_path, checkpoint=path, settings={"steps": "5"})
    with pytest.raises(RecordError, match="no checkpoint in"):
        planned(task, tmp_path, checkpoint=tmp_path / "nowhere")


# Presets and plans


def test_a_presets_settings_fill_in_where_a_config_has_the_field(tmp_path: Path) -> None:
    task = [get_task("gsm8k")]
    assert planned(task, tmp_path).jobs[0].config.steps == 1
    assert planned(task, tmp_path, settings={"steps": "7"}).jobs[0].config.steps == 7
    assert planned(task, tmp_path, preset=get_preset("paper")).jobs[0].config.steps == 3
    plain = planned(task, tmp_path, Echo)
    assert plain.jobs[0].config == Echo.Config()


def test_a_method_that_needs_weights_is_declined_without_them(tmp_path: Path) -> None:
    class Heavy(Trainee):
        needs_weights = True

    task = [get_task("gsm8k")]
    todo = planned(task, tmp_path, Heavy, model="fake")
    assert todo.jobs == ()
    assert "--model tiny" in todo.declined["heavy/gsm8k"]
    assert len(planned(task, tmp_path, Heavy, model="tiny").jobs) == 1


# What must not have moved


class Recorded(CountingModel):
    """Describes itself as the backbone of a committed run."""

    def __init__(self, backbone: Mapping[str, str]) -> None:
        super().__init__(name=backbone["name"], fingerprint=backbone["fingerprint"])
        self.dtype, self.device = backbone["dtype"], backbone["device"]


COMMITTED = sorted((ROOT / "results" / "submissions").glob("*/*/run.json"))


def test_committed_runs_keep_their_ids() -> None:
    assert COMMITTED
    for path in COMMITTED:
        info = json.loads(path.read_text())
        assert RunSpec(**info["spec"]).run_id == info["run_id"] == path.parent.name


@pytest.mark.parametrize("method", ["direct", "random", "majority"])
def test_todays_code_names_a_committed_run_as_it_was_named(tmp_path: Path, method: str) -> None:
    infos = [json.loads(path.read_text()) for path in COMMITTED]
    [info] = [
        x for x in infos
        if (x["spec"]["method"], x["spec"]["task"]) == (method, "openbookqa")
    ]  # fmt: skip
    preset = get_preset("laptop")
    todo = jobs.plan(
        [get_task("openbookqa")], [get_method(method)], preset=preset, suite="mini",
        data_dir=None, seeds=(1,), settings={}, out=tmp_path, skip_missing=False,
        # The limit that the preset had when these runs were made.
        limits={"train": preset.train_limit, "test": preset.test_limit, "pool": 32},
    )  # fmt: skip
    backbone = Recorded(info["spec"]["backbone"]) if info["spec"]["backbone"] else CountingModel()
    assert run(todo.jobs[0], backbone).run_id == info["run_id"]


# What the tables make of it


def test_a_shared_training_is_counted_once_and_apart_from_its_pools(tmp_path: Path) -> None:
    rows = [
        read_row(run(job_of(tmp_path, lesson, config=TraineeConfig(control=control))))
        for lesson in (TOY, OTHER)
        for control in ("none", "empty")
    ]
    [board] = boards(rows)
    cost = board.tables[1]
    assert cost.columns[1:] == ("trainee(control=empty)", "trainee(control=none)")
    lines = {str(row[0]): row[1:] for row in cost.rows}
    assert lines["tokens to learn"] == (35, 35)
    # Two tasks, eight attempts each, five tokens an attempt.
    assert lines["tokens to collect the pool"] == (80, 80)
    seconds = round(rows[0].training["seconds"], 1)
    assert lines["seconds to learn"] == (seconds, seconds)


def test_two_trainings_never_stand_in_one_cell(tmp_path: Path) -> None:
    pools = [
        read_row(run(job_of(tmp_path, limits={"train": 0, "test": 0, "pool": n}))) for n in (2, 4)
    ]
    assert sorted(label_methods(pools).values()) == ["trainee(pool 2)", "trainee(pool 4)"]
    given = trained(tmp_path, lessons=(OTHER,))
    transfer = read_row(run(job_of(tmp_path / "b", lessons=(), checkpoint=given)))
    own = read_row(run(job_of(tmp_path / "b")))
    labels = label_methods([own, transfer])
    assert labels[own.run_id] == "trainee"
    assert labels[transfer.run_id] == "trainee from general"
    again = replace(own, run_id="x", training={**own.training, "key": "feedbeef"})
    clash = label_methods([own, again])
    assert clash == {own.run_id: f"trainee #{own.training['key'][:4]}", "x": "trainee #feed"}
