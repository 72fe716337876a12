"""The backbone's input embedding with the gates beside it.

Called with ids it is the plain embedding, except while rollouts are scored: then the tokens of
their thinking parts are mixed with what was expected when they were drawn, by the gates as they
are now. Decoding mixes by itself and hands the mixture to its session (`session`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from expbench.errors import ConfigError
from expbench_methods.hrpo.gates import Gates, expected
from expbench_methods.hrpo.thinking import Latents, key_of


class HybridEmbedding(nn.Module):
    """Wraps an input embedding; a head that is tied to it stays tied, because it is kept as it is.

    Args:
        embedding: The backbone's own.
        gates: What mixes.
    """

    is_row_wise = True
    """Tokens outside scoring are treated alone: the faster decoding session may be used."""

    def __init__(self, embedding: nn.Module, gates: Gates) -> None:
        super().__init__()
        self.embedding = embedding
        self.gates = gates
        self._bypasses = 0
        self._scored: dict[bytes, tuple[int, Tensor]] | None = None

    @property
    def weight(self) -> Tensor:
        """The embedding matrix, (V, D)."""
        matrix_VD: Tensor = self.embedding.get_parameter("weight")
        return matrix_VD

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Embed; see the module's text."""
        e_BTD: Tensor = self.embedding(ids_BT)
        if self._scored is None or self._bypasses:
            return e_BTD
        known = [self._scored.get(key_of(row)) for row in ids_BT.tolist()]
        places = [
            (row, first + i)
            for row, found in enumerate(known)
            if found is not None
            for first, latents_ND in [found]
            for i in range(len(latents_ND))
        ]
        if not places:
            return e_BTD
        rows_N, columns_N = torch.tensor(places, device=e_BTD.device).unbind(1)
        latents_ND = torch.cat([found[1] for found in known if found is not None]).to(e_BTD.device)
        mixed_ND = self.gates(e_BTD[rows_N, columns_N], latents_ND)
        return e_BTD.index_put((rows_N, columns_N), mixed_ND)

    def expect(self, logits_NV: Tensor, *, temperature: float) -> Tensor:
        """Return what distributions expect, in the space of this embedding: see `expected`."""
        latents_ND = expected(logits_NV, self.weight, temperature=temperature)
        # Gemma multiplies its embeddings by a constant.
        return latents_ND * getattr(self.embedding, "embed_scale", 1.0)

    def mix(self, tokens_B: Tensor, rows_N: Tensor, latents_ND: Tensor) -> Tensor:
        """Embed one token a row, (B, D), and mix those of some rows."""
        e_BD: Tensor = self.embedding(tokens_B)
        return e_BD.index_put((rows_N,), self.gates(e_BD[rows_N], latents_ND))

    @contextmanager
    def scoring(self, ids_BT: Tensor, mask_BT: Tensor, latents: Latents) -> Iterator[None]:
        """Mix rollouts' tokens while they are scored whole, in any order and any parts of a batch.

        Args:
            ids_BT: Prompts padded on the left, replies padded on the right.
            mask_BT: 0 for padding.
            latents: Where the rollouts' latents are found.

        Raises:
            PluginError: a row that is not a known rollout.
        """
        if self._bypasses:
            yield
            return
        scored = {}
        for row, mask in zip(ids_BT.tolist(), mask_BT.bool().tolist(), strict=True):
            own = [token for token, is_own in zip(row, mask, strict=True) if is_own]
            prompt, latents_ND = latents.find(own)
            if latents_ND is not None:
                # Rows that are equal with their padding differ at most in a token nobody reads.
                scored[key_of(row)] = (mask.index(True) + prompt, latents_ND)
        self._scored = scored
        try:
            yield
        finally:
            self._scored = None

    @contextmanager
    def bypassed(self) -> Iterator[None]:
        """Read plain tokens, whatever is scored; may be nested."""
        self._bypasses += 1
        try:
            yield
        finally:
            self._bypasses -= 1


def install(module: Any, *, r_min: float, r_max: float, seed: int) -> HybridEmbedding:
    """Wrap a module's input embedding, after its adapter was attached.

    Raises:
        ConfigError: it is wrapped already.
    """
    embedding = module.get_input_embeddings()
    if isinstance(embedding, HybridEmbedding):
        raise ConfigError("The input embedding is wrapped already; use another fork.")
    width = embedding.weight.shape[1]
    gates = Gates(width, r_min=r_min, r_max=r_max, seed=seed)
    wrapped = HybridEmbedding(embedding, gates.to(module.device))
    module.set_input_embeddings(wrapped)
    return wrapped.train(module.training)
