"""What a word problem is, and how its worked solution is written down."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from expbench.mini.drawing import Draw

_SIGNS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


@dataclass(frozen=True, kw_only=True)
class Story:
    """One word problem with its solution."""

    question: str
    steps: tuple[str, ...]
    """One sentence a step, each with one calculator note."""
    answer: int


Template = Callable[[Draw], Story]


def calc(sign: str, *terms: int, unit: str = "") -> str:
    """Write a calculation with the calculator note of GSM8K.

    Divisions are exact by construction of the templates.

    >>> calc("*", 3, 4, unit="$")
    '3 * 4 = $<<3*4=12>>12'
    >>> calc("+", 900, 200)
    '900 + 200 = <<900+200=1100>>1,100'
    """
    value = reduce(_SIGNS[sign], terms)
    shown = f" {sign} ".join(f"{term:,}" for term in terms)
    note = sign.join(str(term) for term in terms)
    return f"{shown} = {unit}<<{note}={value}>>{value:,}"
