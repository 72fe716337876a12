"""Turn a model name into a transformers module and tokenizer, with clear errors."""

import os
from pathlib import Path
from typing import Any

import torch

from expbench.errors import ConfigError, DataError
from expbench.models.fingerprint import folder_fingerprint, module_fingerprint


def load_parts(name: str, *, device: str, dtype: str) -> dict[str, Any]:
    """Return `module`, `tokenizer`, `fingerprint`, `source` and `revision` of a model.

    Raises:
        ConfigError, MissingData, DataError: see `expbench.models.load_model`.
    """
    where = pick_device(device)
    if name == "tiny":
        from expbench.models.tiny import build_tiny

        # Random weights are there to check arithmetic: the same on every machine, unless asked.
        number = torch.float32 if dtype == "auto" else pick_dtype(dtype, where)

        module, tokenizer = build_tiny()
        fingerprint = module_fingerprint(module, tokenizer)
        return {
            "module": module.to(device=where, dtype=number),
            "tokenizer": tokenizer,
            "fingerprint": fingerprint,
            "source": "built-in",
            "revision": None,
        }
    from expbench.models.sources import find_files

    number = pick_dtype(dtype, where)
    found = find_files(name)
    _check_causal(found.folder, name)
    _check_memory(found.folder, number, where)
    module, tokenizer = _read(found.folder, name, number, where)
    return {
        "module": module,
        "tokenizer": tokenizer,
        "fingerprint": folder_fingerprint(found.folder),
        "source": found.source,
        "revision": found.revision,
    }


def pick_device(device: str) -> torch.device:
    """Resolve `auto` and refuse a device that is not there.

    Under `accelerate launch` or `torchrun` every process gets the GPU of its own number.
    """
    if device == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"Device {device!r} cannot be used here; use auto, cpu, or cuda where there is one."
        ) from error
    return where


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Resolve `auto`: bfloat16 only where the hardware computes in it.

    A CPU without AVX512-BF16 or AMX emulates bfloat16 and is faster in float32.
    """
    if dtype != "auto":
        chosen: torch.dtype = getattr(torch, dtype)
        return chosen
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        native = device.type == "cpu" and _cpu_has("avx512_bf16", "amx_bf16")
    return torch.bfloat16 if native else torch.float32


def _cpu_has(*flags: str) -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and not set(flags).isdisjoint(cpuinfo.read_text().split())


def _read(folder: Path, name: str, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        module = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise DataError(f"Model {name!r} in {folder} cannot be read: {error}") from error
    module.to(device)  # type: ignore[arg-type]
    return module.eval(), tokenizer  # type: ignore[no-untyped-call]


def _check_causal(folder: Path, name: str) -> None:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{name!r} is not a model that transformers can read: {folder} has no usable "
            "config.json. Give a folder saved with save_pretrained, or a Hub name."
        ) from error
    kinds = tuple(config.architectures or ())
    if config.is_encoder_decoder or not any(
        kind.endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds
    ):
        raise ConfigError(
            f"{name!r} is not a causal language model (architecture: "
            f"{', '.join(kinds) or 'unknown'}); give one that ends in ForCausalLM."
        )


def _check_memory(folder: Path, dtype: torch.dtype, device: torch.device) -> None:
    from expbench.models.sources import weight_files

    stored = sum(path.stat().st_size for path in weight_files(folder))
    # Most checkpoints are stored in two bytes a weight; float32 needs twice that.
    need = stored * (2 if dtype == torch.float32 and _stored_in_two_bytes(folder) else 1)
    free = _free_bytes(device)
    if free is not None and need > free:
        raise ConfigError(
            f"The weights need {need / 2**30:.1f} GiB as {dtype}, but {device} has "
            f"{free / 2**30:.1f} GiB free; use a smaller model or another dtype or device."
        )


def _stored_in_two_bytes(folder: Path) -> bool:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder).dtype in (torch.bfloat16, torch.float16)


def _free_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    meminfo = Path("/proc/meminfo")
    if device.type != "cpu" or not meminfo.exists():
        return None
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
