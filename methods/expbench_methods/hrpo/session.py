"""Hybrid decoding: one cached forward a token, as for plain tokens, with mixed inputs.

Shapes: B rows, N rows in their thinking part, D hidden size, V vocabulary.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from expbench.models.generation import EmbeddingSession
from expbench_methods.hrpo.embedding import HybridEmbedding
from expbench_methods.hrpo.thinking import Latents, Reading, Thinking


class HybridSession:
    """A session in which a thinking row's token is read as a mixture.

    What is mixed in comes from the very logits that the token was drawn from.

    Args:
        inner: Reads tokens or, in their place, embeddings.
        embedding: Embeds and mixes.
        temperature: Of the distribution that is mixed in.
        thinking: Makes the watch over one reply.
        latents: Keeps what was mixed in; None to keep nothing.
    """

    def __init__(
        self,
        inner: EmbeddingSession,
        embedding: HybridEmbedding,
        *,
        temperature: float,
        thinking: Callable[[], Thinking],
        latents: Latents | None,
    ) -> None:
        self._inner = inner
        self._embedding = embedding
        self._temperature = temperature
        self._thinking = thinking
        self._latents = latents
        self._readings: list[Reading] = []
        self._logits_BV = torch.empty(0)

    def prefill(self, prompts: Sequence[list[int]]) -> Tensor:
        """Read the prompts as plain tokens; see `expbench.models.generation.Session`."""
        self._readings = [Reading(prompt=ids, thinking=self._thinking()) for ids in prompts]
        if self._latents is not None:
            self._latents.follow(self._readings)
        self._logits_BV = self._inner.prefill(prompts)
        return self._logits_BV

    def step(self, tokens: list[int]) -> Tensor:
        """Read one more token a row, mixed in thinking rows; see `Session`."""
        pairs = zip(self._readings, tokens, strict=True)
        rows = [i for i, (reading, token) in enumerate(pairs) if reading.thinking.push(token)]
        self._logits_BV = self._inner.step(tokens, self._mixed(tokens, rows) if rows else None)
        return self._logits_BV

    def keep(self, rows: list[int]) -> list[int]:
        """Drop all other rows; see `Session`."""
        kept = self._inner.keep(rows)
        self._readings = [self._readings[i] for i in kept]
        self._logits_BV = self._logits_BV[kept]
        return kept

    def _mixed(self, tokens: list[int], rows: list[int]) -> Tensor:
        device = self._logits_BV.device
        rows_N = torch.tensor(rows, device=device)
        latents_ND = self._embedding.expect(self._logits_BV[rows_N], temperature=self._temperature)
        if self._latents is not None:
            for row, latent_D in zip(rows, latents_ND, strict=True):
                self._readings[row].latents.append(latent_D)
        return self._embedding.mix(torch.tensor(tokens, device=device), rows_N, latents_ND)
