"""Every GRPO case from public bug reports, one test each, named after the case."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from expbench.core import Output, Prompt, Sample
from expbench.errors import GradingError
from expbench.models.decoding import Completion
from expbench.models.hf import HFModel
from expbench.training.loop import Hooks
from expbench.training.rollouts import reward_numbers
from tests.training.policies import policy, rows, trainer


def test_every_case_has_a_test(cases: Path) -> None:
    ids = [json.loads(line)["id"] for line in (cases / "grpo.jsonl").open()]
    missing = [i for i in ids if f"test_{i.replace('-', '_')}" not in globals()]
    assert ids and not missing


def loss(
    made: Any,
    monkeypatch: pytest.MonkeyPatch,
    now_BT: Tensor,
    **inputs: Any,
) -> Tensor:
    """Let TRL compute the loss of log-probs that are given instead of a model's."""

    def given(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, None]:
        return now_BT, torch.zeros_like(now_BT), None

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", given)
    ids = torch.ones(now_BT.shape, dtype=torch.long)
    values = {
        "prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids,
        "completion_mask": ids, "advantages": torch.zeros(len(ids)),
    }  # fmt: skip
    values.update(inputs)
    values.setdefault("num_items_in_batch", values["completion_mask"].sum())
    made.args.steps_per_generation = 1
    found: Tensor = made._compute_loss(made.model, values)
    return found


def writing(replies: list[list[int]]) -> HFModel:
    """Return a policy that gives these replies in turn."""

    def generate(requests: Any, **how: Any) -> list[Completion]:
        picked = [replies[i % len(replies)] for i in range(len(requests))]
        return [Completion(ids=list(ids), text="a", stop_reason="stop") for ids in picked]

    model = policy()
    model.generate_ids = generate  # type: ignore[method-assign]
    return model


def advantages(folder: Path, rewards: list[float | None]) -> list[float]:
    """Return the advantages of one group with these rewards, by the order they were given in."""
    left = iter(rewards)

    def reward(sample: Sample, output: Output) -> float:
        value = next(left)
        if value is None:
            raise GradingError("undecided")
        return value

    made = trainer(folder, reward=reward, prompts=1, group=len(rewards), steps=1)
    found = made._generate_and_score_completions(rows(made))["advantages"]
    return [float(a) for a in found]


def test_grpo_0baaad(tmp_path: Path) -> None:
    made = trainer(tmp_path, model=writing([[9, 9, 9, 2], [9] * 6]), prompts=1, group=2)
    made.mask_truncated_completions = True
    batch = made._generate_and_score_completions(rows(made))
    assert int(batch["num_items_in_batch"]) == 4 == int(batch["completion_mask"].sum())


def test_grpo_0c76ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("dapo", "grpo", "bnpo", "dr_grpo"):
        made = trainer(tmp_path, loss=kind)
        empty = torch.zeros(2, 3, dtype=torch.long)
        found = loss(
            made, monkeypatch, torch.zeros(2, 3), completion_mask=empty, advantages=torch.ones(2)
        )
        assert float(found) == 0.0


def test_grpo_23a94d(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    for kind, wanted in (("dapo", 1 / 3), ("grpo", 0.0)):
        made = trainer(tmp_path, loss=kind)
        found = loss(
            made, monkeypatch, torch.zeros(2, 4), completion_mask=mask,
            advantages=torch.tensor([1.0, -1.0]),
        )  # fmt: skip
        assert float(found) == pytest.approx(wanted, abs=1e-6)


def test_grpo_297982(tmp_path: Path) -> None:
    model, shots = writing([[9, 8, 2]]), (("a", "first answer"), ("b", "second answer"))
    hooks = Hooks(prompt=lambda sample: Prompt(question=sample, shots=shots))
    made = trainer(tmp_path, model=model, hooks=hooks, prompts=1, group=2)
    batch = made._generate_and_score_completions(rows(made))
    said = model.tokenizer.decode(batch["prompt_ids"][0])
    assert "first answer" in said and "second answer" in said
    assert batch["completion_mask"].sum(1).tolist() == [3, 3]
    assert int(batch["num_items_in_batch"]) == 6


def test_grpo_3f75bb(tmp_path: Path) -> None:
    assert advantages(tmp_path, [1, 1, 1, 1]) == [0, 0, 0, 0]
    assert reward_numbers([1, 1, 1, 1], 4)["zero_spread_share"] == 1.0


def test_grpo_5012b5(tmp_path: Path) -> None:
    undecided = advantages(tmp_path, [1, 0, None, 1])
    assert undecided == advantages(tmp_path, [1, 0, math.nan, 1])
    assert all(math.isfinite(a) for a in undecided)
    assert undecided[2] == 0.0 and undecided[0] == undecided[3] > 0 > undecided[1]


def test_grpo_792944() -> None:
    assert reward_numbers([1, 1, 0, 0, 1, 0, 0, 0], 2)["zero_spread_share"] == 0.75


def test_grpo_81e45c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(tmp_path, beta=1.0)
    made.beta = 1.0
    now = torch.full((1, 2), -200.0, requires_grad=True)
    found = loss(made, monkeypatch, now, ref_per_token_logps=torch.zeros(1, 2))
    found.backward()  # type: ignore[no-untyped-call]
    assert math.isfinite(float(found)) and now.grad is not None
    assert bool(torch.isfinite(now.grad).all()) and bool((now.grad != 0).all())


def test_grpo_9be651(tmp_path: Path) -> None:
    # TRL adds 1e-4 to the deviation, which is what the tolerance is for.
    assert advantages(tmp_path, [1, 0, 0, 0]) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-3)


@pytest.mark.parametrize("rank", [4, 0])
def test_grpo_adb1aa(tmp_path: Path, rank: int) -> None:
    made = trainer(tmp_path, model=policy(rank=rank), beta=0.1, steps=1)
    batch = made._generate_and_score_completions(rows(made))
    made._compute_loss(made.model, batch)
    assert made._metrics["train"]["kl"] == [0.0]
    assert float(batch["ref_per_token_logps"].abs().sum()) > 0


def test_grpo_cfba9a(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(tmp_path, beta=1.0)
    made.beta = 1.0
    # x with exp(x) - x - 1 = 0.1, 0.3 and 9, by bisection.
    gaps = []
    for wanted in (0.1, 0.3, 9.0):
        low, high = 0.0, 5.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if math.expm1(middle) - middle < wanted else (low, middle)
        gaps.append(low)
    found = loss(
        made, monkeypatch, torch.zeros(1, 3), advantages=torch.tensor([-0.5]),
        completion_mask=torch.tensor([[1, 1, 0]]), ref_per_token_logps=torch.tensor([gaps]),
    )  # fmt: skip
    assert float(found) == pytest.approx(0.7, abs=1e-5)


def test_grpo_ded528(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    policy_V, reference_V = torch.randn(2, 20).log_softmax(-1)
    drawn = torch.multinomial(policy_V.exp(), 4000, replacement=True)
    now, ref = policy_V[drawn][None].requires_grad_(), reference_V[drawn][None].requires_grad_()
    estimate = (now - ref).detach()
    made = trainer(tmp_path, beta=1.0)
    made.beta = 1.0
    found = loss(made, monkeypatch, now, ref_per_token_logps=ref.detach())
    found.backward()  # type: ignore[no-untyped-call]
    true = float((policy_V.exp() * (policy_V - reference_V)).sum())
    assert bool((estimate < 0).any()) and float(estimate.mean()) > 0
    # TRL's estimate has the same mean, and is never negative.
    assert float(found) == pytest.approx(true, rel=0.2)
    assert ref.grad is None


def test_grpo_e8cd05(tmp_path: Path) -> None:
    model = writing([[5, 6, 2, 2, 2], [5, 6, 7, 8, 9]])
    model.tokenizer.pad_token = model.tokenizer.eos_token
    made = trainer(tmp_path, model=model, prompts=1, group=2)
    batch = made._generate_and_score_completions(rows(made))
    assert batch["completion_ids"][0].tolist() == [5, 6, 2, 2, 2]
    assert batch["completion_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
