"""Searching the pool while a question is answered, without finding that very question.

A train sample's own attempt tells its answer. A policy that could look it up in training would
learn to copy, and find nothing to copy when it is asked about test samples.
"""

from collections.abc import Callable, Sequence
from typing import Any

from expbench.core import Experience, Question
from expbench.experience import leaks
from expbench.experience.retrieval import Query, RetrieverKind, build_retriever


class Searcher:
    """Finds experiences, but never one of the question that is being answered.

    That is every entry that the leak guard would recognise as the same sample: by id, text,
    molecule and property, or user.

    Args:
        entries: The pool, of all tasks that a method is fitted on.
        kind: See `expbench.experience.retrieval.build_retriever`; so for what is raised.
        k: Experiences that a search finds at most.
        encode: `Model.encode` of the untouched backbone, for `dense`.
    """

    def __init__(
        self,
        entries: Sequence[Experience],
        *,
        kind: RetrieverKind,
        k: int,
        encode: Callable[[Sequence[str]], Any] | None = None,
    ) -> None:
        self.entries = tuple(entries)
        self._k = k
        self._retriever = build_retriever(kind, self.entries, encode=encode)
        self._known: dict[tuple[str, ...], set[int]] = {}
        for position, entry in enumerate(self.entries):
            for identity in leaks.identities(entry.sample):
                self._known.setdefault(identity, set()).add(position)

    def find(self, searches: Sequence[tuple[Question, Query]]) -> list[list[Experience]]:
        """Search for all at once.

        Args:
            searches: The question that is being answered, and what is looked for.

        Returns:
            For each search at most k experiences, best first.

        Raises:
            ConfigError: a query that the retriever cannot read.
        """
        if not searches:
            return []
        own = [self._own(question) for question, _ in searches]
        # What must not be found is left out afterwards, so as many more are asked for.
        most = self._k + max(map(len, own))
        found = self._retriever.search([query for _, query in searches], most)
        return [
            [self.entries[i] for i in positions if i not in mine][: self._k]
            for positions, mine in zip(found, own, strict=True)
        ]

    def _own(self, question: Question) -> set[int]:
        found: set[int] = set()
        for identity in leaks.identities(question):
            found |= self._known.get(identity, set())
        return found
