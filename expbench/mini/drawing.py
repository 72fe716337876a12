"""Seeded draws of numbers, words and people, shared by the templates of the mini suite.

Every template has a stream of its own, seeded with its name, so that a new template or a
change to one leaves the rows of all the others as they were.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from random import Random
from typing import TypeVar, cast

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Person:
    """A name with the pronouns that a sentence about it needs."""

    name: str
    he: str
    """Subject form: he or she."""
    him: str
    """Object form: him or her."""
    his: str
    """Possessive form: his or her."""


_WOMEN = "Nadia Ines Yuki Amara Lena Sofia Hana Mila Ella Zola Priya Freya".split()
_MEN = "Omar Tariq Ravi Karim Idris Lukas Mateo Jonas Kofi Emil Arjun Noah".split()

PEOPLE = tuple(
    [Person(name=name, he="she", him="her", his="her") for name in _WOMEN]
    + [Person(name=name, he="he", him="him", his="his") for name in _MEN]
)


class Draw:
    """A stream of random choices that is the same on every machine.

    Args:
        seed: Any text. `random.Random` hashes it with SHA-512, not with `hash`, so
            `PYTHONHASHSEED` has no say.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._decks: dict[tuple[Hashable, ...], list[Hashable]] = {}

    def number(self, low: int, high: int, step: int = 1) -> int:
        """Draw from low, low + step, ... up to and including high."""
        return self._random.randrange(low, high + 1, step)

    def pick(self, *options: T) -> T:
        """Draw one of the options; none comes again before all have come once.

        So the train and the test row of a template have different settings.
        """
        deck = self._decks.setdefault(options, [])
        if not deck:
            deck.extend(options)
            self._random.shuffle(deck)
        return cast(T, deck.pop())

    def person(self) -> Person:
        """Draw somebody new."""
        return self.pick(*PEOPLE)


def distinct(template: Callable[[Draw], R], count: int, *, key: Callable[[R], str]) -> list[R]:
    """Draw from a template until `count` results differ by key.

    The stream is prefix-stable: asking for more results keeps the earlier ones.
    """
    draw = Draw(template.__name__)
    results: dict[str, R] = {}
    while len(results) < count:
        result = template(draw)
        results.setdefault(key(result), result)
    return list(results.values())
