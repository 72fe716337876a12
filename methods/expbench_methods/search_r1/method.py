"""Search-R1 (Jin et al. 2025, arXiv 2503.09516) on the shared experience pool.

This module says what the method is and loads no torch; `rollout` answers and trains.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from expbench.core import Experience, Model, Output, Question, Reward, Sample, Workbench
from expbench_methods.search_r1.config import SearchR1Config

if TYPE_CHECKING:
    from expbench.experience.searcher import Searcher
    from expbench.models.hf import HFModel
    from expbench.training.loop import Ask, Sampling, Trajectory
    from expbench.training.policy import Policy
    from expbench_methods.search_r1.turns import Asked


class SearchR1:
    """The policy reasons, searches the experience pool in words, reads, and goes on; GRPO.

    Departures from the paper are numbered in this folder's README.md.
    """

    version = 1
    Config = SearchR1Config
    uses_experience = True
    needs_weights = True
    workbench: Workbench | None = None

    def __init__(self, config: SearchR1Config, model: Model, seed: int) -> None:
        from expbench.training.policy import build_policy
        from expbench_methods.search_r1.observations import ObservationWriter

        self.config = config
        self.backbone = model
        self.seed = seed
        self.policy: Policy = build_policy(config, model, seed=seed, method="search_r1")
        self.writer = ObservationWriter(self.policy.model.tokenizer, config.observation_tokens)
        self.searcher: Searcher = self._index(())
        self.notes: list[str] = []
        self.training_cost: dict[str, float] = {}

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Index the pool, then train the policy to search it; a killed training goes on."""
        from expbench.experience.retrieval import document_of
        from expbench.training.loop import Hooks
        from expbench.training.policy import train_policy

        self.searcher = self._index(experience)
        self.notes = [] if experience else ["The pool was empty: searches found nothing."]
        self.training_cost = train_policy(
            self.policy,
            train,
            reward,
            seed=self.seed,
            workbench=self.workbench,
            hooks=Hooks(rollout=self.rollout),
        )
        if self.config.retriever == "dense":
            texts = {document_of(entry) for entry in experience}
            self.training_cost["encoded_tokens"] = sum(map(self.backbone.count_tokens, texts))

    def rollout(self, asks: "Sequence[Ask]", sampling: "Sampling") -> "list[Trajectory]":
        """Make rollouts at train samples, with searches in them, in the order given."""
        from expbench_methods.search_r1.turns import Asked

        asked = [
            Asked(question=ask.sample.question(), key=ask.key, limit=sampling.limit_of(ask.sample))
            for ask in asks
        ]
        return self._play(self.policy.model, asked, sampling.temperature, sampling.seed)

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Answer greedily, searching where the policy asks to."""
        from expbench_methods.search_r1.turns import Asked

        asked = [Asked(question=q, key=f"{q.task}/{q.id}", limit=q.max_tokens) for q in questions]
        with self.policy.for_answers() as model:
            return [found.output for found in self._play(model, asked, 0.0, self.seed)]

    def save(self, folder: Path) -> None:
        """Keep adapter or weights, and the pool that is searched."""
        from expbench.experience.pool_file import write_pool

        self.policy.save(folder)
        write_pool(self.searcher.entries, folder)

    def load(self, folder: Path) -> None:
        """Read what `save` kept.

        Raises:
            DataError: a damaged checkpoint, or one of another backbone.
        """
        from expbench.experience.pool_file import read_pool

        self.policy.load(folder)
        self.searcher = self._index(read_pool(folder))

    def refuse_leaks(self, questions: Sequence[Question]) -> None:
        """Refuse to answer questions whose sample is in the pool.

        Raises:
            DataError: the first such question.
        """
        from expbench.experience.leaks import refuse_leaks

        samples = [entry.sample for entry in self.searcher.entries]
        refuse_leaks(samples, questions, where="pool")

    def _index(self, entries: Sequence[Experience]) -> "Searcher":
        from expbench.experience.searcher import Searcher

        # The untouched backbone encodes, so that the index does not age while the policy learns.
        return Searcher(
            entries, kind=self.config.retriever, k=self.config.k, encode=self.backbone.encode
        )

    def _play(
        self, model: "HFModel", asked: "Sequence[Asked]", temperature: float, seed: int
    ) -> "list[Trajectory]":
        from expbench_methods.search_r1.rollout import play

        return play(
            model,
            asked,
            searcher=self.searcher,
            writer=self.writer,
            max_turns=self.config.max_turns,
            temperature=temperature,
            seed=seed,
        )
