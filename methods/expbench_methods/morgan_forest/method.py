"""One random forest a property, on the fingerprints of its train molecules."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from expbench.core import Experience, Kind, Model, Output, Question, Reward, Sample
from expbench.errors import ConfigError
from expbench.features import feature
from expbench.molecules import is_valid, morgan_bits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Property = tuple[str, str]
"""Task and property."""


@dataclass(frozen=True, kw_only=True)
class MorganForestConfig:
    """Settings of `morgan_forest`.

    Raises:
        ConfigError: a number below its least value.
    """

    radius: int = 2
    """Bonds from an atom to the rim of a fragment, at least 0."""
    bits: int = 2048
    """Length of a fingerprint, at least 1."""
    trees: int = 500
    """Trees a property, at least 1."""
    min_samples_leaf: int = 1
    """Train molecules in a leaf, at least 1."""

    def __post_init__(self) -> None:
        """Refuse what neither a fingerprint nor a forest can be made with."""
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name == "radius" else 1
            if value < least:
                raise ConfigError(
                    f"morgan_forest.{field.name} is {value}; it must be {least} or more."
                )


class MorganForest:
    """Reference: a random forest on Morgan fingerprints for every property of a molecule.

    A molecule is `features["smiles"]`, and `features["property"]` says which forest answers. A
    property whose train molecules have one label gets that label. There is no answer, an empty
    text, for a property without a train molecule and for a SMILES that RDKit cannot read; a train
    molecule of that sort is left out. A tie of the trees is a No.
    """

    version = 1
    Config = MorganForestConfig
    uses_model = False
    reference = True
    kinds: tuple[Kind, ...] = ("chem",)

    def __init__(self, config: MorganForestConfig, model: Model | None, seed: int) -> None:
        self.config = config
        self.seed = seed
        self.forests: dict[Property, Any] = {}
        """A fitted `RandomForestClassifier` a property."""
        self.notes: list[str] = []

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Grow the forests; samples of other kinds are passed over.

        Raises:
            DataError: a molecule sample without a SMILES or a property.
        """
        molecules = [sample for sample in train if sample.kind == "chem"]
        readable = [sample for sample in molecules if is_valid(feature(sample, "smiles"))]
        groups: dict[Property, list[Sample]] = defaultdict(list)
        for sample in readable:
            groups[_property(sample)].append(sample)
        self.forests = {name: self._grow(name, groups[name]) for name in sorted(groups)}
        self.notes = list(_notes(groups, unreadable=len(molecules) - len(readable)))

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Answer Yes or No, or nothing where there is no forest or no molecule.

        Raises:
            DataError: a question without a SMILES or a property.
        """
        texts = [""] * len(questions)
        asked: dict[Property, list[int]] = defaultdict(list)
        for place, question in enumerate(questions):
            if is_valid(feature(question, "smiles")) and _property(question) in self.forests:
                asked[_property(question)].append(place)
        # A forest costs the same for one molecule as for many.
        for name, places in asked.items():
            labels = self.forests[name].predict(self._bits(questions[place] for place in places))
            for place, label in zip(places, labels, strict=True):
                texts[place] = f"Answer: {label}"
        return [Output(text=text, stop_reason="none") for text in texts]

    def _grow(self, name: Property, samples: Sequence[Sample]) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(
            n_estimators=self.config.trees,
            min_samples_leaf=self.config.min_samples_leaf,
            # A property's forest does not depend on which others are learnt beside it.
            random_state=_seed(self.seed, name),
            # Threads add the trees' votes in the order in which they finish.
            n_jobs=1,
        )
        return forest.fit(self._bits(samples), [sample.target[0] for sample in samples])

    def _bits(self, questions: Iterable[Question]) -> "NDArray[np.uint8]":
        """Return the fingerprints, (questions, bits)."""
        import numpy as np

        return np.stack(
            [
                morgan_bits(
                    question.features["smiles"], radius=self.config.radius, bits=self.config.bits
                )
                for question in questions
            ]
        )


def _property(question: Question) -> Property:
    return question.task, feature(question, "property")


def _seed(seed: int, name: Property) -> int:
    """Derive a seed in [0, 2**32), the range that scikit-learn takes."""
    return int.from_bytes(sha256(f"{seed}/{'/'.join(name)}".encode()).digest()[:4], "big")


def _notes(groups: dict[Property, list[Sample]], *, unreadable: int) -> Iterable[str]:
    if unreadable:
        yield f"Left out {unreadable} train molecules whose SMILES cannot be read."
    learnt = ", ".join(f"{name} ({len(groups[task, name])})" for task, name in sorted(groups))
    yield (
        f"Train molecules by property: {learnt or 'none'}. A question on another property gets no "
        "answer."
    )
    for task, name in sorted(groups):
        labels = {sample.target[0] for sample in groups[task, name]}
        if len(labels) == 1:
            yield f"Every train molecule of {name} is a {labels.pop()}, and so is every answer."
