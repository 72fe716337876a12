"""The full suite: official sources, pulled once, checked against the lock, read from the cache."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from expbench.core import Source, Task
from expbench.data import lock
from expbench.data.download import Progress, download
from expbench.data.formats import RowFile, file_checksum
from expbench.data.hub import HubSplit, pull_split
from expbench.data.sources import OfficialRows, matches

State = Literal["ready", "missing", "changed"]


@dataclass(frozen=True, kw_only=True)
class SourceStatus:
    """Where one source of a task stands."""

    task: str
    key: str
    """Hub split or URL, as in the lock file."""
    state: State
    """`ready`: in the cache with the right hash; `changed`: in the cache with another hash."""
    path: Path
    """Its file in the cache."""
    size_bytes: int
    sha256: str | None
    """Hash of the cached file, None where it is missing."""
    revision: str | None
    """Hub commit: pinned by the task or recorded by the first pull."""
    locked: Literal["project", "user", "no"]
    """Who fixed the hash: the committed lock, this user's first pull, or nobody yet."""
    note: str = ""
    """What the pull did, for people."""


def full_rows(task: Task, progress: Progress | None = None) -> OfficialRows:
    """Rows of the official source; what is not in the cache is pulled first."""

    def find(split: str) -> list[RowFile]:
        parts = list(_of_split(task.name, task.source, split))
        pulled = [part.pull(task.name, progress) for part in parts]
        rows.notes.extend(state.note for state in pulled if state.note)
        return [RowFile(part.path, part.member) for part in parts]

    rows = OfficialRows(find)
    return rows


def status(task: Task) -> list[SourceStatus]:
    """Say of every source of the task whether it is in the cache; nothing is fetched."""
    parts = _parts(task.name, task.source)
    return [part.status(task.name) for part in parts]


def pull(task: Task, progress: Progress | None = None) -> list[SourceStatus]:
    """Fetch what is missing, check everything, and record hashes that nobody knew.

    Raises:
        MissingData: gated, not there, or no network.
        DataError: a hash differs from the lock; both hashes and the remedy are named.
    """
    return [part.pull(task.name, progress) for part in _parts(task.name, task.source)]


@dataclass(frozen=True)
class _Part:
    """One file to fetch: a Hub split or a URL, of which several members may be read."""

    key: str
    path: Path
    hub: HubSplit | None = None
    member: str = ""

    def status(self, task: str, note: str = "") -> SourceStatus:
        sha256 = file_checksum(self.path) if self.path.exists() else None
        wanted = lock.expected(self.key)
        changed = sha256 is not None and wanted is not None and sha256 != wanted
        known = bool(lock.committed().get(self.key, {}).get("sha256"))
        return SourceStatus(
            task=task,
            key=self.key,
            state="missing" if sha256 is None else "changed" if changed else "ready",
            path=self.path,
            size_bytes=self.path.stat().st_size if sha256 else 0,
            sha256=sha256,
            revision=self.revision(),
            locked="project" if known else "user" if wanted else "no",
            note=note,
        )

    def revision(self) -> str | None:
        if self.hub is None:
            return None
        return self.hub.revision or lock.recorded().get(self.key, {}).get("revision")

    def pull(self, task: str, progress: Progress | None) -> SourceStatus:
        revision = self.revision()
        if not self.path.exists():
            revision = self._fetch(revision, progress)
        sha256 = file_checksum(self.path)
        remedy = (
            f"Delete {self.path} and run `expbench data pull --task {task}`; if the publisher"
            f" changed the data on purpose, also delete the entry from {lock.user_lock()}."
        )
        lock.check(self.key, sha256, remedy)
        note = ""
        if lock.expected(self.key) is None:
            lock.record(self.key, {"sha256": sha256, "revision": revision})
            note = f"First pull of {self.key}: recorded SHA-256 {sha256} in {lock.user_lock()}."
        return self.status(task, note)

    def _fetch(self, revision: str | None, progress: Progress | None) -> str | None:
        if self.hub is None:
            download(self.key, self.path, progress)
            return None
        part = HubSplit(self.hub.dataset, self.hub.config, revision, self.hub.split)
        return pull_split(part, self.path, progress)


def _parts(task: str, source: Source) -> list[_Part]:
    parts: dict[tuple[str, str], _Part] = {}
    for split in source.splits:
        for part in _of_split(task, source, split):
            parts.setdefault((part.key, part.member), part)
    return list({part.key: part for part in parts.values()}.values())


def _of_split(task: str, source: Source, split: str) -> Iterator[_Part]:
    urls = [(name, url) for name, url in source.urls.items() if matches(name, split)]
    for name, url in urls:
        if url.startswith("hub://"):
            yield _hub_part(HubSplit.parse(url))
            continue
        address, _, member = url.partition("#")
        base = address.rsplit("/", 1)[-1]
        file = base if Path(base).suffix else name
        yield _Part(address, lock.cache_dir() / "files" / task / file, None, member)
    if not urls:
        hub = HubSplit(source.dataset, source.config, source.revision, split)
        yield _hub_part(hub)


def _hub_part(hub: HubSplit) -> _Part:
    file = re.sub(r"[^\w.@#-]+", "_", hub.key.removeprefix("hub://")) + ".jsonl"
    return _Part(hub.key, lock.cache_dir() / "hub" / file, hub)
