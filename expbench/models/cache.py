"""A key-value cache for the module's own forward that does not copy itself at every token."""

from typing import Any

from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

SPARE = 64
"""Positions added whenever a layer is full."""


class SpareLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A growing cache layer with room to spare: a new token is written in place.

    transformers' own layer joins old and new states into a fresh tensor at every token, which for
    a batch of 64 prompts moves more memory than reading all weights of a small model.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._room: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append states, (rows, heads, new positions, width); return all states so far."""
        before = self.get_seq_length()
        after = before + key_states.shape[-2]
        if self._room is None or self._room[0].shape[-2] < after:
            self._grow(key_states, value_states, before, after + SPARE)
        assert self._room is not None
        for room, fresh in zip(self._room, (key_states, value_states), strict=True):
            room[..., before:after, :] = fresh
        self.keys, self.values = (room[..., :after, :] for room in self._room)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the given rows; the next token finds new room."""
        super().batch_select_indices(indices)
        self._room = None

    def _grow(self, keys: Tensor, values: Tensor, before: int, positions: int) -> None:
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        rooms = []
        for old, like in ((self.keys, keys), (self.values, values)):
            room = like.new_empty((*like.shape[:-2], positions, like.shape[-1]))
            if before and old is not None:
                room[..., :before, :] = old
            rooms.append(room)
        self._room = (rooms[0], rooms[1])


def new_cache(module: Any) -> DynamicCache:
    """Return an empty cache for a module; sliding-window layers stay transformers' own."""
    cache = DynamicCache(config=module.config)
    cache.layers = [
        SpareLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    return cache
