"""Key-value worlds: random mappings that only a world's experiences tell.

A world maps 8 keys to 8 values, drawn anew for each world, so that a model cannot know an answer
beforehand: without the right experience accuracy is 1/8. `TOKENS` is worded for the toy backbone
(`KEY k3 VAL v5 Q`), `ENGLISH` for real ones.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from expbench.core import Experience, Output, Sample, Score

Wording = Literal["tokens", "english"]
KEYS = 8
VALUES = 8
CHANCE = 1 / VALUES
TOY_WORDS = ("KEY", "VAL", "Q", *(f"k{i}" for i in range(KEYS)), *(f"v{i}" for i in range(VALUES)))
PLACES = ("lake", "bridge", "tower", "garden", "market", "harbour", "mill", "forest")
ELSEWHERE = ("attic", "cellar", "chapel", "ferry", "library", "quarry", "stable", "vault")
"""Places that no question asks about."""
WORDS = ("red", "gold", "iron", "salt", "silver", "rose", "snow", "fire")


@dataclass(frozen=True, kw_only=True)
class World:
    """One mapping with its experiences and its questions, one of each a key, in key order."""

    index: int
    wording: Wording
    values: tuple[str, ...]
    """The value of each key."""
    experience: tuple[Experience, ...]
    questions: tuple[Sample, ...]
    """Their ids and texts differ from those of the experiences: they are no leak."""

    @property
    def sources(self) -> Mapping[str, str]:
        """Question id -> id of the one experience's sample that tells its answer."""
        pairs = zip(self.questions, self.experience, strict=True)
        return {question.id: experience.sample.id for question, experience in pairs}


def make_world(index: int, *, seed: int, wording: Wording = "tokens") -> World:
    """Draw a world: every key gets a value independently of the others.

    >>> make_world(3, seed=0).questions[1].prompt
    'KEY k1 Q'
    >>> make_world(3, seed=0).values == make_world(3, seed=0).values
    True
    """
    rng = random.Random(f"world/{seed}/{index}")
    values = rng.choices(range(VALUES), k=KEYS)
    write = _tokens if wording == "tokens" else _english
    rows = [write(key, value) for key, value in enumerate(values)]
    return World(
        index=index,
        wording=wording,
        values=tuple(row.value for row in rows),
        experience=tuple(
            _experience(row, f"seen-{seed}-{index}-{key}") for key, row in enumerate(rows)
        ),
        questions=tuple(
            _sample(row, f"asked-{seed}-{index}-{key}", text=row.question)
            for key, row in enumerate(rows)
        ),
    )


def noise(world: World) -> tuple[Experience, ...]:
    """Return as many experiences that speak the world's language and tell nothing.

    In English they are about places that no question names; in tokens their words are shuffled.
    """
    rng = random.Random(f"noise/{world.experience[0].sample.id}")
    found = []
    for key in range(KEYS):
        value = rng.randrange(VALUES)
        if world.wording == "english":
            row = _english(key, value, places=ELSEWHERE)
        else:
            words = [rng.choice(TOY_WORDS) for _ in range(5)]
            row = replace(_tokens(key, value), statement=" ".join(words))
        found.append(_experience(row, f"noise-{world.experience[key].sample.id}"))
    return tuple(found)


def stream(*, seed: int, wording: Wording = "tokens", first: int = 0) -> Iterator[World]:
    """Yield worlds without end."""
    return (make_world(index, seed=seed, wording=wording) for index in count(first))


def is_right(sample: Sample, output: Output) -> bool:
    """Tell whether the first word of an answer is the value.

    >>> is_right(make_world(0, seed=0).questions[0], Output(text=" v9."))
    False
    """
    words = output.text.lower().split()
    return bool(words) and words[0].strip(".,:;!?\"'*`") == sample.target[0]


def reward(sample: Sample, output: Output) -> float:
    """Give 1 for the right value, else 0; an `expbench.core.Reward`."""
    return float(is_right(sample, output))


@dataclass(frozen=True, kw_only=True)
class _Row:
    statement: str
    question: str
    value: str
    max_tokens: int


def _tokens(key: int, value: int) -> _Row:
    return _Row(
        statement=f"KEY k{key} VAL v{value} Q",
        question=f"KEY k{key} Q",
        value=f"v{value}",
        max_tokens=1,
    )


def _english(key: int, value: int, *, places: tuple[str, ...] = PLACES) -> _Row:
    return _Row(
        statement=f"The password of the {places[key]} is {WORDS[value]}.",
        question=f"What is the password of the {places[key]}? Answer with the password alone.",
        value=WORDS[value],
        max_tokens=4,
    )


def _sample(row: _Row, sample_id: str, *, text: str) -> Sample:
    return Sample(
        id=sample_id,
        task="worlds",
        kind="math",
        input=text,
        prompt=row.question,
        target=(row.value,),
        max_tokens=row.max_tokens,
    )


def _experience(row: _Row, sample_id: str) -> Experience:
    return Experience(
        sample=_sample(row, sample_id, text=row.statement),
        output=row.value,
        score=Score(value=1.0, answer=row.value),
        summary=row.statement,
    )
