"""What a competition exercise is."""

from collections.abc import Callable
from dataclasses import dataclass

from expbench.mini.drawing import Draw


@dataclass(frozen=True, kw_only=True)
class Exercise:
    r"""One exercise of the `math` task; its texts are LaTeX."""

    problem: str
    solution: str
    """Ends with the boxed answer; `@` stands for the box until the row is made."""
    answer: str

    @property
    def worked(self) -> str:
        r"""The solution with the answer in \boxed{}."""
        return self.solution.replace("@", rf"\boxed{{{self.answer}}}")


Template = Callable[[Draw], Exercise]


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A template with the labels that its rows carry."""

    subject: str
    level: int
    """1 (easy) to 5."""
    template: Template
