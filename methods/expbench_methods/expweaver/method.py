"""ExpWeaver (Feng et al. 2026, arXiv 2606.01041) as a method of ExpBench.

This module says what the method is and loads no torch; `learning` trains, `memory` fills the bank,
`answering` answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expbench.core import Experience, Model, Output, Question, Reward, Sample, Workbench
from expbench_methods.expweaver.config import ABLATIONS, ExpWeaverConfig

if TYPE_CHECKING:
    from expbench_methods.expweaver.weaver import Weaver


class ExpWeaver:
    """Experience woven into decoding: latent retrieval, gated fusion, trained with GRPO.

    Departures from the paper are numbered in this folder's README.md.
    """

    version = 1
    Config = ExpWeaverConfig
    ABLATIONS = ABLATIONS
    uses_experience = True
    needs_weights = True
    answer_only = ("control", "trace")
    workbench: Workbench | None = None

    def __init__(self, config: ExpWeaverConfig, model: Model, seed: int) -> None:
        from expbench_methods.expweaver.weaver import build_weaver

        self.config = config
        self.seed = seed
        self.weaver: Weaver = build_weaver(config, model, seed)
        self.notes: list[str] = []
        self.training_cost: dict[str, float] = {}

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Fill the bank from the pool, then train policy and fusion together with GRPO."""
        from expbench_methods.expweaver.learning import learn

        self.training_cost = learn(self.weaver, train, experience, reward, self.workbench)

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Answer text questions greedily with fusion, ranking questions by candidate scores."""
        from expbench_methods.expweaver.answering import answer

        return answer(self.weaver, questions)

    def save(self, folder: Path) -> None:
        """Keep adapter or weights, fusion, score temperature and bank."""
        self.weaver.save(folder)

    def load(self, folder: Path) -> None:
        """Read what `save` kept.

        Raises:
            DataError: a damaged checkpoint, or one of another backbone.
        """
        self.weaver.load(folder)

    def refuse_leaks(self, questions: Sequence[Question]) -> None:
        """Refuse to answer questions whose sample is in the bank.

        Raises:
            DataError: the first such question.
        """
        self.weaver.bank.refuse_leaks(questions)

    def learn_worlds(self, worlds: Iterator[Any], **options: Any) -> Mapping[str, Any]:
        """Learn to read a bank from key-value worlds (`expbench diagnose`)."""
        from expbench_methods.expweaver.worlds import learn_worlds

        return learn_worlds(self, worlds, **options)

    def answer_world(
        self, experience: Sequence[Experience], questions: Sequence[Question], *, control: str
    ) -> list[Output]:
        """Answer with a bank of these experiences alone (`expbench diagnose`)."""
        from expbench_methods.expweaver.worlds import answer_world

        return answer_world(self, experience, questions, control=control)
