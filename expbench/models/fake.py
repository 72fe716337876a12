"""A backbone without weights: deterministic, well-formed answers for tests and the smoke preset."""

import random
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from expbench.core import Output, Prompt, Question, Segment, StopReason

VERSION = 1
"""Raised whenever an answer changes; part of the fingerprint."""


class FakeModel:
    """Answers in the form each kind asks for, drawn from a hash of the question id.

    Greedy answers depend on the question alone; sampled ones on the seed too. Experience in the
    prompt costs tokens and changes nothing, so that tests can tell cost from effect.
    """

    name = "fake"
    fingerprint = sha256(f"fake-{VERSION}".encode()).hexdigest()
    dtype = "float32"
    device = "cpu"
    source = "built-in"
    revision = str(VERSION)
    hidden_size = 32

    def generate(
        self, prompts: Sequence[Prompt], *, temperature: float = 0.0, seed: int = 0
    ) -> list[Output]:
        """Answer every prompt; see `Model.generate`."""
        return [self._answer(prompt, seed if temperature > 0 else None) for prompt in prompts]

    def encode(self, texts: Sequence[str]) -> Any:
        """Return sums of hashed word vectors, (texts, 32) float32: equal words, similar vectors."""
        import numpy as np

        rows = np.zeros((len(texts), self.hidden_size), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                digest = np.frombuffer(sha256(word.encode()).digest(), dtype=np.uint8)
                row += digest.astype(np.float32) / 127.5 - 1.0
        return rows

    def count_tokens(self, text: str) -> int:
        """Count the words between spaces."""
        return len(text.split())

    def _answer(self, prompt: Prompt, seed: int | None) -> Output:
        question = prompt.question
        added = prompt.context + " " + " ".join(" ".join(shot) for shot in prompt.shots)
        costs = [
            Segment(role="prompt", tokens=self.count_tokens(question.prompt or question.input)),
            Segment(role="retrieved", tokens=self.count_tokens(added)),
        ]
        words = _write(question, random.Random(f"{seed}/{question.id}"))
        text, stop_reason = _cut(words, question)
        return Output(
            text=text,
            stop_reason=stop_reason,
            segments=(
                *(cost for cost in costs if cost.role == "prompt" or cost.tokens),
                Segment(role="generated", tokens=self.count_tokens(text)),
            ),
        )


def _write(question: Question, rng: random.Random) -> str:
    if question.kind == "choice":
        labels = question.labels or ("A", "B", "C", "D")
        return f"Answer: {rng.choice(labels)}"
    if question.kind == "chem":
        return f"Answer: {rng.choice(('Yes', 'No'))}"
    if question.kind == "ranking":
        count = len(question.candidates)
        return ", ".join(map(str, rng.sample(range(1, count + 1), min(count, 10))))
    if question.kind == "code":
        name = question.features.get("entry_point", "solution")
        return f"```python\ndef {name}(*args):\n    return {rng.randrange(10)}\n```"
    return f"The answer is \\boxed{{{rng.randrange(10)}}}."


def _cut(text: str, question: Question) -> tuple[str, StopReason]:
    for stop in question.stop:
        text = text.split(stop, 1)[0]
    kept = re.match(rf"(?:\s*\S+){{0,{question.max_tokens}}}", text)
    shorter = kept.group() if kept else ""
    return (text, "stop") if len(shorter) == len(text.rstrip()) else (shorter, "length")
