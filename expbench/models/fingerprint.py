"""Fingerprints of models: SHA-256 over everything that decides outputs, wherever it lies."""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from expbench.core import canonical_json, checksum
from expbench.models.sources import cache_dir, weight_files

SUFFIXES = (".json", ".jinja", ".model", ".txt", ".tiktoken")
IGNORED = ("README", "LICENSE", "trainer_state", "training_args", "generation_config_")
VOLATILE = ("transformers_version", "_name_or_path", "is_local", "local_files_only")
"""Keys of config files that say who wrote them and how, not what the model computes."""


def folder_fingerprint(folder: Path) -> str:
    """Hash the weights, tokenizer and config files of a folder.

    Two copies have one fingerprint. The digest is kept in the cache folder and reused while every
    file keeps its size and time.
    """
    files = sorted((*weight_files(folder), *_text_files(folder)), key=lambda path: path.name)
    stamps = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    note = cache_dir() / "fingerprints" / f"{checksum(str(folder.resolve()))[:24]}.json"
    if note.exists():
        known = json.loads(note.read_text())
        if known["files"] == stamps:
            return str(known["fingerprint"])
    digest = checksum([[path.name, _file_digest(path)] for path in files])
    note.parent.mkdir(parents=True, exist_ok=True)
    fresh = note.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps({"folder": str(folder), "files": stamps, "fingerprint": digest}))
    fresh.replace(note)
    return digest


def module_fingerprint(module: Any, tokenizer: Any) -> str:
    """Hash a module in memory: its weights, config and tokenizer."""
    digest = sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        digest.update(tensor.contiguous().view(-1).cpu().numpy().tobytes())
    config = {key: v for key, v in module.config.to_dict().items() if key not in VOLATILE}
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    digest.update(str(tokenizer.chat_template).encode())
    return digest.hexdigest()


def _text_files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.iterdir()
        if path.suffix in SUFFIXES and not path.name.startswith((".", *IGNORED))
    ]


def _file_digest(path: Path) -> str:
    if path.suffix == ".json" and path.name.endswith("config.json"):
        settings = {k: v for k, v in json.loads(path.read_text()).items() if k not in VOLATILE}
        return sha256(canonical_json(settings).encode()).hexdigest()
    with path.open("rb") as stream:
        digest = sha256()
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
