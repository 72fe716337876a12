"""One candidate against one test: start, wait, watch, end."""

import select
import socket
import time
from dataclasses import asdict, dataclass
from typing import Literal

from expbench.errors import SandboxError
from expbench.sandbox.checkers import Checkers
from expbench.sandbox.inside.wire import WireError, dumps, loads, receive, send
from expbench.sandbox.process import Isolated, failure, launch

Status = Literal["passed", "failed", "error", "timeout", "blocked", "broken"]
STATUSES: tuple[Status, ...] = ("passed", "failed", "error", "timeout", "blocked", "broken")

PREPARE_S = 60.0
"""Longest time to start the candidate's interpreter and compile the test; not its own time."""
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Program:
    """Model-written code and the test that it has to meet."""

    code: str
    """The complete program."""
    entry_point: str
    """The function under test."""
    test: str
    """Defines `check(candidate)`, or asserts at top level."""
    prompt: str = ""
    """The data set's code prompt; its helpers are the test's, whatever the program redefines."""
    timeout_s: float = 10.0
    """Wall time for loading the program and running the test."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial ended."""

    status: Status
    """`broken` says that the test itself is unusable; all others are about the program."""
    detail: str
    """At most a few hundred characters, partly written by the program: for people only."""
    seconds: float
    """Wall time since the program was loaded."""


def run(program: Program, *, checkers: Checkers, binary: str | None, map_root: bool) -> Outcome:
    """Try a program; nothing of it is left running on return.

    Raises:
        SandboxError: the isolation could not be set up, or the checker was lost.
    """
    candidate = launch(
        "candidate",
        binary=binary,
        map_root=map_root,
        numpy="numpy" in program.code,
        timeout_s=program.timeout_s,
    )
    try:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                numpy = "numpy" in program.test or "numpy" in program.prompt
                checkers.submit(candidate.channel, theirs, numpy=numpy)
            candidate.channel.close()
            return _watch(program, candidate, ours)
    finally:
        candidate.kill()


def _watch(program: Program, candidate: Isolated, checker: socket.socket) -> Outcome:
    wait = _Wait(candidate, checker)
    begin = time.monotonic()
    try:
        # The checker compiles the test while the candidate's interpreter comes up.
        send(checker.fileno(), dumps({**asdict(program), "prepare_s": PREPARE_S}))
        if wait.wait(begin + PREPARE_S):
            raise SandboxError(f"Sandbox and test were not ready within {PREPARE_S:g} s.")
        answer = receive(checker.fileno())
        begin = time.monotonic()
        if answer == b"started":
            trouble = wait.wait(begin + program.timeout_s)
            if trouble:
                return _ended(trouble, begin, program.timeout_s)
            answer = receive(checker.fileno())
        status, detail = loads(answer)
    except (EOFError, OSError, WireError) as error:
        raise SandboxError(f"The checker was lost ({error}); grade this sample again.") from None
    if status not in STATUSES:
        raise failure(candidate, detail)
    return Outcome(status=status, detail=detail, seconds=time.monotonic() - begin)


def _ended(trouble: str, begin: float, timeout_s: float) -> Outcome:
    seconds = time.monotonic() - begin
    if trouble == "timeout":
        detail = f"still running after {timeout_s:g} s"
        return Outcome(status="timeout", detail=detail, seconds=seconds)
    return Outcome(status="error", detail=f"the program used {trouble}", seconds=seconds)


class _Wait:
    """Waits for the checker while it looks after what the candidate consumes."""

    def __init__(self, candidate: Isolated, checker: socket.socket) -> None:
        self._candidate = candidate
        self._poll = select.poll()
        self._poll.register(checker, select.POLLIN)

    def wait(self, until: float) -> str:
        """Return why the candidate has to be stopped; empty once the checker has something."""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return "timeout"
            if self._poll.poll(min(left, _LOOK_EVERY_S) * 1000):
                return ""
            excess = self._candidate.excess()
            if excess:
                return excess
