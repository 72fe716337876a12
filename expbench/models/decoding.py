"""What a row of a batch needs besides the forward pass: its limits, its stop strings, its dice."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from expbench.core import StopReason
from expbench.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Request:
    """One continuation asked for.

    Raises:
        ConfigError: no prompt ids, or an empty stop string.
    """

    ids: list[int]
    """Prompt token ids, at least one."""
    max_tokens: int
    stop: tuple[str, ...] = ()
    key: str = ""
    """Names the row's random stream together with the seed."""

    def __post_init__(self) -> None:
        """Refuse what could not be continued or would stop at once."""
        if not self.ids or "" in self.stop:
            raise ConfigError(
                f"The request {self.key!r} has {len(self.ids)} prompt ids and stop strings "
                f"{self.stop!r}; it needs at least one id, and no empty stop string."
            )


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What the model wrote for one request."""

    ids: list[int]
    """All sampled ids: with the end token or the tokens of a stop string, without padding."""
    text: str
    stop_reason: StopReason


@dataclass(kw_only=True)
class Row:
    """The growing answer to one request."""

    request: Request
    tokenizer: Any
    eos_ids: Collection[int]
    rng: random.Random | None
    """None for greedy decoding."""
    ids: list[int] = field(default_factory=list)
    text: str = ""
    stop_reason: StopReason | None = None

    def __post_init__(self) -> None:
        """Finish at once where nothing may be generated."""
        self._reach = max((len(s.encode()) for s in self.request.stop), default=0) + 4
        if self.request.max_tokens < 1:
            self.stop_reason = "length"

    def push(self, token: int) -> bool:
        """Append a sampled token; return whether the row is finished."""
        self.ids.append(token)
        if token in self.eos_ids:
            self._finish("stop", self._decode(self.ids[:-1]))
        elif self.request.stop and (text := self._before_stop()) is not None:
            self._finish("stop", text)
        elif len(self.ids) >= self.request.max_tokens:
            self._finish("length", self._decode(self.ids))
        return self.stop_reason is not None

    def completion(self) -> Completion:
        """Return the finished answer."""
        return Completion(ids=self.ids, text=self.text, stop_reason=self.stop_reason or "length")

    def _finish(self, reason: StopReason, text: str) -> None:
        self.stop_reason, self.text = reason, text

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _before_stop(self) -> str | None:
        # A token is at least one byte, so a new stop string lies within the last `reach` tokens.
        tail = self._decode(self.ids[-self._reach :])
        if not any(stop in tail for stop in self.request.stop):
            return None
        text = self._decode(self.ids)
        cuts = [at for stop in self.request.stop if (at := text.find(stop)) >= 0]
        return text[: min(cuts)] if cuts else None


def row_random(seed: int, key: str) -> random.Random:
    """Return the random stream of a row: it depends on nothing but seed and key.

    >>> row_random(1, "q1").random() == row_random(1, "q1").random() != row_random(2, "q1").random()
    True
    """
    return random.Random(sha256(f"{seed}/{key}".encode()).digest())


def plan_batches(
    lengths: Sequence[tuple[int, int]], *, batch_tokens: int, max_rows: int
) -> list[list[int]]:
    """Group rows of like length, longest first, so that each padded group fits the budget.

    Args:
        lengths: (prompt tokens, most new tokens) of each row.
        batch_tokens: Bound on rows x (longest prompt + most new tokens); a single row may exceed
            it.
        max_rows: Bound on the rows of a group.

    >>> plan_batches([(10, 5), (90, 5), (12, 5)], batch_tokens=100, max_rows=8)
    [[1], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i][0], -lengths[i][1], i))
    batches: list[list[int]] = []
    width = new = 0
    for i in order:
        prompt, fresh = lengths[i]
        width_now, new_now = max(width, prompt), max(new, fresh)
        rows = len(batches[-1]) + 1 if batches else 1
        if batches and rows <= max_rows and rows * (width_now + new_now) <= batch_tokens:
            batches[-1].append(i)
            width, new = width_now, new_now
        else:
            batches.append([i])
            width, new = prompt, fresh
    return batches
