import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expbench import sandbox, suites
from expbench.core import Output, Sample
from expbench.errors import GradingError, SandboxError
from expbench.graders.code import Verdict, grade_code, judge, score
from expbench.graders.program_text import extract_code
from expbench.sandbox import bubblewrap
from expbench.tasks.humaneval_plus import TASK as HUMANEVAL
from expbench.tasks.mbpp_plus import TASK as MBPP

PROMPT = 'def add(a, b):\n    """Return the sum of a and b."""\n'
CODE = "def add(a, b):\n    return a + b"
CHECK = "def check(candidate):\n    assert candidate(2, 3) == 5\n    assert candidate(-1, 1) == 0\n"


def program(reply: str, prompt: str = PROMPT) -> str | None:
    return extract_code(reply, prompt=prompt, entry_point="add")


def adds(code: str | None) -> bool:
    """Whether a program found in one of this file's own replies works."""
    names: dict[str, object] = {"__name__": "solution"}
    exec(code or "", names)  # noqa: S102
    return callable(names.get("add")) and names["add"](2, 3) == 5  # type: ignore[operator]


REPLIES = {
    "plain code": CODE,
    "a fenced block": f"```python\n{CODE}\n```",
    "the short tag": f"```py\n{CODE}\n```",
    "a capital tag": f"```Python\n{CODE}\n```",
    "no tag": f"```\n{CODE}\n```",
    "tildes": f"~~~python\n{CODE}\n~~~",
    "prose around": f"Here it is.\n\n```python\n{CODE}\n```\nIt adds.",
    "a fence in a list": "1. So:\n   ```python\n" + CODE.replace("\n", "\n") + "\n   ```",
    "a usage example after it": f"```python\n{CODE}\n```\nUse:\n```python\nprint(add(1, 2))\n```",
    "a shell block before it": f"```bash\npip install x\n```\n```python\n{CODE}\n```",
    "a wrong draft first":
        f"```python\n{CODE.replace('+', '-')}\n```\nBetter:\n```python\n{CODE}\n```",
    "a fence that never closes": f"```python\n{CODE}\n",
    "an unclosed fence with a cut-off test": f"```python\n{CODE}\n\ndef test():\n    assert add(1,",
    "an unclosed fence with prose": f"```python\n{CODE}\n\nThis adds the numbers.",
    "a closing fence only": f"{CODE}\n```\nDone.",
    "a fence in the docstring":
        '```python\ndef add(a, b):\n    """\n```\nadd(1, 2)\n```\n    """\n    return a + b\n```',
    "code amid prose": f"The answer is:\n\n{CODE}\n\nIt adds both numbers, as asked.",
    "a word that parses at the end": f"{CODE}\n\nDone\n",
    "a bare body": "    return a + b\n",
    "a bare body and prose": "    return a + b\n\nThe function adds.\n",
    "a body without its first indentation": "total = a + b\n    return total",
    "a body in a fence": "```python\n    return a + b\n```",
    "a body after blank lines": "\n\n    return a + b",
    "a lambda": "```python\nadd = lambda a, b: a + b\n```",
    "line ends of Windows": CODE.replace("\n", "\r\n"),
    "reasoning": f"<think>\n```python\ndef add(a, b): return a\n```\n</think>\n{CODE}",
    "reasoning whose start was in the prompt": f"def add(a, b): return a\n</think>\n{CODE}",
    "a comment that names a problem": f"```python\n# Problem: add\n{CODE}  # Question: why?\n```",
    "a main guard": f"{CODE}\n\nif __name__ == '__main__':\n    print(add(int(input()), 1))",
    "helpers beside it":
        "```python\ndef one(x):\n    return x\n\ndef add(a, b):\n    return one(a) + b\n```",
    "a body with a closing fence only": "    return a + b\n```\nDone.",
    "future imports": f"```python\nfrom __future__ import annotations\n{CODE}\n```",
}  # fmt: skip


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES.keys())
def test_the_program_is_found_in(reply: str) -> None:
    assert adds(program(reply))


@pytest.mark.parametrize(
    "reply",
    ["", "I am not able to write this function.", "Sorry", "None", "<think>\n" + CODE, "```\n```",
     "1. 2. 3.", "Sure! Let me add these.\n\nBoth numbers.", "    \n\n", "The sum"],
)  # fmt: skip
def test_prose_holds_no_program(reply: str) -> None:
    assert program(reply) is None


def test_imports_and_helpers_of_the_prompt_come_along_unless_the_reply_has_its_own() -> None:
    prompt = f"import math\nfrom typing import List\n\ndef two():\n    return 2\n\n{PROMPT}"
    code = program("```python\ndef add(a, b):\n    return math.floor(two())\n```", prompt) or ""
    assert "import math" in code and "List" in code and "def two" in code
    own = program(
        "```python\ndef two():\n    return 3\n\ndef add(a, b):\n    return two()\n```", prompt
    )
    assert own is not None and own.count("def two") == 1 and "return 3" in own


def test_code_that_does_not_parse_is_kept_so_that_running_it_says_why() -> None:
    assert "def add(a, b)" in (program("```python\ndef add(a, b)\n    return a\n```") or "")
    assert "def add(a, b)" in (program("def add(a, b)\n    return a") or "")


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("`~ \n#ab=():\t'\"\\<>/think\0\r"), max_size=80))
def test_no_reply_breaks_the_extraction(reply: str) -> None:
    assert isinstance(program(reply), str | None)
    assert isinstance(program(f"```{reply}\n{CODE}\n```"), str | None)


def test_many_fences_cost_little_time() -> None:
    begin = time.perf_counter()
    program("```\nx = (\n" * 2000)
    program("(\n" * 5000)
    assert time.perf_counter() - begin < 10


def verdict(reply: str, *, test: str = CHECK, timeout_s: float = 5.0) -> Verdict:
    return judge(reply, prompt=PROMPT, entry_point="add", test=test, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (f"```python\n{CODE}\n```", "passed"),
        ("    return a - b", "failed"),
        ("```python\ndef add(a, b):\n    return Ellipsis\n```", "failed"),
        ("    raise KeyError(a)", "error"),
        ("```python\ndef add(a, b)\n```", "error"),
        ("```python\ndef other(a, b):\n    return a + b\n```", "error"),
        ("I cannot.", "error"),
        ("    while True: pass", "timeout"),
        ("    open('/added', 'w')", "blocked"),
    ],
)
def test_a_reply_gets_the_verdict(reply: str, status: str) -> None:
    assert verdict(reply, timeout_s=1.0 if status == "timeout" else 5.0).status == status


def test_only_passing_scores_and_the_explanation_starts_with_the_status() -> None:
    for status, value in (("passed", 1.0), ("failed", 0.0), ("blocked", 0.0), ("timeout", 0.0)):
        graded = score(Verdict(status=status, detail="why", seconds=1.0), answer="x")  # type: ignore[arg-type]
        assert graded.value == value
        assert graded.explanation.startswith(status)
        assert graded.answer == "x"


def sample(**metadata: object) -> Sample:
    known = {"prompt": PROMPT, "entry_point": "add", "test": CHECK, **metadata}
    return Sample(id="1", task="t", kind="code", input="", target=(CODE,), metadata=known)


def test_a_sample_is_graded_by_its_metadata() -> None:
    assert grade_code(sample(), Output(text=CODE)).value == 1.0
    assert grade_code(sample(), Output(text="    return 0")).value == 0.0
    assert grade_code(sample(test="assert add(1, 1) == 2"), Output(text=CODE)).value == 1.0
    slow = Output(text="    import time\n    time.sleep(0.6)\n    return a + b")
    assert grade_code(sample(timeout_s=0.3), slow).explanation.startswith("timeout")


def test_a_sample_without_a_usable_test_is_an_error_and_never_a_zero() -> None:
    with pytest.raises(GradingError, match="metadata"):
        grade_code(sample(test=""), Output(text=CODE))
    with pytest.raises(GradingError, match="cannot be used"):
        grade_code(sample(test="def check(candidate): pass"), Output(text=CODE))


def test_a_missing_sandbox_is_an_error_and_never_a_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "binaries", lambda: iter([]))
    sandbox._isolation.cache_clear()
    try:
        with pytest.raises(SandboxError, match="--unsafe-code"):
            grade_code(sample(), Output(text=CODE))
    finally:
        sandbox._isolation.cache_clear()


@cache
def real(folder: Path) -> tuple[Sample, ...]:
    data = [suites.load(task, data_dir=folder) for task in (HUMANEVAL, MBPP)]
    return tuple(sample for each in data for sample in (*each.train, *each.test))


NOTHING = "```python\ndef {name}(*args, **named):\n    return None\n```"


def gold_and_nothing(sample: Sample) -> tuple[str, str]:
    nothing = NOTHING.format(name=sample.metadata["entry_point"])
    statuses = [
        grade_code(sample, Output(text=text)).explanation
        for text in (f"```python\n{sample.target[0]}\n```", nothing)
    ]
    return statuses[0], statuses[1]


def test_a_few_published_solutions_pass_and_nothing_does_not(real_data: Path) -> None:
    chosen = [s for s in real(real_data) if s.metadata["timeout_s"] <= 10][::90]
    names = {"HumanEval/32", "HumanEval/38", "927"}
    for each in (*chosen, *(s for s in real(real_data) if s.id in names)):
        gold, nothing = gold_and_nothing(each)
        assert gold == "passed", f"{each.task} {each.id}: {gold}"
        assert not nothing.startswith("passed"), f"{each.task} {each.id}"
