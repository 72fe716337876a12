"""ExpWeaver on key-value worlds: what `expbench diagnose` trains and asks.

A supervised step reads several worlds and lowers the cross-entropy of the values. With GRPO,
through TRL as on tasks, a window reads one world, and the bank is replaced after it. Banks are
encoded by the policy as it is, without fusion. Shapes: B questions, D hidden size.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from expbench.core import Experience, Output, Prompt, Question, Sample
from expbench.diagnose.worlds import World, reward
from expbench.experience.bank import Bank
from expbench.training.loop import Hooks, Window
from expbench.training.state import new_optimizer
from expbench_methods.expweaver.answering import answer
from expbench_methods.expweaver.install import bypassed
from expbench_methods.expweaver.memory import entries_of, follow_queries
from expbench_methods.expweaver.weaver import Weaver

if TYPE_CHECKING:
    from expbench_methods.expweaver.method import ExpWeaver

WORLDS = 8
"""Worlds a supervised step reads."""


def learn_worlds(
    method: "ExpWeaver",
    worlds: Iterator[World],
    *,
    mode: Literal["supervised", "grpo"],
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, float]:
    """Train policy and fusion on ever new worlds for `steps` steps.

    Returns:
        `loss` of the last step (supervised), or `steps` and `seconds` (GRPO).
    """
    teach = _supervised if mode == "supervised" else _grpo
    return teach(method.weaver, worlds, advance)


def answer_world(
    method: "ExpWeaver",
    experience: Sequence[Experience],
    questions: Sequence[Question],
    *,
    control: str,
) -> list[Output]:
    """Answer greedily with a bank of these experiences alone.

    Args:
        method: Trained or not; its bank is replaced.
        experience: None at all empties the bank.
        questions: In any number.
        control: `closed_gate` shuts the gate, anything else leaves it open.
    """
    weaver = method.weaver
    weaver.bank = bank_of(weaver, [experience])[0]
    weaver.show_bank()
    configured = weaver.config
    setting: Any = "closed_gate" if control == "closed_gate" else "none"
    # Only answers with the world's own bank are looked at closely.
    trace = configured.trace and control == "none"
    weaver.config = replace(configured, control=setting, trace=trace)
    try:
        return answer(weaver, questions)
    finally:
        weaver.config = configured


def bank_of(weaver: Weaver, worlds: Sequence[Sequence[Experience]]) -> list[Bank]:
    """Encode the experiences of several worlds in one go; return a bank for each."""
    flat = [experience for world in worlds for experience in world]
    with weaver.as_encoder():
        vectors_ND = torch.from_numpy(weaver.model.encode([e.summary for e in flat]))
    banks, first = [], 0
    for world in worlds:
        bank = weaver.bank.empty_copy()
        bank.add(entries_of(weaver, world, step=0), vectors_ND[first : first + len(world)])
        banks.append(bank)
        first += len(world)
    return banks


def question_states(weaver: Weaver, questions: Sequence[Question]) -> Tensor:
    """Return the states before fusion that choose the answers, (B, D), with gradients if wanted."""
    # The worlds ask the same questions: every prompt is read once.
    places = {question.prompt: place for place, question in enumerate(questions)}
    order = {prompt: row for row, prompt in enumerate(places)}
    prompts = [Prompt(question=questions[place]) for place in places.values()]
    ids = [weaver.model.render(prompt).ids for prompt in prompts]
    ids_BT = torch.tensor(ids, device=weaver.model.module.device)
    with bypassed(weaver.model.module):
        hidden = weaver.model.module.get_decoder()(input_ids=ids_BT, use_cache=False)
    rows = [order[question.prompt] for question in questions]
    states_BD: Tensor = hidden.last_hidden_state[rows, -1]
    return states_BD


def _supervised(
    weaver: Weaver, worlds: Iterator[World], advance: Callable[[int], None]
) -> dict[str, float]:
    parameters = [p for group in weaver.groups() for p in group.parameters]
    optimizer = new_optimizer(weaver.groups())
    loss = torch.zeros(())
    weaver.model.module.train()
    for _ in range(weaver.config.steps):
        loss = _loss(weaver, list(islice(worlds, WORLDS)))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, weaver.config.max_grad_norm)
        optimizer.step()
        advance(1)
    weaver.model.module.eval()
    return {"loss": float(loss.detach())}


def _loss(weaver: Weaver, worlds: Sequence[World]) -> Tensor:
    """Return the mean cross-entropy of the values of all questions of some worlds."""
    questions = [question for world in worlds for question in world.questions]
    states_BD = question_states(weaver, questions)
    follow_queries(weaver, states_BD)
    banks = bank_of(weaver, [world.experience for world in worlds])
    fused = []
    for bank, part_QD in zip(banks, states_BD.chunk(len(worlds)), strict=True):
        weaver.fusion.memory = bank.memory()
        fused.append(weaver.fusion(part_QD))
    logits_BV = weaver.model.module.get_output_embeddings()(torch.cat(fused))
    return functional.cross_entropy(logits_BV, _targets(weaver, questions))


def _targets(weaver: Weaver, questions: Sequence[Sample]) -> Tensor:
    tokenizer = weaver.model.tokenizer
    ids = [tokenizer(q.target[0], add_special_tokens=False)["input_ids"][0] for q in questions]
    return torch.tensor(ids, device=weaver.model.module.device)


def _grpo(
    weaver: Weaver, worlds: Iterator[World], advance: Callable[[int], None]
) -> dict[str, float]:
    from expbench.training.grpo import train_grpo

    asked: dict[str, Sample] = {}

    def enter(world: World) -> None:
        with torch.no_grad():
            follow_queries(weaver, question_states(weaver, world.questions))
        weaver.bank = bank_of(weaver, [world.experience])[0]
        weaver.show_bank()
        asked.update({question.prompt: question for question in world.questions})

    def after_window(window: Window) -> Mapping[str, float]:
        enter(next(worlds))
        return {}

    first = next(worlds)
    enter(first)
    with tempfile.TemporaryDirectory() as folder:
        result = train_grpo(
            model=weaver.model,
            samples=first.questions,
            # The same questions are asked about every world; what is right changes with it.
            reward=lambda sample, output: reward(asked[sample.prompt], output),
            settings=weaver.config,
            seed=weaver.seed,
            folder=Path(folder),
            groups=weaver.groups(),
            hooks=Hooks(after_window=after_window, reference=lambda: bypassed(weaver.model.module)),
            advance=advance,
        )
    weaver.model.module.eval()
    return {"steps": float(result.steps), "seconds": result.seconds}
