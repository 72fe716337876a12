"""The documents say what the product does: names are complete, the shown method runs."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from expbench.cli import app
from expbench.core import Experience, Score
from expbench.presets import PRESETS
from expbench.registry import method_names, select_tasks, task_names
from expbench.suites import load

ROOT = Path(__file__).parent.parent
SKIPPED = {
    ".git", ".venv", "build", "dist", ".ruff_cache", ".mypy_cache", ".pytest_cache", ".hypothesis",
}  # fmt: skip
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_every_verb_task_method_and_preset() -> None:
    group: Any = get_command(app)
    for verb in group.commands:
        assert f"expbench {verb}" in README, verb
    for name in (*task_names(), *method_names(), *PRESETS):
        assert f"`{name}`" in README, name


def test_the_readme_fits_on_200_lines() -> None:
    assert len(README.splitlines()) <= 200


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", "results/README.md"])
def test_every_command_shown_parses(path: str) -> None:
    """Look every option of every `expbench` line up in the command it is given to."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = re.findall(r"^expbench .*$|`(expbench [^`]*)`", text, re.MULTILINE)
    lines += re.findall(r"^(expbench .*)$", text, re.MULTILINE)
    group: Any = get_command(app)
    for line in filter(None, lines):
        words = line.split("#")[0].split()[1:]
        command = group.commands[words.pop(0)]
        if hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for param in command.params for option in param.opts}
        for word in words:
            assert not word.startswith("-") or word in known, f"{path}: {line}"


def test_links_between_documents_lead_somewhere() -> None:
    for path in ROOT.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_the_method_in_the_readme_runs_as_it_stands() -> None:
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own document
    method_class = names["METHOD"]
    data = load(select_tasks("openbookqa")[0], suite="mini")
    past = [
        Experience(sample=s, output=f"Answer: {s.target[0]}", score=Score(value=1.0))
        for s in data.train
    ]
    method = method_class(method_class.Config(), None, 1)
    method.fit(data.train, past, lambda sample, output: 1.0)
    questions = [sample.question() for sample in data.test]
    outputs = method.answer(questions)
    assert len(outputs) == len(questions)
    assert all(output.text.startswith("Answer: ") for output in outputs)
    assert asdict(method_class.Config()) == {"min_score": 0.5}


def test_the_project_speaks_of_itself_alone() -> None:
    """No paths of one machine, no registry host."""
    suspicious = re.compile(r"/work/|\.\./shared|files\.pythonhosted|pypi\.org|/root/")
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if parts[0] in SKIPPED or "__pycache__" in parts or ".work" in parts:
            continue
        if path.is_file() and path.suffix in (".py", ".md", ".toml", ".json", ".txt", ""):
            text = path.read_text(encoding="utf-8", errors="ignore")
            found = suspicious.search(text)
            allowed = path in (Path(__file__), ROOT / ".ci" / "run")
            assert found is None or allowed, f"{path}: {found and found.group()}"
