"""The candidate: runs the model's code in a sandbox of its own and answers calls from the checker.

Nothing here is trusted once the model's code has been loaded: it can rewrite this module. All it
gains is other *return values*, because the only way out is a channel on which the checker reads
nothing else.
"""

import posix
import sys

from expbench.sandbox.inside.confine import confine
from expbench.sandbox.inside.wire import WireError, dumps, loads, receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_REFUSALS = (1, 13, 30, 101)  # EPERM, EACCES, EROFS, ENETUNREACH
_CHANGEABLE = (list, dict, set, bytearray, tuple)


class Solution:
    """The loaded program and the objects that the checker holds handles to."""

    def __init__(self) -> None:
        self.module = type(sys)("solution")
        self.objects: list[Any] = []

    def keep(self, value: "Any") -> "list[Any]":
        """Store an object; returns what stands for it on the wire."""
        self.objects.append(value)
        return [len(self.objects) - 1, type(value).__name__]

    def find(self, target: "list[Any]") -> "Any":
        """Return the object of a handle: a global name or a number from `keep`."""
        key = target[0]
        return self.module.__dict__[key] if isinstance(key, str) else self.objects[key]

    def load(self, code: str, names: "list[str]") -> "list[Any]":
        """Execute the program; returns the kind of each asked name that it defines."""
        sys.modules["solution"] = self.module
        sys.argv[:] = ["solution.py"]
        exec(compile(code, "solution.py", "exec", dont_inherit=True), self.module.__dict__)  # noqa: S102
        found = self.module.__dict__
        return [[name, _kind(found[name])] for name in names if name in found]

    def reply(self, request: "list[Any]", frames: "list[bytes]") -> "list[bytes]":
        """Carry out one request; returns the frames of the answer."""
        verb, target, *rest = request
        if verb == "load":
            return [dumps(["ok", self.load(target, rest[0]), []])]
        if verb == "get":
            thing = self.find(target)
            return [dumps(["ok", getattr(thing, rest[0]) if rest else thing, []], self.keep)]
        arguments = [loads(frame, self.find) for frame in frames]
        if verb == "set":
            setattr(self.find(target), rest[0], arguments[0])
            return [dumps(["ok", None, []])]
        split = len(arguments) - len(rest[0])
        named = dict(zip(rest[0], arguments[split:], strict=True))
        result = self.find(target)(*arguments[:split], **named)
        answer = dumps(["ok", result, self._changed(arguments, frames)], self.keep)
        return [answer]

    def _changed(self, arguments: "list[Any]", frames: "list[bytes]") -> "list[Any]":
        """Pair up position and new value of every argument that the call has altered in place."""
        pairs = []
        for position, (value, before) in enumerate(zip(arguments, frames, strict=True)):
            if type(value) in _CHANGEABLE and before != dumps(value, self.keep):
                pairs.append([position, value])
        return pairs


def _kind(value: "Any") -> str:
    if callable(value):
        return "call"
    return f"module {value.__name__}" if type(value) is type(sys) else "value"


def _failure(error: BaseException) -> bytes:
    family = [kind.__name__ for kind in type(error).__mro__]
    refused = isinstance(error, OSError) and error.errno in _REFUSALS
    try:
        text = str(error)[:300]
    except BaseException:  # The error is the model's own class, its __str__ may do anything.
        text = ""
    return dumps(["raise", family, text, refused])


def serve(channel: int, limits: "dict[str, Any]") -> None:
    """Confine this process, announce it, then answer requests until the checker hangs up."""
    confine(limits)
    send(channel, b"ready")
    solution, pid = Solution(), posix.getpid()
    while True:
        try:
            request, count = loads(receive(channel))
            frames = [receive(channel) for _ in range(count)]
        except EOFError:
            return
        answer = _attempt(solution.reply, request, frames)
        if posix.getpid() != pid:  # A child forked by the model's code came back here.
            posix._exit(0)
        send(channel, *answer)


def _attempt(
    reply: "Callable[[Any, Any], list[bytes]]", request: "list[Any]", frames: "list[bytes]"
) -> "list[bytes]":
    try:
        return reply(request, frames)
    except WireError as error:
        return [dumps(["unfit", str(error)[:300]])]
    except BaseException as error:  # SystemExit and the like are answers too: "it tried to exit".
        return [_failure(error)]
