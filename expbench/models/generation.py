"""Batched decoding over any causal language model's own forward.

Shapes: B rows of the batch, T cached positions, E embedding size, V vocabulary.
"""

import inspect
import random
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from expbench.errors import ConfigError
from expbench.models.cache import new_cache
from expbench.models.decoding import Completion, Request, Row, row_random


class Session(Protocol):
    """One batch in flight: holds the key-value cache of its rows."""

    def prefill(self, prompts: Sequence[list[int]]) -> Tensor:
        """Read the prompts; return the next token's logits, (B, V)."""
        ...

    def step(self, tokens: list[int]) -> Tensor:
        """Read one more token a row; return the next token's logits, (B, V)."""
        ...

    def keep(self, rows: list[int]) -> list[int]:
        """Drop all other rows; return the kept ones in the order they now have."""
        ...


class EmbeddingSession(Session, Protocol):
    """A session that can be given embeddings in the place of tokens."""

    def step(self, tokens: list[int], inputs_BE: Tensor | None = None) -> Tensor:
        """Read one more token a row, or in its place an input embedding, (B, E)."""
        ...


class ForwardSession:
    """A session that calls the module's own forward, so that every hook and wrapper takes effect.

    Prompts are padded on the left and masked; a dropped row leaves the cache.
    """

    def __init__(self, module: Any, *, pad_id: int) -> None:
        self._module = module
        self._pad_id = pad_id
        self._cache = new_cache(module)
        self._cache_name = cache_argument(module)
        self._mask_BT = torch.empty(0)

    def prefill(self, prompts: Sequence[list[int]]) -> Tensor:
        """Read the prompts; see `Session`."""
        self._tell("begin")
        width = max(len(ids) for ids in prompts)
        rows = [[self._pad_id] * (width - len(ids)) + ids for ids in prompts]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]
        device = self._module.device
        self._mask_BT = torch.tensor(mask, device=device)
        positions_BT = (self._mask_BT.cumsum(1) - 1).clamp_(min=0)
        return self._forward({"input_ids": torch.tensor(rows, device=device)}, positions_BT)

    def step(self, tokens: list[int], inputs_BE: Tensor | None = None) -> Tensor:
        """Read one token a row; see `EmbeddingSession`."""
        positions_B1 = self._mask_BT.sum(1, keepdim=True)
        self._mask_BT = torch.cat((self._mask_BT, torch.ones_like(positions_B1)), dim=1)
        if inputs_BE is not None:
            return self._forward({"inputs_embeds": inputs_BE.unsqueeze(1)}, positions_B1)
        ids_B1 = torch.tensor(tokens, device=self._module.device).unsqueeze(1)
        return self._forward({"input_ids": ids_B1}, positions_B1)

    def keep(self, rows: list[int]) -> list[int]:
        """Drop finished rows; see `Session`."""
        index = torch.tensor(rows, device=self._mask_BT.device)
        self._mask_BT = self._mask_BT[index]
        self._cache.batch_select_indices(index)
        self._tell("keep", index)
        return rows

    def _tell(self, event: str, *values: Any) -> None:
        """Tell a final norm that remembers something of its rows what becomes of them."""
        norm = getattr(self._module.get_decoder(), "norm", None)
        if hasattr(norm, event):
            getattr(norm, event)(*values)

    def _forward(self, inputs: dict[str, Tensor], positions_BT: Tensor) -> Tensor:
        output = self._module(
            **inputs,
            attention_mask=self._mask_BT,
            position_ids=positions_BT,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._cache},
        )
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV


def cache_argument(module: Any) -> str:
    """Return the forward's name for the cache, which transformers 5.24 renamed."""
    parameters = inspect.signature(type(module).forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"


def decode(
    session: Session,
    requests: Sequence[Request],
    *,
    tokenizer: Any,
    eos_ids: Collection[int],
    temperature: float,
    seed: int,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> list[Completion]:
    """Decode one batch to its end; rows leave the batch as they finish.

    Args:
        session: A fresh session.
        requests: Rows of the batch, best sorted by length.
        tokenizer: Turns ids into text.
        eos_ids: Every id that ends an answer.
        temperature: 0 for greedy decoding.
        seed: Decides, with each request's key, what is drawn.
        is_cancelled: Asked before every token; the answers so far are returned when it says yes.

    Raises:
        ConfigError: a row's logits are not numbers.
    """
    rows = [
        Row(
            request=request,
            tokenizer=tokenizer,
            eos_ids=eos_ids,
            rng=row_random(seed, request.key) if temperature > 0 else None,
        )
        for request in requests
    ]
    live = [row for row in rows if row.stop_reason is None]
    if not live:
        return [row.completion() for row in rows]
    logits_BV = session.prefill([row.request.ids for row in live])
    while True:
        tokens = choose(logits_BV, [row.rng for row in live], temperature=temperature)
        kept = [i for i, row in enumerate(live) if not row.push(tokens[i])]
        if not kept or is_cancelled():
            return [row.completion() for row in rows]
        if len(kept) < len(live):
            kept = session.keep(kept)
            live = [live[i] for i in kept]
        logits_BV = session.step([tokens[i] for i in kept])


def choose(
    logits_BV: Tensor, dice: Sequence[random.Random | None], *, temperature: float
) -> list[int]:
    """Pick each row's next token: the best, or one drawn with the row's own dice.

    A draw inverts the cumulative distribution, in float64, at one uniform number, so that it is the
    same on every device up to the rounding of the logits.

    Raises:
        ConfigError: a row's logits are not numbers.
    """
    best_B, ids_B = logits_BV.max(dim=1)
    if not bool(torch.isfinite(best_B).all()):
        raise ConfigError(
            f"The model's logits are not finite numbers in {logits_BV.dtype}; "
            "try --dtype float32, and check the weights."
        )
    if temperature <= 0:
        return [int(i) for i in ids_B.tolist()]
    scaled_BV = logits_BV.float().sub(best_B.float().unsqueeze(1)).div_(temperature)
    mass_BV = scaled_BV.exp_().cumsum(dim=1, dtype=torch.float64)
    draws = [0.0 if die is None else die.random() for die in dice]
    goal_B1 = torch.tensor(draws, dtype=torch.float64, device=mass_BV.device).unsqueeze(1)
    picked_B1 = torch.searchsorted(mass_BV, goal_B1 * mass_BV[:, -1:], right=True)
    last = mass_BV.shape[1] - 1
    return [int(i) for i in picked_B1.clamp_(max=last).squeeze(1).tolist()]
