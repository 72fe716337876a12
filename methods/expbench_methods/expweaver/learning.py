"""Training: policy, fusion and bank move together under GRPO."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from expbench.core import Experience, Reward, Sample, Workbench
from expbench.experience.bank import Bank
from expbench.training.loop import Hooks, ParameterGroup, TrainingResult, Window
from expbench.training.policy import at, train_policy
from expbench_methods.expweaver.install import anchored, bypassed
from expbench_methods.expweaver.memory import (
    as_experience,
    calibrate,
    follow,
    remember,
)
from expbench_methods.expweaver.weaver import Weaver


def learn(
    weaver: Weaver,
    train: Sequence[Sample],
    experience: Sequence[Experience],
    reward: Reward,
    workbench: Workbench | None,
) -> dict[str, float]:
    """Fill the bank, then train on the text samples and on the ranking samples.

    Returns:
        What it cost: `tokens` by purpose, `seconds`, `steps`.
    """
    fill(weaver, experience)
    text = [sample for sample in train if sample.kind != "ranking"]
    ranked = [sample for sample in train if sample.kind == "ranking"]
    weaver.scorer.calibrate(ranked)
    cost = train_policy(
        weaver.policy,
        text,
        reward,
        seed=weaver.seed,
        workbench=workbench,
        hooks=hooks(weaver),
        groups=weaver.fusion_groups(),
    )
    if ranked and weaver.config.steps:
        result = _train_ranking(weaver, ranked, reward, workbench)
        cost["steps"] += result.steps
        cost["seconds"] += result.seconds
        cost["prompt_tokens"] += result.prompt_tokens
    weaver.show_bank()
    return {
        **cost,
        "summary_tokens": weaver.tokens["summaries"],
        "encoded_tokens": weaver.tokens["encoded"],
    }


def fill(weaver: Weaver, experience: Sequence[Experience]) -> None:
    """Put the shared pool into the bank, encoded by the policy before training."""
    remember(weaver, experience, step=0)
    calibrate(weaver, experience)
    weaver.show_bank()


def _train_ranking(
    weaver: Weaver, samples: Sequence[Sample], reward: Reward, workbench: Workbench | None
) -> TrainingResult:
    from expbench.training.ranking import train_ranking

    temperature = ParameterGroup(
        name="temperature",
        parameters=list(weaver.scorer.parameters()),
        learning_rate=weaver.config.score_rate,
    )
    config = weaver.config
    with at(workbench) as bench:
        bench.stage("ranking steps", config.steps)
        return train_ranking(
            samples=samples,
            score=weaver.scorer.scores,
            reward=reward,
            # One question a backward pass: their prompts are long and memory follows them.
            settings=replace(
                config,
                prompts=config.rank_prompts,
                group=config.rank_group,
                micro_batch=config.rank_group,
            ),
            seed=weaver.seed,
            folder=bench.folder,
            groups=[*weaver.groups(), temperature],
            hooks=hooks(weaver),
            advance=bench.advance,
            prompt_tokens=weaver.scorer.prompt_tokens,
        )


def hooks(weaver: Weaver) -> Hooks:
    """Tie the training loop to the bank: it grows between windows and is frozen within one."""

    def after_window(window: Window) -> Mapping[str, float]:
        graded = [a for a in window.attempts if a.reward is not None]
        count = min(weaver.config.fresh, len(graded))
        # The same draw on every process, so that every process holds the same bank.
        chosen = random.Random(f"{weaver.seed}/{window.step}").sample(graded, count)
        remember(weaver, [as_experience(attempt) for attempt in chosen], step=window.step)
        weaver.scorer.refresh()
        return follow(weaver, graded, step=window.step)

    def load(folder: Path) -> None:
        weaver.bank = Bank.load(
            folder / "bank", encoder=weaver.model.fingerprint, width=weaver.fusion.width
        )
        weaver.scorer.refresh()
        weaver.show_bank()

    return Hooks(
        after_window=after_window,
        reference=lambda: bypassed(weaver.model.module),
        scoring=lambda ids_BT, mask_BT, kept: anchored(
            weaver.model.module, ids_BT.shape[1] - kept - 1
        ),
        save=lambda folder: weaver.bank.save(folder / "bank"),
        load=load,
    )
