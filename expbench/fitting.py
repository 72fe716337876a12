"""Learning once: a method is fitted into a checkpoint that all runs share that learn the same.

A method without `save` and `load` is fitted anew in every run. One process trains and the others
wait; what a kill leaves is gone on with, from the state that the method itself keeps in the folder.
"""

import gc
import os
import time
from typing import Any

from expbench.checkpoints import Checkpoint
from expbench.core import Experience, Method, Model, Output, Sample, Workbench
from expbench.courses import Course, Progress, Study, describe
from expbench.errors import GradingError, PluginError
from expbench.experience.pool import Pool
from expbench.grading import grade_one
from expbench.provenance import now, provenance

SAVE_EVERY_S = 5.0
"""Seconds between two notes of the time spent, so that a kill loses little of the account."""


def learn(course: Course, backbone: Model | None, study: Study, progress: Progress) -> Method:
    """Build the method and let it learn, or load what was learnt before, here or elsewhere.

    A method that is kept is always loaded from its checkpoint, so that the run that trained it and
    every later one answer from the same state.

    Raises:
        RecordError: the checkpoint is damaged.
    """
    checkpoint = study.checkpoint
    if checkpoint is None:
        progress.stage(course.label("learning"), 0)
        method = _build(course, backbone)
        _fit(method, course, study)
        return method  # type: ignore[no-any-return]
    if not checkpoint.is_complete():
        _fill(checkpoint, course, backbone, study, progress)
        # Module trees hold cycles; the trained copy must be gone before it is loaded again.
        gc.collect()
    method = _build(course, backbone)
    if rank() == 0:
        checkpoint.verify()
        method.load(checkpoint.learnt)
    return method  # type: ignore[no-any-return]


def rank() -> int:
    """Give the number of this process under `accelerate launch` or `torchrun`; 0 without."""
    return int(os.environ.get("RANK", "0"))


def _build(course: Course, backbone: Model | None) -> Any:
    return course.method.cls(course.config, backbone, course.seed)


def _fit(method: Any, course: Course, study: Study) -> None:
    graders = {lesson.task.name: lesson.task.grade for lesson in course.lessons}

    def reward(sample: Sample, output: Output) -> float:
        if sample.task not in graders:
            raise PluginError(
                f"Method {course.method.name!r} asked for a reward of task {sample.task!r}; "
                f"it learns from {', '.join(graders)}."
            )
        score = grade_one(graders[sample.task], sample, output)
        if isinstance(score, str):
            raise GradingError(score)
        return score.value

    train = [sample for lesson in course.lessons for sample in lesson.data.train]
    past: list[Experience] = [e for pool in study.pools.values() for e in pool.entries]
    method.fit(tuple(train), tuple(past), reward)


def _fill(
    checkpoint: Checkpoint,
    course: Course,
    backbone: Model | None,
    study: Study,
    progress: Progress,
) -> None:
    """Train into a checkpoint, or wait for the process that does."""
    if rank():
        # The first process of a distributed training holds the lock and keeps the account.
        checkpoint.path.mkdir(parents=True, exist_ok=True)
        method = _build(course, backbone)
        _lend(method, Workbench(folder=checkpoint.path))
        _fit(method, course, study)
        return
    if checkpoint.is_locked():
        progress.stage(course.label("waiting for another process that trains this method"), 0)
    with checkpoint.lock(wait_s=-1):
        if not checkpoint.is_complete():
            _train(checkpoint, course, backbone, study, progress)


def _lend(method: Any, workbench: Workbench) -> None:
    if hasattr(type(method), "workbench"):
        method.workbench = workbench


def _train(
    checkpoint: Checkpoint,
    course: Course,
    backbone: Model | None,
    study: Study,
    progress: Progress,
) -> None:
    checkpoint.path.mkdir(parents=True, exist_ok=True)
    info = checkpoint.info or _new_info(course, backbone, study)
    session: dict[str, Any] = {"started": now(), "seconds": 0.0}
    info["sessions"].append(session)
    checkpoint.write_info(info)
    start = saved = time.perf_counter()

    def account() -> None:
        session.update(seconds=time.perf_counter() - start, ended=now())
        info["seconds"] = sum(part["seconds"] for part in info["sessions"])

    def advance(count: int) -> None:
        nonlocal saved
        progress.advance(count)
        if time.perf_counter() - saved > SAVE_EVERY_S:
            account()
            checkpoint.write_info(info)
            saved = time.perf_counter()

    def stage(label: str, total: int) -> None:
        progress.stage(course.label(f"learning ({label})"), total)

    stage("start", 0)
    method = _build(course, backbone)
    _lend(method, Workbench(folder=checkpoint.path, stage=stage, advance=advance))
    _fit(method, course, study)
    account()
    info["cost"] = {k: float(v) for k, v in getattr(method, "training_cost", {}).items()}
    info["notes"] = list(getattr(method, "notes", ()))
    seen = [sample for lesson in course.lessons for sample in lesson.data.train]
    checkpoint.keep(method, info, seen)


def _new_info(course: Course, backbone: Model | None, study: Study) -> dict[str, Any]:
    method = course.method
    return {
        "method": {"name": method.name, "version": method.version, "origin": method.origin},
        "config": course.learning_config,
        "backbone": describe(backbone) if backbone else {},
        "suite": course.lessons[0].data.suite,
        "seed": course.seed,
        "limits": {name: course.limits[name] for name in ("train", "pool")},
        "training": study.training,
        "pools": {name: pool_cost(pool) for name, pool in study.pools.items()},
        "provenance": provenance(),
        "sessions": [],
        "seconds": 0.0,
        "cost": {},
        "notes": [],
    }


def pool_cost(pool: Pool) -> dict[str, Any]:
    """Give what a pool cost and held, for `run.json` and `fit.json`."""
    return {
        "tokens": pool.tokens,
        "seconds": pool.seconds,
        "entries": len(pool.entries),
        "errors": pool.errors,
    }


def training_account(checkpoint: Checkpoint) -> dict[str, Any]:
    """Give what a run says about the checkpoint that it answers with, for its `run.json`."""
    info = checkpoint.info
    return {
        "checkpoint": checkpoint.path.name,
        "key": info["training"]["key"],
        "scope": info["training"]["scope"],
        "tasks": sorted(info["training"]["tasks"]),
        "seconds": info["seconds"],
        "cost": info["cost"],
        "pools": info["pools"],
    }
