"""From a question to its prompt: find experiences, write them down, leave out what has no room."""

from collections.abc import Sequence
from dataclasses import dataclass

from expbench.core import Experience, Prompt, Question
from expbench.experience.retrieval import query_of
from expbench.experience.searcher import Searcher
from expbench.models.hf import HFModel

HEADING = "Past attempts at similar questions:"


@dataclass(frozen=True, kw_only=True)
class Briefing:
    """A prompt and what stands in it."""

    prompt: Prompt
    shown: tuple[Experience, ...]
    """Best first, as in the prompt."""
    dropped: int
    """Experiences that were found and had no room in the model's context."""


def brief(
    questions: Sequence[Question], *, searcher: Searcher, model: HFModel, limit: int
) -> list[Briefing]:
    """Write the prompts of questions, in the order given.

    Args:
        questions: To be answered.
        searcher: Finds experiences; with `k` 0 it is not asked.
        model: Whose context has to hold the prompt and an answer of the question's own limit.
        limit: Characters of an experience at most.
    """
    found = searcher.find([(question, query_of(question)) for question in questions])
    return [
        _fitting(question, entries, model=model, limit=limit)
        for question, entries in zip(questions, found, strict=True)
    ]


def context_of(entries: Sequence[Experience], limit: int) -> str:
    """Write experiences down, numbered, one a line; an empty text for none."""
    if not entries:
        return ""
    texts = (" ".join(entry.summary.split())[:limit].rstrip() for entry in entries)
    return "\n".join((HEADING, *(f"{n}. {text}" for n, text in enumerate(texts, 1))))


def _fitting(
    question: Question, entries: Sequence[Experience], *, model: HFModel, limit: int
) -> Briefing:
    """Leave out experiences from the end until prompt and answer fit.

    Without any left the prompt is the bare one, and the model itself refuses it if it is too long.
    """
    count = len(entries)
    while True:
        prompt = Prompt(question=question, context=context_of(entries[:count], limit))
        if not count or _fits(prompt, model):
            return Briefing(
                prompt=prompt, shown=tuple(entries[:count]), dropped=len(entries) - count
            )
        count -= 1


def _fits(prompt: Prompt, model: HFModel) -> bool:
    room = model.context_limit
    return room is None or len(model.render(prompt).ids) + prompt.question.max_tokens <= room
