from collections import Counter
from itertools import islice

import pytest

from expbench.core import Output
from expbench.diagnose.worlds import (
    CHANCE,
    KEYS,
    TOY_WORDS,
    VALUES,
    WORDS,
    Wording,
    is_right,
    make_world,
    noise,
    reward,
    stream,
)
from expbench.experience.leaks import refuse_leaks

WORDINGS: tuple[Wording, ...] = ("tokens", "english")


@pytest.mark.parametrize("wording", WORDINGS)
def test_each_question_has_one_experience_that_tells_its_answer(wording: Wording) -> None:
    world = make_world(5, seed=1, wording=wording)
    told = {e.sample.id: e for e in world.experience}
    assert len(world.questions) == len(told) == KEYS
    for question, value in zip(world.questions, world.values, strict=True):
        source = told[world.sources[question.id]]
        assert question.target == (value,) == source.sample.target == (source.output,)
        assert value in source.summary.rstrip(".").split()
        assert value not in question.prompt.split()
        assert source.score.value == 1.0


@pytest.mark.parametrize("wording", WORDINGS)
def test_no_question_is_among_the_experiences(wording: Wording) -> None:
    world = make_world(0, seed=0, wording=wording)
    refuse_leaks((e.sample for e in world.experience), world.questions, where="bank")


def test_values_are_uniform_and_tell_nothing_about_each_other() -> None:
    worlds = list(islice(stream(seed=3), 2000))
    counts = Counter((key, value) for w in worlds for key, value in enumerate(w.values))
    assert len(counts) == KEYS * VALUES
    # Five standard deviations of a binomial count.
    spread = 5 * (2000 * CHANCE * (1 - CHANCE)) ** 0.5
    assert all(abs(count - 2000 * CHANCE) < spread for count in counts.values())
    pairs = sum(w.values[0] == w.values[1] for w in worlds)
    assert abs(pairs - 2000 * CHANCE) < spread


def test_a_world_is_decided_by_seed_and_index() -> None:
    assert make_world(7, seed=2) == make_world(7, seed=2)
    drawn = {make_world(i, seed=s).values for i in range(20) for s in range(20)}
    assert len(drawn) == 400
    assert [w.index for w in islice(stream(seed=0, first=4), 3)] == [4, 5, 6]


def test_ids_of_different_worlds_never_meet() -> None:
    worlds = [make_world(i, seed=s) for i in range(3) for s in range(3)]
    ids = [e.sample.id for w in worlds for e in w.experience] + [
        q.id for w in worlds for q in w.questions
    ]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("wording", WORDINGS)
def test_noise_speaks_the_language_of_the_world_and_tells_nothing(wording: Wording) -> None:
    world = make_world(1, seed=0, wording=wording)
    drawn = noise(world)
    assert len(drawn) == KEYS
    assert not {e.sample.id for e in drawn} & set(world.sources.values())
    if wording == "tokens":
        assert all(word in TOY_WORDS for e in drawn for word in e.summary.split())
        assert not {e.summary for e in drawn} & {e.summary for e in world.experience}
    else:
        known = {word for e in world.experience for word in e.summary.split()[-3:-2]}
        assert not any(place in e.summary.split() for place in known for e in drawn)
    assert noise(world) == drawn


def test_the_first_word_is_the_answer() -> None:
    sample = make_world(0, seed=0, wording="english").questions[0]
    right = sample.target[0]
    wrong = next(word for word in WORDS if word != right)
    for text, expected in (
        (right, 1.0),
        (f" {right.upper()}. And so on", 1.0),
        (f"**{right}**", 1.0),
        (f"{wrong} {right}", 0.0),
        ("", 0.0),
        ("...", 0.0),
    ):
        assert reward(sample, Output(text=text)) == expected, text
        assert is_right(sample, Output(text=text)) is bool(expected)
