"""A pool of killable processes for math-verify, which may hang or eat all memory on hostile text.

Workers start on first use, are reused warm (a start costs seconds) and are replaced only after a
kill. Any number of threads may ask at once; a forked child gets a pool of its own.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from expbench.errors import GradingError

WORKER = Path(__file__).with_name("math_worker.py")
WORKERS = max(1, min(4, os.cpu_count() or 1))
START_SECONDS = 120.0
"""Longest wait for a worker to import math-verify on a busy machine."""


@dataclass(frozen=True)
class Comparison:
    """What a worker found out: equal or not, and why it could not tell."""

    equal: bool
    trouble: str = ""
    """`timeout ...` or `refused ...`; empty for a plain verdict."""


class _Worker:
    """One child process and its pipes."""

    def __init__(self) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                # -P keeps this folder off the child's path, where `math.py` would hide `math`.
                [sys.executable, "-P", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env={**os.environ, "PYTHONIOENCODING": "utf-8"},
                encoding="utf-8",
            )
        except OSError as error:
            raise GradingError(f"The math grader cannot start a process: {error}.") from error
        try:
            ready = self.receive(START_SECONDS)
        except BaseException:
            self.close()
            raise
        if ready != {}:
            self.close()
            raise GradingError(f"The math grader did not start: {ready or 'timeout'}.")

    def send(self, request: dict[str, Any]) -> None:
        """Write one request line."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self.crash() from error

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """Read one reply line; None if the worker was killed at the deadline."""
        assert self.process.stdout is not None
        late = threading.Event()

        def kill() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if late.is_set():
            return None
        if not line:
            raise self.crash()
        reply: dict[str, Any] = json.loads(line)
        return reply

    def crash(self) -> GradingError:
        """Describe the end of a worker that nobody killed."""
        code = self.process.wait()
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
        return GradingError(
            f"The math grader's process ended with code {code}: {''.join(last) or 'no message'}. "
            "The answer was not graded; grade the run again."
        )

    def close(self) -> None:
        """End the process and its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # Unsent bytes for a process that is gone.


class Pool:
    """Up to `WORKERS` processes, started when asked for."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._slots = threading.BoundedSemaphore(workers)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    def compare(self, gold: str, answer: str, *, seconds: float) -> Comparison:
        """Ask whether two LaTeX expressions are equal.

        Args:
            gold: The reference, without dollar signs.
            answer: The model's expression, without dollar signs.
            seconds: Deadline for the comparison itself, without waiting for a free worker.

        Raises:
            GradingError: the worker cannot start, or crashed.
        """
        with self._slots:
            worker = self._take()
            healthy = False
            try:
                worker.send({"gold": gold, "answer": answer, "seconds": seconds})
                reply = worker.receive(seconds)
                healthy = reply is not None
            finally:
                self._give_back(worker, healthy)
        if reply is None:
            return Comparison(False, f"timeout after {seconds:g} s")
        if "refused" in reply:
            return Comparison(False, f"refused: {reply['refused']}")
        return Comparison(bool(reply["equal"]))

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            workers, self._all, self._idle = self._all, set(), []
        for worker in workers:
            worker.close()

    def _take(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        worker = _Worker()
        with self._lock:
            self._all.add(worker)
        return worker

    def _give_back(self, worker: _Worker, healthy: bool) -> None:
        with self._lock:
            if healthy:
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.close()


_pool = Pool()


def compare(gold: str, answer: str, *, seconds: float) -> Comparison:
    """Compare through this process's pool (see `Pool.compare`)."""
    return _pool.compare(gold, answer, seconds=seconds)


def _forget_parents_workers() -> None:
    """Start afresh in a forked child: the pipes belong to the parent."""
    global _pool
    _pool = Pool()


atexit.register(lambda: _pool.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents_workers)
