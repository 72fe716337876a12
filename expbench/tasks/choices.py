"""Multiple-choice rows as samples: labels, null options, options that point at other options."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from expbench.core import Sample
from expbench.data import Row
from expbench.data.draws import shuffled

LABELS = "ABCDEFGHIJ"
_POINTS_AT_ALL = re.compile(
    r"^\W*(all|none|both|neither|either|any|two|some)\b.*"
    r"\b(above|following|these|those|them|(other|previous|preceding) \w+|the others?)\b"
    r"|^\W*(all|none|both|neither)\W*$",
    re.IGNORECASE,
)
_POINTS_AT_LABELS = re.compile(
    r"\(?\b[A-E]\b\)?( *, *\(?[A-E]\b\)?)* *(,? *\b(and|or|nor)\b|&) *\(?[A-E]\b\)?"
    r"|\b([Oo]ptions?|[Cc]hoices?|[Aa]nswers?) \(?[A-E1-5]\b"
    r"|^\W*\(?[A-E]\)? only\W*$"
)


def choice_sample(
    row: Row,
    *,
    id: str,
    input: str,
    options: Sequence[tuple[str, str | None]],
    key: str,
    tags: Mapping[str, str] | None = None,
) -> Sample:
    """Build a sample from (label, text) options; a null text is no option.

    Raises:
        DataError: the key is not among the labels that are left.
    """
    real = [(label, text) for label, text in options if text is not None]
    labels = tuple(label for label, _ in real)
    if key not in labels:
        raise row.error(f"the key is {key!r}, which is not among the labels {list(labels)}.")
    fields: dict[str, Any] = {"tags": dict(tags)} if tags else {}
    return Sample(
        id=id,
        task="",
        kind="choice",
        input=input,
        labels=labels,
        choices=tuple(text for _, text in real),
        target=(key,),
        **fields,
    )


def labelled(row: Row, field: str = "choices") -> list[tuple[str, str | None]]:
    """Read `{"label": [...], "text": [...]}`, the form of ARC, OpenBookQA and CommonsenseQA.

    Raises:
        DataError: the two lists have different lengths.
    """
    choices = row.nested(field)
    labels, texts = choices.texts("label"), choices.optional_texts("text")
    if len(labels) != len(texts):
        raise row.error(f"{len(labels)} labels for {len(texts)} choice texts.")
    return list(zip(labels, texts, strict=True))


def shuffle_options(texts: Sequence[str], key: str) -> list[str]:
    """Order options by a seed; those that point at all others go last, in their order.

    Where an option names others by their labels ("A and B"), nothing is moved.

    >>> shuffle_options(["12", "15", "Both of the above", "None of the above"], "k")[2:]
    ['Both of the above', 'None of the above']
    >>> shuffle_options(["12", "15", "Both A and B", "7"], "k")
    ['12', '15', 'Both A and B', '7']
    """
    if any(_POINTS_AT_LABELS.search(text) for text in texts):
        return list(texts)
    last = [text for text in texts if _POINTS_AT_ALL.search(text)]
    return shuffled([text for text in texts if text not in last], key) + last


def gold(sample: Sample) -> str:
    """Answer in the form the prompt asks for."""
    return f"Answer: {sample.target[0]}"
