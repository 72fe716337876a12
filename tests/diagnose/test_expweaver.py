"""ExpWeaver on key-value worlds: it learns to read its bank, and only its bank."""

import time
from collections.abc import Mapping

import pytest
import torch

from expbench.config import build_config
from expbench.diagnose import latent
from expbench.diagnose.driving import diagnose
from expbench.diagnose.findings import Diagnosis
from expbench.diagnose.latent import SETTINGS, Mode
from expbench.diagnose.toy import build_toy
from expbench.diagnose.worlds import make_world, stream
from expbench.registry import get_method

CPU_SECONDS: Mapping[Mode, float] = {"supervised": 30.0, "grpo": 60.0}
"""Bounds on learning and answering with one thread."""
LATER_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2)]


class Silent:
    def stage(self, label: str, total: int) -> None:
        pass

    def advance(self, count: int) -> None:
        pass


def examine(seed: int, settings: Mapping[str, str], mode: Mode = "supervised") -> Diagnosis:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return diagnose(
            get_method("expweaver"),
            settings=settings,
            seeds=(seed,),
            mode=mode,
            model=None,
            progress=Silent(),
        )
    finally:
        torch.set_num_threads(threads)


def accuracy(found: Diagnosis) -> float:
    return found.rates["none"].value


@pytest.mark.parametrize("seed", [0, *LATER_SEEDS])
@pytest.mark.parametrize("mode", ["supervised", "grpo"])
def test_it_learns_to_read_its_bank_and_falls_to_chance_without_it(mode: Mode, seed: int) -> None:
    start = time.process_time()
    found = examine(seed, {}, mode)
    spent = time.process_time() - start
    assert accuracy(found) > 0.9
    for control in ("empty", "shuffled", "random", "closed_gate"):
        assert found.rates[control].value <= 0.2, control
    assert found.hit is not None
    assert found.hit.value > 0.9
    assert all(finding.good for finding in found.findings)
    assert spent < CPU_SECONDS[mode]


def test_before_training_it_knows_nothing() -> None:
    assert accuracy(examine(0, {"steps": "0"})) <= 0.2


@pytest.mark.parametrize("seed", [0, *LATER_SEEDS])
@pytest.mark.parametrize(
    ("setting", "value"), [("aggregation", "mean"), ("aggregation", "max"), ("query", "token")]
)
def test_pooling_and_an_unconditioned_query_do_not_do(
    setting: str, value: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latent, "WORLDS", 8)
    found = examine(seed, {setting: value})
    assert accuracy(found) < 0.7
    assert found.hit is not None
    assert found.hit.value > 0.9
    assert any(f.text.startswith("Finds it and does not use it") for f in found.findings)


def test_training_leaves_the_toy_backbone_as_it_was() -> None:
    info = get_method("expweaver")
    settings = {**SETTINGS, "steps": "2"}
    toy = build_toy(0)
    before = {name: tensor.clone() for name, tensor in toy.module.state_dict().items()}
    method = info.cls(build_config(info.cls.Config, settings, method="expweaver"), toy, 0)
    fusion = [parameter.detach().clone() for parameter in method.weaver.fusion.parameters()]
    method.learn_worlds(stream(seed=0), mode="supervised", advance=lambda count: None)
    after = toy.module.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    moved = zip(method.weaver.fusion.parameters(), fusion, strict=True)
    assert all(not torch.equal(now, then) for now, then in moved)


def test_the_same_seed_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent, "WORLDS", 2)
    first, second = (examine(0, {"steps": "3"}).readings[0] for _ in range(2))
    assert first.marks == second.marks
    assert first.gates == second.gates


def test_answering_a_world_replaces_the_bank_and_keeps_the_settings() -> None:
    info = get_method("expweaver")
    config = build_config(info.cls.Config, SETTINGS, method="expweaver")
    method = info.cls(config, build_toy(0), 0)
    one, two = make_world(0, seed=0), make_world(1, seed=0)
    for world in (one, two):
        method.answer_world(world.experience, world.questions, control="none")
        held = {entry.sample_id for entry in method.weaver.bank.entries}
        assert held == set(world.sources.values())
    method.answer_world((), two.questions, control="closed_gate")
    assert len(method.weaver.bank) == 0
    assert method.weaver.config == config
    assert method.weaver.fusion.is_open
