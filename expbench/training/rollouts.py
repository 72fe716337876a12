"""Rollouts: the policy's own answers to train questions, graded by their task."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from expbench.core import Output, Prompt, Reward, Sample, StopReason
from expbench.errors import GradingError
from expbench.models.decoding import Completion, Request
from expbench.models.hf import HFModel, output_of
from expbench.models.prompting import Rendered
from expbench.training.loop import Attempt

Generate = Callable[..., Sequence[Completion]]
"""Called like `HFModel.generate_ids`: requests, temperature, seed."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One rollout to be made: its key alone decides, with the seed, what is drawn."""

    sample: Sample
    key: str


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A graded rollout, without its sample: what processes send each other."""

    prompt_ids: list[int]
    ids: list[int]
    text: str
    reward: float | None
    stop_reason: StopReason

    def attempt(self, sample: Sample) -> Attempt:
        """Return what a method's hook is shown."""
        return Attempt(
            sample=sample,
            text=self.text,
            ids=self.ids,
            reward=self.reward,
            stop_reason=self.stop_reason,
        )


def asks_of(samples: Sequence[Sample], *, group: int, step: int) -> list[Ask]:
    """Name the rollouts of a window: each question `group` times, one question after the other.

    A question that stands in a window twice gets other rollouts the second time.

    >>> s = Sample(id="7", task="t", kind="math", input="", target=("1",))
    >>> [ask.key for ask in asks_of([s, s], group=2, step=3)]
    ['3/t/7/0', '3/t/7/1', '3/t/7/2', '3/t/7/3']
    """
    seen: dict[str, int] = {}
    asks = []
    for sample in samples:
        name = f"{step}/{sample.task}/{sample.id}"
        first = seen.get(name, 0)
        seen[name] = first + group
        asks += [Ask(sample=sample, key=f"{name}/{first + i}") for i in range(group)]
    return asks


class Actor:
    """Makes and grades rollouts with the policy as it is now.

    Args:
        model: The policy.
        reward: The tasks' own graders.
        limit: Most tokens of a rollout; the question's own limit holds as well.
        temperature: Of the draws.
        seed: Of the draws.
        generate: Replaces the model's generation.
    """

    def __init__(
        self,
        *,
        model: HFModel,
        reward: Reward,
        limit: int,
        temperature: float,
        seed: int,
        generate: Generate | None = None,
    ) -> None:
        self._model = model
        self._reward = reward
        self._limit = limit
        self._temperature = temperature
        self._seed = seed
        self._generate = generate or model.generate_ids
        self.render: Callable[[Sample], Rendered] = lambda sample: model.render(
            Prompt(question=sample.question())
        )

    def play(self, asks: Sequence[Ask]) -> list[Rollout]:
        """Answer and grade, in the order given."""
        rendered = [self.render(ask.sample) for ask in asks]
        requests = [
            Request(
                ids=text.ids,
                max_tokens=max(1, min(self._limit, ask.sample.max_tokens)),
                stop=ask.sample.stop,
                key=ask.key,
            )
            for ask, text in zip(asks, rendered, strict=True)
        ]
        completions = self._generate(requests, temperature=self._temperature, seed=self._seed)
        return [
            Rollout(
                prompt_ids=text.ids,
                ids=until_end(done.ids, self._model.eos_ids),
                text=done.text,
                reward=graded(self._reward, ask.sample, output_of(text, done)),
                stop_reason=done.stop_reason,
            )
            for ask, text, done in zip(asks, rendered, completions, strict=True)
        ]


def graded(reward: Reward, sample: Sample, output: Output) -> float | None:
    """Grade an answer; None where the grader could not decide, which is not a zero."""
    try:
        value = float(reward(sample, output))
    except GradingError:
        return None
    return value if math.isfinite(value) else None


def until_end(ids: Sequence[int], eos_ids: Collection[int]) -> list[int]:
    """Keep a reply up to its first end token, that token included.

    What comes after it is padding, whatever its id: the pad id may be the end id itself.

    >>> until_end([5, 6, 2, 2, 2], {2})
    [5, 6, 2]
    """
    for index, token in enumerate(ids):
        if token in eos_ids:
            return list(ids[: index + 1])
    return list(ids)


def reward_numbers(rewards: Sequence[float | None], group: int) -> dict[str, Any]:
    """Summarise rewards, consecutive ones belonging to a group.

    A group is silent when its known rewards are all equal: its advantages are zero.

    >>> reward_numbers([1, 1, 0, 0, 1, 0, 0, None], 2)["zero_spread_share"]
    0.75
    """
    known = [float(r) for r in rewards if r is not None]
    mean = sum(known) / len(known) if known else math.nan
    spread = sum((r - mean) ** 2 for r in known)
    groups = [rewards[i : i + group] for i in range(0, len(rewards), group)]
    silent = [len({r for r in part if r is not None}) < 2 for part in groups]
    return {
        "reward": mean,
        "reward_std": math.sqrt(spread / (len(known) - 1)) if len(known) > 1 else 0.0,
        "zero_spread_share": sum(silent) / len(silent),
        "ungraded": len(rewards) - len(known),
    }
