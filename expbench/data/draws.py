"""Everything that is drawn, from hashes of names alone: no global state, no version of a library.

Only `random.random` is promised to give the same numbers in every Python, so orders are made
from it or from SHA-256 directly.
"""

import hashlib
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
_ENDINGS = re.compile(r"[.,;:!?\"'“”‘’]+(?=\s|$)")


def digest(*parts: str) -> str:
    """SHA-256 (hex) over several texts, kept apart."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def normalised(text: str) -> str:
    r"""Fold case, width, white space and punctuation at the end of words, to compare questions.

    Signs inside a formula stay.

    >>> normalised("What  is\n2 + 2?")
    'what is 2 + 2'
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_ENDINGS.sub(" ", folded).split())


def content_id(*parts: str) -> str:
    """Name a row that has no id by its content, white space folded: 12 hex digits.

    >>> content_id("What is 2 + 2?") == content_id("What is  2 + 2? ")
    True
    """
    return digest(*(" ".join(part.split()) for part in parts))[:12]


def draw_indices(size: int, key: str) -> Iterator[int]:
    """Draw all of 0..size-1 without repeats, uniformly, in an order fixed by `key`.

    Lazy (a sparse Fisher-Yates shuffle): the first k cost k steps, whatever the size.

    >>> sorted(draw_indices(4, "a")) == [0, 1, 2, 3]
    True
    """
    generator = random.Random(int(digest(key), 16))
    moved: dict[int, int] = {}
    for last in range(size - 1, -1, -1):
        pick = int(generator.random() * (last + 1))
        yield moved.get(pick, pick)
        moved[pick] = moved.pop(last, last)


def shuffled(items: Sequence[T], key: str) -> list[T]:
    """Shuffle by a key.

    >>> shuffled("abc", "k") == shuffled("abc", "k")
    True
    """
    return [items[index] for index in draw_indices(len(items), key)]


def ordered(items: Sequence[T], key: str, name: Callable[[T], str]) -> list[T]:
    """Order by the hash of key and name: an item's rank never depends on its neighbours' order.

    Taking the first n for a growing n gives prefixes of one another.
    """
    return sorted(items, key=lambda item: digest(key, name(item)))


def first_half(names: Sequence[str], key: str) -> set[str]:
    """Choose half of the names (rounded down), seeded by `key`, whatever order they come in.

    >>> len(first_half(["a", "b", "c", "d", "e"], "k"))
    2
    """
    ranked = ordered(sorted(set(names)), key, str)
    return set(ranked[: len(ranked) // 2])
