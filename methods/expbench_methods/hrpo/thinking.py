"""Where the thinking part of a reply ends, and what was read in it instead of plain tokens.

A token is read as a mixture as long as the reply's text up to it, the token included, holds no
marker. That is a function of the token ids alone, so that sampling and scoring agree.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from expbench.errors import PluginError


class Thinking:
    """The thinking part of a reply, followed token by token.

    Args:
        tokenizer: Turns ids into text; special tokens have none.
        markers: Strings any of which begins the answer part.
    """

    def __init__(self, tokenizer: Any, markers: Sequence[str]) -> None:
        self.ids: list[int] = []
        self._tokenizer = tokenizer
        self._markers = markers
        self._is_over = False
        # A token is at least one byte, so a new marker lies within this many last tokens.
        self._reach = max((len(marker.encode()) for marker in markers), default=0)

    def push(self, token: int) -> bool:
        """Append a token; return whether it still belongs to the thinking part."""
        self.ids.append(token)
        if self._markers and not self._is_over:
            tail = self._tokenizer.decode(self.ids[-self._reach :], skip_special_tokens=True)
            self._is_over = any(marker in tail for marker in self._markers)
        return not self._is_over


def thinking_tokens(ids: Iterable[int], tokenizer: Any, markers: Sequence[str]) -> int:
    """Count the tokens of a reply that are read as mixtures; they are its first ones."""
    thinking = Thinking(tokenizer, markers)
    return sum(thinking.push(token) for token in ids)


@dataclass(kw_only=True)
class Reading:
    """What one row of a batch has read so far."""

    prompt: list[int]
    thinking: Thinking
    latents: list[Tensor] = field(default_factory=list)
    """(D,) float32 for each token read as a mixture, if they are kept."""

    @property
    def key(self) -> bytes:
        """Name what was read: the prompt and all tokens but the last, which nobody reads."""
        return key_of(self.prompt + self.thinking.ids)


class Latents:
    """What the rollouts of a window read, found again by their token ids.

    Rollouts of the same prompt and the same ids are one entry: the policy that made them is the
    same, and with it every distribution they were drawn from.
    """

    def __init__(self) -> None:
        self._readings: list[Reading] = []
        self._found: dict[bytes, Reading] = {}

    def follow(self, readings: Sequence[Reading]) -> None:
        """Keep rows, which may still grow until the first `find`."""
        self._readings.extend(readings)

    def find(self, ids: Sequence[int]) -> tuple[int, Tensor | None]:
        """Return the length of a rollout's prompt and its latents, (N, D); None for no latents.

        Args:
            ids: Prompt and all of the reply.

        Raises:
            PluginError: no such rollout was made since `clear`.
        """
        for reading in self._readings:
            self._found[reading.key] = reading
        self._readings = []
        found = self._found.get(key_of(ids[:-1]))
        if found is None:
            raise PluginError(
                f"A rollout of {len(ids)} tokens is scored that this policy did not make; score "
                "rollouts in the window in which they were made."
            )
        return len(found.prompt), torch.stack(found.latents) if found.latents else None

    def clear(self) -> None:
        """Forget all rollouts."""
        self._readings, self._found = [], {}


def key_of(ids: Sequence[int]) -> bytes:
    """Return token ids as something to look them up by."""
    return array("q", ids).tobytes()
