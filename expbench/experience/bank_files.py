"""The files of a saved bank, read with distrust: every byte is covered by a checksum."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from expbench.core import canonical_json
from expbench.errors import DataError
from expbench.experience.memory import Entry

SCHEMA = 1
SETTINGS = "bank.json"
ENTRIES = "entries.jsonl"
VECTORS = "vectors.safetensors"


def read_settings(folder: Path) -> dict[str, Any]:
    """Read `bank.json`, without its checksum.

    Raises:
        DataError: absent, damaged or newer.
    """
    try:
        info = dict(json.loads((folder / SETTINGS).read_bytes()))
        stated = info.pop("checksum")
        schema, _, _ = int(info["schema"]), info["encoder"], info["width"]
    except FileNotFoundError:
        raise DataError(
            f"There is no complete bank in {folder}: {SETTINGS} is missing; build it again."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, f"{SETTINGS}: {error}") from error
    if schema > SCHEMA:
        raise DataError(
            f"The bank in {folder} has schema {schema}; this ExpBench reads up to {SCHEMA}."
        )
    if sha256(canonical_json(info).encode()).hexdigest() != stated:
        raise damaged(folder, f"{SETTINGS} does not match its checksum")
    return info


def read_data(folder: Path, name: str, info: Mapping[str, Any]) -> bytes:
    """Read a file whose SHA-256 the settings tell.

    Raises:
        DataError: absent, or not what was written.
    """
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise damaged(folder, f"{name}: {error.strerror}") from error
    if sha256(content).hexdigest() != info["sha256"][name]:
        raise damaged(folder, f"{name} does not match its checksum")
    return content


def entry_from_json(value: Mapping[str, Any]) -> Entry:
    """Rebuild an entry from a parsed line."""
    identities = tuple(tuple(key) for key in value["identities"])
    return Entry(**{**value, "identities": identities})


def damaged(folder: Path, why: str) -> DataError:
    """Make the error of a folder that cannot be used."""
    return DataError(f"The bank in {folder} is damaged ({why}); build it again.")
