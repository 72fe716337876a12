"""What a search brings back, as token ids.

It is tokenised on its own, never together with what the model wrote: sampled ids stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from expbench.errors import ConfigError
from expbench_methods.search_r1.dialogue import END_INFORMATION, INFORMATION


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Token ids to be put into the context; none where not even the tags had room."""

    ids: tuple[int, ...] = ()
    shown: int = 0
    """Passages of which at least one token of words is shown; the last one may be cut."""
    is_cut: bool = False
    """Whether words of a passage are missing."""


class ObservationWriter:
    """Wraps passages in information tags, within a number of tokens.

    Args:
        tokenizer: The policy's.
        limit: Tokens of an observation at most, tags included.

    Raises:
        ConfigError: the limit leaves no room for words between the tags.
    """

    def __init__(self, tokenizer: Any, limit: int) -> None:
        self._tokenizer = tokenizer
        self.limit = limit
        self._opening = self._ids(INFORMATION)
        self._closing = self._ids(END_INFORMATION)
        self.least = len(self._opening) + len(self._closing)
        if limit <= self.least:
            raise ConfigError(
                f"observation_tokens is {limit}, and the tags around what is found take "
                f"{self.least} of them; give more."
            )

    def write(self, passages: Sequence[str], room: int) -> Observation:
        """Write passages in their order, cut at the end to what there is room for.

        Args:
            passages: Best first; without any the tags come back with nothing between them.
            room: Tokens that the model's context has left for it.
        """
        room = min(room, self.limit)
        if room < self.least:
            return Observation(is_cut=bool(passages))
        body: list[int] = []
        shown = 0
        for number, passage in enumerate(passages, 1):
            lead = self._ids(f"{number}. ")
            shown += len(body) + len(lead) < room - self.least
            body += lead + self._ids(f"{' '.join(passage.split())}\n")
        kept = body[: room - self.least]
        return Observation(
            ids=(*self._opening, *kept, *self._closing), shown=shown, is_cut=len(kept) < len(body)
        )

    def _ids(self, text: str) -> list[int]:
        # A passage may hold the spelling of a control token; it is text here and stays text.
        given = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        return list(given["input_ids"])
