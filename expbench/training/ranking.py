"""GRPO on rankings: orders are sampled from scores and rewarded by the task's own grader.

The scores of a question are computed once a step. Orders are sampled from them with Gumbel noise,
which costs no forward pass, so that groups may be large. Shapes as in `orders`.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from expbench.core import Output, Reward, Sample
from expbench.errors import ConfigError, DataError, GradingError
from expbench.training.log import StepLog
from expbench.training.loop import Attempt, Hooks, ParameterGroup, TrainingResult, Window
from expbench.training.orders import (
    advantages,
    batch_deviation,
    log_prob,
    objective,
    sample_orders,
)
from expbench.training.questions import plan_windows
from expbench.training.settings import GRPOSettings
from expbench.training.state import Account, States, is_due, new_optimizer

LOOP = "ranking"


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Orders of one question, sampled once and used for a window of steps."""

    sample: Sample
    orders_GC: Tensor
    """Positions, best first."""
    old_G: Tensor
    """Log-probabilities under the policy that sampled."""
    rewards_G: Tensor
    """NaN where the grader could not decide."""
    sorted_reward: float
    """Of the order by score."""

    def attempts(self) -> Iterator[Attempt]:
        """Return the orders as what a method's hook is shown."""
        titles = self.sample.candidates
        for order, reward in zip(self.orders_GC.tolist(), self.rewards_G.tolist(), strict=True):
            yield Attempt(
                sample=self.sample,
                text="\n".join(titles[place] for place in order),
                ids=(),
                reward=None if math.isnan(reward) else reward,
                stop_reason="none",
            )


def train_ranking(
    *,
    samples: Sequence[Sample],
    score: Callable[[Sequence[Sample]], Tensor],
    reward: Reward,
    settings: GRPOSettings,
    seed: int,
    folder: Path,
    groups: Sequence[ParameterGroup],
    hooks: Hooks,
    advance: Callable[[int], None],
    prompt_tokens: Callable[[Sequence[Sample]], int] = lambda samples: 0,
) -> TrainingResult:
    """Train a policy over orders; a killed training goes on from its newest checkpoint.

    Args:
        samples: Ranking samples of the train split.
        score: (B, C) logits of the candidates, with gradients; -inf where a question has fewer. It
            is called for `micro_batch // group` questions at a time, at least one.
        reward: In [0, 1], given the order as `Output.ranking`.
        settings: The shared budget; `loss` and `max_completion` concern text alone.
        seed: Of the order of the questions and of the sampling, which depends on seed, step and
            question, not on the batch.
        folder: `train.jsonl` and `state/` go there.
        groups: What is trained. Of a group called `temperature` that is one number, the exponential
            is logged.
        hooks: `after_window`, `save` and `load` are used.
        advance: Called with the number of finished steps.
        prompt_tokens: Counts the tokens that scoring some samples reads.

    Raises:
        ConfigError: a KL penalty is asked for, which rankings do not have, or a gradient is not a
            number.
        DataError: no samples, scores that are not numbers, or a damaged checkpoint.
    """
    if settings.beta:
        raise ConfigError(f"beta is {settings.beta}; rankings have no KL penalty, so set it to 0.")
    if not samples:
        raise DataError("There are no ranking samples to train on.")
    policy = _Policy(score, reward, settings, seed, groups)
    states = States(folder, LOOP, groups=groups, hooks=hooks)
    log, account, saved = StepLog(folder, LOOP), Account(), states.newest()
    if saved is not None:
        account = states.read(saved, policy.optimizer)
        advance(account.step)
    log.rewind(account.step)
    windows = math.ceil(settings.steps / settings.window)
    plan = plan_windows(samples, windows=windows, questions=settings.prompts, seed=seed)
    last, numbers = account.step, dict[str, float]()
    clock = time.monotonic()
    for batch in plan[math.ceil(account.step / settings.window) :]:
        first, found = account.step, list[Orders]()
        for _ in range(min(settings.window, settings.steps - first)):
            if numbers:
                log.write(account.step, numbers)
            found, numbers = policy.step(batch, found, first)
            account.step += 1
            account.prompt_tokens += prompt_tokens(batch)
            advance(1)
        attempts = [attempt for orders in found for attempt in orders.attempts()]
        extra = hooks.after_window(Window(step=account.step, attempts=attempts))
        seconds, clock = time.monotonic() - clock, time.monotonic()
        account.seconds += seconds
        log.write(account.step, {**numbers, **extra, "seconds": seconds})
        if account.step == settings.steps or is_due(account.step, last, settings.save_every):
            states.write(account, policy.optimizer)
            last = account.step
        numbers = {}
    return TrainingResult(
        steps=account.step,
        seconds=account.seconds,
        prompt_tokens=account.prompt_tokens,
        generated_tokens=0,
        metrics=policy.numbers,
    )


class _Policy:
    """Scores with their optimizer."""

    def __init__(
        self,
        score: Callable[[Sequence[Sample]], Tensor],
        reward: Reward,
        settings: GRPOSettings,
        seed: int,
        groups: Sequence[ParameterGroup],
    ) -> None:
        self.score, self.reward, self.settings, self.seed = score, reward, settings, seed
        self.groups = groups
        self.parameters: list[Any] = [p for group in groups for p in group.parameters]
        self.optimizer = new_optimizer(groups)
        self.numbers: dict[str, float] = {}
        """Of the last step."""

    def step(
        self, batch: Sequence[Sample], known: Sequence[Orders], window: int
    ) -> tuple[list[Orders], dict[str, float]]:
        """Do one optimizer step.

        Args:
            batch: Questions.
            known: Their orders from an earlier step of the window; none to sample them now, from
                the same scores that the gradient goes through.
            window: Part of the sampling's seed.
        """
        size = max(1, self.settings.micro_batch // self.settings.group)
        scale = self.settings.scale_rewards
        found: list[Orders] = []
        loss = 0.0
        self.optimizer.zero_grad()
        for first in range(0, len(batch), size):
            scores_BC = self._scores(batch[first : first + size])
            part = list(known[first : first + size]) or [
                self._sample(sample, scores_C.detach(), window)
                for sample, scores_C in zip(batch[first : first + size], scores_BC, strict=True)
            ]
            found += part
            losses = [
                objective(
                    log_prob(scores_C[None, : o.orders_GC.shape[1]], o.orders_GC[None]),
                    o.old_G[None],
                    advantages(o.rewards_G[None], scale).to(scores_C),
                )
                for o, scores_C in zip(part, scores_BC, strict=True)
            ]
            total = torch.cat(losses).sum() / len(batch)
            total.backward()  # type: ignore[no-untyped-call]
            loss += float(total.detach())
        if scale == "batch":
            # Known only now; a common factor of all advantages is one of the gradient.
            self._divide(batch_deviation(torch.stack([o.rewards_G for o in found])))
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm))
        if not math.isfinite(norm):
            raise ConfigError(
                f"The gradient is {norm}; lower learning_rate, or load the model with dtype "
                "float32."
            )
        self.optimizer.step()
        self.numbers = {**_account_of(found), **self._temperature()}
        self.numbers |= {"loss": loss, "grad_norm": norm}
        return found, self.numbers

    def _scores(self, samples: Sequence[Sample]) -> Tensor:
        scores_BC = self.score(samples) / self.settings.temperature
        if bool(scores_BC.isnan().any()):
            raise DataError("The scores of candidates are not numbers; lower learning_rate.")
        return scores_BC

    def _sample(self, sample: Sample, scores_C: Tensor, window: int) -> Orders:
        scores_1C = scores_C[None, : len(sample.candidates)]
        key = f"{self.seed}/{window}/{sample.task}/{sample.id}"
        generator = torch.Generator().manual_seed(random.Random(key).getrandbits(63))
        orders_1GC = sample_orders(scores_1C, self.settings.group, generator)
        best = scores_1C[0].argsort(descending=True, stable=True).tolist()
        rewards = [self._grade(sample, order) for order in orders_1GC[0].tolist()]
        return Orders(
            sample=sample,
            orders_GC=orders_1GC[0],
            old_G=log_prob(scores_1C, orders_1GC)[0],
            rewards_G=torch.tensor(rewards),
            sorted_reward=self._grade(sample, best),
        )

    def _grade(self, sample: Sample, order: Sequence[int]) -> float:
        try:
            return self.reward(sample, Output(ranking=tuple(order), stop_reason="none"))
        except GradingError:
            return math.nan

    def _divide(self, deviation: float) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.div_(deviation)

    def _temperature(self) -> dict[str, float]:
        for group in self.groups:
            if group.name == "temperature" and len(group.parameters) == 1:
                return {"temperature": math.exp(float(group.parameters[0].detach()))}
        return {}


def _account_of(found: Sequence[Orders]) -> dict[str, float]:
    """Return the numbers of a step's rewards."""
    rewards_BG = torch.stack([orders.rewards_G for orders in found]).double()
    graded_N = rewards_BG[~rewards_BG.isnan()]
    flat_B = (rewards_BG.nan_to_num(-1).amax(1) - rewards_BG.nan_to_num(2).amin(1)) <= 0
    best_B = torch.tensor([orders.sorted_reward for orders in found])
    return {
        "reward": float(graded_N.mean()),
        "reward_std": float((graded_N - graded_N.mean()).square().mean().sqrt()),
        "zero_spread_share": float(flat_B.double().mean()),
        "ungraded": float(rewards_BG.isnan().sum()),
        "sorted_reward": float(best_B.nanmean()),
    }
