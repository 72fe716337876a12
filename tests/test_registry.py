"""Names without imports, broken plugins, clashes."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from expbench import registry
from expbench.core import Task
from expbench.errors import PluginError, UnknownName
from expbench.registry import MethodInfo, get_method, get_task, select_methods, select_tasks

THIRTEEN = {
    "mmlu", "commonsense_qa", "openbookqa", "arc_challenge", "gpqa_diamond", "gsm8k",
    "gsm_symbolic", "math", "humaneval_plus", "mbpp_plus", "chem_tdc", "movielens", "amazon_games",
}  # fmt: skip


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path where tests install packages with entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    caches = (registry._method_origins, get_method)
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def install(folder: Path, package: str, body: str, method: str) -> None:
    (folder / f"{package}.py").write_text(body)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[expbench.methods]\n{method} = {package}:METHOD\n")
    importlib.invalidate_caches()


GOOD = """
from expbench.core import NoConfig, Output
class METHOD:
    "Says nothing."
    version = 1
    Config = NoConfig
    uses_model = False
    def __init__(self, config, model, seed): pass
    def fit(self, train, experience, reward): pass
    def answer(self, questions): return [Output() for q in questions]
"""


def test_there_are_exactly_the_thirteen_tasks() -> None:
    assert set(registry.task_names()) == THIRTEEN


def test_names_come_without_importing_a_task_or_a_heavy_library() -> None:
    code = (
        "import sys; from expbench.registry import task_names, method_names\n"
        "task_names(), method_names()\n"
        "heavy = {'torch', 'transformers', 'datasets', 'rdkit', 'numpy', 'pandas', 'sympy'}\n"
        "print(sorted(heavy & set(sys.modules)), 'expbench.tasks.gsm8k' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[] False"


def test_loading_all_tasks_imports_no_heavy_library() -> None:
    code = (
        "import sys; from expbench.registry import select_tasks\n"
        "select_tasks('all')\n"
        "heavy = {'torch', 'transformers', 'datasets', 'rdkit', 'numpy', 'pandas', 'sympy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "count"),
    [("all", 13), ("general", 10), ("recommendation", 2), ("rec", 2), ("science", 1), ("qa", 5),
     ("reasoning", 3), ("coding", 2), ("gsm8k,math", 2), ("gsm8k, gsm8k", 1), ("qa,mmlu", 5)],
)  # fmt: skip
def test_tasks_are_chosen_by_name_group_and_scenario(words: str, count: int) -> None:
    chosen = select_tasks(words)
    assert len(chosen) == len({t.name for t in chosen}) == count
    assert all(isinstance(task, Task) for task in chosen)


@pytest.mark.parametrize("word", ["gsm8", "generl", "", "gsm8k,nope"])
def test_an_unknown_task_is_named_with_what_is_known(word: str) -> None:
    with pytest.raises(UnknownName, match="Known: "):
        select_tasks(word)


def test_an_unknown_name_gets_a_did_you_mean() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'direct'"):
        get_method("direkt")
    with pytest.raises(UnknownName, match="Did you mean 'gsm8k'"):
        get_task("gsmk8")


def test_an_installed_plugin_is_found_and_says_where_it_is_from(plugins: Path) -> None:
    install(plugins, "stranger", GOOD, "quiet")
    info = get_method("quiet")
    assert (info.origin, info.summary) == ("stranger 1.0", "Says nothing.")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("raise SystemError('bad')", "SystemError: bad"),
        ("METHOD = 3", "must export a class"),
        ("class METHOD:\n    version = 1", "lacks Config, fit, answer"),
        (
            GOOD.replace("class METHOD:", "import abc\nclass METHOD(abc.ABC):").replace(
                "    def answer", "    @abc.abstractmethod\n    def answer"
            ),
            "lacks answer",
        ),
    ],
)
def test_a_broken_plugin_is_listed_with_its_reason_and_breaks_nothing(
    plugins: Path, body: str, said: str
) -> None:
    install(plugins, "broken", body, "bad")
    install(plugins, "stranger", GOOD, "quiet")
    with pytest.raises(PluginError, match=said):
        get_method("bad")
    table = registry.method_table()
    assert [entry[0] for entry in table if not isinstance(entry, MethodInfo)] == ["bad"]
    assert {"quiet", "direct"} <= {m.name for m in table if isinstance(m, MethodInfo)}


def test_an_entry_point_whose_package_is_gone_is_named_and_skipped(plugins: Path) -> None:
    install(plugins, "gone", GOOD, "lost")
    (plugins / "gone.py").unlink()
    broken = [e for e in registry.method_table() if not isinstance(e, MethodInfo)]
    assert broken[0][0] == "lost"
    assert "gone 1.0" in broken[0][1]


def test_two_packages_with_one_name_are_an_error_naming_both(plugins: Path) -> None:
    install(plugins, "one", GOOD, "twice")
    install(plugins, "two", GOOD, "twice")
    with pytest.raises(PluginError, match=r"one 1\.0 and two 1\.0|two 1\.0 and one 1\.0"):
        get_method("twice")


def test_a_plugin_cannot_take_the_name_of_a_shipped_method(plugins: Path) -> None:
    install(plugins, "thief", GOOD, "direct")
    with pytest.raises(PluginError, match=r"expbench_methods and thief 1\.0"):
        select_methods("direct")
