"""The samples of one task from one suite: loaded, checked, prompted and drawn.

Order and draw are fixed by hashes of (task, split, sample id), so a smaller limit gives a prefix of
a larger one, whatever else changes. Nothing inside a sample depends on limits.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from expbench.core import Sample, Split, Task, checksum
from expbench.data import OfficialRows, Progress, folder_rows, full_rows, mini_rows
from expbench.data.draws import normalised, ordered
from expbench.errors import ConfigError, DataError

Suite = Literal["mini", "full", "dir"]
SUITES = ("mini", "full")
"""What a user may name; `dir` follows from a folder."""
SPLITS: tuple[Split, Split] = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """What a run works on, and everything its record says about it."""

    task: str
    """Name of the task."""
    suite: Suite
    train: tuple[Sample, ...]
    test: tuple[Sample, ...]
    revision: str | None
    """Pinned Hub commit of the official source; None for bundled data, folders and plain URLs."""
    notes: tuple[str, ...]
    """Sentences for people: what was dropped, repaired or recorded."""
    sizes: Mapping[str, Mapping[str, int]]
    """Split -> `available` and `drawn` samples."""
    checksums: Mapping[str, str]
    """Split -> checksum of the drawn samples, in order, with everything in them."""
    files: Mapping[str, str]
    """Source file -> SHA-256."""

    def spec(self) -> dict[str, Any]:
        """What decides a result, for `RunSpec.data`."""
        return {
            "revision": self.revision,
            "files": dict(self.files),
            "checksums": dict(self.checksums),
            "sizes": {split: dict(size) for split, size in self.sizes.items()},
        }


def load(
    task: Task,
    *,
    suite: str = "mini",
    data_dir: Path | None = None,
    train_limit: int = 0,
    test_limit: int = 0,
    progress: Progress | None = None,
) -> TaskData:
    """Load the samples of a task.

    Args:
        task: Which task.
        suite: `mini` (bundled) or `full` (official, pulled into the cache first).
        data_dir: Folder with `<task>/<split>.jsonl`; takes the place of the suite.
        train_limit: Most train samples; 0 means all.
        test_limit: Most test samples; 0 means all.
        progress: Told about downloads.

    Raises:
        ConfigError: unknown suite or a negative limit.
        MissingData: the rows are not there.
        DataError: rows that cannot be used.
    """
    limits = {"train": train_limit, "test": test_limit}
    if min(limits.values()) < 0:
        raise ConfigError(f"Limits are {limits}; a limit is 0 (all) or more.")
    rows = _open(task, suite=suite, data_dir=data_dir, progress=progress)
    splits = _checked(task, rows)
    drawn = {
        split: tuple(
            _prompted(task, sample)
            for sample in ordered(samples, f"{task.name}:{split}", _by_id)[: limits[split] or None]
        )
        for split, samples in splits.items()
    }
    return TaskData(
        task=task.name,
        suite="dir" if data_dir else "full" if suite == "full" else "mini",
        train=drawn["train"],
        test=drawn["test"],
        revision=task.source.revision if suite == "full" and not data_dir else None,
        notes=tuple(rows.notes),
        sizes={
            split: {"available": len(splits[split]), "drawn": len(drawn[split])} for split in SPLITS
        },
        checksums={split: samples_checksum(drawn[split]) for split in SPLITS},
        files=dict(sorted(rows.checksums.items())),
    )


def samples_checksum(samples: Iterable[Sample]) -> str:
    """Checksum over samples in order, with everything in them."""
    names = [field.name for field in fields(Sample)]
    return checksum([checksum({n: getattr(sample, n) for n in names}) for sample in samples])


def _open(
    task: Task, *, suite: str, data_dir: Path | None, progress: Progress | None
) -> OfficialRows:
    if data_dir is not None:
        return folder_rows(task.name, data_dir)
    if suite == "mini":
        return mini_rows(task.name)
    if suite == "full":
        return full_rows(task, progress)
    raise ConfigError(f"No suite named {suite!r}. Known: {', '.join(SUITES)}.")


def _by_id(sample: Sample) -> str:
    return sample.id


def _checked(task: Task, rows: OfficialRows) -> dict[Split, list[Sample]]:
    """All samples, with what the task fixes for each; no question on both sides, none unusable."""
    fixed: dict[str, Any] = {
        "task": task.name, "kind": task.kind, "max_tokens": task.max_tokens, "stop": task.stop
    }  # fmt: skip
    loaded = task.load(rows)
    splits = {split: [replace(sample, **fixed) for sample in loaded[split]] for split in SPLITS}
    splits["train"] = _disjoint(splits["train"], splits["test"], rows)
    _validate(task, splits)
    return splits


def _prompted(task: Task, sample: Sample) -> Sample:
    prompt = task.prompt(sample.question())
    if not prompt.strip():
        raise DataError(
            f"Task {task.name!r}, sample {sample.id!r}: the prompt is empty. Correct the task's"
            " prompt builder."
        )
    return replace(sample, prompt=prompt)


def _disjoint(train: Sequence[Sample], test: Sequence[Sample], rows: OfficialRows) -> list[Sample]:
    """Drop every train sample whose id or normalised question is also in the test split."""
    ids = {sample.id for sample in test}
    texts = {_question_key(sample) for sample in test}
    kept = [s for s in train if s.id not in ids and _question_key(s) not in texts]
    if dropped := len(train) - len(kept):
        rows.notes.append(
            f"{dropped} of {len(train)} train samples ask a question of the test split and were"
            " dropped from train."
        )
    return kept


def _question_key(sample: Sample) -> str:
    """The normalised question; case tells molecules apart (`c1ccccc1` is not `C1CCCCC1`)."""
    return sample.input.strip() if sample.kind == "chem" else normalised(sample.input)


def _validate(task: Task, splits: Mapping[Split, Sequence[Sample]]) -> None:
    for split, samples in splits.items():
        if not samples:
            raise DataError(
                f"Task {task.name!r} has no sample in split {split!r}. Give it rows for this"
                " split, or leave the task out."
            )
        ids = Counter(sample.id for sample in samples)
        for sample in samples:
            for problem in _problems(sample, ids):
                raise DataError(
                    f"Task {task.name!r}, split {split!r}, sample {sample.id!r}: {problem}"
                    " Correct the row it comes from."
                )


def _problems(sample: Sample, ids: Mapping[str, int]) -> Iterator[str]:
    if not sample.id or ids[sample.id] > 1:
        yield f"its id is used {ids[sample.id]} times." if sample.id else "its id is empty."
    if not sample.input.strip():
        yield "the question is empty."
    if not sample.target or not all(sample.target):
        yield "the target is empty."
    yield from _OF_KIND[sample.kind](sample)


def _of_choice(sample: Sample) -> Iterator[str]:
    if len(sample.labels) != len(sample.choices) or len(sample.labels) < 2:
        yield f"{len(sample.labels)} labels for {len(sample.choices)} choices."
    if len(set(sample.labels)) != len(sample.labels):
        yield f"the labels {list(sample.labels)} repeat."
    if not set(sample.target) <= set(sample.labels):
        yield f"the key {list(sample.target)} is not among the labels {list(sample.labels)}."


def _of_ranking(sample: Sample) -> Iterator[str]:
    if len(set(sample.candidates)) != len(sample.candidates):
        yield "two candidates have the same title."
    positions = {str(position) for position in range(len(sample.candidates))}
    if not set(sample.target) <= positions:
        yield f"the true item {list(sample.target)} is not among the candidates."


def _of_chem(sample: Sample) -> Iterator[str]:
    if not set(sample.target) <= {"Yes", "No"}:
        yield f"the target is {list(sample.target)}, not Yes or No."


def _of_code(sample: Sample) -> Iterator[str]:
    for name in ("test", "entry_point"):
        if not sample.metadata.get(name):
            yield f"its metadata have no {name!r}."


_OF_KIND = {
    "math": lambda sample: iter(()),
    "choice": _of_choice,
    "ranking": _of_ranking,
    "chem": _of_chem,
    "code": _of_code,
}
