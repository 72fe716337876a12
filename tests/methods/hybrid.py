"""Hybrid policies on small random decoders, and sessions that are watched, for HRPO's tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from expbench.models.decoding import Request
from expbench.models.generation import Session
from expbench.models.hf import HFModel
from expbench_methods.hrpo.config import HRPOConfig
from expbench_methods.hrpo.policy import HybridModel
from tests.methods.fused import decoder, hf_model

VISIBLE: dict[str, Any] = {"r_min": 0.2, "r_max": 0.6, "answer_markers": "e|t|7|a|K"}
"""A range in which mixing is plainly seen, and markers that random text soon contains."""


def hybrid(family: str | HFModel = "llama", **changes: Any) -> HybridModel:
    """Return a policy of a family that mixes a lot, with gates that see their input."""
    fork = hf_model(decoder(family)) if isinstance(family, str) else family
    made = HybridModel(fork, HRPOConfig(**{**VISIBLE, **changes}), seed=3)
    with torch.no_grad():
        for gate in (made.embedding.gates.retain, made.embedding.gates.admit):
            gate.weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(1))
    return made


def requests(count: int = 10, *, most: int = 12) -> list[Request]:
    """Return prompts of different lengths, with different limits."""
    draw = torch.randint(7, 260, (count, 40), generator=torch.Generator().manual_seed(2))
    return [
        Request(ids=row[: 3 + 3 * (i % 7)], max_tokens=most - i % 5, key=f"q{i}")
        for i, row in enumerate(draw.tolist())
    ]


@dataclass
class Drawn:
    """What a row of a watched session was drawn from."""

    prompt: list[int]
    read: list[int]
    """All tokens of the reply but the last."""
    logits: list[Tensor]
    """(V,) for each token of the reply."""


class Watched:
    """A session that remembers what each row was drawn from.

    Args:
        session: What is watched.
        drawn: Gets an entry a row, in the rows' order.
    """

    def __init__(self, session: Session, drawn: list[Drawn]) -> None:
        self.session = session
        self.drawn = drawn
        self.rows: list[Drawn] = []

    def prefill(self, prompts: Sequence[list[int]]) -> Tensor:
        self.rows = [Drawn(prompt, [], []) for prompt in prompts]
        self.drawn.extend(self.rows)
        return self._watch(self.session.prefill(prompts))

    def step(self, tokens: list[int]) -> Tensor:
        for row, token in zip(self.rows, tokens, strict=True):
            row.read.append(token)
        return self._watch(self.session.step(tokens))

    def keep(self, rows: list[int]) -> list[int]:
        kept = self.session.keep(rows)
        self.rows = [self.rows[i] for i in kept]
        return kept

    def _watch(self, logits_BV: Tensor) -> Tensor:
        for row, logits_V in zip(self.rows, logits_BV, strict=True):
            row.logits.append(logits_V.detach().clone())
        return logits_BV


def log_probs(logits: Sequence[Tensor], ids: Sequence[int], temperature: float) -> list[float]:
    """Return the log-probs of a reply under the logits that it was drawn from."""
    return [
        float((logits_V / temperature).log_softmax(-1)[token])
        for logits_V, token in zip(logits, ids, strict=True)
    ]


def padded(prompts: Sequence[list[int]], replies: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Return ids and mask, (B, T): prompts padded on the left, replies on the right."""
    before, after = max(map(len, prompts)), max(map(len, replies))
    ids, mask = [], []
    for prompt, reply in zip(prompts, replies, strict=True):
        left, right = before - len(prompt), after - len(reply)
        ids.append([0] * left + prompt + reply + [0] * right)
        mask.append([0] * left + [1] * (len(prompt) + len(reply)) + [0] * right)
    return torch.tensor(ids), torch.tensor(mask)
