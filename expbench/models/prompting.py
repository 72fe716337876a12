"""From a `Prompt` to token ids: the chat template is applied once and specials are added once.

A model without a chat template gets a plain layout: turns joined by blank lines, a user turn and
its answer by one newline, and the begin token where the tokenizer asks for one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from expbench.core import Prompt


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """Token ids of a prompt and the meter's two shares of them."""

    ids: list[int]
    prompt_tokens: int
    """Tokens of the rendering without context and shots."""
    retrieved_tokens: int
    """All others."""


def render(tokenizer: Any, prompt: Prompt) -> Rendered:
    """Render a prompt as the model's own chat format has it.

    Args:
        tokenizer: A Hugging Face tokenizer.
        prompt: `shots` become earlier turns, `context` comes before the task's words.
    """
    task = prompt.question.prompt or prompt.question.input
    bare = [{"role": "user", "content": task}]
    ids = to_ids(tokenizer, bare)
    if not prompt.context and not prompt.shots:
        return Rendered(ids=ids, prompt_tokens=len(ids), retrieved_tokens=0)
    turns = [
        {"role": role, "content": content}
        for shot in prompt.shots
        for role, content in zip(("user", "assistant"), shot, strict=True)
    ]
    content = f"{prompt.context}\n\n{task}" if prompt.context else task
    full = to_ids(tokenizer, [*turns, {"role": "user", "content": content}])
    prompt_tokens = min(len(ids), len(full))
    return Rendered(
        ids=full, prompt_tokens=prompt_tokens, retrieved_tokens=len(full) - prompt_tokens
    )


def to_ids(tokenizer: Any, messages: Sequence[dict[str, str]]) -> list[int]:
    """Tokenise a conversation that the assistant is to continue."""
    if getattr(tokenizer, "chat_template", None):
        text = tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=False
        )
        # The template writes its own begin token: adding specials here would double it.
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    return plain_ids(tokenizer, plain_layout(messages))


def plain_layout(messages: Sequence[dict[str, str]]) -> str:
    r"""Lay out a conversation for a model that has no chat template.

    >>> plain_layout([{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"},
    ...               {"role": "user", "content": "2+2?"}])
    '1+1?\n2\n\n2+2?\n'
    """
    text = ""
    for message in messages:
        text += message["content"] + ("\n" if message["role"] == "user" else "\n\n")
    return text


def plain_ids(tokenizer: Any, text: str) -> list[int]:
    """Tokenise a text with the begin token the model asks for, but never with an end token."""
    bare = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    ids = list(tokenizer(text, add_special_tokens=True)["input_ids"])
    if not bare:
        return [token for token in ids if token == tokenizer.bos_token_id]
    surplus = len(ids) - len(bare)
    for lead in range(surplus + 1):
        if ids[lead : lead + len(bare)] == bare:
            return ids[: lead + len(bare)]
    return ids
