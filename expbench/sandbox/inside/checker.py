"""The checker: runs the data set's own test against a candidate it reaches only by messages.

One checker process waits in a sandbox of its own with everything imported and forks a fresh child
for each test, so that a test starts in a pristine interpreter within a millisecond. The child holds
two channels, one to the candidate and one to the harness; only it can write the verdict.
"""

import builtins
import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NoReturn

from expbench.sandbox.inside.confine import confine
from expbench.sandbox.inside.wire import WireError, dumps, loads, receive, send


class NotPlain(AssertionError):
    """The test looked into a returned value that is not a plain one."""


class CandidateGone(BaseException):
    """The candidate ended or broke the protocol; not an Exception, so tests cannot swallow it."""


class BrokenTest(Exception):
    """The test itself cannot be used."""


class CannotPass(WireError):
    """The test hands the candidate something that is no plain value, such as a function."""


class Handle:
    """An object of the candidate: it can be called and passed back, and equals nothing."""

    __slots__ = ("_link", "_target")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, link: "Link", target: list[Any]) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_target", target)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the object in the candidate."""
        return self._link.call(self._target, args, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._link.ask(["get", self._target, name])

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.ask(["set", self._target, name], [value])

    def _refuse(self, *_: Any) -> NoReturn:
        self._link.unfit = f"a {self._target[-1]} object is not a plain value"
        raise NotPlain(self._link.unfit)

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __len__ = __iter__ = __contains__ = __repr__ = __str__ = __format__ = _refuse


class Link:
    """The checker's end of the channel to the candidate."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.calls = 0
        self.gone = ""
        self.unfit = ""
        self.raised: BaseException | None = None
        self.refused = False

    def _target(self, value: Any) -> list[Any]:
        if type(value) is not Handle:
            raise CannotPass(f"a {type(value).__name__} cannot be passed to the tested code")
        target: list[Any] = value._target
        return target

    def _handle(self, content: Any) -> Handle:
        number, kind = content
        if type(number) is not int or type(kind) is not str:
            raise WireError("malformed handle")
        return Handle(self, [number, kind[:80]])

    def is_ready(self) -> bool:
        """Wait for the candidate to say that it is confined, before any foreign code is there."""
        try:
            return receive(self.channel) == b"ready"
        except (EOFError, OSError):
            return False

    def call(self, target: list[Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the candidate; arguments changed in place change here too."""
        self.calls += 1
        return self.ask(["call", target, list(named)], [*args, *named.values()])

    def ask(self, request: list[Any], values: list[Any] | None = None) -> Any:
        """Send one request and return its result, or raise what the candidate raised.

        Raises:
            CandidateGone: there is no well-formed answer.
        """
        if self.gone:
            raise CandidateGone(self.gone)
        values = values or []
        frames = [dumps(value, self._target) for value in values]
        try:
            send(self.channel, dumps([request, len(frames)]), *frames)
            error, result = self._read(loads(receive(self.channel), self._handle), values)
        except (EOFError, OSError):
            self.gone = "the program ended before the tests did"
            raise CandidateGone(self.gone) from None
        except (WireError, LookupError, ValueError, TypeError) as problem:
            self.gone = self.unfit = f"no plain value came back: {problem}"
            raise CandidateGone(self.gone) from None
        if error is not None:
            raise error
        return result

    def _read(self, answer: Any, values: list[Any]) -> tuple[BaseException | None, Any]:
        kind, *rest = answer
        if kind == "ok":
            result, changes = rest
            for position, value in changes:
                _overwrite(values[position], value)
            return None, result
        if kind == "unfit":
            raise WireError(str(rest[0])[:300])
        family, text, refused = rest
        if "Exception" not in family:
            self.gone = f"the program tried to leave: {str(family[0])[:80]}"
            return CandidateGone(self.gone), None
        self.raised, self.refused = _rebuild(family, str(text)[:300]), refused is True
        return self.raised, None


def _overwrite(old: Any, new: Any) -> None:
    if type(old) is not type(new):
        raise WireError("an argument changed its type")
    if isinstance(old, list | bytearray):
        old[:] = new
    elif isinstance(old, dict | set):
        old.clear()
        old.update(new)
    elif isinstance(old, tuple):
        for inner, value in zip(old, new, strict=True):
            if isinstance(inner, list | bytearray | dict | set | tuple):
                _overwrite(inner, value)


class RemoteError(Exception):
    """An exception of a class that only the candidate knows."""


def _rebuild(family: Any, text: str) -> BaseException:
    """Make a built-in exception out of class names, most derived first."""
    if not all(type(name) is str for name in family):
        raise WireError("malformed exception")
    for name in family:
        kind = vars(builtins).get(name)
        if isinstance(kind, type) and issubclass(kind, Exception) and kind is not Exception:
            try:
                return kind(text)
            except TypeError:  # UnicodeError's children want five arguments.
                continue
    label = str(family[0])[:80] if family else "exception"
    return RemoteError(f"{label}: {text}" if text else label)


def _globals_used(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_used(constant)


def _compile_prompt(prompt: str) -> CodeType | None:
    """Compile a code prompt, whose last function may lack a body; None for a prompt in words."""
    for ending in ("", "\n    pass\n"):
        try:
            return compile(prompt + ending, "prompt.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
    return None


class Trial:
    """One test against one candidate."""

    def __init__(self, job: dict[str, Any], link: Link) -> None:
        self.job, self.link = job, link
        self.names: dict[str, Any] = {"__name__": "test"}
        self.given: set[str] = set()

    def prepare(self) -> None:
        """Compile the test and define the prompt's helpers, before the clock starts."""
        prompt = _compile_prompt(self.job["prompt"])
        if prompt is not None:
            exec(prompt, self.names)  # noqa: S102
            self.names.pop(self.job["entry_point"], None)
        self.given = set(self.names)
        self.test = compile(self.job["test"], "test.py", "exec", dont_inherit=True)

    def load(self) -> None:
        """Load the candidate and bind the names that the test takes from it."""
        entry = self.job["entry_point"]
        used = set(_globals_used(self.test)) - self.given - set(vars(builtins))
        kinds = dict(self.link.ask(["load", self.job["code"], [entry, *sorted(used)]]))
        # Only names that were asked for: another one could replace what the test relies on.
        for name in sorted(used.union([entry]).intersection(kinds)):
            if name == entry or kinds[name] == "call":
                self.names[name] = Handle(self.link, [name])
            elif kinds[name] == f"module {name}" and name in sys.stdlib_module_names:
                self.names[name] = importlib.import_module(name)
            else:
                self.names[name] = self.link.ask(["get", [name]])

    def run(self) -> None:
        """Execute the test; returns only if it held.

        Raises:
            BrokenTest: the test never calls the candidate.
        """
        entry, bound = self.job["entry_point"], self.names.get("check")
        exec(self.test, self.names)  # noqa: S102
        check = self.names.get("check")
        if check is not bound and callable(check):
            check(self.names[entry])
        if not self.link.calls:
            raise BrokenTest(f"the test never calls {entry!r}")


def judge(job: dict[str, Any], link: Link, announce: Callable[[], None]) -> tuple[str, str]:
    """Run one test; returns status and detail, where `unready` means no verdict."""
    trial = Trial(job, link)
    try:
        trial.prepare()
    except Exception as error:  # The data set's code may raise anything; the harness reports it.
        return "broken", f"{type(error).__name__}: {error}"
    if not link.is_ready():
        return "unready", "the candidate's interpreter did not come up"
    announce()
    try:
        trial.load()
        if job["entry_point"] not in trial.names:
            return "error", f"the program does not define {job['entry_point']!r}"
        trial.run()
    except BaseException as error:  # Whatever ends a test early is an outcome, named below.
        return _outcome(error, link)
    if link.unfit or link.gone:
        return ("failed", link.unfit) if link.unfit else ("error", link.gone)
    return "passed", ""


def _outcome(error: BaseException, link: Link) -> tuple[str, str]:
    detail = f"{type(error).__name__}: {error}".removesuffix(": ")
    if link.unfit:
        return "failed", link.unfit
    if link.gone:
        return "error", link.gone
    if error is link.raised:
        return ("blocked" if link.refused else "error"), detail
    if isinstance(error, BrokenTest | CannotPass):
        return "broken", str(error)
    if not link.calls and not isinstance(error, AssertionError | NameError):
        return "broken", detail
    return ("error" if isinstance(error, NameError) else "failed"), detail


def _work(candidate: int, harness: int) -> None:
    job = loads(receive(harness))
    signal.setitimer(signal.ITIMER_REAL, job["timeout_s"] + job["prepare_s"] + 5)
    status, detail = judge(job, Link(candidate), lambda: send(harness, b"started"))
    send(harness, dumps([status, detail[:300]]))


def serve(control: int, limits: dict[str, Any]) -> None:
    """Fork one child for every pair of channels that arrives on `control`, until it closes."""
    confine(limits)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    door = socket.socket(fileno=control)
    send(control, b"ready")
    while True:
        message, channels, _, _ = socket.recv_fds(door, 1, 2)
        if not message:
            return
        if message == b"n":
            importlib.import_module("numpy")
        if os.fork() == 0:
            door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                _work(*channels)
            finally:
                os._exit(0)
        for channel in channels:
            os.close(channel)
