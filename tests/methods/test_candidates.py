import math
from typing import Any

import pytest
import torch

from expbench.core import Question
from expbench.experience.bank import Bank, entry_of
from expbench.models import load_model
from expbench.models.hf import HFModel
from expbench.registry import select_tasks
from expbench.suites import load
from expbench_methods.expweaver.candidates import CandidateScorer
from expbench_methods.expweaver.config import FusionSettings
from expbench_methods.expweaver.fusion import Fusion
from expbench_methods.expweaver.install import bypassed, install

DATA = load(select_tasks("movielens")[0], suite="mini", train_limit=4, test_limit=3)
QUESTIONS = [sample.question() for sample in DATA.test]


def backbone() -> HFModel:
    model: Any = load_model("tiny")
    fork: HFModel = model.fork(share_weights=False)
    return fork


def calibrated(model: HFModel) -> CandidateScorer:
    scorer = CandidateScorer(model)
    scorer.calibrate(DATA.train)
    return scorer


def shorter(question: Question, count: int) -> Question:
    from dataclasses import replace

    return replace(question, candidates=question.candidates[:count])


def test_a_score_is_the_cosine_of_centred_states_over_the_temperature() -> None:
    model = backbone()
    scorer = calibrated(model)
    question = QUESTIONS[0]
    ids = torch.tensor([scorer.prompt(question)])
    with torch.no_grad():
        state = model.module.get_decoder()(input_ids=ids).last_hidden_state[0, -1]
        scores = scorer.scores([question])[0]
    title = torch.from_numpy(model.encode([f"- {question.candidates[3]}"]))[0]
    wanted = torch.cosine_similarity(
        state - scorer.query_centre_D, title - scorer.title_centre_D, dim=0
    )
    assert float(scores[3]) == pytest.approx(float(wanted) / 0.1, abs=1e-3)


def test_scores_and_ranks_do_not_depend_on_the_neighbours_and_short_lists_are_padded() -> None:
    scorer = calibrated(backbone())
    asked = [QUESTIONS[0], shorter(QUESTIONS[1], 7), QUESTIONS[2]]
    scores = scorer.scores(asked)
    assert scores.shape == (3, 20)
    assert scores.dtype == torch.float32
    assert torch.isneginf(scores[1, 7:]).all()
    for question, row, order in zip(asked, scores, scorer.rank(asked), strict=True):
        alone = scorer.scores([question])[0]
        torch.testing.assert_close(row[: len(alone)], alone, rtol=1e-4, atol=1e-4)
        assert sorted(order) == list(range(len(question.candidates)))


def test_gradients_reach_backbone_and_temperature_but_not_the_titles() -> None:
    model = backbone()
    scorer = calibrated(model)
    scorer.scores(QUESTIONS[:1]).square().sum().backward()  # type: ignore[no-untyped-call]
    assert scorer.log_temperature.grad is not None
    assert any(p.grad is not None and p.grad.any() for p in model.module.parameters())
    assert not scorer.embed(QUESTIONS[0].candidates).requires_grad
    assert [name for name, _ in scorer.named_parameters()] == ["log_temperature"]


def test_titles_follow_the_encoder_only_after_a_refresh() -> None:
    model = backbone()
    scorer = calibrated(model)
    before = scorer.embed(["Heat"]).clone()
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.1).add_(0.01)
    assert torch.equal(scorer.embed(["Heat"]), before)
    scorer.refresh()
    assert not torch.allclose(scorer.embed(["Heat"]), before)


def test_the_bank_moves_the_question_and_leaves_the_titles_alone() -> None:
    model = backbone()
    width = int(model.module.config.hidden_size)
    fusion = Fusion(width, FusionSettings(heads=1, gate_low=0.1, gate_high=0.5), seed=0)
    install(model.module, fusion)
    scorer = calibrated(model)
    plain, titles = scorer.scores(QUESTIONS).detach(), scorer.embed(["Heat", "Up"]).clone()
    bank = Bank(width=width, capacity=8, encoder=model.fingerprint)
    entries = [
        entry_of(s, n=n, step=0, reward=1.0, summary="", encoder=model.fingerprint)
        for n, s in enumerate(DATA.train)
    ]
    bank.add(entries, torch.randn(4, width, generator=torch.Generator().manual_seed(0)))
    fusion.memory = bank.memory()
    scorer.refresh()
    fused = scorer.scores(QUESTIONS)
    assert not torch.allclose(fused, plain, atol=1e-3)
    torch.testing.assert_close(scorer.embed(["Heat", "Up"]), titles)
    fused.square().sum().backward()  # type: ignore[no-untyped-call]
    assert fusion.w_v.weight.grad is not None
    with bypassed(model.module):
        torch.testing.assert_close(scorer.scores(QUESTIONS).detach(), plain)


def test_what_is_saved_restores_the_scores() -> None:
    model = backbone()
    scorer, again = calibrated(model), CandidateScorer(model)
    with torch.no_grad():
        scorer.log_temperature.fill_(math.log(0.3))
    saved = {name: p.detach().clone() for name, p in scorer.state_module().named_parameters()}
    for name, parameter in again.state_module().named_parameters():
        parameter.data.copy_(saved[name])
    again.refresh()
    torch.testing.assert_close(again.scores(QUESTIONS), scorer.scores(QUESTIONS))
