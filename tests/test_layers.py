"""The house has one-way doors: nothing to the right is imported by anything to the left."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALL = {path.stem for path in (ROOT / "expbench").iterdir() if path.suffix in ("", ".py")}
MAY_IMPORT = {
    "core": set(),
    "errors": set(),
    "molecules": {"core", "errors"},
    "features": {"core", "errors"},
    "sandbox": {"core", "errors"},
    "stats": {"core", "errors"},
    "graders": {"core", "errors", "molecules"},
    "graders.code": {"core", "errors", "sandbox"},
    "data": {"core", "errors"},
    "mini": set(),
    "models": {"core", "errors"},
    "tasks": {"core", "errors", "data", "graders", "molecules"},
    "suites": {"core", "errors", "data"},
    "config": {"core", "errors"},
    "presets": {"errors"},
    "registry": {"core", "errors", "tasks"},
    "grading": {"core", "errors"},
    "records": {"core", "errors"},
    "provenance": set(),
    "experience": {"core", "errors", "data", "records", "molecules"},
    "training": {"core", "errors", "models"},
    "checkpoints": {"core", "errors", "experience", "records"},
    "courses": {
        "core", "errors", "sandbox", "checkpoints", "experience", "grading", "registry", "suites",
    },
    "fitting": {
        "core", "errors", "checkpoints", "courses", "experience", "grading", "provenance",
    },
    "runner": {
        "core", "errors", "sandbox", "courses", "fitting", "grading", "provenance", "records",
        "registry", "suites",
    },
    "report": {"core", "errors", "records", "stats"},
    "diagnose": {"core", "errors", "config", "models", "registry", "stats"},
    "console": set(),
    "jobs": ALL - {"cli", "commands", "report", "console"},
    "commands": ALL - {"cli"},
    "cli": ALL,
    "__init__": set(),
    "methods": {
        "core", "errors", "features", "molecules", "models", "experience", "training", "diagnose",
    },
}  # fmt: skip


def modules() -> list[Path]:
    found = [*(ROOT / "expbench").rglob("*.py"), *(ROOT / "methods").rglob("*.py")]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def imported(path: Path) -> set[str]:
    """Return the dotted names below expbench and expbench_methods that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.split(".")[0] in ("expbench", "expbench_methods")}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_left(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    room = "methods" if parts[0] == "methods" else parts[1]
    allowed = MAY_IMPORT.get(".".join(parts[1:]), MAY_IMPORT.get(room))
    assert allowed is not None, f"{room} has no place in the house; add it to MAY_IMPORT"
    for name in imported(path):
        words = name.split(".")
        if words[0] == "expbench_methods":
            own = parts[0] == "methods" and len(parts) > 2 and words[1] == parts[2]
            assert own, f"{path.relative_to(ROOT)} may not import {name}"
        elif len(words) > 1 and words[1] in ALL:
            assert words[1] == room or words[1] in allowed, (
                f"{path.relative_to(ROOT)} may not import {words[1]}"
            )


def test_the_nouns_need_nothing_but_the_standard_library() -> None:
    import sys

    for name in ("core", "errors"):
        tree = ast.parse((ROOT / "expbench" / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [module]
            for top in {n.split(".")[0] for n in names if n}:
                assert top in sys.stdlib_module_names
