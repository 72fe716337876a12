"""GRPO on text: it learns, computes what it says, and survives a kill."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from expbench.core import Output, Sample
from expbench.errors import ConfigError, GradingError
from expbench.training import grpo
from expbench.training.grpo import train_grpo
from expbench.training.loop import Hooks, Sampling, TrainingResult, Window
from expbench.training.questions import plan_windows
from expbench.training.rollouts import Actor, asks_of, graded
from tests.training.policies import letters, policy, question, rows, settings, trained, trainer

QUESTIONS = [question(i) for i in range(5)]
ROOT = Path(__file__).parents[2]


def train(folder: Path, *, model: Any = None, hooks: Any = None, **changes: Any) -> TrainingResult:
    model = model or policy()
    return train_grpo(
        model=model, samples=QUESTIONS, reward=changes.pop("reward", letters),
        settings=settings(**changes), seed=1, folder=folder, groups=trained(model), hooks=hooks,
    )  # fmt: skip


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").open()]


def test_the_reward_goes_up(tmp_path: Path) -> None:
    result = train(tmp_path, steps=30, prompts=4, group=8, micro_batch=32)
    rewards = [row["reward"] for row in log(tmp_path)]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2
    assert result.steps == 30
    assert result.generated_tokens == sum(row["generated_tokens"] for row in log(tmp_path))


def test_a_model_is_left_as_it_was_found_but_for_its_trained_weights(tmp_path: Path) -> None:
    model = policy()
    before = {n: p.clone() for n, p in model.module.named_parameters()}
    flags = {n: p.requires_grad for n, p in model.module.named_parameters()}
    train(tmp_path, model=model)
    after = dict(model.module.named_parameters())
    assert {n: p.requires_grad for n, p in after.items()} == flags
    moved = {n for n, p in after.items() if not torch.equal(p, before[n])}
    assert moved and all(".lora_" in name for name in moved)
    assert "forward" not in vars(model.module)
    written = {path.relative_to(tmp_path).parts[0] for path in tmp_path.iterdir()}
    assert written == {"train.jsonl", "state"}


def test_log_probs_of_the_trainer_are_those_of_the_model(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    batch = made._generate_and_score_completions(rows(made))
    ids = torch.cat((batch["prompt_ids"], batch["completion_ids"]), dim=1)
    mask = torch.cat((batch["prompt_mask"], batch["completion_mask"]), dim=1)
    width = batch["completion_ids"].shape[1]
    found, _, _ = made._get_per_token_logps_and_entropies(made.model, ids, mask, width)
    with torch.no_grad():
        logits = made._job.model.module(input_ids=ids, attention_mask=mask).logits
    wanted = logits.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None])[:, -width:, 0]
    gap = (found - wanted).abs() * batch["completion_mask"]
    assert float(gap.max()) < 1e-5


def reference_loss(
    kind: str, now: Tensor, old: Tensor, advantage: Tensor, mask: Tensor, most: int
) -> float:
    """Compute the clipped loss one token after the other, in Python's own floats."""
    means, total = [], 0.0
    for b in range(len(mask)):
        own = 0.0
        for t in range(mask.shape[1]):
            if mask[b, t]:
                ratio = float((now[b, t] - old[b, t]).exp())
                a = float(advantage[b])
                own -= min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
        total += own
        means.append(own / int(mask[b].sum()))
    if kind == "grpo":
        return sum(means) / len(means)
    return total / (len(mask) * most if kind == "dr_grpo" else int(mask.sum()))


def test_rows_without_an_advantage_are_not_read_and_change_no_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(tmp_path)
    batch = made._generate_and_score_completions(rows(made))
    batch["advantages"] = torch.tensor([0.0, 0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.0])
    read: list[int] = []
    real = GRPOTrainer._get_per_token_logps_and_entropies

    def watched(self: Any, model: Any, ids: Tensor, *args: Any, **options: Any) -> Any:
        read.append(len(ids))
        return real(self, model, ids, *args, **options)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", watched)
    found = []
    for leaves_out in (True, False):
        if not leaves_out:
            monkeypatch.setattr(grpo, "_teaching", dict)
        made.model.zero_grad()
        loss = made._compute_loss(made.model, batch)
        loss.backward()
        gradients = [p.grad.clone() for p in made.model.parameters() if p.grad is not None]
        found.append([loss.detach(), *gradients])
    assert read == [5, 8]
    for part, whole in zip(*found, strict=True):
        assert torch.allclose(part, whole, atol=1e-7)
    batch["advantages"][:] = 0.0
    monkeypatch.undo()
    assert float(made._compute_loss(made.model, batch).detach()) == 0.0


@pytest.mark.parametrize("kind", ["dapo", "grpo", "bnpo", "dr_grpo"])
def test_the_loss_is_that_of_a_plain_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    torch.manual_seed(2)
    made = trainer(tmp_path, loss=kind)
    made.args.steps_per_generation = 1
    old = torch.randn(4, 6, dtype=torch.float64) - 2
    now = old + 0.4 * torch.randn(4, 6, dtype=torch.float64)
    advantage = torch.randn(4, dtype=torch.float64)
    mask = (torch.arange(6) < torch.tensor([[6], [2], [3], [5]])).long()
    monkeypatch.setattr(
        GRPOTrainer, "_get_per_token_logps_and_entropies", lambda *a, **k: (now, now * 0, None)
    )
    found = made._compute_loss(
        made.model,
        {
            "prompt_ids": mask[:, :1], "prompt_mask": mask[:, :1], "completion_ids": mask,
            "completion_mask": mask, "advantages": advantage, "old_per_token_logps": old,
            "num_items_in_batch": mask.sum(),
        },
    )  # fmt: skip
    wanted = reference_loss(kind, now, old, advantage, mask, most=6)
    assert float(found) == pytest.approx(wanted, abs=1e-6)


def test_a_killed_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, model = policy(), policy()
    train(tmp_path / "whole", model=whole, steps=6, save_every=2)

    def killed(window: Window) -> dict[str, float]:
        if window.step == 5:
            raise KeyboardInterrupt
        return {}

    loaded: list[Path] = []
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", hooks=Hooks(after_window=killed), steps=6, save_every=2)
    hooks = Hooks(load=loaded.append)
    result = train(tmp_path / "cut", model=model, hooks=hooks, steps=6, save_every=2)
    assert result.steps == 6 and loaded[0].parent.name == "00000004"
    rows_cut, rows_whole = log(tmp_path / "cut"), log(tmp_path / "whole")
    assert [row["step"] for row in rows_cut] == [1, 2, 3, 4, 5, 6]
    assert rows_cut[-1]["loss"] == pytest.approx(rows_whole[-1]["loss"], abs=1e-5)
    for mine, theirs in zip(trained(model), trained(whole), strict=True):
        for p, q in zip(mine.parameters, theirs.parameters, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
    assert train(tmp_path / "cut", steps=6, save_every=2).steps == 6
    assert len(log(tmp_path / "cut")) == 6


def test_full_training_is_held_against_the_first_weights(tmp_path: Path) -> None:
    train(tmp_path, model=policy(rank=0), beta=0.1, steps=3)
    kl = [row["kl"] for row in log(tmp_path)]
    assert kl[0] == 0.0 and kl[2] > 0


def test_the_reference_closes_the_methods_own_parts(tmp_path: Path) -> None:
    from contextlib import contextmanager

    entered = []

    @contextmanager
    def closed() -> Any:
        entered.append(1)
        yield

    train(tmp_path, hooks=Hooks(reference=closed), beta=0.1, steps=2)
    assert len(entered) == 2


def test_a_window_of_two_steps_asks_once_and_tells_the_method_once(tmp_path: Path) -> None:
    seen: list[int] = []

    def after_window(window: Window) -> dict[str, float]:
        seen.append(window.step)
        return {}

    train(tmp_path, hooks=Hooks(after_window=after_window), steps=5, window=2)
    assert seen == [2, 4, 5]
    assert [row["step"] for row in log(tmp_path) if "reward" in row] == [1, 3, 5]


def test_an_undecided_grade_is_none_and_not_zero() -> None:
    def reward(sample: Sample, output: Output) -> float:
        raise GradingError("no verdict")

    assert graded(reward, QUESTIONS[0], Output(text="")) is None


def test_rollouts_depend_on_their_keys_only() -> None:
    actor = Actor(
        model=policy(), reward=letters, prompt=Hooks().prompt,
        sampling=Sampling(limit=6, temperature=1.0, seed=4),
    )  # fmt: skip
    asks = asks_of(QUESTIONS, group=3, step=2)
    together = [rollout.ids for rollout in actor.play(asks)]
    assert together == [actor.play([ask])[0].ids for ask in asks]
    assert len({tuple(ids) for ids in together}) > 10


def test_tasks_are_asked_in_proportion_and_epochs_are_reshuffled() -> None:
    mixed = [question(i, task="a") for i in range(12)] + [question(i, task="b") for i in range(4)]
    plan = plan_windows(mixed, windows=8, questions=4, seed=1)
    first = [(s.task, s.id) for window in plan[:4] for s in window]
    second = [(s.task, s.id) for window in plan[4:] for s in window]
    assert sorted(first) == sorted(second) and first != second
    assert all(sum(s.task == "b" for s in window) in (0, 1, 2) for window in plan)
    assert all(len({(s.task, s.id) for s in window}) == 4 for window in plan)


def test_half_precision_parameters_are_refused(tmp_path: Path) -> None:
    model = policy(rank=0)
    model.module.bfloat16()
    with pytest.raises(ConfigError, match="float32"):
        train(tmp_path, model=model)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "methods"))),
    }  # fmt: skip
    # `accelerate launch --cpu` starts one process only without MPI; torchrun starts gloo's two.
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    for folder, count in ((one, 1), (two, 2)):
        folder.mkdir()
        command = [*launch, "--nproc_per_node", str(count)]
        command += ["-m", "tests.training.two_processes", str(folder)]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=110
        )
        assert done.returncode == 0, done.stderr[-2000:]
    windows = [(two / f"windows-{rank}.json").read_text() for rank in (0, 1)]
    assert windows[0] == windows[1] == (one / "windows-0.json").read_text()
    alone, shared = log(one), log(two)
    assert [row["step"] for row in shared] == [1, 2, 3]
    for a, b in zip(alone, shared, strict=True):
        # Not "kl": that is TRL's mean over micro-batches, which are cut differently here.
        for name in ("loss", "grad_norm", "reward"):
            assert b[name] == pytest.approx(a[name], abs=1e-4)
