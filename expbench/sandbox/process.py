"""Start, watch and end isolated processes."""

import contextlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from expbench.errors import SandboxError
from expbench.sandbox import bubblewrap, program, seccomp

START_S = 30.0
"""Longest wait for a process to come up; generous, because a busy machine is not a verdict."""
PROCESSES = 32
"""Most processes and threads of one candidate."""
MEMORY_BYTES = 2 << 30
"""Address space of one process, and resident memory of one candidate's processes together."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Isolated:
    """A running program; `root` is the process all of its processes descend from."""

    popen: "subprocess.Popen[bytes]"
    root: int
    init: int | None
    """A pidfd of the sandbox's init, whose end is the end of every process inside."""
    channel: socket.socket
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def kill(self) -> None:
        """End every process of the program and return once they are gone."""
        self.channel.close()
        with self._lock:
            init, self.init = self.init, None
        if init is not None:
            _signal(init)
            ended = select.poll()
            ended.register(init, select.POLLIN)
            # bubblewrap itself ends when its child has; killing it would leave a zombie to others.
            if not ended.poll(START_S * 1000):
                self.popen.kill()
            os.close(init)
        elif self.popen.returncode is None:
            try:
                os.killpg(self.popen.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.popen.wait()
        if self.popen.stderr:
            self.popen.stderr.close()

    def excess(self) -> str:
        """Name the limit that the processes together exceed; empty while they keep within."""
        tasks, memory_bytes = _usage(self.root)
        if tasks > PROCESSES + 2:  # bubblewrap's init is one, and a count may catch one ending.
            return f"more than {PROCESSES} processes"
        return f"more than {MEMORY_BYTES >> 20} MiB" if memory_bytes > MEMORY_BYTES else ""


def _signal(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _usage(root: int) -> tuple[int, int]:
    """Count tasks and resident bytes of a process and its descendants, as far as can be seen."""
    tasks, pages, waiting = 0, 0, [root]
    while waiting and tasks <= 4 * PROCESSES:
        folder = Path("/proc", str(waiting.pop()))
        try:
            pages += int((folder / "statm").read_text().split()[1])
            for task in (folder / "task").iterdir():
                tasks += 1
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, IndexError):  # Ended meanwhile.
            continue
    return tasks, pages * _PAGE_BYTES


def _settings(name: str, *, timeout_s: float, unsafe: bool, uid: int) -> dict[str, object]:
    """Collect what the program applies to itself before any foreign code runs."""
    resources = {
        "RLIMIT_CORE": 0,
        "RLIMIT_AS": MEMORY_BYTES if name == "candidate" else 2 * MEMORY_BYTES,
        "RLIMIT_FSIZE": bubblewrap.SCRATCH_BYTES,
        "RLIMIT_NOFILE": 64,
    }
    if name == "candidate":
        # A backstop behind the wall clock, for a harness that was itself stopped.
        resources["RLIMIT_CPU"] = int(2 * timeout_s) + 30
        if not unsafe:  # Outside a user namespace the user's other processes would count.
            resources["RLIMIT_NPROC"] = PROCESSES
    folders = program.numpy_folders()
    path = [str(Path(folders[0]).parent) if unsafe else bubblewrap.SITE] if folders else []
    return {"uid": uid, "resources": resources, "path": path}


def launch(
    name: str,
    *,
    binary: str | None,
    map_root: bool = False,
    numpy: bool = True,
    timeout_s: float = 0.0,
) -> Isolated:
    """Start `expbench.sandbox.inside.<name>`; it says `ready` once it has confined itself.

    Args:
        name: `candidate` or `checker`.
        binary: The bubblewrap program; None runs without isolation, under resource limits only.
        map_root: Whether to map a second, unprivileged user, which only root can.
        numpy: Whether to show numpy.
        timeout_s: What the CPU limit is laid out for.

    Raises:
        SandboxError: bubblewrap refused.
    """
    ours, theirs = socket.socketpair()
    uid = bubblewrap.NOBODY if map_root else 0
    settings = _settings(name, timeout_s=timeout_s, unsafe=binary is None, uid=uid)
    with theirs:
        command = [program.interpreter(), "-I", "-S", "-B", "-c", program.BOOT]
        command.append(str(theirs.fileno()))
        if binary is None:
            popen = _popen(command, [theirs.fileno()])
            isolated = Isolated(popen, popen.pid, None, ours)
        else:
            isolated = _start_bubblewrap(binary, command, (map_root, numpy), ours, theirs)
    try:
        ours.sendall(program.message(name, settings))
    except OSError as error:
        raise failure(isolated, str(error)) from None
    return isolated


def start(name: str, *, binary: str | None, map_root: bool = False) -> Isolated:
    """Launch a program and wait until it is ready.

    Raises:
        SandboxError: it did not come up.
    """
    isolated = launch(name, binary=binary, map_root=map_root)
    try:
        isolated.channel.settimeout(START_S)
        if isolated.channel.recv(13, socket.MSG_WAITALL)[8:] != b"ready":
            raise ConnectionError("it ended at once")
    except OSError as error:
        raise failure(isolated, str(error)) from None
    isolated.channel.settimeout(None)
    return isolated


def _popen(command: list[str], inherited: list[int]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=inherited,
        start_new_session=True,
        env=bubblewrap.ENVIRONMENT,
    )


def _start_bubblewrap(
    binary: str,
    command: list[str],
    options: tuple[bool, bool],
    ours: socket.socket,
    theirs: socket.socket,
) -> Isolated:
    map_root, numpy = options
    with contextlib.ExitStack() as stack:
        info, info_end = _pipe(stack)
        ready_end, ready = _pipe(stack)
        filter_end = None
        if seccomp.program():
            filter_end, filter_in = _pipe(stack)
            filter_in.write(seccomp.program())
            filter_in.close()
        arguments = bubblewrap.arguments(
            map_root=map_root,
            numpy=numpy,
            info=info_end.fileno(),
            ready=ready_end.fileno(),
            filter_fd=filter_end.fileno() if filter_end else None,
        )
        inherited = [theirs.fileno(), info_end.fileno(), ready_end.fileno()]
        inherited += [filter_end.fileno()] if filter_end else []
        popen = _popen([binary, *arguments, "--", *command], inherited)
        info_end.close()
        try:
            root = int(json.loads(info.read())["child-pid"])
            init = os.pidfd_open(root)
            if map_root:
                _map_users(root)
                ready.write(b"1")
        except (OSError, ValueError) as error:
            raise failure(Isolated(popen, popen.pid, None, ours), str(error)) from None
    return Isolated(popen, root, init, ours)


def _pipe(stack: contextlib.ExitStack) -> tuple[io.FileIO, io.FileIO]:
    reader, writer = os.pipe()
    return stack.enter_context(io.FileIO(reader)), stack.enter_context(io.FileIO(writer, "w"))


def _map_users(pid: int) -> None:
    """Map root and nobody, each to itself.

    The kernel exempts the real root from the limit on processes, whatever the namespace calls it;
    nobody is held to it.
    """
    for kind in ("uid", "gid"):
        mapping = f"0 0 1\n{bubblewrap.NOBODY} {bubblewrap.NOBODY} 1\n"
        Path(f"/proc/{pid}/{kind}_map").write_text(mapping)


def failure(isolated: Isolated, problem: str) -> SandboxError:
    """End what was started and turn its last words into an error."""
    stderr = isolated.popen.stderr
    isolated.popen.kill()
    said = stderr.read(2000).decode("utf-8", "replace").strip() if stderr else ""
    isolated.kill()
    return SandboxError(f"The sandbox did not start ({said or problem}). {bubblewrap.REMEDY}")
