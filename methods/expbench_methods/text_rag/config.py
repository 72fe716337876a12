"""Settings of `text_rag`; the README of this folder says where each default comes from."""

from dataclasses import dataclass
from typing import get_args

from expbench.errors import ConfigError
from expbench.experience.retrieval import RetrieverKind
from expbench.training.settings import GRPOSettings


@dataclass(frozen=True, kw_only=True)
class TextRAGConfig(GRPOSettings):
    """The training budget, and what is put into the prompt; `steps` 0 is the untrained variant.

    Raises:
        ConfigError: a number out of its range, or an unknown retriever.
    """

    retriever: RetrieverKind = "bm25"
    """By shared words, by the untouched backbone's hidden states, or by molecular fingerprints,
    which only chemistry questions have."""
    k: int = 3
    """Experiences in the prompt at most; 0 asks as `direct` does."""
    passage_chars: int = 800
    """Characters of an experience at most, at least 1: what is longer is cut off at its end."""

    def __post_init__(self) -> None:
        """Refuse what cannot be retrieved with."""
        super().__post_init__()
        if self.retriever not in get_args(RetrieverKind):
            raise ConfigError(
                f"retriever is {self.retriever!r}; it must be one of "
                f"{', '.join(get_args(RetrieverKind))}."
            )
        for name, least in (("k", 0), ("passage_chars", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be {least} or more.")
