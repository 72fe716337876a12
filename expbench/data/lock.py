"""The lock: which bytes every source must have.

`expbench/data.lock.json` is committed and holds one entry a source: its key (bundled file, Hub
revision with config and split, or URL) and the SHA-256 of the file; of a Hub split, that of its
canonical JSON lines. What could not be known when the file was written is null there. Then the
first pull records it in the user's own lock (`data.lock.json` in the cache folder) and says so, and
any later difference is an error.
"""

import json
import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from expbench.data.formats import file_checksum
from expbench.errors import DataError

Entry = Mapping[str, Any]


def cache_dir() -> Path:
    """Folder of everything downloaded: `EXPBENCH_CACHE`, else `~/.cache/expbench`.

    `XDG_CACHE_HOME` is respected.
    """
    if chosen := os.environ.get("EXPBENCH_CACHE"):
        return Path(chosen).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "expbench"


def user_lock() -> Path:
    """Where first pulls are recorded."""
    return cache_dir() / "data.lock.json"


@cache
def committed() -> Mapping[str, Entry]:
    """Entries of the lock file that is part of the project, by key."""
    text = resources.files("expbench").joinpath("data.lock.json").read_text(encoding="utf-8")
    entries: Mapping[str, Entry] = json.loads(text)["sources"]
    return entries


def recorded() -> dict[str, Entry]:
    """Entries that earlier pulls of this user recorded, by key.

    Raises:
        DataError: the file is not readable as JSON.
    """
    path = user_lock()
    if not path.exists():
        return {}
    try:
        entries: dict[str, Entry] = json.loads(path.read_text(encoding="utf-8"))["sources"]
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path} is not a lock file. Delete it: the next pull records the hashes anew."
        ) from None
    return entries


def expected(key: str) -> str | None:
    """SHA-256 that the source must have, None as long as nobody knows."""
    sha256 = committed().get(key, {}).get("sha256") or recorded().get(key, {}).get("sha256")
    return None if sha256 is None else str(sha256)


def check(key: str, sha256: str, remedy: str) -> None:
    """Compare a file's hash with the lock.

    Raises:
        DataError: they differ; the message names both hashes and the remedy.
    """
    wanted = expected(key)
    if wanted is not None and wanted != sha256:
        place = "data.lock.json" if committed().get(key, {}).get("sha256") else str(user_lock())
        raise DataError(
            f"{key} has SHA-256 {sha256}, but {place} says {wanted}: the data have changed."
            f" {remedy}"
        )


def rewrite_bundled() -> None:
    """Write the hashes of all bundled files into the committed lock (for maintainers).

    Run `python -c "from expbench.data.lock import rewrite_bundled as r; r()"` after a change of
    the mini suite; raise the task's version with it.
    """
    root = Path(str(resources.files("expbench")))
    found = {
        f"mini/{path.parent.name}/{path.name}": {"sha256": file_checksum(path)}
        for path in sorted((root / "mini").glob("*/*.*"))
        if path.suffix in (".jsonl", ".inter", ".item")
    }
    kept = {key: dict(entry) for key, entry in committed().items() if not key.startswith("mini/")}
    _write(root / "data.lock.json", {**kept, **found})


def record(key: str, entry: Entry) -> None:
    """Write an entry into the user's lock, atomically and safe from other processes."""
    from filelock import FileLock

    path = user_lock()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        entries = {**recorded(), key: dict(entry)}
        _write(path, entries)


def _write(path: Path, entries: Mapping[str, Entry]) -> None:
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    text = json.dumps({"schema": 1, "sources": entries}, indent=1, sort_keys=True)
    fresh.write_text(text + "\n", encoding="utf-8")
    os.replace(fresh, path)
