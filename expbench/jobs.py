"""From what a user asked for to a list of jobs, checked before anything costs time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expbench import sandbox
from expbench.config import build_config
from expbench.core import Model, Task
from expbench.errors import ConfigError, MissingData
from expbench.presets import Preset
from expbench.registry import MethodInfo
from expbench.runner import Job
from expbench.suites import TaskData, load


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Jobs in the order they run, and what was left out."""

    jobs: tuple[Job, ...]
    missing: Mapping[str, str]
    """Task -> why its data is not there."""
    declined: Mapping[str, str]
    """`method/task` -> why they do not go together."""

    @property
    def samples(self) -> int:
        """Test samples over all jobs."""
        return sum(len(job.data.test) for job in self.jobs)


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
) -> Plan:
    """Load the data of every task and pair it with every method and seed.

    Args:
        tasks: Tasks to run, in order.
        methods: Methods to run, in order.
        preset: The preset that the values came from, for the record.
        suite: `mini` or `full`; not read where `data_dir` is given.
        data_dir: Folder with the user's own copy of the data.
        seeds: One job each.
        settings: `key` or `method.key` -> text value.
        limits: `train`, `test`, `pool`.
        out: Folder of the run folders.
        skip_missing: Leave tasks without data out instead of failing.

    Raises:
        MissingData: no task has data, or one has none and `skip_missing` is off.
        ConfigError: settings that do not fit.
        SandboxError: a coding task is planned and nothing can isolate its programs.
    """
    configs = {
        m.name: build_config(m.cls.Config, s, method=m.name) for m, s in _deal(methods, settings)
    }
    loaded, missing = _load_all(
        tasks, suite=suite, data_dir=data_dir, limits=limits, skip_missing=skip_missing
    )
    jobs: list[Job] = []
    declined: dict[str, str] = {}
    for task, data in loaded:
        for method in methods:
            if task.kind not in method.kinds:
                declined[f"{method.name}/{task.name}"] = f"does not answer {task.kind} tasks"
                continue
            jobs += [
                Job(
                    task=task,
                    method=method,
                    config=configs[method.name],
                    seed=seed,
                    data=data,
                    preset=preset.name,
                    limits=limits,
                    out=out,
                )
                for seed in seeds
            ]
    require_isolation(job.task for job in jobs)
    return Plan(jobs=tuple(jobs), missing=missing, declined=declined)


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
    tasks: Sequence[Task],
    *,
    suite: str,
    data_dir: Path | None,
    limits: Mapping[str, int],
    skip_missing: bool,
) -> tuple[list[tuple[Task, TaskData]], dict[str, str]]:
    loaded: list[tuple[Task, TaskData]] = []
    missing: dict[str, str] = {}
    for task in tasks:
        try:
            data = load(
                task,
                suite=suite,
                data_dir=data_dir,
                train_limit=limits["train"],
                test_limit=limits["test"],
            )
        except MissingData as error:
            if not skip_missing:
                raise
            missing[task.name] = str(error)
        else:
            loaded.append((task, data))
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
