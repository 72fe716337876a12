"""Splits on the Hugging Face Hub, kept as canonical JSON lines in our own cache.

The file's SHA-256 is the split's content hash: it depends neither on the parquet files that the Hub
makes nor on the version of `datasets`, and a pulled split is read without either of them.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from expbench.core import canonical_json
from expbench.data.download import TIMEOUT_S, Progress
from expbench.errors import DataError, MissingData


@dataclass(frozen=True)
class HubSplit:
    """One split of one configuration at one commit."""

    dataset: str
    """`owner/name`, or the path of a local folder in the same layout."""
    config: str | None
    revision: str | None
    split: str

    @classmethod
    def parse(cls, url: str) -> "HubSplit":
        """Read the form `hub://owner/name@revision/config#split`.

        >>> HubSplit.parse("hub://a/b@c0ffee/main#train").config
        'main'
        """
        place, _, split = url.removeprefix("hub://").partition("#")
        dataset, _, rest = place.partition("@")
        revision, _, config = rest.partition("/")
        return cls(dataset, config or None, revision or None, split)

    @property
    def key(self) -> str:
        """The split's name in the lock file.

        >>> HubSplit("a/b", None, "c0ffee", "test").key
        'hub://a/b@c0ffee#test'
        """
        revision = f"@{self.revision}" if self.revision else ""
        config = f"/{self.config}" if self.config else ""
        return f"hub://{self.dataset}{revision}{config}#{self.split}"


def pull_split(part: HubSplit, target: Path, progress: Progress | None = None) -> str | None:
    """Fetch a split into a file of canonical JSON lines, atomically.

    Returns:
        The commit that was read, None for a local folder.

    Raises:
        MissingData: gated, not existing, or no network; the message says which.
    """
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        fresh = Path(f"{target}.part")
        with _explained(part):
            revision = _resolve(part)
            with (
                tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as made,
                fresh.open("w", encoding="utf-8", newline="\n") as stream,
            ):
                stream.writelines(_lines(part, revision, made=made, progress=progress))
        os.replace(fresh, target)
    return revision


class _explained:
    """Raise what the user can do in place of the Hub's own error; let anything else pass."""

    def __init__(self, part: HubSplit) -> None:
        self.part = part

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        problem = explain(self.part, error) if error else None
        if problem:
            raise problem from error


def _resolve(part: HubSplit) -> str | None:
    """Ask the Hub for the commit first: it answers at once where a download would retry for long.

    Offline by choice (HF_HUB_OFFLINE), a pinned commit may still be in the Hub's own cache.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if Path(part.dataset).is_dir() or (HF_HUB_OFFLINE and part.revision):
        return part.revision
    return HfApi().dataset_info(part.dataset, revision=part.revision, timeout=TIMEOUT_S).sha


def _lines(
    part: HubSplit, revision: str | None, *, made: str, progress: Progress | None
) -> Iterator[str]:
    """Read through `datasets`; its Arrow copy lives in the folder `made` only until we have ours.

    A copy that stays would be a second cache with rules of its own.
    """
    from datasets import load_dataset

    rows = load_dataset(
        part.dataset, part.config, split=part.split, revision=revision, cache_dir=made
    )
    for number, values in enumerate(rows, 1):
        yield canonical_json(values) + "\n"
        if progress and (number % 500 == 0 or number == len(rows)):
            progress(part.key, number, len(rows))


def explain(part: HubSplit, error: BaseException) -> DataError | None:
    """Turn an error of the Hub's libraries into what the user can do; None if it is not theirs.

    Gated means that the Hub said so, never that a name was not found.
    """
    chain = list(_chain(error))
    names = {cls.__name__ for link in chain for cls in type(link).__mro__}
    words = " ".join(str(link) for link in chain)
    page = f"https://huggingface.co/datasets/{part.dataset}"
    if "GatedRepoError" in names or "is a gated dataset" in words:
        return MissingData(
            f"{part.dataset} is gated: ask for access at {page}, then log in with `hf auth login`."
            " To go on without this task, leave it out of --task or use --suite mini."
        )
    if names & _NETWORK:
        return MissingData(
            f"The Hub could not be reached for {part.dataset}: there is no network here, or it is"
            " switched off (HF_HUB_OFFLINE). Pull the data where there is one, or use --suite mini."
        )
    if names & _UNKNOWN:
        return MissingData(
            f"The Hub has no public data set {part.dataset!r} with revision {part.revision!r}:"
            f" see {page} and correct the name or revision in the task's source."
        )
    if isinstance(error, ValueError):
        return DataError(
            f"{part.key} could not be read ({error}). Correct configuration and split in the"
            " task's source."
        )
    return None


_NETWORK = {
    "OfflineModeIsEnabled",
    "ConnectionError",
    "ConnectTimeout",
    "TransportError",
    "LocalEntryNotFoundError",
}
_UNKNOWN = {
    "RepositoryNotFoundError",
    "RevisionNotFoundError",
    "DatasetNotFoundError",
    "DataFilesNotFoundError",
}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
