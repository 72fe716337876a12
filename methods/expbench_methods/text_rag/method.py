"""Text retrieval: past attempts at similar questions in the prompt.

This module says what the method is and loads no torch; `passages` writes the prompts.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expbench.core import Experience, Model, Output, Prompt, Question, Reward, Sample, Workbench
from expbench_methods.text_rag.config import TextRAGConfig

if TYPE_CHECKING:
    from expbench.experience.searcher import Searcher
    from expbench.training.policy import Policy
    from expbench_methods.text_rag.passages import Briefing


class TextRAG:
    """The summaries of the most similar past attempts before the task's words; GRPO if trained.

    Departures from the papers are numbered in this folder's README.md.
    """

    version = 1
    Config = TextRAGConfig
    uses_experience = True
    needs_weights = True
    workbench: Workbench | None = None

    def __init__(self, config: TextRAGConfig, model: Model, seed: int) -> None:
        from expbench.training.policy import build_policy

        self.config = config
        self.backbone = model
        self.seed = seed
        self.policy: Policy = build_policy(config, model, seed=seed, method="text_rag")
        self.entries: tuple[Experience, ...] = ()
        self.notes: list[str] = []
        self.training_cost: dict[str, float] = {}
        self._searcher: Searcher | None = None
        self._encoded = 0

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Index the pool, then train the policy to read what is found; a killed training goes on.

        Raises:
            ConfigError: the retriever cannot read the pool: `tanimoto` needs molecules.
        """
        from expbench.training.loop import Hooks
        from expbench.training.policy import train_policy

        self._encoded = 0
        self._index(experience)
        empty = self.config.k > 0 and not experience
        self.notes = ["The pool was empty: nothing was retrieved."] if empty else []
        prompts: dict[tuple[str, str], Prompt] = {}

        def prompt(sample: Sample) -> Prompt:
            # One search a sample, for as many samples as training comes to.
            key = (sample.task, sample.id)
            if key not in prompts:
                prompts[key] = self.brief([sample.question()])[0].prompt
            return prompts[key]

        self.training_cost = train_policy(
            self.policy,
            train,
            reward,
            seed=self.seed,
            workbench=self.workbench,
            hooks=Hooks(prompt=prompt),
        )
        self.training_cost["encoded_tokens"] = self._encoded

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Generate one greedy answer a question; the trace names what its prompt showed."""
        briefings = self.brief(questions)
        with self.policy.for_answers() as model:
            outputs = model.generate([b.prompt for b in briefings], seed=self.seed)
        if not self.config.k:
            return outputs
        return [
            replace(output, trace=(_trace(briefing),))
            for output, briefing in zip(outputs, briefings, strict=True)
        ]

    def brief(self, questions: Sequence[Question]) -> "list[Briefing]":
        """Write the prompts that these questions are asked with, in training and afterwards."""
        from expbench_methods.text_rag.passages import Briefing, brief

        if self._searcher is None:
            return [Briefing(prompt=Prompt(question=q), shown=(), dropped=0) for q in questions]
        return brief(
            questions,
            searcher=self._searcher,
            model=self.policy.model,
            limit=self.config.passage_chars,
        )

    def save(self, folder: Path) -> None:
        """Keep adapter or weights, and the pool that is searched."""
        from expbench.experience.pool_file import write_pool

        self.policy.save(folder)
        write_pool(self.entries, folder)

    def load(self, folder: Path) -> None:
        """Read what `save` kept.

        Raises:
            DataError: a damaged checkpoint, or one of another backbone.
        """
        from expbench.experience.pool_file import read_pool

        self.policy.load(folder)
        self._index(read_pool(folder))

    def refuse_leaks(self, questions: Sequence[Question]) -> None:
        """Refuse to answer questions whose sample is in the pool.

        Raises:
            DataError: the first such question.
        """
        from expbench.experience.leaks import refuse_leaks

        refuse_leaks([entry.sample for entry in self.entries], questions, where="pool")

    def _index(self, entries: Sequence[Experience]) -> None:
        from expbench.experience.searcher import Searcher

        self.entries = tuple(entries)
        self._searcher = None
        if self.config.k:
            # The untouched backbone encodes: the index does not age while the policy learns.
            self._searcher = Searcher(
                self.entries,
                kind=self.config.retriever,
                k=self.config.k,
                encode=self._encode,
            )

    def _encode(self, texts: Sequence[str]) -> Any:
        self._encoded += sum(self.backbone.count_tokens(text) for text in texts)
        return self.backbone.encode(texts)


def _trace(briefing: "Briefing") -> dict[str, Any]:
    shown = ({"task": e.sample.task, "sample_id": e.sample.id} for e in briefing.shown)
    return {"retrieved": tuple(shown), "dropped": briefing.dropped}
