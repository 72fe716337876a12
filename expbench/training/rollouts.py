"""Rollouts: the policy's own answers to train questions, graded by their task."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from expbench.core import Output, Prompt, Reward, Sample, StopReason
from expbench.errors import GradingError, PluginError
from expbench.models.decoding import Request
from expbench.models.hf import HFModel, output_of
from expbench.training.loop import Ask, Attempt, Sampling, Trajectory


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A graded rollout, without its sample: what processes send each other."""

    prompt_ids: list[int]
    ids: list[int]
    external: tuple[int, ...]
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

    def mask(self) -> list[int]:
        """Return 1 for every token that the policy wrote and 0 for every other one."""
        external = set(self.external)
        return [int(place not in external) for place in range(len(self.ids))]


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
        sampling: Limit, temperature and seed of the draws.
        prompt: What the policy is asked about a sample.
        rollout: Replaces one continuation of the prompt.
    """

    def __init__(
        self,
        *,
        model: HFModel,
        reward: Reward,
        sampling: Sampling,
        prompt: Callable[[Sample], Prompt],
        rollout: Callable[[Sequence[Ask], Sampling], Sequence[Trajectory]] | None = None,
    ) -> None:
        self._model = model
        self._reward = reward
        self._sampling = sampling
        self._prompt = prompt
        self._rollout = rollout or self._continue

    def play(self, asks: Sequence[Ask]) -> list[Rollout]:
        """Answer and grade, in the order given.

        Raises:
            PluginError: a method's own rollouts are not one each, or one has no tokens.
        """
        found = self._rollout(asks, self._sampling)
        if len(found) != len(asks) or not all(t.ids and t.prompt_ids for t in found):
            raise PluginError(
                f"The method's rollout gave {len(found)} trajectories for {len(asks)} asks; it "
                "must give one each, in order, with at least one token of prompt and of answer."
            )
        return [
            Rollout(
                prompt_ids=trajectory.prompt_ids,
                ids=trajectory.ids,
                external=trajectory.external,
                text=trajectory.output.text,
                reward=graded(self._reward, ask.sample, trajectory.output),
                stop_reason=trajectory.output.stop_reason,
            )
            for ask, trajectory in zip(asks, found, strict=True)
        ]

    def _continue(self, asks: Sequence[Ask], sampling: Sampling) -> list[Trajectory]:
        rendered = [self._model.render(self._prompt(ask.sample)) for ask in asks]
        requests = [
            Request(
                ids=text.ids,
                max_tokens=sampling.limit_of(ask.sample),
                stop=ask.sample.stop,
                key=ask.key,
            )
            for ask, text in zip(asks, rendered, strict=True)
        ]
        completions = self._model.generate_ids(
            requests, temperature=sampling.temperature, seed=sampling.seed
        )
        return [
            Trajectory(
                prompt_ids=text.ids,
                ids=until_end(done.ids, self._model.eos_ids),
                output=output_of(text, done),
            )
            for text, done in zip(rendered, completions, strict=True)
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
