"""From what a user asked for to a list of jobs, checked before anything costs time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from expbench import sandbox
from expbench.checkpoints import Checkpoint
from expbench.config import build_config
from expbench.core import Model, Task, checksum
from expbench.courses import Course, Lesson, is_mixed
from expbench.errors import ConfigError, MissingData, RecordError
from expbench.presets import Preset
from expbench.registry import MethodInfo, select_tasks
from expbench.runner import Job
from expbench.suites import TaskData, load


class Shelf:
    """The data of tasks, each loaded once."""

    def __init__(self, *, suite: str, data_dir: Path | None, limits: Mapping[str, int]) -> None:
        """Remember where the data comes from."""
        self._where: dict[str, Any] = {
            "suite": suite,
            "data_dir": data_dir,
            "train_limit": limits["train"],
            "test_limit": limits["test"],
        }
        self._loaded: dict[str, TaskData] = {}
        self.missing: dict[str, str] = {}

    def get(self, task: Task) -> TaskData:
        """Load a task's data.

        Raises:
            MissingData: it is not there.
        """
        if task.name not in self._loaded:
            self._loaded[task.name] = load(task, **self._where)
        return self._loaded[task.name]

    def lessons(self, tasks: Sequence[Task]) -> tuple[Lesson, ...]:
        """Give the tasks whose data is there, in order; the others are noted as missing."""
        found = []
        for task in tasks:
            try:
                found.append(Lesson(task=task, data=self.get(task)))
            except MissingData as error:
                self.missing[task.name] = str(error)
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Jobs in the order they run, and what was left out."""

    jobs: tuple[Job, ...]
    missing: Mapping[str, str]
    """Task -> why its data is not there."""
    declined: Mapping[str, str]
    """`method/task` -> why they do not go together."""
    unlearnt: Mapping[str, str] = field(default_factory=dict)
    """Task that a mixed method would learn from too -> why its data is not there."""
    shelf: Shelf | None = None
    """The data that was loaded, for another plan over the same data."""

    @property
    def samples(self) -> int:
        """Test samples over all jobs."""
        return sum(len(job.data.test) for job in self.jobs)

    @property
    def courses(self) -> tuple[Course, ...]:
        """What is learnt for the jobs, each once."""
        found: dict[str, Course] = {}
        for job in self.jobs:
            course = job.course
            tasks = [lesson.task.name for lesson in course.lessons]
            same = checksum([course.method.name, course.learning_config, course.seed, tasks])
            found.setdefault(same, course)
        return tuple(found.values())

    @property
    def left_out(self) -> dict[str, str]:
        """Everything that is not run or not learnt from, with the reason."""
        unlearnt = {f"learning {name}": reason for name, reason in self.unlearnt.items()}
        return {**self.missing, **self.declined, **unlearnt}


def plan(
    tasks: Sequence[Task],
    methods: Sequence[MethodInfo],
    *,
    preset: Preset,
    suite: str,
    data_dir: Path | None,
    seeds: Sequence[int],
    settings: Mapping[str, str],
    limits: Mapping[str, int],
    out: Path,
    skip_missing: bool,
    model: str = "",
    checkpoint: Path | None = None,
    shelf: Shelf | None = None,
) -> Plan:
    """Load the data of every task and pair it with every method and seed.

    Args:
        tasks: Tasks to run, in order.
        methods: Methods to run, in order.
        preset: The preset that the values came from: its settings hold where the user gave none.
        suite: `mini` or `full`; not read where `data_dir` is given.
        data_dir: Folder with the user's own copy of the data.
        seeds: One job each.
        settings: `key` or `method.key` -> text value.
        limits: `train`, `test`, `pool`.
        out: Folder of the run folders.
        skip_missing: Leave tasks without data out instead of failing.
        model: Name of the backbone, to decline methods that need one with weights.
        checkpoint: Answer with this checkpoint, which takes one method, instead of learning.
        shelf: Data of an earlier plan with the same suite, folder and limits.

    Raises:
        MissingData: no task has data, or one has none and `skip_missing` is off.
        ConfigError: settings that do not fit, or a checkpoint for several methods.
        SandboxError: a coding task is planned and nothing can isolate its programs.
    """
    configs = _configs(methods, settings, preset=preset, checkpoint=checkpoint)
    shelf = shelf or Shelf(suite=suite, data_dir=data_dir, limits=limits)
    loaded, missing = _load_all(tasks, shelf, skip_missing=skip_missing)
    jobs: list[Job] = []
    declined: dict[str, str] = {}
    for task, data in loaded:
        for method in methods:
            if reason := _reason_against(method, task, model):
                declined[f"{method.name}/{task.name}"] = reason
                continue
            config = configs[method.name]
            job = Job(
                task=task,
                method=method,
                config=config,
                seed=0,
                data=data,
                preset=preset.name,
                limits=limits,
                out=out,
                lessons=() if checkpoint else _lessons(task, method, config, shelf),
                checkpoint=checkpoint,
            )
            jobs += [replace(job, seed=seed) for seed in seeds]
    require_isolation(x.task for job in jobs for x in job.course.lessons)
    require_isolation(job.task for job in jobs)
    unlearnt = {name: why for name, why in shelf.missing.items() if name not in missing}
    return Plan(
        jobs=tuple(jobs), missing=missing, declined=declined, unlearnt=unlearnt, shelf=shelf
    )


def _reason_against(method: MethodInfo, task: Task, model: str) -> str:
    if task.kind not in method.kinds:
        return f"does not answer {task.kind} tasks"
    if method.needs_weights and model == "fake":
        return "trains a model, and `fake` has no weights; give one that has, such as --model tiny"
    return ""


def _lessons(task: Task, method: MethodInfo, config: Any, shelf: Shelf) -> tuple[Lesson, ...]:
    """Give what is learnt for a task: the whole scenario where the method mixes."""
    if not is_mixed(config):
        return (Lesson(task=task, data=shelf.get(task)),)
    tasks = [t for t in select_tasks("all") if t.scenario == task.scenario]
    return shelf.lessons([t for t in tasks if t.kind in method.kinds])


def _configs(
    methods: Sequence[MethodInfo],
    settings: Mapping[str, str],
    *,
    preset: Preset,
    checkpoint: Path | None,
) -> dict[str, Any]:
    """Build every method's config: its defaults, then the preset's, then the user's values."""
    if checkpoint is not None:
        if len(methods) != 1:
            raise ConfigError("--checkpoint holds one method; give that one with --method.")
        [(method, given)] = _deal(methods, settings)
        return {method.name: trained_config(method, given, Checkpoint(checkpoint))}
    return {
        method.name: build_config(
            method.cls.Config,
            {**_known(preset.settings, method), **given},
            method=method.name,
        )
        for method, given in _deal(methods, settings)
    }


def _known(settings: Mapping[str, str], method: MethodInfo) -> dict[str, str]:
    fields = getattr(method.cls.Config, "__dataclass_fields__", {})
    return {key: value for key, value in settings.items() if key in fields}


def trained_config(method: MethodInfo, given: Mapping[str, str], checkpoint: Checkpoint) -> Any:
    """Give the config that a checkpoint was made with, changed where only the answers change.

    Raises:
        RecordError: there is no checkpoint.
        ConfigError: it is another method's, or a setting that decides what is learnt differs.
    """
    info = checkpoint.info
    if not info:
        raise RecordError(
            f"There is no checkpoint in {checkpoint.path}; give the folder that "
            "`expbench train` names."
        )
    if info["method"]["name"] != method.name:
        raise ConfigError(
            f"Checkpoint {checkpoint.path.name} is of method {info['method']['name']!r}, "
            f"not {method.name!r}."
        )
    asked = build_config(method.cls.Config, given, method=method.name)
    if info["method"]["version"] != method.version:
        return asked  # Its settings may have other names; the version is refused by name later.
    made = {k: tuple(v) if isinstance(v, list) else v for k, v in info["config"].items()}
    config = replace(asked, **made)
    for key in given:
        if getattr(config, key) != getattr(asked, key):
            raise ConfigError(
                f"Checkpoint {checkpoint.path.name} was made with {key}={getattr(config, key)}; "
                f"--set {key} cannot change what it has learnt."
            )
    return config


def require_isolation(tasks: Iterable[Task]) -> None:
    """Fail now if a coding task could not be graded later; an explicit unsafe mode needs nothing.

    Raises:
        SandboxError: model-written code cannot be isolated here.
    """
    if any(task.kind == "code" for task in tasks) and not sandbox.is_unsafe():
        sandbox.available()


def _deal(
    methods: Sequence[MethodInfo], settings: Mapping[str, str]
) -> list[tuple[MethodInfo, dict[str, str]]]:
    """Give every method its settings: `k=4` needs one method, `few_shot.k=4` names it."""
    names = [m.name for m in methods]
    dealt: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, value in settings.items():
        owner, dot, field = key.partition(".")
        if not dot and len(names) > 1:
            raise ConfigError(
                f"Setting {key!r} does not say which method it is for; write METHOD.{key}=..., "
                f"with METHOD one of {', '.join(names)}."
            )
        if dot and owner not in names:
            raise ConfigError(
                f"Setting {key!r} is for method {owner!r}, which is not run; "
                f"methods of this command: {', '.join(names)}."
            )
        dealt[owner if dot else names[0]][field if dot else key] = value
    return [(method, dealt[method.name]) for method in methods]


def _load_all(
    tasks: Sequence[Task], shelf: Shelf, *, skip_missing: bool
) -> tuple[list[tuple[Task, TaskData]], dict[str, str]]:
    loaded: list[tuple[Task, TaskData]] = []
    missing: dict[str, str] = {}
    for task in tasks:
        try:
            loaded.append((task, shelf.get(task)))
        except MissingData as error:
            if not skip_missing:
                raise
            missing[task.name] = str(error)
    if not loaded:
        raise MissingData("None of the tasks has data. " + " ".join(missing.values()))
    return loaded, missing


class Backbone:
    """The backbone of a command: loaded at the first call, then kept."""

    def __init__(self, load_model: Callable[[], Any]) -> None:
        """Remember how to load it."""
        self._load = load_model
        self._model: Model | None = None

    def __call__(self) -> Model:
        """Return the loaded model."""
        if self._model is None:
            self._model = self._load()
        return self._model
