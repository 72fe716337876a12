"""The standing checker process that forks a fresh checker for every test."""

import os
import socket
import threading

from expbench.errors import SandboxError
from expbench.sandbox.process import Isolated, start


class Checkers:
    """Hands tests to a checker process, which is started on first use and again if it is gone."""

    def __init__(self, *, binary: str | None, map_root: bool) -> None:
        self._binary, self._map_root = binary, map_root
        self._lock = threading.Lock()
        self._process: Isolated | None = None
        self._owner = 0

    def submit(self, candidate: socket.socket, harness: socket.socket, *, numpy: bool) -> None:
        """Give a fresh checker its channels to the candidate and to the harness.

        Args:
            candidate: The checker's end of the channel to the candidate.
            harness: Its end of the channel on which it gets its job and tells its verdict.
            numpy: Whether to import numpy first, once for all later checkers.

        Raises:
            SandboxError: the checker process cannot be started.
        """
        channels = [candidate.fileno(), harness.fileno()]
        kind = b"n" if numpy else b"p"
        with self._lock:
            for _ in range(2):
                process = self._running()
                try:
                    socket.send_fds(process.channel, [kind], channels)
                    return
                except (BrokenPipeError, ConnectionResetError):
                    self._stop()
        raise SandboxError("The checker process ended twice at once; no verdict was reached.")

    def stop(self) -> None:
        """End the checker process of this harness process, if there is one."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
        self._process = None

    def _running(self) -> Isolated:
        # After a fork the child must not share its parent's checker: it would outlive neither.
        if self._process is None or self._owner != os.getpid():
            self._process = self._start()
            self._owner = os.getpid()
        return self._process

    def _start(self) -> Isolated:
        """Start from a thread of its own that stays: bubblewrap ends with the *thread* above it."""
        started: list[Isolated | SandboxError] = []
        is_up = threading.Event()

        def keep() -> None:
            try:
                process = start("checker", binary=self._binary, map_root=self._map_root)
                started.append(process)
            except SandboxError as error:
                started.append(error)
                return
            finally:
                is_up.set()
            process.popen.wait()

        threading.Thread(target=keep, name="expbench-checker", daemon=True).start()
        is_up.wait()
        if isinstance(started[0], SandboxError):
            raise started[0]
        return started[0]
