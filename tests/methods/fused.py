"""Small random decoders of four families and small banks, for the tests of the fusion."""

from typing import Any

import torch
from torch import Tensor
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from expbench.experience.bank import Bank, Entry
from expbench.experience.memory import Memory
from expbench.experience.normalise import Normalisation
from expbench.models.hf import HFModel
from expbench.models.tiny import build_tiny
from expbench_methods.expweaver.config import FusionSettings
from expbench_methods.expweaver.fusion import Fusion
from expbench_methods.expweaver.install import install

WIDTH, VOCABULARY = 64, 300
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FAMILIES: dict[str, Any] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16)),
    "gemma3": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(**SIZES, head_dim=16, query_pre_attn_scalar=16, sliding_window=8,
                         layer_types=["sliding_attention", "full_attention"])
    ),
}  # fmt: skip


def decoder(family: str, dtype: torch.dtype = torch.float32) -> Any:
    """Return a random decoder of a family."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        module = FAMILIES[family]()
        with torch.no_grad():
            for parameter in module.parameters():
                # The usual start is so small that every next token is about equally likely.
                if parameter.ndim > 1:
                    parameter.normal_(0, 0.2)
    return module.to(dtype).eval()


def bank(
    count: int,
    *,
    width: int = WIDTH,
    normalise: Normalisation = "standardise",
    seed: int = 0,
    capacity: int = 1000,
) -> Bank:
    """Return a bank of random vectors around a common mean."""
    made = Bank(width, capacity, "it", normalise=normalise)
    draw = torch.Generator().manual_seed(seed)
    mean_D = 2 * torch.randn(width, generator=draw)
    entries = [
        Entry(id=f"{n:04}", sample_id=str(n), task="toy", split="train", reward=1.0, step=0,
              encoder="it", summary=f"s{n}")
        for n in range(count)
    ]  # fmt: skip
    made.add(entries, mean_D + torch.randn(count, width, generator=draw))
    return made


def fusion(memory: Memory | None, *, width: int = WIDTH, seed: int = 3, **changes: Any) -> Fusion:
    """Return an untrained fusion that reads a memory; the gate is open enough to be seen."""
    given: dict[str, Any] = {"gate_low": 0.5, "gate_high": 0.9, "k": 4, **changes}
    made = Fusion(width, FusionSettings(**given), seed=seed)
    made.memory = memory
    return made


def fused(family: str, *, count: int = 12, **changes: Any) -> tuple[Any, Fusion]:
    """Return a random decoder with a fusion that reads a bank of `count` entries."""
    module = decoder(family, changes.pop("dtype", torch.float32))
    made = fusion(bank(count).memory(), **changes)
    install(module, made)
    return module, made


def hf_model(module: Any) -> HFModel:
    """Return the module as a backbone, with the tokenizer of the built-in one."""
    return HFModel(
        name="random", module=module, tokenizer=build_tiny()[1], fingerprint="it",
        source="built-in", revision=None,
    )  # fmt: skip


def token_ids(*shape: int, seed: int = 0) -> Tensor:
    """Draw ordinary tokens."""
    return torch.randint(7, 260, shape, generator=torch.Generator().manual_seed(seed))
