"""Adapters: fresh ones change nothing, merging leaves no trace, and what is saved comes back."""

from pathlib import Path

import pytest
import torch

from expbench.errors import DataError
from expbench.training.lora import layers, load_adapter, merged, save_adapter
from tests.training.policies import policy

IDS = torch.arange(7, 27)[None]


def disturb(model: object) -> None:
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():  # type: ignore[attr-defined]
            if ".lora_B" in name:
                parameter.normal_(0, 0.1)


def test_merging_computes_the_same_and_is_undone_to_the_last_bit() -> None:
    model = policy()
    disturb(model)
    before = [layer.get_base_layer().weight for layer in layers(model.module)]
    copies = [weight.clone() for weight in before]
    with torch.no_grad():
        apart = model.module(IDS).logits
        with merged(model.module), merged(model.module):
            together = model.module(IDS).logits
        again = model.module(IDS).logits
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-4)
    assert torch.equal(again, apart) and before
    after = [layer.get_base_layer().weight for layer in layers(model.module)]
    assert all(a is b for a, b in zip(after, before, strict=True))
    assert all(torch.equal(a, c) for a, c in zip(after, copies, strict=True))


def test_a_saved_adapter_comes_back_and_another_rank_is_refused(tmp_path: Path) -> None:
    model, other = policy(), policy()
    disturb(model)
    save_adapter(model, tmp_path)
    load_adapter(other, tmp_path)
    with torch.no_grad():
        assert torch.equal(other.module(IDS).logits, model.module(IDS).logits)
    with pytest.raises(DataError, match="lora_rank"):
        load_adapter(policy(rank=2), tmp_path)
