"""Run folders: `run.json`, `records.jsonl`, and the lock that keeps two processes apart.

`records.jsonl` is append-only, one line a sample. Answers are first appended to `answers.jsonl`,
before any grader sees them, so that a crash while grading costs no generation; the file goes away
when the run is complete. A line is written with its newline in one call; what a kill leaves behind
is at most one cut line, which the next start removes. JSON files are replaced, never edited.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from expbench.core import Output, Record, RunSpec, Score, Segment, canonical_json
from expbench.errors import RecordError

SCHEMA = 1
RECORDS = "records.jsonl"
ANSWERS = "answers.jsonl"
RUN = "run.json"


def append_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Append one JSON line a value and flush them to the disk.

    Raises:
        RecordError: the disk is full or read-only; complete lines written so far are kept.
    """
    data = "".join(_dump(value) + "\n" for value in values).encode()
    if not data:
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise RecordError(
            f"Cannot write {path}: {error.strerror}. Make room or choose another --out; "
            "the same command then goes on where it stopped."
        ) from error


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of each whole JSON line; cut or damaged lines yield None.

    Empty lines are passed over. The file may be absent.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                value = None
            yield number, value


def repair(path: Path, *, key: Callable[[Any], Any]) -> int:
    """Remove cut, damaged and repeated lines so that appending is safe again.

    A file with damage is kept as `<name>.damaged`. `key` names a value (equal keys repeat); it may
    raise KeyError or TypeError for a value that is not one of ours.

    Returns:
        The number of lines removed.
    """
    kept: list[bytes] = []
    seen: set[Any] = set()
    removed = 0
    for _, value in read_lines(path):
        try:
            name = key(value)
        except (KeyError, TypeError):
            name = None
        if name is None or name in seen:
            removed += 1
            continue
        seen.add(name)
        kept.append((_dump(value) + "\n").encode())
    if removed:
        shutil.copyfile(path, path.with_name(path.name + ".damaged"))
        _replace(path, b"".join(kept))
    return removed


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file: a reader sees the old or the new one, never half of it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1, sort_keys=True)
    _replace(path, text.encode() + b"\n")


def _replace(path: Path, data: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise RecordError(f"Cannot write {path}: {error.strerror}.") from error


@contextmanager
def locked(folder: Path, name: str, *, what: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock file for the length of the block; the system drops it when a process dies.

    Raises:
        RecordError: another process holds it for longer than `wait_s` seconds.
    """
    import filelock  # only verbs that write need it

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / f"{name}.lock", timeout=wait_s):
            yield
    except filelock.Timeout:
        raise RecordError(
            f"{what} is in use by another process; wait for it to end, then start again."
        ) from None


def spec_values(spec: RunSpec) -> dict[str, Any]:
    """Give a spec as `run.json` keeps it: without `training` where nothing was trained."""
    values = asdict(spec)
    if not values["training"]:
        del values["training"]
    return values


def output_from_json(value: Mapping[str, Any]) -> Output:
    """Rebuild an output from a parsed line."""
    ranking = value.get("ranking")
    return Output(
        text=value["text"],
        ranking=None if ranking is None else tuple(ranking),
        stop_reason=value["stop_reason"],
        segments=tuple(Segment(**segment) for segment in value["segments"]),
        trace=tuple(value.get("trace", ())),
    )


def record_from_json(value: Mapping[str, Any]) -> Record:
    """Rebuild a record from a parsed line.

    Raises:
        KeyError, TypeError, ValueError: not a record.
    """
    score = value["score"]
    return Record(
        run_id=value["run_id"],
        sample_id=value["sample_id"],
        output=output_from_json(value["output"]),
        score=None if score is None else Score(**score),
        error=value["error"],
        seconds=float(value["seconds"]),
        target=value.get("target", ""),
        tags=value.get("tags", {}),
    )


class RunFolder:
    """One run on disk."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / run_id

    @classmethod
    def at(cls, path: Path) -> "RunFolder":
        """Open the folder at a path."""
        return cls(path.parent, path.name)

    @property
    def info(self) -> dict[str, Any]:
        """The content of `run.json`; empty when there is none.

        Raises:
            RecordError: the file is damaged or from a newer version.
        """
        path = self.path / RUN
        if not path.exists():
            return {}
        try:
            info = json.loads(path.read_bytes())
            schema = int(info["schema"])
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(
                f"{path} is damaged ({error}); move the folder away and run again."
            ) from error
        if schema > SCHEMA:
            raise RecordError(f"{path} has schema {schema}; this ExpBench reads up to {SCHEMA}.")
        return dict(info)

    def write_info(self, info: Mapping[str, Any]) -> None:
        """Replace `run.json`."""
        write_json(self.path / RUN, {"schema": SCHEMA, "run_id": self.run_id, **info})

    def is_complete(self) -> bool:
        """Tell whether every sample has its record."""
        return self.info.get("status") == "complete"

    def lock(self, *, wait_s: float = 0.0) -> AbstractContextManager[None]:
        """Keep every other process off this run; a negative wait has no end."""
        what = f"Run {self.run_id}"
        return locked(self.root / ".locks", self.run_id, what=what, wait_s=wait_s)

    def is_locked(self) -> bool:
        """Tell whether another process works on this run right now."""
        try:
            with self.lock():
                return False
        except RecordError:
            return True

    def prepare(self, spec: RunSpec) -> int:
        """Make the folder ready to append to.

        Returns:
            Damaged or cut lines that were removed and will be computed again.

        Raises:
            RecordError: the folder holds a run with other settings; the message names them.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        stored = self.info.get("spec")
        ours = json.loads(canonical_json(spec_values(spec)))
        if stored is not None and stored != ours:
            names = {*ours, *stored}
            differing = sorted(k for k in names if stored.get(k) != ours.get(k))
            raise RecordError(
                f"{self.path} holds a run with another {', '.join(differing)}; "
                "move it away or choose another --out."
            )
        removed = repair(self.path / RECORDS, key=lambda v: record_from_json(v).sample_id)
        return removed + repair(self.path / ANSWERS, key=lambda v: v["sample_id"])

    def set_aside(self) -> Path | None:
        """Keep an existing run under another name, so that it is computed afresh."""
        if not self.path.exists():
            return None
        number = 1
        while (kept := self.root / f"{self.run_id}.old{number}").exists():
            number += 1
        self.path.rename(kept)
        return kept

    def records(self) -> Iterator[Record]:
        """Read the records one by one.

        Raises:
            RecordError: a line that is no record, with its number.
        """
        path = self.path / RECORDS
        for number, value in read_lines(path):
            try:
                yield record_from_json(value)
            except (KeyError, TypeError, ValueError) as error:
                raise RecordError(
                    f"{path} line {number} is damaged ({error}); "
                    "the run's own command computes it again."
                ) from error

    def append_records(self, records: Iterable[Record]) -> None:
        """Append graded samples."""
        append_lines(self.path / RECORDS, (asdict(record) for record in records))

    def append_answers(self, answers: Mapping[str, tuple[Output, float]]) -> None:
        """Append ungraded answers: sample id -> (output, seconds)."""
        append_lines(
            self.path / ANSWERS,
            (
                {"sample_id": name, "output": asdict(output), "seconds": seconds}
                for name, (output, seconds) in answers.items()
            ),
        )

    def answers(self) -> dict[str, tuple[Output, float]]:
        """Read answers that no grader has judged yet."""
        found = {}
        for _, value in read_lines(self.path / ANSWERS):
            if value is not None:
                output = output_from_json(value["output"])
                found[value["sample_id"]] = (output, float(value["seconds"]))
        return found

    def drop_answers(self) -> None:
        """Remove the answers file; the records hold everything."""
        (self.path / ANSWERS).unlink(missing_ok=True)

    def replace_records(self, records: Iterable[Record]) -> None:
        """Replace all records at once, for `regrade`."""
        data = "".join(_dump(asdict(record)) + "\n" for record in records)
        _replace(self.path / RECORDS, data.encode())


def find_runs(root: Path) -> list[RunFolder]:
    """List the run folders below a folder, sorted by path; set-aside ones (`*.old1`) are left out.

    A run folder is any folder that holds a `run.json`.
    """
    found = (path.parent for path in root.rglob(RUN))
    return [RunFolder.at(p) for p in sorted(found) if ".old" not in p.name]


def find_run(root: Path, name: str) -> RunFolder:
    """Find one run by a path or an id prefix.

    Raises:
        RecordError: none or several match.
    """
    if (Path(name) / RUN).is_file():
        return RunFolder.at(Path(name))
    matches = [run for run in find_runs(root) if run.run_id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    what = "No run" if not matches else f"{len(matches)} runs"
    raise RecordError(
        f"{what} in {root} with an id that starts with {name!r}; `expbench report` lists the ids."
    )
