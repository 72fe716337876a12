"""A fork is a backbone of its own, and the fast session computes what the fork's forward does."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from expbench.models import load_model
from expbench.models.decoding import Request
from expbench.models.generation import ForwardSession
from expbench.models.hf import HFModel
from expbench.models.llama import LlamaSession, is_plain_llama
from expbench.models.tiny import build_tiny
from expbench.training.lora import attach, layers, merged

IDS = torch.arange(7, 27)[None]


def original() -> HFModel:
    """Return the built-in backbone on its own weights."""
    return cast(HFModel, load_model("tiny")).fork(share_weights=False)


def tied() -> HFModel:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        tie_word_embeddings=True,
    )  # fmt: skip
    module: Any = LlamaForCausalLM(config)
    return HFModel(
        name="tied", module=module.eval(), tokenizer=build_tiny()[1],
        fingerprint="tied", source="built-in", revision=None,
    )  # fmt: skip


def places(model: HFModel) -> dict[str, int]:
    """Say where in memory every parameter lies."""
    return {name: p.data_ptr() for name, p in model.module.named_parameters()}


class Bent(nn.Module):
    """A final norm that treats every position alone and is not Llama's."""

    is_row_wise = True

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, h: Tensor) -> Tensor:
        normed: Tensor = self.norm(h)
        return normed + 0.5 * normed.sin()


def adapted(*, share_weights: bool = True) -> HFModel:
    """Return a fork with a busy adapter and a bent norm."""
    fork = original().fork(share_weights=share_weights)
    attach(fork, rank=4, alpha=8, seed=1)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in fork.module.named_parameters():
            if ".lora_B" in name:
                parameter.normal_(0, 0.1)
    fork.module.model.norm = Bent(fork.module.model.norm)
    return fork


@pytest.mark.parametrize("share_weights", [True, False])
def test_a_fork_shares_or_copies_all_weights_and_computes_the_same(share_weights: bool) -> None:
    model = original()
    fork = model.fork(share_weights=share_weights)
    assert fork.module is not model.module and fork.fingerprint == model.fingerprint
    mine, theirs = places(model), places(fork)
    assert mine.keys() == theirs.keys()
    assert {mine[name] == theirs[name] for name in mine} == {share_weights}
    with torch.no_grad():
        assert torch.equal(fork.module(IDS).logits, model.module(IDS).logits)


@pytest.mark.parametrize("share_weights", [True, False])
def test_what_was_frozen_is_frozen_in_the_fork(share_weights: bool) -> None:
    model = original()
    model.module.model.norm.weight.requires_grad_(False)
    frozen = [n for n, p in model.fork(share_weights=share_weights).module.named_parameters()
              if not p.requires_grad]  # fmt: skip
    assert frozen == ["model.norm.weight"]


@pytest.mark.parametrize("share_weights", [True, False])
def test_what_is_frozen_or_trained_in_a_fork_stays_there(share_weights: bool) -> None:
    model = original()
    fork = model.fork(share_weights=share_weights)
    fork.module.requires_grad_(False)
    assert all(p.requires_grad for p in model.module.parameters())
    fork.module.requires_grad_(True)
    fork.module(IDS).logits.sum().backward()
    assert all(p.grad is None for p in model.module.parameters())


@pytest.mark.parametrize("share_weights", [True, False])
def test_tied_embeddings_stay_tied(share_weights: bool) -> None:
    model = tied()
    assert model.module.lm_head.weight is model.module.get_input_embeddings().weight
    fork = model.fork(share_weights=share_weights)
    assert fork.module.lm_head.weight is fork.module.get_input_embeddings().weight
    with torch.no_grad():
        assert torch.equal(fork.module(IDS).logits, model.module(IDS).logits)
        if not share_weights:
            fork.module.lm_head.weight.zero_()
            assert float(model.module.lm_head.weight.abs().sum()) > 0


def test_an_adapter_on_a_fork_leaves_the_original_as_it_was() -> None:
    model = original()
    kinds = [type(part) for part in model.module.modules()]
    before = {name: p.clone() for name, p in model.module.named_parameters()}
    flags = [p.requires_grad for p in model.module.parameters()]
    with torch.no_grad():
        logits = model.module(IDS).logits
    fork = model.fork(share_weights=True)
    attach(fork, rank=4, alpha=8, seed=1)
    trained = [p for p in fork.module.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        fork.module(IDS).logits.square().mean().backward()
        optimizer.step()
    with torch.no_grad(), merged(fork.module):
        assert not torch.allclose(fork.module(IDS).logits, logits)
        assert torch.equal(model.module(IDS).logits, logits)
    assert [type(part) for part in model.module.modules()] == kinds
    assert [p.requires_grad for p in model.module.parameters()] == flags
    assert all(torch.equal(p, before[n]) for n, p in model.module.named_parameters())
    assert is_plain_llama(model.module)


def test_the_fast_session_computes_merged_adapters_and_a_row_wise_norm() -> None:
    fork = adapted()
    make = torch.Generator().manual_seed(0)
    draw = torch.randint(7, 260, (12, 60), generator=make).tolist()
    prompts = sorted((row[: 5 + 4 * i] for i, row in enumerate(draw)), key=len, reverse=True)
    assert not is_plain_llama(fork.module)
    plain = ForwardSession(fork.module, pad_id=0)
    with torch.no_grad():
        wanted = [plain.prefill(prompts)]
        wanted += [plain.step([row[step] for row in draw]) for step in range(4)]
        with merged(fork.module):
            session = fork.session(max_new=8)
            assert isinstance(session, LlamaSession)
            found = [session.prefill(prompts)]
            found += [session.step([row[step] for row in draw]) for step in range(4)]
    for mine, theirs in zip(found, wanted, strict=True):
        scale = float(theirs.abs().max())
        assert float((mine - theirs).abs().max()) < 1e-4 * max(1.0, scale)
    with torch.no_grad():
        straight = original().module(torch.tensor(prompts[:1])).logits[:, -1]
    assert not torch.allclose(straight, wanted[0][:1], atol=1e-1)


def test_a_batch_of_the_fork_is_generated_alike_merged_or_not() -> None:
    fork = adapted()
    make = torch.Generator().manual_seed(4)
    rows = torch.randint(7, 260, (20, 30), generator=make).tolist()
    asked = [Request(ids=row[: 6 + i], max_tokens=10) for i, row in enumerate(rows)]
    apart = fork.generate_ids(asked)
    with merged(fork.module):
        assert is_plain_llama(fork.module)
        together = fork.generate_ids(asked)
    assert [c.ids for c in together] == [c.ids for c in apart]


PARTS: dict[str, Callable[[Any], Any]] = {
    "the norm": lambda module: module.model.norm,
    "inside the norm": lambda module: module.model.norm.norm,
    "a merged layer": lambda module: layers(module)[3],
    "its base": lambda module: layers(module)[3].get_base_layer(),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("kind", ["after", "before", "patched"])
def test_a_hook_on_what_is_let_through_sends_it_through_the_forward(name: str, kind: str) -> None:
    fork = adapted()
    part = PARTS[name](fork.module)
    with merged(fork.module):
        assert is_plain_llama(fork.module)
        if kind == "after":
            part.register_forward_hook(lambda module, args, out: 2 * out)
        elif kind == "before":
            part.register_forward_pre_hook(lambda module, args: None)
        else:
            part.forward = part.forward
        assert not is_plain_llama(fork.module)
        assert isinstance(fork.session(max_new=4), ForwardSession)


def test_row_wise_is_believed_of_the_final_norm_only() -> None:
    module = original().module
    module.model.layers[0].mlp = Bent(module.model.layers[0].mlp)
    assert not is_plain_llama(module)
    module = original().module
    module.model.norm = Bent(module.model.norm)
    assert is_plain_llama(module)
    module.model.norm.is_row_wise = False
    assert not is_plain_llama(module)
