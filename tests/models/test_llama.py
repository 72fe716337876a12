from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expbench.models.generation import ForwardSession
from expbench.models.llama import LlamaSession, is_plain_llama, shared_length
from expbench.models.tiny import build_tiny

MODULE, _ = build_tiny()


@pytest.mark.parametrize("shared", [0, 3, 30])
def test_logits_equal_the_modules_own_while_rows_come_and_go(shared: int) -> None:
    make = torch.Generator().manual_seed(shared)
    draw = torch.randint(7, 260, (60, 80), generator=make).tolist()
    prompts = [draw[0][:shared] + row[: 2 + (i * 13) % 70] for i, row in enumerate(draw[1:20])]
    prompts.sort(key=lambda ids: -len(ids))
    fast, plain = LlamaSession(MODULE, max_new=12), ForwardSession(MODULE, pad_id=0)
    names = list(range(len(prompts)))
    with torch.no_grad():
        a, b = fast.prefill(prompts), plain.prefill(prompts)
        assert torch.allclose(a, b, atol=1e-3)
        for step in range(10):
            if step in (2, 3, 7):
                kept = [i for i in range(len(names)) if (i + step) % 3]
                order, same = fast.keep(kept), plain.keep(kept)
                assert sorted(order) == same == kept
                now = [names[i] for i in order]
                back = plain.keep([kept.index(i) for i in order])
                assert back is not None
                names = now
            tokens = [draw[40 + step][name] for name in names]
            assert torch.allclose(fast.step(tokens), plain.step(tokens), atol=1e-3)


def test_a_prompt_longer_than_a_chunk_is_read_whole() -> None:
    ids = torch.randint(7, 260, (2500,), generator=torch.Generator().manual_seed(1)).tolist()
    with torch.no_grad():
        fast = LlamaSession(MODULE, max_new=2).prefill([ids, ids[:1100], ids[:900]])
        plain = ForwardSession(MODULE, pad_id=0).prefill([ids, ids[:1100], ids[:900]])
    assert torch.allclose(fast, plain, atol=1e-3)


def test_a_prompt_of_several_rows_is_read_once_and_each_goes_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = torch.randint(7, 260, (9, 40), generator=torch.Generator().manual_seed(3)).tolist()
    distinct = [draw[0][:30], draw[1][:21], draw[2][:9]]
    prompts = [distinct[0]] * 9 + [distinct[1]] * 4 + [distinct[2], distinct[2]]
    read: list[int] = []
    real = LlamaSession._read

    def watched(self: LlamaSession, pack: Any, shared: int) -> torch.Tensor:
        read.append(len(pack.ids))
        return real(self, pack, shared)

    monkeypatch.setattr(LlamaSession, "_read", watched)
    fast, plain = LlamaSession(MODULE, max_new=4), ForwardSession(MODULE, pad_id=0)
    with torch.no_grad():
        assert torch.allclose(fast.prefill(prompts), plain.prefill(prompts), atol=1e-3)
        assert sum(read) == 30 + 21 + 9
        for step in range(3):
            tokens = [draw[3 + step][row] for row in range(len(prompts))]
            assert torch.allclose(fast.step(tokens), plain.step(tokens), atol=1e-3)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=6))
def test_the_shared_beginning_is_a_prefix_of_all_and_leaves_a_token(rows: list[list[int]]) -> None:
    count = shared_length(rows)
    assert all(row[:count] == rows[0][:count] and len(row) > count for row in rows)
    longer = [row[: count + 1] for row in rows]
    assert any(row != longer[0] for row in longer) or min(map(len, rows)) == count + 1


def test_an_adapter_or_a_wrapped_layer_is_not_plain() -> None:
    module, _ = build_tiny()
    assert is_plain_llama(module)
    layer = module.model.layers[0].mlp
    layer.down_proj = torch.nn.Sequential(layer.down_proj)
    assert not is_plain_llama(module)
    module, _ = build_tiny()
    module.model.layers[1].register_forward_pre_hook(lambda *_: None)
    assert not is_plain_llama(module)
    module, _ = build_tiny()
    module.model.norm.double()
    assert not is_plain_llama(module)
