"""What a method learns from: lessons, their pools, the leak guard, and the name of it all.

A mixed method (`mix = scenario` in its Config) learns from all tasks of a scenario whose data is
there, whichever of them a job asks for; the key of its checkpoint is the checksum of everything
that decides what it learns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from expbench import sandbox
from expbench.checkpoints import FOLDER, Checkpoint
from expbench.core import Model, Question, Task, checksum
from expbench.errors import ConfigError, PluginError
from expbench.experience.leaks import refuse_leaks
from expbench.experience.pool import Pool, collect
from expbench.grading import grade_all
from expbench.registry import MethodInfo
from expbench.suites import TaskData


class Progress(Protocol):
    """What a person is told during work."""

    def stage(self, label: str, total: int) -> None:
        """Begin a stage of `total` samples."""
        ...

    def advance(self, count: int) -> None:
        """Report finished samples of the stage."""
        ...


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One task that a method learns from."""

    task: Task
    data: TaskData


@dataclass(frozen=True, kw_only=True)
class Course:
    """One method with one seed and all it learns from."""

    method: MethodInfo
    config: Any
    """An instance of the method's Config."""
    seed: int
    lessons: tuple[Lesson, ...]
    limits: Mapping[str, int]
    out: Path
    checkpoint: Path | None = None
    """A checkpoint to answer with instead of learning."""

    @property
    def keeps(self) -> bool:
        """Tell whether what is learnt is kept in a checkpoint."""
        return hasattr(self.method.cls, "save") and hasattr(self.method.cls, "load")

    @property
    def scope(self) -> str:
        """Name what is learnt from: the scenario of a mixed course, or the task."""
        first = self.lessons[0].task
        return first.scenario if is_mixed(self.config) else first.name

    @property
    def learning_config(self) -> dict[str, Any]:
        """The settings that decide what is learnt."""
        return learning_config(self.method, self.config)

    def label(self, what: str) -> str:
        """Name a stage of this course for the progress bar."""
        return f"{self.scope} / {self.method.name} / seed {self.seed}: {what}"

    def refuse_leaks(self, known: Sequence[Question], *, where: str) -> None:
        """Hold samples against the test samples of every lesson.

        Raises:
            DataError: a test sample is among them.
        """
        refuse_leaks(known, [s for lesson in self.lessons for s in lesson.data.test], where=where)


def is_mixed(config: Any) -> bool:
    """Tell whether a method with this Config learns all tasks of a scenario together."""
    return getattr(config, "mix", None) == "scenario"


def learning_config(method: MethodInfo, config: Any) -> dict[str, Any]:
    """Give the settings of a config that decide what is learnt."""
    return {k: v for k, v in asdict(config).items() if k not in method.answer_only}


@dataclass(frozen=True, kw_only=True)
class Study:
    """A course with its experience: ready to be learnt, or learnt already."""

    pools: Mapping[str, Pool] = field(default_factory=dict)
    """Task -> pool, for methods that use experience and learn here."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """`RunSpec.training`; empty for methods that keep no checkpoint."""
    checkpoint: Checkpoint | None = None


def describe(model: Model) -> dict[str, str]:
    """Name everything about a backbone that can move a result."""
    return {
        "name": model.name,
        "fingerprint": model.fingerprint,
        "dtype": str(getattr(model, "dtype", "none")),
        # Which of several equal devices it was moves nothing.
        "device": str(getattr(model, "device", "none")).partition(":")[0],
    }


def prepare(course: Course, backbone: Model | None, progress: Progress) -> Study:
    """Collect the pools of a course, hold them against the test samples, and name its checkpoint.

    Raises:
        DataError: a test sample is in a pool.
        PluginError: a method that uses experience and no model, or mixes and keeps nothing.
        RecordError: the given checkpoint is unfinished or damaged.
        ConfigError: the given checkpoint is of another method, version or backbone.
    """
    if course.checkpoint is not None:
        checkpoint = Checkpoint(course.checkpoint)
        checkpoint.verify()
        _check_fits(checkpoint, course, backbone)
        return Study(training=checkpoint.info["training"], checkpoint=checkpoint)
    if is_mixed(course.config) and not course.keeps:
        raise PluginError(
            f"Method {course.method.name!r} mixes tasks, so it must have `save` and `load`."
        )
    pools = {}
    if course.method.uses_experience:
        pools = {x.task.name: _pool(course, x, backbone, progress) for x in course.lessons}
        known = [entry.sample for pool in pools.values() for entry in pool.entries]
        course.refuse_leaks(known, where="pool")
    if not course.keeps:
        return Study(pools=pools)
    training = _training(course, backbone, pools)
    name = f"{course.method.name}-{training['key']}"
    return Study(pools=pools, training=training, checkpoint=Checkpoint(course.out / FOLDER / name))


def _pool(course: Course, lesson: Lesson, backbone: Model | None, progress: Progress) -> Pool:
    """Collect or read the pool of one task."""
    name = course.method.name
    if backbone is None:
        raise PluginError(f"Method {name!r} uses experience, so it must use the model.")
    task, data = lesson.task, lesson.data
    samples = data.train[: course.limits["pool"] or None]
    label = f"{task.name} / {name} / seed {course.seed}: collecting experience"
    progress.stage(label, len(samples))
    return collect(
        samples,
        model=backbone,
        grade=lambda pairs: grade_all(task.grade, pairs),
        seed=course.seed,
        identity={
            "task": task.name,
            "version": task.version,
            "suite": data.suite,
            "backbone": describe(backbone),
            "train": data.checksums["train"],
        },
        folder=course.out / "pools",
        advance=progress.advance,
    )


def _training(course: Course, backbone: Model | None, pools: Mapping[str, Pool]) -> dict[str, Any]:
    """Name what decides what is learnt; `key` is the checksum of all of it."""
    tasks = {
        x.task.name: {"version": x.task.version, "train": x.data.checksums["train"]}
        for x in course.lessons
    }
    checksums = {name: pool.checksum for name, pool in pools.items()}
    graded_code = any(x.task.kind == "code" for x in course.lessons)
    decides = {
        "method": course.method.name,
        "version": course.method.version,
        "config": course.learning_config,
        "backbone": describe(backbone) if backbone else {},
        "suite": course.lessons[0].data.suite,
        "seed": course.seed,
        "limits": {name: course.limits[name] for name in ("train", "pool")},
        "unsafe": graded_code and sandbox.is_unsafe(),
        "tasks": tasks,
        "pools": checksums,
    }
    key = checksum(decides)[:12]
    return {"key": key, "scope": course.scope, "tasks": tasks, "pools": checksums}


def _check_fits(checkpoint: Checkpoint, course: Course, backbone: Model | None) -> None:
    """Refuse a checkpoint that another method, version, setting, seed or backbone made."""
    info, method = checkpoint.info, course.method
    stored = info["backbone"].get("fingerprint")
    pairs = {
        "method": (info["method"]["name"], method.name),
        "method version": (info["method"]["version"], method.version),
        "backbone": (stored, describe(backbone)["fingerprint"] if backbone else None),
        "seed": (info["seed"], course.seed),
        "settings": (checksum(info["config"]), checksum(course.learning_config)),
    }
    for what, (theirs, ours) in pairs.items():
        if theirs != ours:
            shown = "" if what == "settings" else f" ({str(theirs)[:12]}, here {str(ours)[:12]})"
            raise ConfigError(
                f"Checkpoint {checkpoint.path.name} was made with another {what}{shown}; "
                "leave --checkpoint out to train anew, or give what it was made with."
            )
