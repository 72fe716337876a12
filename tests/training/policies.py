"""A tiny policy, toy questions and toy rewards for the training tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from expbench.core import Output, Sample
from expbench.models import load_model
from expbench.models.hf import HFModel
from expbench.training import grpo
from expbench.training.log import StepLog
from expbench.training.loop import Hooks, ParameterGroup, Sampling
from expbench.training.lora import attach
from expbench.training.questions import plan_windows
from expbench.training.rollouts import Actor
from expbench.training.settings import GRPOSettings
from expbench.training.state import Account, States, new_optimizer


def question(number: int, *, task: str = "toy", tokens: int = 8) -> Sample:
    return Sample(
        id=str(number),
        task=task,
        kind="math",
        input=str(number),
        prompt=f"Q{number}",
        target=("1",),
        max_tokens=tokens,
    )


def letters(sample: Sample, output: Output) -> float:
    """Return the share of small letters: about a quarter of what an untrained policy writes."""
    return sum(c in "abcdefghijklmnopqrstuvwxyz" for c in output.text) / max(1, len(output.text))


def policy(*, rank: int = 4) -> HFModel:
    """Return a tiny policy that writes letters more evenly than the built-in one."""
    model = cast(HFModel, load_model("tiny")).fork(share_weights=False)
    with torch.no_grad():
        model.module.lm_head.weight.mul_(0.15)
    if rank:
        attach(model, rank=rank, alpha=2 * rank, seed=1)
    return model


def trained(model: HFModel, rate: float = 1e-2) -> list[ParameterGroup]:
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    return [ParameterGroup(name="policy", parameters=parameters, learning_rate=rate)]


def settings(**changes: Any) -> GRPOSettings:
    values: dict[str, Any] = {
        "steps": 4, "prompts": 2, "group": 4, "max_completion": 6, "micro_batch": 4,
    }  # fmt: skip
    return GRPOSettings(**{**values, **changes})


def trainer(
    folder: Path,
    *,
    model: HFModel | None = None,
    samples: Sequence[Sample] = (),
    hooks: Hooks | None = None,
    reward: Any = letters,
    **changes: Any,
) -> Any:
    """Build the trainer that `train_grpo` would use, ready for one batch."""
    model, hooks, budget = model or policy(), hooks or Hooks(), settings(**changes)
    groups, samples = trained(model), samples or [question(i) for i in range(4)]
    optimizer = new_optimizer(groups)
    actor = Actor(
        model=model, reward=reward, prompt=hooks.prompt, rollout=hooks.rollout,
        sampling=Sampling(limit=budget.max_completion, temperature=budget.temperature, seed=1),
    )  # fmt: skip
    job = grpo._Job(
        model=model,
        settings=budget,
        seed=1,
        plan=plan_windows(samples, windows=budget.steps, questions=budget.prompts, seed=1),
        actor=actor,
        hooks=hooks,
        reference=grpo._reference(model, budget, groups, hooks),
        states=States(folder, "grpo", groups=groups, hooks=hooks),
        log=StepLog(folder, "grpo"),
        account=Account(),
        advance=lambda count: None,
    )
    made = grpo._Trainer(job=job, optimizer=optimizer, folder=folder)
    made.current_gradient_accumulation_steps = 1
    made.model.train()  # type: ignore[union-attr]
    return made


def rows(made: Any) -> list[dict[str, str]]:
    return [{"prompt": str(i)} for i in range(made._job.settings.prompts * made.num_generations)]
