"""What every training loop of this project is given and gives back."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expbench.core import Sample, StopReason


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters that share a learning rate."""

    name: str
    parameters: Sequence[Any]
    """torch Parameters that require gradients."""
    learning_rate: float
    weight_decay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One graded rollout at a train sample."""

    sample: Sample
    text: str
    """What the policy wrote; for a ranking the order of titles, best first."""
    ids: Sequence[int]
    """Generated token ids; none for a ranking."""
    reward: float | None
    """In [0, 1]; None where the grader could not decide."""
    stop_reason: StopReason


@dataclass(frozen=True, kw_only=True)
class Window:
    """All rollouts that one frozen policy made, on all processes, in the order of the questions."""

    step: int
    """Optimizer steps done when the window ended."""
    attempts: Sequence[Attempt]


def _no_numbers(window: Window) -> Mapping[str, float]:
    return {}


def _anywhere(column: int) -> AbstractContextManager[Any]:
    return nullcontext()


def _nothing(folder: Path) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What a method adds to the loop."""

    after_window: Callable[[Window], Mapping[str, float]] = _no_numbers
    """Called after a window's optimizer steps, before the next rollouts; its numbers are logged."""
    reference: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Entered while the KL reference is computed: the method's own parts are to be closed in it."""
    scoring: Callable[[int], AbstractContextManager[Any]] = _anywhere
    """Entered while rollouts are scored whole; is told the prompts' last column (padded left)."""
    save: Callable[[Path], None] = _nothing
    """Add the method's own state to a training checkpoint."""
    load: Callable[[Path], None] = _nothing
    """Read it back when a killed training goes on."""
    rollout: Callable[..., Any] | None = None
    """Replaces generation; None for the model's own."""


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What a training cost, over all sessions."""

    steps: int
    seconds: float
    prompt_tokens: int
    generated_tokens: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the last step."""
