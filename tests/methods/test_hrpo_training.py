"""HRPO in training: gates and policy learn from the mixtures that the rollouts read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from expbench.core import Output, Sample, Workbench
from expbench.errors import ConfigError, DataError
from expbench.models import load_model
from expbench.models.generation import Session
from expbench.models.hf import HFModel
from expbench.training.rollouts import Actor
from expbench.training.settings import GRPOSettings
from expbench_methods.grpo.method import GRPO
from expbench_methods.hrpo.config import HRPOConfig
from expbench_methods.hrpo.method import HRPO
from expbench_methods.hrpo.thinking import thinking_tokens
from tests.methods.fused import decoder, hf_model
from tests.methods.hybrid import VISIBLE, Drawn, Watched, hybrid, log_probs, requests
from tests.training.policies import letters, policy, question, rows, trainer

SMALL: dict[str, Any] = {
    "steps": 1, "prompts": 2, "group": 4, "max_completion": 8, "micro_batch": 4, "lora_rank": 4,
    "learning_rate": 1e-2, "save_every": 1,
}  # fmt: skip
TRAIN = [question(i) for i in range(4)]
TESTED = [question(i).question() for i in range(10, 14)]


def tiny() -> HFModel:
    """Return the built-in backbone with a head that does not favour one letter."""
    return policy(rank=0)


def qwen() -> HFModel:
    return hf_model(decoder("qwen2"))


def tied() -> HFModel:
    """Return a backbone whose head is its input embedding, as in most small models."""
    module = decoder("llama")
    module.config.tie_word_embeddings = True
    module.tie_weights()
    with torch.no_grad():
        module.lm_head.weight.mul_(0.7)
    assert module.lm_head.weight is module.get_input_embeddings().weight
    return hf_model(module)


def method(model: HFModel | None = None, *, seed: int = 0, **changes: Any) -> HRPO:
    return HRPO(HRPOConfig(**{**SMALL, **VISIBLE, **changes}), model or tiny(), seed)


def even(sample: Sample, output: Output) -> float:
    """Reward half of all rollouts, whatever they say."""
    return float(len(output.text) % 2 == 0)


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").open()]


@pytest.fixture(scope="module")
def fitted() -> HRPO:
    """Return a method after two steps; tests leave it as it is."""
    made = method(steps=2, gate_rate=1e-2, decay_rate=1e-1)
    made.fit(TRAIN, [], even)
    return made


@pytest.mark.parametrize("backbone", [tiny, qwen, tied])
@pytest.mark.parametrize("lora_rank", [0, 4])
@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_log_probs_of_the_trainer_are_those_of_the_rollouts(
    tmp_path: Path, backbone: Callable[[], HFModel], lora_rank: int, temperature: float
) -> None:
    made = method(backbone(), lora_rank=lora_rank, temperature=temperature)
    model = made.hybrid
    assert model is not None
    rolled: list[Drawn] = []
    session = model.session

    def watched(max_new: int) -> Session:
        return Watched(session(max_new), rolled)

    model.session = watched  # type: ignore[method-assign]
    samples = [question(i * 37, tokens=12 - 2 * (i % 2)) for i in range(4)]
    with model.learning() as hooks:
        job = trainer(
            tmp_path, model=model, samples=samples, hooks=hooks, reward=even,
            temperature=temperature, prompts=4, max_completion=12,
        )  # fmt: skip
        batch = job._generate_and_score_completions(rows(job))
        prompt, answer = batch["prompt_ids"], batch["completion_ids"]
        mask = torch.cat((batch["prompt_mask"], batch["completion_mask"]), dim=1)
        ids = torch.cat((prompt, answer), dim=1)
        scored, _, _ = job._get_per_token_logps_and_entropies(
            job.model, ids, mask, answer.shape[1], batch_size=3
        )
        with hooks.reference():
            plain, _, _ = job._get_per_token_logps_and_entropies(
                job.model, ids, mask, answer.shape[1]
            )
    if "old_per_token_logps" in batch:
        torch.testing.assert_close(batch["old_per_token_logps"], scored, rtol=0, atol=1e-5)
    assert len(rolled) == len(ids) == 16
    by_ids = {(tuple(row.prompt), tuple(row.read)): row for row in rolled}
    shift, ends = 0.0, set()
    for b in range(len(ids)):
        before = prompt[b][batch["prompt_mask"][b].bool()].tolist()
        reply = answer[b][batch["completion_mask"][b].bool()].tolist()
        drawn = by_ids[tuple(before), tuple(reply[:-1])].logits
        found = scored[b, : len(reply)].tolist()
        assert found == pytest.approx(log_probs(drawn, reply, temperature), abs=1e-4)
        ends.add(thinking_tokens(reply, model.tokenizer, model.config.markers))
        shift = max(shift, float((scored[b] - plain[b])[: len(reply)].abs().max()))
    assert shift > 1e-2 and len(ends) > 2


@pytest.mark.parametrize("backbone", [tiny, qwen, tied])
@pytest.mark.parametrize("lora_rank", [0, 4])
def test_every_parameter_of_the_gates_gets_a_gradient_and_moves(
    backbone: Callable[[], HFModel], lora_rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = method(backbone(), lora_rank=lora_rank)
    assert made.hybrid is not None
    gates = made.hybrid.embedding.gates
    before = {name: p.detach().clone() for name, p in gates.named_parameters()}
    seen: dict[str, Tensor] = {}
    for name, parameter in gates.named_parameters():
        parameter.register_hook(  # type: ignore[no-untyped-call]
            lambda grad, name=name: seen.update({name: grad.clone()})
        )
    made.fit(TRAIN, [], letters)
    assert set(seen) == set(before) == {
        "decay", "retain.weight", "retain.bias", "admit.weight", "admit.bias"
    }  # fmt: skip
    for name, parameter in gates.named_parameters():
        assert float(seen[name].abs().max()) > 0 and bool(seen[name].isfinite().all()), name
        assert not torch.equal(parameter, before[name]), name
    # The learning rates are the groups' own: Adam's first step is as long as the rate.
    steps = {n: float((p - before[n]).abs().max()) for n, p in gates.named_parameters()}
    assert steps["decay"] == pytest.approx(1e-3, rel=0.05)
    assert steps["retain.weight"] == pytest.approx(1e-4, rel=0.05)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_a_range_of_one_is_plain_grpo(tmp_path: Path, beta: float) -> None:
    budget = {**SMALL, "steps": 2, "beta": beta}
    plain = GRPO(GRPOSettings(**budget), tiny(), 3)
    mixed = HRPO(HRPOConfig(**budget, r_min=1.0, r_max=1.0), tiny(), 3)
    texts: dict[str, list[str]] = {"plain": [], "mixed": []}
    for name, made in (("plain", plain), ("mixed", mixed)):

        def recorded(sample: Sample, output: Output, name: str = name) -> float:
            texts[name].append(output.text)
            return letters(sample, output)

        (tmp_path / name).mkdir()
        made.workbench = Workbench(folder=tmp_path / name)
        made.fit(TRAIN, [], recorded)
    assert texts["plain"] == texts["mixed"] and len(set(texts["plain"])) > 8
    logs = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in log(tmp_path / name)]
        for name in texts
    ]
    assert logs[0] == logs[1] and any(row["grad_norm"] for row in logs[0])
    states = [made.policy.model.module.state_dict() for made in (plain, mixed)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert plain.answer(TESTED) == mixed.answer(TESTED)


def test_shut_gates_train_the_policy_as_plain_grpo_does() -> None:
    """Go through all of the mixing with a = 1, instead of around it."""
    budget = {**SMALL, "steps": 2}
    plain = GRPO(GRPOSettings(**budget), tiny(), 3)
    shut = method(seed=3, steps=2, gate_rate=0.0, decay_rate=0.0)
    assert shut.hybrid is not None
    with torch.no_grad():
        shut.hybrid.embedding.gates.decay.fill_(200.0)
    for made in (plain, shut):
        made.fit(TRAIN, [], letters)
    mine = dict(plain.policy.model.module.named_parameters())
    theirs = dict(shut.policy.model.module.named_parameters())
    adapter = [name for name in mine if ".lora_" in name]
    assert adapter
    for name in adapter:
        torch.testing.assert_close(theirs[name], mine[name], rtol=1e-4, atol=1e-6)
    assert shut.answer(TESTED) == plain.answer(TESTED)


def test_mixing_changes_what_is_learnt_and_said() -> None:
    plain, mixed = GRPO(GRPOSettings(**SMALL), tiny(), 3), method(seed=3)
    assert [o.text for o in plain.answer(TESTED)] != [o.text for o in mixed.answer(TESTED)]


@pytest.mark.parametrize("backbone", [tiny, tied])
@pytest.mark.parametrize("lora_rank", [0, 4])
def test_it_comes_back_as_it_was(
    tmp_path: Path, backbone: Callable[[], HFModel], lora_rank: int
) -> None:
    made = method(backbone(), lora_rank=lora_rank, steps=2, gate_rate=1e-1)
    made.fit(TRAIN, [], even)
    made.save(tmp_path)
    again = method(backbone(), lora_rank=lora_rank, seed=5)
    again.load(tmp_path)
    states = [m.policy.model.module.state_dict() for m in (made, again)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    module = again.policy.model.module
    is_tied = module.lm_head.weight is module.get_input_embeddings().weight
    assert is_tied == (backbone is tied)
    outputs = made.answer(TESTED)
    assert again.answer(TESTED) == outputs
    assert {s.role for output in outputs for s in output.segments} == {"prompt", "generated"}


def test_a_window_of_several_steps_and_a_reference_are_trained_with(tmp_path: Path) -> None:
    made = method(steps=4, window=2, beta=0.1)
    made.workbench = Workbench(folder=tmp_path)
    made.fit(TRAIN, [], letters)
    found = log(tmp_path)
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    assert all(row["kl"] >= 0 for row in found) and found[0]["kl"] > 0
    ended = [row for row in found if "mixed_share" in row]
    assert [row["step"] for row in ended] == [2, 4]
    assert all(0 < row["mixed_share"] < 1 and 0.2 < row["retained"] < 0.6 for row in ended)


def test_latents_live_no_longer_than_their_window(monkeypatch: pytest.MonkeyPatch) -> None:
    made, sizes = method(steps=3), []
    model = made.hybrid
    assert model is not None
    play = Actor.play

    def counted(self: Any, asks: Any) -> Any:
        assert model.latents is not None
        before = len(model.latents._readings) + len(model.latents._found)
        played = play(self, asks)
        sizes.append((before, len(model.latents._readings)))
        return played

    monkeypatch.setattr(Actor, "play", counted)
    made.fit(TRAIN, [], even)
    assert sizes == [(0, 8)] * 3 and model.latents is None


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_the_backbone_it_was_given_is_left_alone(lora_rank: int) -> None:
    model = tiny()
    before = {n: p.detach().clone() for n, p in model.module.named_parameters()}
    kinds = [type(part) for part in model.module.modules()]
    made = method(model, lora_rank=lora_rank)
    made.fit(TRAIN, [], even)
    made.answer(TESTED)
    assert [type(part) for part in model.module.modules()] == kinds
    after = dict(model.module.named_parameters())
    assert all(torch.equal(after[n], p) for n, p in before.items()) and len(after) == len(before)


def test_a_killed_training_goes_on_where_it_was(tmp_path: Path) -> None:
    def bench(name: str) -> Workbench:
        (tmp_path / name).mkdir(exist_ok=True)
        return Workbench(folder=tmp_path / name)

    whole, calls = method(steps=4), 0
    whole.workbench = bench("whole")
    whole.fit(TRAIN, [], even)

    def failing(sample: Sample, output: Output) -> float:
        nonlocal calls
        calls += 1
        if calls > 20:  # a step has 8 rollouts
            raise KeyboardInterrupt
        return even(sample, output)

    cut = method(steps=4)
    cut.workbench = bench("cut")
    with pytest.raises(KeyboardInterrupt):
        cut.fit(TRAIN, [], failing)
    assert cut.hybrid is not None and cut.hybrid.latents is None
    again, asked = method(steps=4, seed=0), 0

    def counted(sample: Sample, output: Output) -> float:
        nonlocal asked
        asked += 1
        return even(sample, output)

    again.workbench = bench("cut")
    again.fit(TRAIN, [], counted)
    assert asked == 16
    assert [row["step"] for row in log(tmp_path / "cut")] == [1, 2, 3, 4]
    mine = dict(whole.policy.model.module.named_parameters())
    for name, parameter in again.policy.model.module.named_parameters():
        torch.testing.assert_close(parameter, mine[name], rtol=1e-3, atol=1e-4)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("name", ["gates.safetensors", "policy.json"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused(
    fitted: HRPO, tmp_path: Path, name: str, damage: str
) -> None:
    fitted.save(tmp_path)
    DAMAGE[damage](tmp_path / name)
    with pytest.raises(DataError):
        method().load(tmp_path)


def test_a_backbone_without_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="fake"):
        HRPO(HRPOConfig(), cast(Any, load_model("fake")), 0)


def test_shares_of_a_batch_keep_their_own_latents() -> None:
    """Decode side by side in threads, as a machine with several cores does."""
    model, asked, threads = hybrid("llama"), requests(16), torch.get_num_threads()
    with model.learning():
        try:
            torch.set_num_threads(2)
            together = model.generate_ids(asked, temperature=1.0, seed=1)
        finally:
            torch.set_num_threads(threads)
        assert model.latents is not None
        for request, done in zip(asked, together, strict=True):
            prompt, latents = model.latents.find(request.ids + done.ids)
            thought = thinking_tokens(done.ids[:-1], model.tokenizer, model.config.markers)
            assert prompt == len(request.ids)
            assert thought == (0 if latents is None else len(latents))
    alone = [model.generate_ids([r], temperature=1.0, seed=1)[0] for r in asked]
    assert together == alone
