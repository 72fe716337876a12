"""The last step before foreign code runs: what a process inside does to itself for good."""

import posix
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def confine(limits: "dict[str, Any]") -> None:
    """Give up the mapped root, set the resource limits for good and silence the output."""
    if limits["uid"]:
        posix.setgroups([])
        posix.setresgid(limits["uid"], limits["uid"], limits["uid"])
        posix.setresuid(limits["uid"], limits["uid"], limits["uid"])
    for name, value in limits["resources"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    posix.dup2(1, 2)
    sys.path.extend(limits["path"])
