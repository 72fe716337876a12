"""Settings of `search_r1`; the README of this folder says where each default comes from."""

from dataclasses import dataclass
from typing import Literal

from expbench.errors import ConfigError
from expbench.training.settings import GRPOSettings


@dataclass(frozen=True, kw_only=True)
class SearchR1Config(GRPOSettings):
    """The training budget, and what a search may bring.

    Raises:
        ConfigError: a number out of its range.
    """

    k: int = 3
    """Experiences that a search brings back."""
    max_turns: int = 2
    """Searches of an answer that are served; what is asked afterwards is not."""
    observation_tokens: int = 128
    """Tokens that a search brings back at most, its tags included."""
    retriever: Literal["bm25", "dense"] = "bm25"
    """By the words of the query, or by the untouched backbone's hidden states."""

    def __post_init__(self) -> None:
        """Refuse what could never bring anything back."""
        super().__post_init__()
        for name in ("k", "max_turns", "observation_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.retriever not in ("bm25", "dense"):
            raise ConfigError(
                f"retriever is {self.retriever!r}; the model searches in words, so it must be "
                "bm25 or dense."
            )
