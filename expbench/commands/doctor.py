"""`expbench doctor`: what this machine can do, and what to do about the rest."""

import importlib.metadata
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expbench import sandbox
from expbench.data import cache_dir
from expbench.errors import ExpBenchError
from expbench.provenance import provenance
from expbench.registry import MethodInfo, method_table, select_tasks
from expbench.suites import load

NEEDED_GB = 5


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check."""

    check: str
    state: Literal["ok", "note", "broken"]
    text: str


def examine(*, as_json: bool) -> None:
    """Run all checks and print them.

    Raises:
        ExpBenchError: something that a run needs is broken.
    """
    checks: dict[str, Callable[[], Finding]] = {
        "python": _python,
        "packages": _packages,
        "cpu": _cpu,
        "accelerator": _accelerator,
        "sandbox": _sandbox,
        "methods": _methods,
        "mini suite": _mini,
        "backbone": _backbone,
        "disk": _disk,
    }
    findings = [check() for check in checks.values()]
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        grid = Table("check", "state", "what was found")
        colours = {"ok": "green", "note": "yellow", "broken": "red"}
        for f in findings:
            colour = colours[f.state]
            grid.add_row(f.check, f"[{colour}]{f.state}[/{colour}]", escape(f.text))
        Console().print(grid)
    broken = [f.check for f in findings if f.state == "broken"]
    if broken:
        raise ExpBenchError(f"Broken: {', '.join(broken)}; the lines above say what to do.")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(check="python", state="ok", text=f"{version} at {sys.prefix}")


def _packages() -> Finding:
    found = provenance()["packages"]
    absent = [name for name, version in found.items() if version is None]
    text = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    if absent:
        text = f"{', '.join(absent)} missing: pip install expbench again. Found: {text}"
    return Finding(check="packages", state="broken" if absent else "ok", text=text)


def _cpu() -> Finding:
    here = provenance()
    return Finding(check="cpu", state="ok", text=f"{here['cpu']}, {here['cores']} cores")


def _accelerator() -> Finding:
    import torch  # the one check that needs it

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding(check="accelerator", state="ok", text=", ".join(names))
    text = "none; the laptop preset runs on the CPU, the paper preset wants a GPU"
    return Finding(check="accelerator", state="note", text=text)


def _sandbox() -> Finding:
    try:
        return Finding(check="sandbox", state="ok", text=str(sandbox.available()))
    except ExpBenchError as error:
        return Finding(check="sandbox", state="broken", text=str(error))


def _methods() -> Finding:
    table = method_table()
    good = [m.name for m in table if isinstance(m, MethodInfo)]
    bad = [reason for entry in table if not isinstance(entry, MethodInfo) for reason in entry[1:]]
    text = " ".join([", ".join(good) + ".", *bad])
    return Finding(check="methods", state="note" if bad else "ok", text=text)


def _mini() -> Finding:
    try:
        sizes = [len(load(task, suite="mini").test) for task in select_tasks("all")]
    except ExpBenchError as error:
        return Finding(check="mini suite", state="broken", text=str(error))
    return Finding(
        check="mini suite", state="ok", text=f"{len(sizes)} tasks, {sum(sizes)} test samples"
    )


def _backbone() -> Finding:
    folder = cache_dir()
    made = sorted(p.name for p in folder.glob("models/*")) if folder.exists() else []
    offline = "; HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") == "1" else ""
    version = importlib.metadata.version("transformers")
    if made:
        text = f"converted in the cache: {', '.join(made)} (transformers {version}{offline})"
        return Finding(check="backbone", state="ok", text=text)
    text = f"not in the cache yet; the first run fetches 100 to 300 MB{offline}"
    return Finding(check="backbone", state="note", text=text)


def _disk() -> Finding:
    folder = cache_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    state: Literal["ok", "note"] = "ok" if free > NEEDED_GB else "note"
    return Finding(check="disk", state=state, text=f"{free:.0f} GB free for the cache")
