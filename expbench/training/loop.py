"""What every training loop of this project is given and gives back."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expbench.core import Output, Prompt, Sample, StopReason


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters that share a learning rate."""

    name: str
    parameters: Sequence[Any]
    """torch Parameters that require gradients."""
    learning_rate: float
    weight_decay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One rollout to be made: its key alone decides, with the seed, what is drawn."""

    sample: Sample
    key: str


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How rollouts are drawn."""

    limit: int
    """Most tokens that the policy may write in a rollout; the question's own limit holds too."""
    temperature: float
    seed: int

    def limit_of(self, sample: Sample) -> int:
        """Return the most tokens that the policy may write for a sample, at least 1."""
        return max(1, min(self.limit, sample.max_tokens))


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """A rollout before it is graded."""

    prompt_ids: list[int]
    ids: list[int]
    """All that follows the prompt, at least one token."""
    output: Output
    """What is graded, with its cost by role."""
    external: tuple[int, ...] = ()
    """Positions in `ids` of tokens that the policy did not write: they are read, never trained."""


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


def _as_it_is(ids_BT: Any, mask_BT: Any, kept: int) -> AbstractContextManager[Any]:
    return nullcontext()


def _bare(sample: Sample) -> Prompt:
    return Prompt(question=sample.question())


def _nothing(folder: Path) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What a method adds to the loop."""

    after_window: Callable[[Window], Mapping[str, float]] = _no_numbers
    """Called after a window's optimizer steps, before the next rollouts; its numbers are logged."""
    reference: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Entered while the KL reference is computed: the method's own parts are to be closed in it."""
    scoring: Callable[[Any, Any, int], AbstractContextManager[Any]] = _as_it_is
    """Entered while rollouts are scored whole; is told their ids and mask, (B, T) with prompts
    padded on the left, and how many of the last columns are scored."""
    save: Callable[[Path], None] = _nothing
    """Add the method's own state to a training checkpoint."""
    load: Callable[[Path], None] = _nothing
    """Read it back when a killed training goes on."""
    prompt: Callable[[Sample], Prompt] = _bare
    """What the policy is asked: the method may add context, as it does for test questions."""
    rollout: Callable[[Sequence[Ask], Sampling], Sequence[Trajectory]] | None = None
    """Replaces generation; None for one continuation of `prompt`."""


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What a training cost, over all sessions."""

    steps: int
    seconds: float
    prompt_tokens: int
    generated_tokens: int
    """Written by the policy in rollouts, and therefore trained on."""
    external_tokens: int = 0
    """Put between them by the method, and masked: see `expbench.training.audit`."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers of a ranking training's last step."""
