"""What an output's trace says about retrieval.

A latent method's trace has one mapping a generated token with the retrieved entries' `ids` and the
`gate`, after a mapping of kind `bank` that gives the sample of each entry. A text method names the
samples that it retrieved in lists, under any key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from expbench.core import Output


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one answer retrieved."""

    ids: tuple[str, ...]
    """Ids of the samples, each once."""
    gate: float | None
    """Openness at the first generated token."""


def read_trace(output: Output) -> Seen | None:
    """Read an output's trace; None where it does not say what was retrieved.

    >>> read_trace(Output(text="a", trace=({"shots": ("s1", "s2")},)))
    Seen(ids=('s1', 's2'), gate=None)
    >>> read_trace(Output(text="a")) is None
    True
    """
    banks = [line["entries"] for line in output.trace if line.get("kind") == "bank"]
    lines = [line for line in output.trace if line.get("kind") != "bank"]
    if banks:
        # The answer of a world is decided at its first token.
        first = next(iter(lines), {})
        ids = [banks[0][entry]["sample_id"] for entry in first.get("ids", ())]
        return Seen(ids=tuple(dict.fromkeys(ids)), gate=first.get("gate"))
    lists = [value for line in lines for value in line.values() if isinstance(value, list | tuple)]
    if not lists:
        return None
    return Seen(ids=tuple(dict.fromkeys(i for v in lists for i in _names(v))), gate=None)


def _names(values: Any) -> list[str]:
    names = []
    for value in values:
        if isinstance(value, Mapping):
            value = value.get("sample_id", value.get("id"))
        if isinstance(value, str):
            names.append(value)
    return names
