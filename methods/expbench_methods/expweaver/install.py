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
        if self.is_row_wise:
            return self.fusion(h_XD)
        return self._once(h_XD)

    def begin(self) -> None:
        """Forget the last batch: the next call is a prompt."""
        self._found_BK = None

    def keep(self, rows: Tensor) -> None:
        """Forget the retrieved entries of rows that left the batch."""
        if self._found_BK is not None:
            self._found_BK = self._found_BK[rows]

    def _once(self, h_BTD: Tensor) -> Tensor:
        if h_BTD.shape[1] > 1 or self._found_BK is None or len(self._found_BK) != len(h_BTD):
            at = -1 if self.anchor is None else self.anchor
            self._found_BK = self.fusion.retrieve(h_BTD[:, at])
        found_BTK = self._found_BK.unsqueeze(1).expand(-1, h_BTD.shape[1], -1)
        fused_BTD: Tensor = self.fusion(h_BTD, found_BTK)
        if self.anchor is None or h_BTD.shape[1] == 1:
            return fused_BTD
        # Positions before the anchor choose no token of the answer.
        before_T1 = (torch.arange(h_BTD.shape[1], device=h_BTD.device) < self.anchor).unsqueeze(1)
        return torch.where(before_T1, h_BTD, fused_BTD)


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
