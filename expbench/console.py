"""Progress bars and messages for people. Everything here writes to standard error."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

stderr = Console(stderr=True, highlight=False)


class _Drawn:
    """Bars that are on the screen while their `with` block runs."""

    _bars: Progress

    def __enter__(self) -> Self:
        """Start drawing."""
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop drawing, whatever happened."""
        self._bars.stop()


class Bars(_Drawn):
    """Two bars: all jobs together, with an estimate, and the stage that is running.

    Implements `expbench.runner.Progress`. Where standard error is no terminal, one line a finished
    stage is printed instead.
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        """Prepare bars over `total` test samples."""
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=stderr,
            disable=quiet or not stderr.is_terminal,
        )
        self._plain = not quiet and not stderr.is_terminal
        self._all = self._bars.add_task("all jobs", total=total)
        self._stage = self._bars.add_task("starting", total=None)
        self._answering = False

    def stage(self, label: str, total: int) -> None:
        """Begin a stage of `total` samples; 0 where the number is not known."""
        if self._plain and ("waiting" in label or (total and "learning" in label)):
            stderr.print(label)  # These may take hours; answering says something for each job.
        self._answering = label.endswith("answering")
        self._bars.reset(self._stage, description=label, total=total or None, completed=0)

    def advance(self, count: int) -> None:
        """Report finished samples of the stage."""
        self._bars.advance(self._stage, count)
        if self._answering:
            self._bars.advance(self._all, count)

    def finished(self, samples: int, line: str) -> None:
        """Report a finished job: its line stays on the screen."""
        self._bars.update(self._all, completed=samples)
        if self._plain:
            stderr.print(line, soft_wrap=True)
        elif not self._bars.disable:
            self._bars.console.print(line, soft_wrap=True)


def say(text: str) -> None:
    """Print one line for people."""
    stderr.print(text, markup=False, soft_wrap=True)


class Stages(_Drawn):
    """One bar for a command that works through a few stages, such as a training and a test."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Prepare the bar; where standard error is no terminal, a line a stage is printed."""
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=stderr,
            disable=quiet or not stderr.is_terminal,
            transient=True,
        )
        self._plain = not quiet and not stderr.is_terminal
        self._stage = self._bars.add_task("starting", total=None)

    def stage(self, label: str, total: int) -> None:
        """Begin a stage of `total` steps; 0 where the number is not known."""
        if self._plain:
            stderr.print(label)
        self._bars.reset(self._stage, description=label, total=total or None, completed=0)

    def advance(self, count: int) -> None:
        """Report finished steps of the stage."""
        self._bars.advance(self._stage, count)


class Download(_Drawn):
    """A bar for one task's downloads. Implements `expbench.data.Progress`."""

    def __init__(self, name: str, *, quiet: bool = False) -> None:
        """Prepare a bar; it appears with the first bytes."""
        self._bars = Progress(
            TextColumn(name),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
            TimeRemainingColumn(),
            console=stderr,
            disable=quiet or not stderr.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, source: str, done: int, total: int) -> None:
        """Show how much of a source is here, in bytes or rows; total 0 is unknown."""
        if source not in self._tasks:
            self._tasks[source] = self._bars.add_task(source[-48:], total=total or done or 1)
        self._bars.update(self._tasks[source], completed=done, total=total or max(done, 1))
