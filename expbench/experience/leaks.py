"""The leak guard: no test sample may enter training data, a pool or a bank.

Two samples are the same if any of these agree: the id, the normalised text, the canonical SMILES
together with the property, the user of a recommendation sample.
"""

from collections.abc import Iterable, Sequence

from expbench.core import Question
from expbench.data.draws import normalised
from expbench.errors import DataError


def identities(question: Question) -> set[tuple[str, ...]]:
    """Name everything by which a sample would be recognised again.

    A text without letters or digits identifies nothing.
    """
    found: set[tuple[str, ...]] = {("id", question.task, question.id)}
    features = question.features
    if "smiles" in features:
        # The loader canonicalises; the property belongs to the question, not the molecule alone.
        found.add(("molecule", features["smiles"], str(features.get("property", ""))))
    elif "user" in features:
        found.add(("user", question.task, str(features["user"])))
    else:
        parts = (question.input, *sorted(question.choices))
        text = "\x1f".join(normalised(part) for part in parts)
        if text.strip("\x1f "):
            found.add(("text", text))
    return found


def refuse_leaks(known: Iterable[Question], test: Sequence[Question], *, where: str) -> None:
    """Refuse a run whose training data or pool holds a test sample.

    Args:
        known: Samples that a method will see.
        test: Questions it will be asked.
        where: `train split`, `pool`, `bank`, for the message.

    Raises:
        DataError: the first sample that is on both sides, and why.
    """
    tested = {key: q.id for q in test for key in identities(q)}
    for sample in known:
        for key in identities(sample):
            if key in tested:
                raise DataError(
                    f"Test sample {tested[key]!r} of {sample.task} is in the {where} "
                    f"as {sample.id!r} (same {key[0]}); remove it there."
                )
