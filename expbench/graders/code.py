"""Grade model-written Python by running the data set's test against it, in the sandbox.

The reply is cut down to a program (`extract_code`), the program meets the test in
`expbench.sandbox`, and the verdict becomes a score. Verdicts mean:

- `passed`: every assertion held.
- `failed`: one did not, or a result was not a plain value that the test could compare.
- `error`: nothing runnable in the reply, an exception, an early exit, a crash, out of memory.
- `timeout`: still running at the time limit.
- `blocked`: the program asked for something that the sandbox refuses, and did not catch that.

A test that is itself unusable is a `GradingError`, a missing sandbox a `SandboxError`; neither is
ever a zero.
"""

from dataclasses import dataclass
from typing import Literal

from expbench import sandbox
from expbench.core import Output, Sample, Score
from expbench.errors import GradingError
from expbench.graders import program_text

TIMEOUT_S = 10.0
"""Wall time for loading a program and running its test, unless the sample says otherwise."""

Status = Literal["passed", "failed", "error", "timeout", "blocked"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a reply did."""

    status: Status
    detail: str
    """For people; partly written by the tested program."""
    seconds: float
    """Wall time of loading the program and running the test."""


def judge(
    reply: str,
    *,
    prompt: str,
    entry_point: str,
    test: str,
    timeout_s: float = TIMEOUT_S,
    unsafe: bool = False,
) -> Verdict:
    """Run a test against the program in a reply.

    Args:
        reply: What the model wrote.
        prompt: The code prompt that the reply continues or repeats; empty for a prompt in words.
        entry_point: The function under test.
        test: Defines `check(candidate)`, or asserts at top level, calling the function by name.
        timeout_s: Wall time for loading the program and running the test.
        unsafe: Run without isolation; see `expbench.sandbox`.

    Raises:
        GradingError: the test is unusable whatever the program.
        SandboxError: the program could not be isolated, and was not run.
    """
    code = program_text.extract_code(reply, prompt=prompt, entry_point=entry_point)
    if code is None:
        return Verdict(status="error", detail="no code in the reply", seconds=0.0)
    program = sandbox.Program(
        code=code, entry_point=entry_point, test=test, prompt=prompt, timeout_s=timeout_s
    )
    outcome = sandbox.try_program(program, unsafe=unsafe)
    if outcome.status == "broken":
        raise GradingError(
            f"The test of {entry_point!r} cannot be used ({outcome.detail}); mend the test."
        )
    return Verdict(status=outcome.status, detail=outcome.detail, seconds=outcome.seconds)


def score(verdict: Verdict, *, answer: str | None = None) -> Score:
    """Turn a verdict into a grade: 1 for `passed`, else 0.

    >>> score(Verdict(status="timeout", detail="still running", seconds=10.0)).explanation
    'timeout: still running'
    """
    value = 1.0 if verdict.status == "passed" else 0.0
    explanation = verdict.status + (f": {verdict.detail}" if verdict.detail else "")
    return Score(value=value, answer=answer, explanation=explanation)


def grade_code(sample: Sample, output: Output) -> Score:
    """Grade an output by `sample.metadata`: `prompt`, `entry_point`, `test`, maybe `timeout_s`.

    Raises:
        GradingError: the sample lacks a test, or its test is unusable.
        SandboxError: the program could not be isolated, and was not run.
    """
    missing = [key for key in ("entry_point", "test") if not sample.metadata.get(key)]
    if missing:
        raise GradingError(f"Sample {sample.id!r} lacks metadata {missing}; its task sets them.")
    prompt, entry_point = str(sample.metadata.get("prompt", "")), sample.metadata["entry_point"]
    verdict = judge(
        output.text,
        prompt=prompt,
        entry_point=entry_point,
        test=sample.metadata["test"],
        timeout_s=float(sample.metadata.get("timeout_s", TIMEOUT_S)),
    )
    answer = program_text.extract_code(output.text, prompt=prompt, entry_point=entry_point)
    return score(verdict, answer=answer)
