"""Checkpoints: what a trained method learnt, on disk, shared by all runs that learn the same.

`OUT/checkpoints/<method>-<key>/` holds `fit.json` (what decided it, what it cost, where it was
made), `train.jsonl` and whatever else the method writes while it learns, `learnt/` (what its `save`
wrote), `seen.json` (hashes by which a test sample is recognised) and, last of all, `COMPLETE`.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import Any

from expbench.core import Question, checksum
from expbench.errors import DataError, RecordError
from expbench.experience.leaks import identities
from expbench.records import locked, write_json

SCHEMA = 1
FOLDER = "checkpoints"
STATE = "state"
"""Subfolder for what a killed training goes on from; it is removed when nothing needs it."""


class Checkpoint:
    """One checkpoint on disk; the folder may not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.learnt = path / "learnt"
        self.log = path / "train.jsonl"
        self._marker = path / "COMPLETE"

    @property
    def info(self) -> dict[str, Any]:
        """The content of `fit.json`; empty when there is none.

        Raises:
            RecordError: the file is damaged or from a newer version.
        """
        path = self.path / "fit.json"
        if not path.exists():
            return {}
        try:
            info = dict(json.loads(path.read_bytes()))
            schema, _ = int(info["schema"]), info["training"]["key"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(self.path, f"fit.json: {error}") from error
        if schema > SCHEMA:
            raise RecordError(f"{path} has schema {schema}; this ExpBench reads up to {SCHEMA}.")
        return info

    def write_info(self, info: Mapping[str, Any]) -> None:
        """Replace `fit.json`."""
        write_json(self.path / "fit.json", {"schema": SCHEMA, **info})

    def is_complete(self) -> bool:
        """Tell whether the method has learnt to the end and was saved."""
        return self._marker.exists()

    def lock(self, *, wait_s: float = 0.0) -> AbstractContextManager[None]:
        """Keep every other process from training here; a negative wait has no end."""
        what = f"Checkpoint {self.path.name}"
        return locked(self.path.parent / ".locks", self.path.name, what=what, wait_s=wait_s)

    def is_locked(self) -> bool:
        """Tell whether another process trains here right now."""
        try:
            with self.lock():
                return False
        except RecordError:
            return True

    def keep(self, method: Any, info: Mapping[str, Any], seen: Iterable[Question]) -> None:
        """Save a method that has learnt, then everything about it, then the marker.

        Args:
            method: Has learnt to the end.
            info: The content of `fit.json`.
            seen: All samples that it learnt from.
        """
        shutil.rmtree(self.learnt, ignore_errors=True)
        self.learnt.mkdir(parents=True)
        method.save(self.learnt)
        hashes = {key: f"{q.task}/{q.id}" for q in seen for key in _hashes(q)}
        write_json(self.path / "seen.json", hashes)
        self.write_info({**info, "files": self._files()})
        self._marker.touch()
        shutil.rmtree(self.path / STATE, ignore_errors=True)

    def _files(self) -> dict[str, str]:
        paths = sorted(path for path in self.learnt.rglob("*") if path.is_file())
        return {path.relative_to(self.learnt).as_posix(): _sha256(path) for path in paths}

    def verify(self) -> None:
        """Compare what `save` wrote with what is there now.

        Raises:
            RecordError: unfinished, or a file is missing or another one.
        """
        if not self.is_complete():
            raise RecordError(
                f"{self.path} holds no finished checkpoint; "
                "the command that began it goes on where it stopped."
            )
        wanted, found = self.info.get("files"), self._files()
        if wanted is None:
            raise _damaged(self.path, "fit.json lists no files")
        if bad := sorted(name for name in wanted if found.get(name) != wanted[name]):
            raise _damaged(self.path, f"learnt/{bad[0]} is missing or another one")

    def refuse_seen(self, questions: Sequence[Question]) -> None:
        """Refuse test questions whose sample was learnt from.

        Raises:
            DataError: the first such question.
            RecordError: the list of what was learnt from is damaged.
        """
        try:
            seen = dict(json.loads((self.path / "seen.json").read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise _damaged(self.path, f"seen.json: {error}") from error
        for question in questions:
            for key in _hashes(question):
                if key in seen:
                    raise DataError(
                        f"Test sample {question.id!r} of {question.task} was learnt from as "
                        f"{seen[key]!r} by {self.path.name}; answer other samples with it."
                    )

    def set_aside(self) -> None:
        """Keep the checkpoint under another name, so that the method learns afresh."""
        number = 1
        while (kept := self.path.with_name(f"{self.path.name}.old{number}")).exists():
            number += 1
        if self.path.exists():
            self.path.rename(kept)


def _damaged(path: Path, what: str) -> RecordError:
    return RecordError(
        f"Checkpoint {path} is damaged ({what}); remove the folder and run the command again."
    )


def _hashes(question: Question) -> list[str]:
    return [checksum(identity)[:16] for identity in sorted(identities(question))]


def _sha256(path: Path) -> str:
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=512)
def _digest(path: Path, size: int, time_ns: int) -> str:
    """Hash a file once a process; size and time tell whether it was changed since."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
