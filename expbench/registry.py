"""Names of tasks and methods, and how they are loaded.

A task is a module of `expbench.tasks` that assigns `TASK`; a method is a folder of
`expbench_methods` that exports `METHOD`, or an entry point of group `expbench.methods` in somebody
else's package. Names come from a folder scan without importing anything; a module is imported when
its task or method is asked for, and once only.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from expbench.core import KINDS, Kind, Task
from expbench.errors import PluginError, UnknownName

GROUP = "expbench.methods"
_TASK_LINE = re.compile(r"^TASK\b", re.MULTILINE)
_SCENARIOS = {
    "general": "general",
    "pharma-chemistry": "pharma-chemistry",
    "science": "pharma-chemistry",
    "recommendation": "recommendation",
    "rec": "recommendation",
}


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """A loaded method class with its declarations, optional ones filled in."""

    name: str
    cls: type[Any]
    version: int
    summary: str
    """First line of the class's or its module's docstring."""
    origin: str
    """`expbench_methods` or the distribution that registered the entry point, with its version."""
    uses_model: bool
    uses_experience: bool
    reference: bool
    kinds: tuple[Kind, ...]
    answer_only: tuple[str, ...] = ()
    """Fields of its Config that change how it answers but not what it learns."""
    needs_weights: bool = False
    """It cannot work on a model without weights, such as `fake`."""


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise PluginError(
            f"Package {package!r} is not installed; install ExpBench again with `pip install -e .`."
        )
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def task_names() -> tuple[str, ...]:
    """List all tasks, sorted, without importing them."""
    folder = _package_folder("expbench.tasks")
    found = (p for p in folder.glob("*.py") if _TASK_LINE.search(p.read_text(encoding="utf-8")))
    return tuple(sorted(p.stem for p in found))


@cache
def get_task(name: str) -> Task:
    """Import one task.

    Raises:
        UnknownName: no such task.
        PluginError: the module exports something else, or a task of another name.
    """
    if name not in task_names():
        raise UnknownName.among("task", name, task_names())
    task = importlib.import_module(f"expbench.tasks.{name}").TASK
    if not isinstance(task, Task) or task.name != name:
        raise PluginError(
            f"expbench/tasks/{name}.py must export TASK, a Task whose name is {name!r}."
        )
    return task


def select_tasks(text: str) -> list[Task]:
    """Read `all`, a scenario, a group (`qa`, `reasoning`, `coding`) or names joined by commas.

    Returns:
        Tasks by scenario, then group, then name; each once.

    Raises:
        UnknownName: a word that is none of these.
    """
    tasks = [get_task(name) for name in task_names()]
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = {"all", *_SCENARIOS, *(t.group for t in tasks), *(t.name for t in tasks)}
    for word in words or [text]:
        if word not in known:
            raise UnknownName.among("task, group or scenario", word, known)
    chosen = [
        t
        for t in tasks
        if any(w in ("all", t.name, t.group) or _SCENARIOS.get(w) == t.scenario for w in words)
    ]
    order = ("general", "pharma-chemistry", "recommendation")
    groups = ("qa", "reasoning", "coding")
    return sorted(
        chosen,
        key=lambda t: (
            order.index(t.scenario),
            groups.index(t.group) if t.group in groups else len(groups),
            t.name,
        ),
    )


@cache
def _method_origins() -> Mapping[str, tuple[str, ...]]:
    """Method name -> every place that declares it (`folder` or an entry point's distribution)."""
    origins: dict[str, list[str]] = {}
    for child in sorted(_package_folder("expbench_methods").iterdir()):
        if (child / "__init__.py").is_file():
            origins.setdefault(child.name, []).append("expbench_methods")
    for point in importlib.metadata.entry_points(group=GROUP):
        owner = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        origins.setdefault(point.name, []).append(owner)
    return {name: tuple(places) for name, places in origins.items()}


def method_names() -> tuple[str, ...]:
    """List all methods, sorted, without importing them."""
    return tuple(sorted(_method_origins()))


@cache
def get_method(name: str) -> MethodInfo:
    """Import one method.

    Raises:
        UnknownName: no such method.
        PluginError: two packages claim the name, the import fails, or the class is incomplete.
    """
    origins = _method_origins()
    if name not in origins:
        raise UnknownName.among("method", name, origins)
    if len(origins[name]) > 1:
        raise PluginError(
            f"Method {name!r} is claimed by {' and '.join(origins[name])}; uninstall one of them."
        )
    cls = _load_class(name, origins[name][0])
    _check_class(name, cls)
    text = inspect.getdoc(cls) or ""
    return MethodInfo(
        name=name,
        cls=cls,
        version=cls.version,
        summary=text.strip().split("\n")[0],
        origin=origins[name][0],
        uses_model=getattr(cls, "uses_model", True),
        uses_experience=getattr(cls, "uses_experience", False),
        reference=getattr(cls, "reference", False),
        kinds=tuple(getattr(cls, "kinds", KINDS)),
        answer_only=tuple(getattr(cls, "answer_only", ())),
        needs_weights=getattr(cls, "needs_weights", False),
    )


def _load_class(name: str, origin: str) -> Any:
    try:
        if origin == "expbench_methods":
            return importlib.import_module(f"expbench_methods.{name}").METHOD
        points = importlib.metadata.entry_points(group=GROUP, name=name)
        return next(iter(points)).load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        raise PluginError(
            f"Method {name!r} from {origin} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _check_class(name: str, cls: Any) -> None:
    """Refuse a class that lacks a part of the protocol, naming every missing part."""
    if not inspect.isclass(cls):
        raise PluginError(f"Method {name!r} must export a class, not {cls!r}.")
    needed = ("version", "Config", "fit", "answer")
    missing = [part for part in needed if not hasattr(cls, part)]
    missing += sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise PluginError(
            f"Method {name!r} lacks {', '.join(missing)}; expbench.core.Method is the protocol."
        )
    fields = getattr(getattr(cls, "Config", None), "__dataclass_fields__", {})
    unknown = [field for field in getattr(cls, "answer_only", ()) if field not in fields]
    if unknown:
        raise PluginError(
            f"Method {name!r} lists {', '.join(unknown)} in answer_only; its Config has no such "
            "field."
        )


def select_methods(text: str) -> list[MethodInfo]:
    """Read method names joined by commas, or `all` for every method that can be loaded."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return [m for m in method_table() if isinstance(m, MethodInfo)]
    return [get_method(word) for word in dict.fromkeys(words or [text])]


def method_table() -> Sequence[MethodInfo | tuple[str, str]]:
    """Load every method for a listing; a broken one is (name, reason) and stops nothing."""
    table: list[MethodInfo | tuple[str, str]] = []
    for name in method_names():
        try:
            table.append(get_method(name))
        except PluginError as error:
            table.append((name, str(error)))
    return table
