"""The runner: resume at any point, errors are errors, nothing leaks, two processes never mix."""

import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from expbench import runner
from expbench.core import Output, Question, Sample, Score
from expbench.errors import DataError, ExpBenchError, PluginError, RecordError
from expbench.experience.leaks import refuse_leaks
from expbench.records import RunFolder
from expbench.runner import execute, regrade
from tests.toy import (
    CountingModel,
    Echo,
    Silent,
    grade_exact,
    same_but_seconds,
    toy_data,
    toy_job,
    toy_task,
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CHUNK", 3)


def records_of(folder: RunFolder) -> list[Any]:
    return list(folder.records())


def run(job: Any, model: CountingModel | None = None, **options: Any) -> RunFolder:
    backbone = model or CountingModel()
    return execute(job, lambda: backbone, Silent(), **options)


def test_a_run_records_every_test_sample_once_in_order(tmp_path: Path) -> None:
    folder = run(toy_job(tmp_path))
    assert [r.sample_id for r in folder.records()] == [f"test-{i}" for i in range(8)]
    assert all(r.score is not None and r.score.value == 1 for r in folder.records())
    assert folder.is_complete()
    assert not (folder.path / "answers.jsonl").exists()


def test_a_finished_run_is_not_touched_again(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    folder = run(job)
    before = {p: p.stat().st_mtime_ns for p in folder.path.iterdir()}
    model = CountingModel()
    run(job, model)
    assert model.asked == 0
    assert {p: p.stat().st_mtime_ns for p in folder.path.iterdir()} == before


def test_force_keeps_the_old_run_and_computes_all_again(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    folder = run(job)
    model = CountingModel()
    run(job, model, force=True)
    assert model.asked == 8
    assert (tmp_path / f"{folder.run_id}.old1" / "records.jsonl").exists()


def test_a_grader_crash_is_an_error_in_the_denominator_and_never_a_zero(tmp_path: Path) -> None:
    def crash(sample: Sample, output: Output) -> Score:
        if sample.id == "test-4":
            raise ZeroDivisionError("boom")
        return grade_exact(sample, output)

    folder = run(toy_job(tmp_path, task=toy_task(crash)))
    broken = [r for r in folder.records() if r.error]
    assert [(r.sample_id, r.score, r.error) for r in broken] == [
        ("test-4", None, "ZeroDivisionError: boom")
    ]
    from expbench.report.rows import read_row

    row = read_row(folder)
    assert (row.samples, row.errors, row.score, row.is_ranked) == (8, 1, 7 / 8, False)


def test_regrade_mends_an_error_without_any_model(tmp_path: Path) -> None:
    def crash(sample: Sample, output: Output) -> Score:
        raise RuntimeError("not today")

    folder = run(toy_job(tmp_path, task=toy_task(crash)))
    result = regrade(folder, toy_task(), toy_data())
    assert (len(result.changed), result.errors) == (8, 0)
    assert all(r.score is not None for r in folder.records())
    assert regrade(folder, toy_task(), toy_data()).changed == ()


def test_regrade_on_other_samples_is_refused(tmp_path: Path) -> None:
    folder = run(toy_job(tmp_path))
    with pytest.raises(RecordError, match="other test samples"):
        regrade(folder, toy_task(), toy_data(test=7))


def test_a_grader_that_returns_no_score_is_an_error(tmp_path: Path) -> None:
    folder = run(toy_job(tmp_path, task=toy_task(lambda s, o: 1.0)))  # type: ignore[arg-type, return-value]
    assert all(r.error is not None and "not a Score" in r.error for r in folder.records())


class Short(Echo):
    def answer(self, questions: Sequence[Question]) -> list[Output]:
        return super().answer(questions)[:-1]


class Texts(Echo):
    def answer(self, questions: Sequence[Question]) -> list[Output]:
        return ["text" for _ in questions]  # type: ignore[misc]


@pytest.mark.parametrize(("cls", "said"), [(Short, "gave 2 outputs for 3"), (Texts, "'text'")])
def test_a_method_that_breaks_the_protocol_is_named(tmp_path: Path, cls: Any, said: str) -> None:
    with pytest.raises(PluginError, match=said):
        run(toy_job(tmp_path, cls))


class Greedy(Echo):
    seen: ClassVar[list[Any]] = []

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        Greedy.seen += questions
        return super().answer(questions)


def test_a_method_sees_questions_without_targets(tmp_path: Path) -> None:
    Greedy.seen = []
    run(toy_job(tmp_path, Greedy))
    assert len(Greedy.seen) == 8
    assert all(type(q) is Question for q in Greedy.seen)
    assert not any(hasattr(q, "target") or hasattr(q, "metadata") for q in Greedy.seen)


class Learner(Echo):
    uses_experience = True


def test_the_pool_is_collected_once_and_shared_by_methods(tmp_path: Path) -> None:
    model = CountingModel()
    run(toy_job(tmp_path, Learner), model)
    assert model.asked == 16

    class Other(Learner):
        pass

    folder = run(toy_job(tmp_path, Other), model)
    assert model.asked == 24
    assert folder.info["spec"]["pool"]
    assert folder.info["pool"] == {
        "tokens": 40, "seconds": folder.info["pool"]["seconds"], "entries": 8, "errors": 0
    }  # fmt: skip


def test_a_killed_collection_goes_on_and_gives_the_same_pool(tmp_path: Path) -> None:
    whole = run(toy_job(tmp_path / "a", Learner)).info["spec"]["pool"]
    run(toy_job(tmp_path / "b", Learner))
    path = next((tmp_path / "b" / "pools").glob("*.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:30])
    assert run(toy_job(tmp_path / "b", Learner)).info["spec"]["pool"] == whole
    assert len(path.read_bytes().splitlines()) == 8


@pytest.mark.parametrize("kind", ["id", "text"])
def test_a_test_sample_in_the_train_split_is_refused(tmp_path: Path, kind: str) -> None:
    data = toy_data()
    leak = replace(data.train[0], id=data.test[0].id)
    if kind == "text":
        leak = replace(data.train[0], input="  name TEST\u00a0number 0! ")
    with pytest.raises(DataError, match=f"same {kind}"):
        run(toy_job(tmp_path, data=replace(data, train=(leak, *data.train[1:]))))


def test_the_same_molecule_or_user_is_a_leak_but_another_property_is_not() -> None:
    def molecule(name: str, smiles: str, property_name: str) -> Sample:
        return Sample(
            id=name, task="chem", kind="chem", input=name, target=("Yes",),
            features={"smiles": smiles, "property": property_name},
        )  # fmt: skip

    test = [molecule("a", "CCO", "hERG")]
    refuse_leaks([molecule("b", "CCO", "AMES")], test, where="bank")
    with pytest.raises(DataError, match="same molecule"):
        refuse_leaks([molecule("b", "CCO", "hERG")], test, where="bank")


def _run_until_killed(out: Path, moment: int) -> None:
    """Run in a child process that kills itself at its `moment`-th write."""
    count = 0
    write = os.write

    def dying(handle: int, data: bytes) -> int:
        nonlocal count
        count += 1
        if count == moment:
            write(handle, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return write(handle, data)

    os.write = dying  # type: ignore[assignment]
    runner.CHUNK = 3
    run(toy_job(out, Learner))


@pytest.mark.parametrize("moment", range(1, 8))
def test_a_run_killed_at_any_write_ends_with_the_records_of_an_undisturbed_one(
    tmp_path: Path, moment: int
) -> None:
    whole = run(toy_job(tmp_path / "whole", Learner))
    child = multiprocessing.get_context("fork").Process(
        target=_run_until_killed, args=(tmp_path / "killed", moment)
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    resumed = run(toy_job(tmp_path / "killed", Learner))
    assert resumed.run_id == whole.run_id
    assert same_but_seconds(records_of(resumed)) == same_but_seconds(records_of(whole))


def test_grading_again_after_a_kill_does_not_ask_the_model_again(tmp_path: Path) -> None:
    def interrupted(sample: Sample, output: Output) -> Score:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(toy_job(tmp_path, task=toy_task(interrupted)))
    model = CountingModel()
    run(toy_job(tmp_path), model)
    assert model.asked == 5


def test_tokens_of_a_resumed_run_include_the_first_session(tmp_path: Path) -> None:
    from expbench.report.rows import read_row

    folder = run(toy_job(tmp_path))
    path = folder.path / "records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    folder.write_info({**folder.info, "status": "running"})
    row = read_row(run(toy_job(tmp_path)))
    assert row.tokens == {"prompt": 32, "retrieved": 0, "generated": 8}
    assert len(folder.info["sessions"]) == 2


def test_a_failed_write_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    with pytest.raises((ExpBenchError, FileExistsError, NotADirectoryError)):
        run(toy_job(tmp_path / "runs"))
