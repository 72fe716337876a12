"""Reading the machine-readable inputs of a question."""

from typing import Any

from expbench.core import Question
from expbench.errors import DataError


def feature(question: Question, name: str) -> Any:
    """Return a feature that a method cannot do without, as the task gives it.

    Raises:
        DataError: the question has no such feature, or it is None.

    >>> q = Question(id="1", task="t", kind="chem", input="", features={"smiles": "CCO"})
    >>> feature(q, "smiles")
    'CCO'
    """
    value = question.features.get(name)
    if value is None:
        raise DataError(
            f"Question {question.id!r} of {question.task} has no feature {name!r}, which the "
            "method needs; choose a task that gives it."
        )
    return value
