"""LoRA on all linear layers of the decoder, through PEFT; the only module that knows PEFT.

An adapter is attached to a private copy of a backbone (`HFModel.fork`): base weights may be shared
with the untouched backbone, so nothing here ever writes into them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from expbench.errors import DataError
from expbench.models.hf import HFModel

WEIGHTS = "adapter.safetensors"
ABOUT = "adapter.json"


def attach(model: HFModel, *, rank: int, alpha: int, seed: int) -> None:
    """Put a fresh adapter on every linear layer of the decoder; the head and all else is frozen.

    A fresh adapter changes nothing: its second matrix is zero.

    Args:
        model: A fork; its module is changed in place.
        rank: Of the two matrices, at least 1.
        alpha: The update is scaled by alpha / rank.
        seed: Of the first matrix.
    """
    names = [
        name
        for name, part in model.module.get_decoder().named_modules()
        if isinstance(part, nn.Linear)
    ]
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=0.0,
        target_modules=sorted({name.rpartition(".")[2] for name in names}),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wrapped = get_peft_model(model.module, config)
    # PEFT keeps no way back from the base model to its wrapper, and training needs the wrapper.
    object.__setattr__(model.module, "_expbench_peft", wrapped)


def peft_of(model: HFModel) -> PeftModel | None:
    """Return PEFT's wrapper of a model that has an adapter, else None."""
    found: PeftModel | None = getattr(model.module, "_expbench_peft", None)
    return found


def layers(module: Any) -> list[Any]:
    """Return the adapted layers of a module."""
    return [part for part in module.modules() if isinstance(part, LoraLayer)]


@contextmanager
def merged(module: Any) -> Iterator[None]:
    """Compute with merged weights: one matrix product a layer instead of three.

    The merged weights are new tensors; on exit the original ones are put back, so that no rounding
    adds up however often this is entered. Nested and without an adapter it does nothing.
    """
    adapted = [layer for layer in layers(module) if not layer.merged]
    originals = []
    try:
        for layer in adapted:
            base = layer.get_base_layer()
            originals.append((layer, base, base.weight))
            names = list(layer.active_adapters)
            with torch.no_grad():
                weight = base.weight + sum(layer.get_delta_weight(name) for name in names)
            base.weight = nn.Parameter(weight.to(base.weight.dtype), requires_grad=False)
            layer.merged_adapters.extend(names)
        yield
    finally:
        for layer, base, weight in originals:
            base.weight = weight
            layer.merged_adapters.clear()


def save_adapter(model: HFModel, folder: Path) -> None:
    """Write the adapter's matrices and what they belong to."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: parameter.detach().cpu().contiguous()
        for name, parameter in model.module.named_parameters()
        if ".lora_" in name
    }
    save_file(tensors, folder / WEIGHTS)
    about = {"backbone": model.fingerprint, "tensors": len(tensors)}
    (folder / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")


def load_adapter(model: HFModel, folder: Path) -> None:
    """Read an adapter into a model that has one of the same shape.

    Raises:
        DataError: no adapter there, a damaged one, or one of another backbone or rank.
    """
    own = {n: p for n, p in model.module.named_parameters() if ".lora_" in n}
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        tensors = load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise DataError(
            f"The adapter in {folder} cannot be read ({error}); train it again."
        ) from error
    if not isinstance(about, dict) or about.get("backbone") != model.fingerprint:
        raise DataError(f"The adapter in {folder} belongs to another backbone than {model.name}.")
    if {n: p.shape for n, p in own.items()} != {n: t.shape for n, t in tensors.items()}:
        raise DataError(
            f"The adapter in {folder} has other matrices than the model; set the lora_rank that it "
            "was trained with."
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])
