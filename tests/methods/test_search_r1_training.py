"""Search-R1 in training: what a search brings back is read and never learnt."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from expbench.core import Output, Sample, Workbench
from expbench.errors import ConfigError, DataError, PluginError
from expbench.models import load_model
from expbench.models.decoding import Completion, Request
from expbench.models.hf import HFModel
from expbench.training.loop import Ask, Hooks, Sampling, Trajectory
from expbench.training.rollouts import Rollout
from expbench_methods.search_r1.config import SearchR1Config
from expbench_methods.search_r1.method import SearchR1
from tests.methods.scripted import note, sample, scripted
from tests.training.policies import policy, rows, trainer

POOL = [note(i, f"zebras eat {food}") for i, food in enumerate(["hay", "figs", "ice", "oats"], 50)]
TRAIN = [sample(i, max_tokens=80) for i in range(4)]
SMALL: dict[str, Any] = {
    "steps": 1, "prompts": 2, "group": 4, "max_completion": 80, "micro_batch": 4, "lora_rank": 4,
    "learning_rate": 1e-2, "save_every": 1, "k": 2,
}  # fmt: skip
KINDS = ["dapo", "grpo", "bnpo", "dr_grpo"]


def script(request: Request) -> str:
    """Search in three rollouts of four, and say another number in each."""
    name, _, turn = request.key.partition("/turn")
    number = int(name.rpartition("/")[2])
    if int(turn) < min(number % 4, 2):
        return f"Hm {number}. <search>zebras</search>"
    return f"<answer>{number}</answer>"


def said(sample: Sample, output: Output) -> float:
    """Reward the number that was said."""
    return int(output.text) / 10 if output.text.isdigit() else 0.0


def method(**changes: Any) -> SearchR1:
    """Return a method with a scripted policy."""
    made = SearchR1(SearchR1Config(**{**SMALL, **changes}), load_model("tiny"), 0)
    scripted(made.policy.model, script)
    return made


def fitted(folder: Path, **changes: Any) -> tuple[SearchR1, list[Trajectory]]:
    """Train a method in a folder; return its rollouts as well."""
    made, played = method(**changes), []
    rollout = made.rollout

    def recorded(asks: Sequence[Ask], sampling: Sampling) -> list[Trajectory]:
        found = rollout(asks, sampling)
        played.extend(found)
        return found

    made.rollout = recorded  # type: ignore[method-assign]
    made.workbench = Workbench(folder=folder)
    made.fit(TRAIN, POOL, said)
    return made, played


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").open()]


Batch = tuple[Any, dict[str, Any], list[Trajectory]]


@pytest.fixture(scope="module")
def learning(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """Give a trainer, the batch that it learns from, and the rollouts in the batch's order."""
    made, played = method(), []
    made.fit([], POOL, said)

    def rollout(asks: Sequence[Ask], sampling: Sampling) -> list[Trajectory]:
        played.extend(made.rollout(asks, sampling))
        return played

    budget = {key: SMALL[key] for key in ("prompts", "group", "max_completion", "micro_batch")}
    built = trainer(
        tmp_path_factory.mktemp("batch"), model=made.policy.model, samples=TRAIN, reward=said,
        hooks=Hooks(rollout=rollout), beta=0.1, **budget,
    )  # fmt: skip
    batch = built._generate_and_score_completions(rows(built))
    built.args.steps_per_generation = 1
    return built, batch, played


def external_of(batch: dict[str, Any], played: Sequence[Trajectory]) -> Tensor:
    """Mark what the rollouts say is not the policy's, without the trainer's own mask."""
    external = torch.zeros_like(batch["completion_ids"])
    for row, trajectory in enumerate(played):
        external[row, list(trajectory.external)] = 1
    return external


def loss_of(
    built: Any, batch: dict[str, Any], logps: Tensor, patch: pytest.MonkeyPatch, **how: Any
) -> Tensor:
    for name, value in how.items():
        patch.setattr(built, name, value)

    def given(*args: Any, **options: Any) -> tuple[Tensor, Tensor, None]:
        return logps, torch.zeros_like(logps), None

    patch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", given)
    return cast(Tensor, built._compute_loss(built.model, dict(batch)))


def test_the_batch_masks_exactly_what_searches_brought_back(learning: Batch) -> None:
    _, batch, played = learning
    external = external_of(batch, played)
    sampled = sum(t.output.tokens("generated") for t in played)
    assert external.sum() > 100 and torch.equal(batch["tool_mask"], 1 - external)
    assert int(batch["num_items_in_batch"]) == sampled == sum(
        len(t.ids) - len(t.external) for t in played
    )  # fmt: skip
    assert int(batch["completion_mask"].sum()) == sampled + int(external.sum())
    for row, trajectory in enumerate(played):
        ids = batch["completion_ids"][row][: len(trajectory.ids)].tolist()
        assert ids == trajectory.ids


def test_rollouts_of_a_question_stay_together_and_in_order(learning: Batch) -> None:
    _, batch, played = learning
    rewards = torch.tensor([said(TRAIN[0], t.output) for t in played]).view(2, 4)
    assert torch.equal(rewards, torch.tensor([[0.0, 0.1, 0.2, 0.3]] * 2))
    wanted = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    torch.testing.assert_close(batch["advantages"].view(2, 4), wanted, rtol=0, atol=1e-4)
    prompts = [tuple(t.prompt_ids) for t in played]
    assert len(set(prompts[:4])) == len(set(prompts[4:])) == 1 and prompts[0] != prompts[4]


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_has_no_gradient_through_what_was_brought_back(
    learning: Batch, monkeypatch: pytest.MonkeyPatch, kind: str, beta: float
) -> None:
    built, batch, played = learning
    external = external_of(batch, played).bool()
    logps = -torch.rand(external.shape, generator=torch.Generator().manual_seed(1))
    logps.requires_grad_(True)
    loss_of(built, batch, logps, monkeypatch, loss_type=kind, beta=beta).backward()  # type: ignore[no-untyped-call]
    gradient = cast(Tensor, logps.grad)
    assert float(gradient[external].abs().max()) == 0.0
    own = batch["completion_mask"].bool() & ~external
    # Rollout 0 searches nothing and has a small number: every row but a middling one learns.
    assert float(gradient[own].abs().min()) > 0.0


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_another_passage_in_the_same_context_leaves_the_loss_as_it_is(
    learning: Batch, monkeypatch: pytest.MonkeyPatch, kind: str, beta: float
) -> None:
    built, batch, played = learning
    external = external_of(batch, played).bool()
    ids = torch.cat((batch["prompt_ids"], batch["completion_ids"]), dim=1)
    mask = torch.cat((batch["prompt_mask"], batch["completion_mask"]), dim=1)
    with torch.no_grad():
        logits = built._job.model.module(input_ids=ids, attention_mask=mask).logits
    every = logits.log_softmax(-1)[:, -external.shape[1] - 1 : -1]

    before = batch["completion_ids"]
    # The policy has moved since it sampled: with ratios of 1 the loss would not depend on labels.
    old = every.gather(2, before[..., None])[..., 0] + 0.1

    def loss(labels: Tensor) -> float:
        """Read the context as it was, but ask for the log-probs of these tokens."""
        logps = every.gather(2, labels[..., None])[..., 0]
        inputs = {**batch, "completion_ids": labels, "old_per_token_logps": old}
        found = loss_of(built, inputs, logps, monkeypatch, loss_type=kind, beta=beta)
        return float(found)

    other = torch.where(external, (before + 11) % 263, before)
    assert loss(other) == loss(before)
    own = torch.where(external, before, (before + 11) % 263)
    assert loss(own) != loss(before)


def test_only_sampled_tokens_share_the_normaliser(
    learning: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, batch, played = learning
    logps = torch.zeros(batch["completion_ids"].shape)
    found = loss_of(built, batch, logps, monkeypatch, loss_type="dapo", beta=0.0)
    lengths = torch.tensor([len(t.ids) - len(t.external) for t in played])
    wanted = -(batch["advantages"] * lengths).sum() / lengths.sum()
    assert float(found) == pytest.approx(float(wanted), abs=1e-6) and abs(float(found)) > 1e-3


def test_the_log_counts_masked_tokens_as_the_searches_do(tmp_path: Path) -> None:
    made, played = fitted(tmp_path, steps=2)
    brought = [sum(turn["tokens"] for turn in t.output.trace) for t in played]
    read = log(tmp_path)
    assert len(played) == 16 and sum(brought) > 200
    assert [len(t.external) for t in played] == brought
    assert [row["external_tokens"] for row in read] == [sum(brought[:8]), sum(brought[8:])]
    sampled = sum(t.output.tokens("generated") for t in played)
    assert sum(row["generated_tokens"] for row in read) == sampled
    assert [row["external_gradient"] for row in read] == [0.0, 0.0]
    cost = made.training_cost
    assert cost["external_tokens"] == sum(brought) and cost["generated_tokens"] == sampled


def test_every_step_of_a_window_masks_the_same_tokens(tmp_path: Path) -> None:
    _, played = fitted(tmp_path, steps=3, window=2, micro_batch=2)
    assert len(played) == 16
    read = log(tmp_path)
    assert [row["external_gradient"] for row in read] == [0.0, 0.0, 0.0]
    assert [row["step"] for row in read if row.get("external_tokens")] == [1, 3]


def test_a_mask_that_does_not_hold_stops_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute: Any = GRPOTrainer._compute_loss

    def unmasked(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        return compute(self, model, {k: v for k, v in inputs.items() if k != "tool_mask"})

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", unmasked)
    with pytest.raises(PluginError, match="must be masked"):
        fitted(tmp_path)


@pytest.mark.parametrize("broken", [0, 1])
def test_a_mask_other_than_the_rollouts_say_stops_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    """Let the trainer believe that everything was sampled, or that nothing was."""
    monkeypatch.setattr(Rollout, "mask", lambda rollout: [1 - broken] * len(rollout.ids))
    with pytest.raises(PluginError, match="mask must be that of the rollouts"):
        fitted(tmp_path)


def test_a_killed_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, _ = fitted(tmp_path / "whole", steps=2)
    fitted(tmp_path / "cut", steps=1)
    rest, played = fitted(tmp_path / "cut", steps=2)
    assert len(played) == 8 and rest.training_cost["steps"] == 2
    assert rest.training_cost["external_tokens"] == whole.training_cost["external_tokens"]
    ours, theirs = (m.policy.model.module.state_dict() for m in (rest, whole))
    moved = [n for n in ours if ".lora_B" in n and bool(ours[n].any())]
    assert moved
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-3, atol=1e-4)


def test_what_was_trained_comes_back_with_its_pool(tmp_path: Path) -> None:
    made, _ = fitted(tmp_path / "train")
    made.save(tmp_path / "kept")
    again = method()
    again.load(tmp_path / "kept")
    questions = [sample(i, max_tokens=64).question() for i in (60, 61)]
    outputs = []
    for one in (made, again):
        real = HFModel.generate_ids.__get__(one.policy.model)

        def first_scripted(
            requests: Sequence[Request],
            *,
            real: Any = real,
            model: Any = one.policy.model,
            **how: Any,
        ) -> list[Completion]:
            if not requests[0].key.endswith("/turn0"):
                return cast(list[Completion], real(requests, **how))
            shadow = scripted(model, lambda r: "<search>zebras</search>")
            done = cast(list[Completion], model.generate_ids(requests))
            assert len(shadow) == len(requests)
            model.generate_ids = first_scripted
            return done

        one.policy.model.generate_ids = first_scripted  # type: ignore[method-assign]
        outputs.append(one.answer(questions))
    assert outputs[0] == outputs[1]
    assert all(len(o.trace) == 1 and o.trace[0]["retrieved"] for o in outputs[0])
    with pytest.raises(DataError, match="pool"):
        again.refuse_leaks([POOL[2].sample.question()])


@pytest.mark.parametrize(
    "damage", ["no pool", "cut pool", "changed pool", "no adapter", "no about"]
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    made = method(steps=0)
    made.fit(TRAIN, POOL, said)
    made.save(tmp_path)
    pool = tmp_path / "pool.jsonl"
    if damage == "no pool":
        pool.unlink()
    elif damage == "cut pool":
        pool.write_bytes(pool.read_bytes()[:-40])
    elif damage == "changed pool":
        pool.write_text(pool.read_text().replace("zebras eat figs", "zebras eat wood"))
    elif damage == "no adapter":
        next((tmp_path / "adapter").glob("*.safetensors")).unlink()
    else:
        (tmp_path / "policy.json").write_text("{}")
    with pytest.raises(DataError):
        method().load(tmp_path)


def test_a_backbone_without_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="search_r1"):
        SearchR1(SearchR1Config(), load_model("fake"), 0)


def test_a_rollout_depends_on_its_key_alone() -> None:
    """With real sampling after a scripted search: whatever else is in the batch."""
    made = method()
    made.fit([], POOL, said)
    made.policy.model.module.load_state_dict(policy(rank=4).module.state_dict())
    real = HFModel.generate_ids.__get__(made.policy.model)

    def mixed(requests: Sequence[Request], **how: Any) -> list[Completion]:
        done = cast(list[Completion], real(requests, **how))
        ids = made.policy.model.tokenizer("<search>zebras</search>")["input_ids"][1:]
        search = Completion(ids=ids, text="<search>zebras", stop_reason="stop")
        first = [r.key.endswith("/turn0") and "/2/" not in r.key for r in requests]
        return [search if f else d for f, d in zip(first, done, strict=True)]

    made.policy.model.generate_ids = mixed  # type: ignore[method-assign]
    asks = [Ask(sample=one, key=f"0/toy/{one.id}/{i}") for one in TRAIN for i in range(2)]
    sampling = Sampling(limit=30, temperature=1.0, seed=4)
    together = made.rollout(asks, sampling)
    assert together == [made.rollout([ask], sampling)[0] for ask in asks]
    assert len({tuple(t.ids) for t in together}) == len(asks)
    assert [len(t.output.trace) for t in together] == [1, 1, 1, 1, 0, 0, 1, 1]
