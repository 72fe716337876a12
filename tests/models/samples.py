"""Prompts, a tokenizer of words and a scripted session for the tests of backbones."""

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from expbench.core import Kind, Prompt, Question

WORDS = "a fox sees seven green pears and counts them twice before noon while owls sleep".split()


def prompt(
    number: int,
    *,
    words: int = 6,
    max_tokens: int = 24,
    stop: tuple[str, ...] = (),
    context: str = "",
    shots: tuple[tuple[str, str], ...] = (),
    kind: Kind = "math",
) -> Prompt:
    """Make a question whose text depends on its number."""
    text = " ".join(WORDS[(number * 5 + i * (number + 1)) % len(WORDS)] for i in range(words))
    question = Question(
        id=f"q{number}",
        task="toy",
        kind=kind,
        input=text,
        prompt=f"{text}?",
        max_tokens=max_tokens,
        stop=stop,
    )
    return Prompt(question=question, context=context, shots=shots)


def mixed(count: int) -> list[Prompt]:
    """Make prompts of very different lengths and limits."""
    return [prompt(i, words=1 + (i * 7) % 19, max_tokens=5 + (i * 11) % 40) for i in range(count)]


VOCABULARY = {"<unk>": 0, "<s>": 1, "</s>": 2, "big": 5, "red": 6, "fox": 7}


def word_tokenizer(*, template: str | None, wrap: str) -> Any:
    """Make a tokenizer of whole words that wraps a text in special tokens."""
    backend = Tokenizer(models.WordLevel(vocab=VOCABULARY, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single=wrap, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = template
    return tokenizer


class Script:
    """A session that writes given ids, whatever it reads."""

    def __init__(self, *replies: Sequence[int]) -> None:
        self.replies = [list(reply) for reply in replies]
        self.steps = 0

    def prefill(self, prompts: Sequence[list[int]]) -> torch.Tensor:
        assert len(prompts) == len(self.replies)
        return self._next()

    def step(self, tokens: list[int]) -> torch.Tensor:
        self.steps += 1
        assert len(tokens) == len(self.replies)
        return self._next()

    def keep(self, rows: list[int]) -> list[int]:
        order = rows[::-1]
        self.replies = [self.replies[i] for i in order]
        return order

    def _next(self) -> torch.Tensor:
        logits = torch.zeros(len(self.replies), 300)
        for row, reply in enumerate(self.replies):
            logits[row, reply.pop(0)] = 9.0
        return logits
