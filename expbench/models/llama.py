"""A faster decoding session for an untouched Llama on a CPU.

It computes what the module's own forward computes, with the module's live weights, and saves what
that forward wastes on a CPU: the beginning that all prompts share is read once, and so is a prompt
that several rows have; prompts are packed without padding, and the key-value cache is allocated
once, written in place and grouped by length.

Shapes: N packed tokens, B rows, H query heads, G key-value heads, R = H / G, T cached positions,
D head width, S new tokens of a row, P shared tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

GROUP_ROWS = 8
"""Rows that share one padded cache: few enough that sorted rows are about equally long."""
CHUNK_TOKENS = 1024
"""Packed prompt tokens read at once: their activations stay in the last-level cache."""
HEAD_BLOCK = 1024
"""Vocabulary entries multiplied at once: faster than all at once for a few dozen rows."""
SHORTEST_SHARED = 8
"""A shorter common beginning is not worth its own pass."""


def is_plain_llama(module: Any) -> bool:
    """Tell whether the module is a Llama whose forward nobody has changed.

    A hook, a wrapped or replaced submodule, an adapter, a patched `forward`, another device: any
    of these sends decoding through the module's own forward. Two changes are let through, because
    this session calls the parts concerned as they are: a final norm or an input embedding that says
    of itself that it `is_row_wise` (it treats every position alone), and LoRA layers that are
    merged. A hook on one of them is not: it would be called with other shapes than by the module's
    own forward.
    """
    from transformers.activations import ACT2FN
    from transformers.models.llama import modeling_llama as llama

    if type(module) is not llama.LlamaForCausalLM or type(module.model) is not llama.LlamaModel:
        return False
    known = {
        llama.LlamaForCausalLM,
        llama.LlamaModel,
        llama.LlamaDecoderLayer,
        llama.LlamaAttention,
        llama.LlamaMLP,
        llama.LlamaRMSNorm,
        llama.LlamaRotaryEmbedding,
        torch.nn.Linear,
        torch.nn.Embedding,
        torch.nn.ModuleList,
        type(ACT2FN["silu"]),
    }
    own, let_through = _parts(module, ends=(module.model.embed_tokens, module.model.norm))
    kinds = {(w.dtype, w.device.type) for part in own for w in part.parameters(recurse=False)}
    return (
        all(type(part) in known for part in own)
        and not any(_is_hooked(part) for part in (*own, *let_through))
        and kinds in ({(torch.float32, "cpu")}, {(torch.bfloat16, "cpu")})
        and (module.config.rope_parameters or {}).get("rope_type") == "default"
    )


def _parts(part: Any, *, ends: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the submodules that must be Llama's own, and those that are let through instead."""
    if any(part is end for end in ends) and getattr(part, "is_row_wise", False):
        return [], list(part.modules())
    if getattr(part, "merged", False) and hasattr(part, "get_base_layer"):
        return [part.get_base_layer()], [part]
    own, let_through = [part], []
    for child in part.children():
        below = _parts(child, ends=ends)
        own += below[0]
        let_through += below[1]
    return own, let_through


def _is_hooked(part: Any) -> bool:
    return bool(part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part))


@dataclass(kw_only=True)
class Group:
    """The cache of a few rows, aligned at their last token; free slots are kept at the end."""

    cache_LKBGTD: Tensor
    """(layers, 2 for keys and values, rows, key-value heads, positions, head width)."""
    pads: list[int]
    """Empty positions before each row's first token; its length is the number of live rows."""
    length: int
    """Positions in use, padding included."""
    mask_B11T: Tensor | None = None
    """Minus infinity where a row is padded; None where no row is."""

    def mask(self) -> None:
        """Rebuild the mask after the rows changed."""
        self.mask_B11T = None
        if any(self.pads):
            places_T = torch.arange(self.cache_LKBGTD.shape[4])
            is_pad_BT = places_T < torch.tensor(self.pads).unsqueeze(1)
            zeros_BT = self.cache_LKBGTD.new_zeros(is_pad_BT.shape)
            self.mask_B11T = zeros_BT.masked_fill_(is_pad_BT, -torch.inf)[:, None, None]

    def drop(self, slot: int) -> None:
        """Free a slot by moving the last live row into it."""
        last = len(self.pads) - 1
        if slot < last:
            self.cache_LKBGTD[:, :, slot, :, : self.length] = self.cache_LKBGTD[
                :, :, last, :, : self.length
            ]
            self.pads[slot] = self.pads[last]
        self.pads.pop()


@dataclass(kw_only=True)
class Pack:
    """Prompt parts of some rows, laid end to end."""

    ids: list[int] = field(default_factory=list)
    spans: list[tuple[Group, int, int, int]] = field(default_factory=list)
    """(group, slot, first packed token, number of tokens) of each row."""


class LlamaSession:
    """See the module's text and `expbench.models.generation.Session`.

    Args:
        module: A module for which `is_plain_llama` holds.
        max_new: Most tokens that any row of this session may generate.
    """

    def __init__(self, module: Any, *, max_new: int) -> None:
        self._module = module
        self._max_new = max_new
        self._groups: list[Group] = []
        attention = module.model.layers[0].self_attn
        self._width = attention.head_dim
        self._kv_heads = module.config.num_key_value_heads
        self._dtype = module.dtype
        self._shared: Group | None = None
        self._cos_TD = self._sin_TD = torch.empty(0)

    def prefill(self, prompts: Sequence[list[int]]) -> Tensor:
        """Read the prompts, longest first; see `Session`."""
        longest = max(len(ids) for ids in prompts)
        self._prepare_rotation(longest + self._max_new)
        shared = self._read_shared(prompts)
        places: list[tuple[Group, int]] = []
        for start in range(0, len(prompts), GROUP_ROWS):
            lengths = [len(ids) for ids in prompts[start : start + GROUP_ROWS]]
            group = self._new_group(lengths)
            places += [(group, slot) for slot in range(len(lengths))]
        firsts: dict[tuple[int, ...], int] = {}
        sources = [firsts.setdefault(tuple(ids), row) for row, ids in enumerate(prompts)]
        packs = [Pack()]
        for row in firsts.values():
            ids = prompts[row][shared:]
            if packs[-1].ids and len(packs[-1].ids) + len(ids) > CHUNK_TOKENS:
                packs.append(Pack())
            packs[-1].spans.append((*places[row], len(packs[-1].ids), len(ids)))
            packs[-1].ids.extend(ids)
        read_BE = torch.cat([self._read(pack, shared) for pack in packs])
        for row, source in enumerate(sources):
            if row != source:
                _copy(places[source], places[row])
        order = {row: place for place, row in enumerate(firsts.values())}
        return self._logits(read_BE)[[order[source] for source in sources]]

    def step(self, tokens: list[int], inputs_BE: Tensor | None = None) -> Tensor:
        """Read one token a row; see `EmbeddingSession`."""
        module = self._module.model
        x_BE = module.embed_tokens(torch.tensor(tokens)) if inputs_BE is None else inputs_BE
        places = [group.length - pad for group in self._groups for pad in group.pads]
        cos_B1D, sin_B1D = self._cos_TD[places].unsqueeze(1), self._sin_TD[places].unsqueeze(1)
        for index, layer in enumerate(module.layers):
            q_BHD, k_BGD, v_BGD = self._project(layer, x_BE, cos_B1D, sin_B1D)
            mixed_BE = self._attend(index, q_BHD, k_BGD, v_BGD)
            x_BE = _finish_layer(layer, x_BE, mixed_BE)
        for group in self._groups:
            group.length += 1
        return self._logits(x_BE)

    def keep(self, rows: list[int]) -> list[int]:
        """Drop all other rows; see `Session`."""
        kept, order, first = set(rows), [], 0
        for group in self._groups:
            slots = list(range(first, first + len(group.pads)))
            first += len(group.pads)
            before = len(slots)
            for slot in reversed(range(before)):
                if slots[slot] not in kept:
                    group.drop(slot)
                    slots[slot] = slots[-1]
                    slots.pop()
            if len(slots) < before:
                group.mask()
            order += slots
        self._groups = [group for group in self._groups if group.pads]
        return order

    def _prepare_rotation(self, positions: int) -> None:
        places_1T = torch.arange(positions).unsqueeze(0)
        like = torch.empty(0, dtype=self._dtype)
        cos_1TD, sin_1TD = self._module.model.rotary_emb(like, position_ids=places_1T)
        self._cos_TD, self._sin_TD = cos_1TD[0], sin_1TD[0]

    def _new_group(self, lengths: list[int]) -> Group:
        longest = max(lengths)
        layers = len(self._module.model.layers)
        shape = (layers, 2, len(lengths), self._kv_heads, longest + self._max_new, self._width)
        group = Group(
            cache_LKBGTD=torch.empty(shape, dtype=self._dtype),
            pads=[longest - length for length in lengths],
            length=longest,
        )
        for slot, pad in enumerate(group.pads):
            # Masked places still enter products, so they must hold finite numbers.
            group.cache_LKBGTD[:, :, slot, :, :pad] = 0
        group.mask()
        self._groups.append(group)
        return group

    def _read_shared(self, prompts: Sequence[list[int]]) -> int:
        """Read the beginning that all prompts share; return its length."""
        shared = shared_length(prompts)
        if len(prompts) < 2 or shared < SHORTEST_SHARED:
            return 0
        self._shared = self._new_group([shared])
        self._groups.clear()
        self._read(Pack(ids=prompts[0][:shared], spans=[(self._shared, 0, 0, shared)]), 0)
        return shared

    def _read(self, pack: Pack, shared: int) -> Tensor:
        """Run packed prompt parts through all layers; return each row's last state, (B, E)."""
        module = self._module.model
        x_NE = module.embed_tokens(torch.tensor(pack.ids))
        places = [shared + i for *_, size in pack.spans for i in range(size)]
        cos_N1D, sin_N1D = self._cos_TD[places].unsqueeze(1), self._sin_TD[places].unsqueeze(1)
        masks = [_causal_mask(size, shared, self._dtype) for *_, size in pack.spans]
        for index, layer in enumerate(module.layers):
            q_NHD, k_NGD, v_NGD = self._project(layer, x_NE, cos_N1D, sin_N1D)
            parts = [
                self._attend_prompt(index, span, mask, (q_NHD, k_NGD, v_NGD))
                for span, mask in zip(pack.spans, masks, strict=True)
            ]
            x_NE = _finish_layer(layer, x_NE, torch.cat(parts))
        last_BE: Tensor = x_NE[[first + size - 1 for _, _, first, size in pack.spans]]
        return last_BE

    def _attend_prompt(
        self,
        index: int,
        span: tuple[Group, int, int, int],
        mask_ST: Tensor | None,
        qkv: tuple[Tensor, Tensor, Tensor],
    ) -> Tensor:
        group, slot, first, size = span
        q_HSD, k_GSD, v_GSD = (part[first : first + size].transpose(0, 1) for part in qkv)
        cache_KGTD = group.cache_LKBGTD[index, :, slot, :, group.pads[slot] : group.length]
        shared = cache_KGTD.shape[2] - size
        if shared and self._shared is not None:
            cache_KGTD[:, :, :shared] = self._shared.cache_LKBGTD[index, :, 0, :, :shared]
        cache_KGTD[0, :, shared:], cache_KGTD[1, :, shared:] = k_GSD, v_GSD
        mixed_HSD = functional.scaled_dot_product_attention(
            q_HSD[None],
            cache_KGTD[0][None],
            cache_KGTD[1][None],
            attn_mask=mask_ST,
            is_causal=mask_ST is None,
            enable_gqa=True,
        )[0]
        return mixed_HSD.transpose(0, 1).reshape(size, -1)

    def _attend(self, index: int, q_BHD: Tensor, k_BGD: Tensor, v_BGD: Tensor) -> Tensor:
        parts, first = [], 0
        for group in self._groups:
            rows = slice(first, first + len(group.pads))
            first = rows.stop
            now = group.length
            cache_KBGTD = group.cache_LKBGTD[index, :, : len(group.pads)]
            cache_KBGTD[0, :, :, now] = k_BGD[rows]
            cache_KBGTD[1, :, :, now] = v_BGD[rows]
            mask = group.mask_B11T
            # The R query heads of a key-value head take the place of query positions.
            mixed_BGRD = functional.scaled_dot_product_attention(
                q_BHD[rows].view(len(group.pads), self._kv_heads, -1, self._width),
                cache_KBGTD[0, :, :, : now + 1],
                cache_KBGTD[1, :, :, : now + 1],
                attn_mask=None if mask is None else mask[..., : now + 1],
            )
            parts.append(mixed_BGRD.reshape(len(group.pads), -1))
        return torch.cat(parts)

    def _project(
        self, layer: Any, x_NE: Tensor, cos_N1D: Tensor, sin_N1D: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        attention = layer.self_attn
        x_NE = layer.input_layernorm(x_NE)
        q_NHD = attention.q_proj(x_NE).view(len(x_NE), -1, self._width)
        k_NGD = attention.k_proj(x_NE).view(len(x_NE), -1, self._width)
        v_NGD = attention.v_proj(x_NE).view(len(x_NE), -1, self._width)
        return _rotate(q_NHD, cos_N1D, sin_N1D), _rotate(k_NGD, cos_N1D, sin_N1D), v_NGD

    def _logits(self, x_BE: Tensor) -> Tensor:
        head_VE = self._module.lm_head.weight
        x_BE = self._module.model.norm(x_BE)
        logits_BV = x_BE.new_empty((len(x_BE), len(head_VE)))
        for first in range(0, len(head_VE), HEAD_BLOCK):
            block = slice(first, first + HEAD_BLOCK)
            torch.mm(x_BE, head_VE[block].t(), out=logits_BV[:, block])
        return logits_BV


def _copy(source: tuple[Group, int], target: tuple[Group, int]) -> None:
    """Copy what was read of a prompt to a row with the same prompt."""
    parts = [
        group.cache_LKBGTD[:, :, slot, :, group.pads[slot] : group.length]
        for group, slot in (source, target)
    ]
    parts[1].copy_(parts[0])


def shared_length(prompts: Sequence[list[int]]) -> int:
    """Count the tokens with which all prompts begin, leaving each at least one of its own.

    >>> shared_length([[5, 6, 7], [5, 6, 8, 9], [5, 6]])
    1
    """
    # All lists lie between the least and the greatest, so what these two share, all share.
    least, greatest = min(prompts), max(prompts)
    most = min(map(len, prompts)) - 1
    return next((i for i in range(most) if least[i] != greatest[i]), most)


def _finish_layer(layer: Any, x_NE: Tensor, mixed_NE: Tensor) -> Tensor:
    x_NE = x_NE + layer.self_attn.o_proj(mixed_NE)
    inner_NE = layer.post_attention_layernorm(x_NE)
    mlp = layer.mlp
    gated_NF = functional.silu(mlp.gate_proj(inner_NE), inplace=True).mul_(mlp.up_proj(inner_NE))
    out_NE: Tensor = mlp.down_proj(gated_NF).add_(x_NE)
    return out_NE


def _rotate(x_NHD: Tensor, cos_N1D: Tensor, sin_N1D: Tensor) -> Tensor:
    left, right = x_NHD.chunk(2, dim=-1)
    return x_NHD * cos_N1D + torch.cat((-right, left), dim=-1) * sin_N1D


def _causal_mask(size: int, shared: int, dtype: torch.dtype) -> Tensor | None:
    if not shared:
        return None
    return torch.full((size, shared + size), -torch.inf, dtype=dtype).triu_(shared + 1)
