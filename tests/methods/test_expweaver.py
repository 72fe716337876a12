"""ExpWeaver on the built-in backbone: it trains what it says, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from expbench.core import Experience, Output, Sample, Score, Workbench
from expbench.errors import ConfigError, DataError
from expbench.models import load_model
from expbench.models.hf import HFModel
from expbench_methods.expweaver.config import ExpWeaverConfig
from expbench_methods.expweaver.install import bypassed
from expbench_methods.expweaver.learning import fill, hooks
from expbench_methods.expweaver.method import ExpWeaver
from tests.training.policies import rows, trainer

TITLES = tuple(f"The {word} Film" for word in "red blue odd cold late tall soft old".split())
SMALL: dict[str, Any] = {
    "steps": 1, "prompts": 2, "group": 4, "max_completion": 8, "micro_batch": 8, "lora_rank": 4,
    "summary_tokens": 4, "fresh": 3, "k": 4, "save_every": 1, "learning_rate": 1e-3,
}  # fmt: skip


def tiny() -> HFModel:
    """Return the built-in backbone with a head that does not favour one letter."""
    model = cast(HFModel, load_model("tiny")).fork(share_weights=False)
    with torch.no_grad():
        model.module.lm_head.weight.mul_(0.15)
    return model


def method(model: HFModel | None = None, *, seed: int = 0, **changes: Any) -> ExpWeaver:
    return ExpWeaver(ExpWeaverConfig(**{**SMALL, **changes}), model or tiny(), seed)


def text(number: int) -> Sample:
    return Sample(
        id=f"t{number}", task="toy", kind="math", input=f"{number} + 1", target=("1",),
        prompt=f"What is {number} + 1?", max_tokens=8,
    )  # fmt: skip


def ranking(number: int) -> Sample:
    turned = TITLES[number:] + TITLES[:number]
    return Sample(
        id=f"r{number}", task="films", kind="ranking", input=f"user {number}", target=("2",),
        prompt=f"User {number} likes films. Rank.", candidates=turned, max_tokens=8,
    )  # fmt: skip


TEXTS, RANKED = [text(i) for i in range(4)], [ranking(i) for i in range(3)]
TESTED = [text(i).question() for i in range(10, 14)]


def attempt(sample: Sample, number: int) -> Experience:
    written = f"I think it is {number}."
    return Experience(
        sample=sample, output=written, score=Score(value=float(number % 2)),
        summary=f"{sample.input}: {number}",
    )  # fmt: skip


POOL = [attempt(sample, i) for i, sample in enumerate([*TEXTS, *TEXTS, *TEXTS])]


def even(sample: Sample, output: Output) -> float:
    """Reward what no policy can know at first: half of all rollouts, whatever they say."""
    if output.ranking is not None:
        return float(output.ranking[0] < len(sample.candidates) // 2)
    return float(len(output.text) % 2 == 0)


@pytest.fixture(scope="module")
def fitted() -> ExpWeaver:
    """Return a method after two steps; tests leave it as it is."""
    made = method(steps=2, attention_rate=1e-2, gate_rate=1e-2, decay_rate=1e-1)
    made.fit(TEXTS, POOL, even)
    return made


def other(fitted: ExpWeaver, folder: Path, **changes: Any) -> ExpWeaver:
    """Return another method with the weights of the fitted one."""
    fitted.save(folder)
    made = method(**changes)
    made.load(folder)
    return made


@pytest.mark.parametrize("steps", [0, 1])
def test_it_fits_and_answers_and_comes_back_as_it_was(tmp_path: Path, steps: int) -> None:
    made = method(steps=steps)
    made.fit([*TEXTS, *RANKED], POOL, even)
    questions = [TESTED[0], RANKED[0].question(), *TESTED[1:]]
    outputs = made.answer(questions)
    assert [output.ranking is None for output in outputs] == [True, False, True, True, True]
    assert all(o.tokens("prompt") > 0 for o in outputs)
    assert sorted(outputs[1].ranking or ()) == list(range(len(TITLES)))
    assert made.training_cost["steps"] == 2 * steps and made.training_cost["encoded_tokens"] > 0
    made.save(tmp_path)
    again = method(steps=steps, seed=5)
    again.load(tmp_path)
    assert again.weaver.bank.checksum == made.weaver.bank.checksum
    again.weaver.seed = made.weaver.seed
    assert again.answer(questions) == outputs
    states = [m.weaver.model.module.state_dict() for m in (made, again)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_full_weights_are_saved_and_come_back(tmp_path: Path) -> None:
    made = method(lora_rank=0, learning_rate=1e-2)
    made.fit(TEXTS, POOL, even)
    outputs = made.answer(TESTED)
    made.save(tmp_path)
    again = method(lora_rank=0)
    again.load(tmp_path)
    assert again.answer(TESTED) == outputs
    mine, theirs = made.weaver.model.module, again.weaver.model.module
    assert torch.equal(mine.get_input_embeddings().weight, theirs.get_input_embeddings().weight)


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_the_backbone_it_was_given_is_left_alone(lora_rank: int) -> None:
    model = tiny()
    before = {n: p.detach().clone() for n, p in model.module.named_parameters()}
    flags = {n: p.requires_grad for n, p in model.module.named_parameters()}
    kinds = [type(part) for part in model.module.modules()]
    made = method(model, lora_rank=lora_rank, learning_rate=1e-2)
    made.fit([*TEXTS, *RANKED], POOL, even)
    made.answer(TESTED)
    assert [type(part) for part in model.module.modules()] == kinds
    after = dict(model.module.named_parameters())
    assert all(torch.equal(after[n], p) for n, p in before.items()) and len(after) == len(before)
    assert {n: p.requires_grad for n, p in after.items()} == flags
    assert all(p.grad is None for p in after.values())


def test_every_group_moves_in_one_step() -> None:
    made = method(gate_low=0.5, gate_high=0.9)
    groups = {group.name: group.parameters for group in made.weaver.groups()}
    before = {name: [p.detach().clone() for p in parts] for name, parts in groups.items()}
    made.fit(TEXTS, POOL, even)
    assert set(groups) == {"policy", "attention", "gates", "decay"}
    for name, parts in groups.items():
        moved = [not torch.equal(p, q) for p, q in zip(parts, before[name], strict=True)]
        # One step moves only one of LoRA's two matrices: the other one is zero.
        assert any(moved) if name == "policy" else all(moved), name


def test_the_scores_temperature_moves_too() -> None:
    made = method()
    before = float(made.weaver.scorer.log_temperature.detach())
    made.fit(RANKED, [attempt(s, i) for i, s in enumerate([*RANKED, *RANKED])], even)
    assert float(made.weaver.scorer.log_temperature.detach()) != before


@pytest.mark.parametrize("frequency", ["every", "once"])
def test_log_probs_of_the_trainer_are_those_of_the_fused_model(
    tmp_path: Path, frequency: str
) -> None:
    weaver = method(gate_low=0.5, gate_high=0.9, frequency=frequency).weaver
    fill(weaver, POOL)
    made = trainer(tmp_path, model=weaver.model, samples=TEXTS, hooks=hooks(weaver), reward=even)
    batch = made._generate_and_score_completions(rows(made))
    prompt, answer = batch["prompt_ids"], batch["completion_ids"]
    mask = torch.cat((batch["prompt_mask"], batch["completion_mask"]), dim=1)
    ids = torch.cat((prompt, answer), dim=1)
    found, _, _ = made._get_per_token_logps_and_entropies(made.model, ids, mask, answer.shape[1])
    gaps, shifts = [], []
    for b in range(len(ids)):
        # One rollout at a time, as it was sampled: token by token from a growing text.
        own = prompt[b][batch["prompt_mask"][b].bool()].tolist()
        session = weaver.model.session(20)
        with torch.no_grad():
            logits_V = session.prefill([own])[0]
            with bypassed(weaver.model.module):
                plain_V = weaver.model.module(torch.tensor([own])).logits[0, -1]
            shifts.append(float((logits_V - plain_V).abs().max()))
            for t, token in enumerate(answer[b][batch["completion_mask"][b].bool()].tolist()):
                gaps.append(abs(float(logits_V.log_softmax(-1)[token]) - float(found[b, t])))
                logits_V = session.step([token])[0]
    assert min(shifts) > 1e-3, "the fusion does nothing: the test sees nothing"
    assert max(gaps) < 1e-5


def test_an_empty_bank_a_closed_gate_and_no_fusion_are_the_same(
    fitted: ExpWeaver, tmp_path: Path
) -> None:
    questions = [*TESTED, RANKED[0].question()]
    with bypassed(fitted.weaver.model.module):
        plain = fitted.answer(questions)
    for control in ("empty", "closed_gate"):
        assert other(fitted, tmp_path, control=control).answer(questions) == plain
    weaver = fitted.weaver
    ids = torch.tensor([weaver.model.render(_prompt()).ids])
    with torch.no_grad():
        read = weaver.model.module(ids).logits
        weaver.fusion.is_open = False
        shut = weaver.model.module(ids).logits
        weaver.fusion.is_open = True
        with bypassed(weaver.model.module):
            assert torch.equal(shut, weaver.model.module(ids).logits)
    assert not torch.allclose(read, shut)


def _prompt() -> Any:
    from expbench.core import Prompt

    return Prompt(question=TESTED[0])


@pytest.mark.parametrize("control", ["none", "random", "shuffled", "empty", "closed_gate"])
def test_a_control_changes_what_is_read_and_is_undone(
    fitted: ExpWeaver, tmp_path: Path, control: str
) -> None:
    weaver = other(fitted, tmp_path, control=control).weaver
    ids = torch.tensor([weaver.model.render(_prompt()).ids])
    with torch.no_grad():
        read = weaver.model.module(ids).logits
        with weaver.controlled():
            controlled = weaver.model.module(ids).logits
        assert torch.equal(weaver.model.module(ids).logits, read)
    assert torch.equal(controlled, read) == (control == "none")


def test_the_bank_grows_between_windows_and_holds_no_test_sample(tmp_path: Path) -> None:
    made = method(steps=3)
    made.workbench = Workbench(folder=tmp_path)
    made.fit(TEXTS, POOL, even)
    log = [json.loads(line) for line in (tmp_path / "train.jsonl").open()]
    sizes = [row["bank_size"] for row in log]
    assert sizes == [len(POOL) + 3, len(POOL) + 6, len(POOL) + 9] == [15, 18, 21]
    entries = made.weaver.bank.entries
    assert {entry.step for entry in entries} == {0, 1, 2, 3}
    assert {entry.sample_id for entry in entries} <= {sample.id for sample in TEXTS}
    made.answer(TESTED)
    made.refuse_leaks(TESTED)
    assert made.weaver.bank.entries == entries
    with pytest.raises(DataError, match="t2"):
        made.refuse_leaks([*TESTED, replace(TEXTS[2].question(), prompt="Another wording?")])


def _cut_short(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE: dict[str, Callable[[Path], None]] = {
    "half a fusion": lambda folder: _cut_short(folder, "fusion.safetensors"),
    "no fusion": lambda folder: (folder / "fusion.safetensors").unlink(),
    "half an adapter": lambda folder: _cut_short(folder, "adapter/adapter.safetensors"),
    "half a bank": lambda folder: _cut_short(folder, "bank/vectors.safetensors"),
    "no bank": lambda folder: (folder / "bank" / "bank.json").unlink(),
    "no description": lambda folder: (folder / "policy.json").unlink(),
    "not JSON": lambda folder: _cut_short(folder, "policy.json"),
    "not an object": lambda folder: _write(folder, "[1]"),
    "nothing said": lambda folder: _write(folder, "{}"),
}


def _write(folder: Path, content: str) -> None:
    (folder / "policy.json").write_text(content)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused(fitted: ExpWeaver, tmp_path: Path, damage: str) -> None:
    fitted.save(tmp_path)
    DAMAGE[damage](tmp_path)
    with pytest.raises(DataError):
        method().load(tmp_path)


def test_a_checkpoint_of_another_backbone_or_rank_is_refused(
    fitted: ExpWeaver, tmp_path: Path
) -> None:
    fitted.save(tmp_path)
    model = tiny()
    model.fingerprint = "another"
    with pytest.raises(DataError, match="backbone"):
        method(model).load(tmp_path)
    with pytest.raises(DataError, match="lora_rank"):
        method(lora_rank=2).load(tmp_path)


def test_a_trace_has_a_line_for_every_generated_token(fitted: ExpWeaver, tmp_path: Path) -> None:
    traced = other(fitted, tmp_path, trace=True)
    plain, outputs = fitted.answer(TESTED), traced.answer(TESTED)
    assert [replace(output, trace=()) for output in outputs] == plain
    known = {entry.id for entry in traced.weaver.bank.entries}
    for output in outputs:
        head, *lines = output.trace
        assert head["kind"] == "bank" and set(head["entries"]) <= known
        assert len(lines) == output.tokens("generated") > 0
        for line in lines:
            assert set(line["ids"]) <= set(head["entries"]) and len(set(line["ids"])) == 4
            assert sum(line["weights"]) == pytest.approx(1, abs=1e-5)
            assert 0 < line["gate"] < 1
    ranked = traced.answer([RANKED[0].question()])[0]
    assert len(ranked.trace) == 2
    json.dumps([output.trace for output in [*outputs, ranked]])


def test_a_killed_training_goes_on_where_it_was(tmp_path: Path) -> None:
    def folder(name: str) -> Workbench:
        (tmp_path / name).mkdir(exist_ok=True)
        return Workbench(folder=tmp_path / name)

    whole = method(steps=4)
    whole.workbench = folder("whole")
    whole.fit(TEXTS, POOL, even)
    calls = 0

    def failing(sample: Sample, output: Output) -> float:
        nonlocal calls
        calls += 1
        if calls > 20:  # a step has 8 rollouts
            raise KeyboardInterrupt
        return even(sample, output)

    cut = method(steps=4)
    cut.workbench = folder("cut")
    with pytest.raises(KeyboardInterrupt):
        cut.fit(TEXTS, POOL, failing)
    again, asked = method(steps=4), 0

    def counted(sample: Sample, output: Output) -> float:
        nonlocal asked
        asked += 1
        return even(sample, output)

    again.workbench = folder("cut")
    again.fit(TEXTS, POOL, counted)
    assert asked == 16
    log = [json.loads(line) for line in (tmp_path / "cut" / "train.jsonl").open()]
    assert [row["step"] for row in log] == [1, 2, 3, 4]
    assert [e.id for e in again.weaver.bank.entries] == [e.id for e in whole.weaver.bank.entries]
    torch.testing.assert_close(
        again.weaver.bank.vectors_ND, whole.weaver.bank.vectors_ND, rtol=1e-3, atol=1e-3
    )
    for mine, theirs in zip(again.weaver.groups(), whole.weaver.groups(), strict=True):
        for p, q in zip(mine.parameters, theirs.parameters, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ConfigError, match="heads is 5; it must divide"):
        method(heads=5)
    with pytest.raises(ConfigError, match="fake"):
        ExpWeaver(ExpWeaverConfig(), load_model("fake"), 0)


def test_a_training_killed_while_ranking_keeps_what_the_texts_taught(tmp_path: Path) -> None:
    samples = [*TEXTS, *RANKED]
    pool = [*POOL, *(attempt(sample, i) for i, sample in enumerate(RANKED))]
    ranked = 0

    def failing(sample: Sample, output: Output) -> float:
        nonlocal ranked
        ranked += output.ranking is not None
        if ranked > 12:  # a step has 8 orders
            raise KeyboardInterrupt
        return even(sample, output)

    def texts_are_done(sample: Sample, output: Output) -> float:
        assert output.ranking is not None
        return even(sample, output)

    made = {name: method(steps=2) for name in ("whole", "cut", "again")}
    for name, one in made.items():
        folder = tmp_path / ("whole" if name == "whole" else "cut")
        folder.mkdir(exist_ok=True)
        one.workbench = Workbench(folder=folder)
    made["whole"].fit(samples, pool, even)
    with pytest.raises(KeyboardInterrupt):
        made["cut"].fit(samples, pool, failing)
    made["again"].fit(samples, pool, texts_are_done)
    mine, theirs = made["again"].weaver, made["whole"].weaver
    assert [e.id for e in mine.bank.entries] == [e.id for e in theirs.bank.entries]
    for own, other_own in zip(mine.groups(), theirs.groups(), strict=True):
        for p, q in zip(own.parameters, other_own.parameters, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_a_trace_of_retrieval_once_shows_the_same_entries_for_every_token() -> None:
    made = method(steps=0, frequency="once", trace=True)
    made.fit(TEXTS, POOL, even)
    found = [[line["ids"] for line in output.trace[1:]] for output in made.answer(TESTED)]
    assert all(len(lines) > 1 and all(ids == lines[0] for ids in lines) for lines in found)
    every = method(steps=0, trace=True)
    every.fit(TEXTS, POOL, even)
    assert any(
        line["ids"] != output.trace[1]["ids"]
        for output in every.answer(TESTED)
        for line in output.trace[1:]
    )
