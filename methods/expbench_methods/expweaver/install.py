"""Where the fusion sits: around the decoder's final norm, so that every consumer sees h'."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from expbench.errors import ConfigError
from expbench_methods.expweaver.fusion import Fusion


class FusedNorm(nn.Module):
    """The backbone's own norm, then the fusion.

    With retrieval once an answer the entries found at the prompt's last position serve all tokens
    of the answer: while generating, the first call of a batch is the prompt and every later one a
    single token; while scoring, `anchor` names the prompt's last column of left-padded prompts.
    Columns before the anchor choose no token of the answer and are left unfused, which saves
    training their search and their gradients.
    """

    def __init__(self, norm: nn.Module, fusion: Fusion) -> None:
        super().__init__()
        self.norm = norm
        self.fusion = fusion
        self.bypasses = 0
        self.anchor: int | None = None
        self._found_BK: Tensor | None = None

    @property
    def is_row_wise(self) -> bool:
        """Tell whether every position is treated alone."""
        return self.fusion.settings.frequency != "once"

    def forward(self, h_XD: Tensor) -> Tensor:
        """Return the normed states, fused unless bypassed."""
        h_XD = self.norm(h_XD)
        if self.bypasses or not self.fusion.is_active:
            return h_XD
        if self.anchor is None or h_XD.ndim < 3 or h_XD.shape[1] == 1:
            return self._fuse(h_XD, at=-1)
        before_BTD, after_BTD = h_XD[:, : self.anchor], h_XD[:, self.anchor :]
        return torch.cat((before_BTD, self._fuse(after_BTD, at=0)), dim=1)

    def begin(self) -> None:
        """Forget the last batch: the next call is a prompt."""
        self._found_BK = None

    def keep(self, rows: Tensor) -> None:
        """Forget the retrieved entries of rows that left the batch."""
        if self._found_BK is not None:
            self._found_BK = self._found_BK[rows]

    def _fuse(self, h_XD: Tensor, *, at: int) -> Tensor:
        """Fuse; `at` is the prompt's last column, needed for retrieval once an answer."""
        if self.is_row_wise:
            fused_XD: Tensor = self.fusion(h_XD)
            return fused_XD
        if h_XD.shape[1] > 1 or self._found_BK is None or len(self._found_BK) != len(h_XD):
            self._found_BK = self.fusion.retrieve(h_XD[:, at])
        found_BTK = self._found_BK.unsqueeze(1).expand(-1, h_XD.shape[1], -1)
        fused_XD = self.fusion(h_XD, found_BTK)
        return fused_XD


def install(module: Any, fusion: Fusion) -> None:
    """Wrap the decoder's final norm.

    Works for decoders that keep it as `norm` (Llama, Qwen2, Qwen3, Gemma3 and their kin).

    Raises:
        ConfigError: the decoder has no `norm`, or it is wrapped already.
    """
    decoder = module.get_decoder()
    if not isinstance(getattr(decoder, "norm", None), nn.Module) or isinstance(
        decoder.norm, FusedNorm
    ):
        raise ConfigError(
            f"The final norm of {type(decoder).__name__} cannot be wrapped; ExpWeaver works on "
            "decoders that keep it as `norm`, once each."
        )
    decoder.norm = FusedNorm(decoder.norm, fusion.to(module.device))


def uninstall(module: Any) -> None:
    """Put the decoder's own norm back."""
    decoder = module.get_decoder()
    decoder.norm = decoder.norm.norm


def fused_norm(module: Any) -> FusedNorm:
    """Return the wrapped norm of a module."""
    found: FusedNorm = module.get_decoder().norm
    return found


@contextmanager
def bypassed(module: Any) -> Iterator[None]:
    """Let the backbone compute as if the fusion were not there; may be nested."""
    norm = fused_norm(module)
    norm.bypasses += 1
    try:
        yield
    finally:
        norm.bypasses -= 1


@contextmanager
def anchored(module: Any, column: int) -> Iterator[None]:
    """Score left-padded prompts whose last column is `column` (retrieval once an answer)."""
    norm = fused_norm(module)
    before, norm.anchor = norm.anchor, column
    try:
        yield
    finally:
        norm.anchor = before
