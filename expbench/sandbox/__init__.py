"""The only starter of untrusted code: model-written Python against a data set's test.

Two processes stand between the model's code and a verdict. The *candidate* runs the code in a
bubblewrap sandbox made for this one sample; the *checker*, in another sandbox, runs the test. They
exchange plain values (`inside.wire`); the checker alone talks to the harness. Exit codes, output,
files and objects of the candidate decide nothing.

What a candidate gets: new user, process, network, IPC, host name and (where the kernel has them)
cgroup namespaces; no network; no capabilities; a system-call filter; a cleared environment; a
read-only view of the interpreter, the system's libraries and, if the code names it, numpy, with the
interpreter's other packages hidden; 64 MiB of memory-backed /tmp as the only writable place; no
/proc; 2 GiB of memory a process and in all; 32 processes and threads; files up to 64 MiB, 64 open;
no core dumps; empty input; output thrown away. At the end or the time limit its init is killed, and
with it, by the kernel, every process inside. Root's candidates run as nobody. Where that cannot be
had, `SandboxError` is raised and nothing is run.

What it does NOT stop:

1. Faults of the kernel, bubblewrap or the processor: this is a process sandbox, not a machine.
2. Heat. Candidates burn two cores for their time limit, slow each other down, and can guess at the
   load of the machine.
3. Kernel memory that no limit counts, such as a million empty files in /tmp; it goes with the
   sample.
4. A look at system libraries and the machine's kind (uname, number of processors).
5. A program that computes the right answers in a wrong way, knows the test by heart, or changes its
   arguments in place: what it changes there, the test sees, as in a plain call.
6. A malicious *test*: the checker trusts the data set, and its sandbox is shared by all tests.
7. Where root may not map a second user, processes are counted from outside ten times a
   second, so that a fork bomb can pass the limit for a moment. On processors other than x86-64 and
   arm64 there is no system-call filter.

`configure(unsafe=True)` runs candidates as ordinary processes with resource limits alone: they can
then read and write whatever the user can. Only the caller can choose this; nothing falls back to
it.
"""

import atexit
import functools
import os
import threading

from expbench.errors import SandboxError
from expbench.sandbox import bubblewrap
from expbench.sandbox.checkers import Checkers
from expbench.sandbox.process import start
from expbench.sandbox.trial import Outcome, Program, Status, run

__all__ = [
    "Outcome",
    "Program",
    "Status",
    "available",
    "configure",
    "is_unsafe",
    "shutdown",
    "try_program",
]

_lock = threading.Lock()
_unsafe = False


def configure(*, unsafe: bool) -> None:
    """Choose for this process whether candidates run without isolation; the default is False."""
    global _unsafe
    _unsafe = unsafe


def is_unsafe() -> bool:
    """Whether `configure(unsafe=True)` was called; what `RunSpec.sandbox` records."""
    return _unsafe


@functools.cache
def _isolation() -> tuple[str, bool]:
    """Find a bubblewrap that works here and whether root's second user can be mapped.

    Raises:
        SandboxError: none works; never cached, so that a mended system is seen.
    """
    problems = []
    for binary in bubblewrap.binaries():
        for map_root in (True, False) if os.geteuid() == 0 else (False,):
            try:
                start("candidate", binary=binary, map_root=map_root).kill()
                return binary, map_root
            except SandboxError as error:
                problems.append(f"{binary}: {error}")
    missing = f"bubblewrap was not found. {bubblewrap.REMEDY}"
    raise SandboxError(problems[-1] if problems else missing)


def available() -> str:
    """Start a sandbox once and say which, such as `bubblewrap 0.11.0 (/usr/bin/bwrap)`.

    Raises:
        SandboxError: untrusted code cannot be isolated here; the message says what to do.
    """
    with _lock:
        binary, map_root = _isolation()
    remark = "" if map_root or os.geteuid() != 0 else ", root not dropped"
    return f"{bubblewrap.version(binary)} ({binary}{remark})"


@functools.cache
def _checkers(binary: str | None, map_root: bool) -> Checkers:
    checkers = Checkers(binary=binary, map_root=map_root)
    atexit.register(checkers.stop)
    return checkers


def shutdown() -> None:
    """End the standing checker processes; the next trial starts one again."""
    _checkers(None, False).stop()
    with _lock:
        if _isolation.cache_info().currsize:
            _checkers(*_isolation()).stop()


def try_program(program: Program, *, unsafe: bool = False) -> Outcome:
    """Run a test against a program and return how it ended; safe to call from many threads.

    Args:
        program: The code and its test.
        unsafe: Run it without isolation, as if `configure(unsafe=True)` had been called.

    Raises:
        SandboxError: it could not be isolated (and was not run), or no verdict was reached.
    """
    if unsafe or _unsafe:
        return run(program, checkers=_checkers(None, False), binary=None, map_root=False)
    with _lock:
        binary, map_root = _isolation()
        checkers = _checkers(binary, map_root)
    return run(program, checkers=checkers, binary=binary, map_root=map_root)
