"""The fusion computes its equations, everybody sees h', and what is closed changes nothing."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from expbench.models.decoding import Request
from expbench.models.generation import ForwardSession
from expbench_methods.expweaver.fusion import Fusion
from expbench_methods.expweaver.install import anchored, bypassed, fused_norm
from tests.methods.fused import FAMILIES, WIDTH, bank, decoder, fused, fusion, hf_model, token_ids

AGGREGATIONS = ("cross_attention", "mean", "max", "top1")
QUERIES = ("token+state", "token")


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def read(part: Fusion, z_ND: Tensor, query_D: Tensor, found: list[int]) -> Tensor:
    """Compute e of one token in float64, a head and an entry at a time."""
    w_q, w_k, w_v, w_o, u = (
        p.detach().double()
        for p in (part.w_q.weight, part.w_k.weight, part.w_v.weight, part.w_o.weight, part.token)
    )
    values = [w_v @ z_ND[j] for j in found]
    how = part.settings.aggregation
    if how == "top1":
        return w_o @ values[0]
    if how == "mean":
        return w_o @ (sum(values[1:], values[0]) / len(values))
    if how == "max":
        return w_o @ torch.stack(values).max(0).values
    q = w_q @ (u + query_D if part.settings.query == "token+state" else u)
    keys = [w_k @ z_ND[j] for j in found]
    wide = part.width // part.settings.heads
    mixed = torch.zeros(part.width, dtype=torch.float64)
    for head in range(part.settings.heads):
        own = slice(head * wide, (head + 1) * wide)
        powers = [math.exp(float(q[own] @ key[own]) / math.sqrt(wide)) for key in keys]
        for power, value in zip(powers, values, strict=True):
            mixed[own] += power / sum(powers) * value[own]
    return w_o @ mixed


def reference(part: Fusion, vectors_ND: Tensor, h_TD: Tensor, *, normalise: str) -> Tensor:
    """Fuse one token after the other, in float64, by the README's equations."""
    vectors_ND, h_TD = vectors_ND.double(), h_TD.double()
    mean_D, scale = torch.zeros(part.width, dtype=torch.float64), 1.0
    if normalise != "none":
        mean_D = vectors_ND.mean(0)
    if normalise == "standardise":
        scale = float((vectors_ND - mean_D).square().mean().sqrt()) or 1.0
    z_ND = (vectors_ND - mean_D) / scale
    out = []
    for h in h_TD:
        query = (h - mean_D) / scale
        lengths = [float(z.norm() * query.norm()) or 1.0 for z in z_ND]
        scores = [float(z @ query) / n for z, n in zip(z_ND, lengths, strict=True)]
        found = sorted(range(len(scores)), key=lambda j: (-scores[j], j))[: part.settings.k]
        e = read(part, z_ND, query, found)
        if part.settings.norm_alignment:
            e = e * h.norm() / max(float(e.norm()), 1e-6)
        r = sigmoid(part.retain.weight.double() @ h + part.retain.bias.double())
        i = sigmoid(part.admit.weight.double() @ h + part.admit.bias.double())
        a = torch.exp(-8 * torch.log1p(torch.exp(-part.decay.double())) * r)
        out.append(a * h + torch.sqrt(1 - a**2) * (i * e))
    return torch.stack(out).detach()


def states(count: int, width: int, seed: int = 9) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(("aggregation", "query"), list(product(AGGREGATIONS, QUERIES)))
def test_it_computes_the_equations(aggregation: str, query: str, is_training: bool) -> None:
    for count, k, normalise, aligned in (
        (20, 5, "standardise", True), (20, 1, "centre", True), (3, 8, "standardise", False),
        (1, 4, "none", True), (1, 4, "standardise", True), (20, 5, "none", False),
    ):  # fmt: skip
        held = bank(count, width=16, normalise=normalise)  # type: ignore[arg-type]
        part = fusion(
            held.memory(), width=16, heads=4, k=k, aggregation=aggregation, query=query,
            norm_alignment=aligned,
        )  # fmt: skip
        with torch.no_grad():
            part.admit.bias.copy_(torch.linspace(-1, 1, 16))
        h_TD = states(7, 16)
        with torch.set_grad_enabled(is_training):
            found_TD = part(h_TD)
        wanted_TD = reference(part, held.vectors_ND, h_TD, normalise=normalise)
        assert float((found_TD.detach() - wanted_TD).abs().max()) < 1e-6, (count, k, normalise)


def test_a_state_is_fused_alike_in_any_company() -> None:
    part = fusion(bank(12).memory())
    h_BTD = states(12, WIDTH).view(3, 4, WIDTH)
    with torch.no_grad():
        together, alone = part(h_BTD), torch.stack([part(h) for h in h_BTD.view(12, 1, WIDTH)])
    torch.testing.assert_close(together.view(12, WIDTH), alone.view(12, WIDTH))


CLOSED: dict[str, dict[str, Any]] = {
    "empty bank": {"count": 0}, "no bank": {"no_bank": True}, "closed gate": {"is_closed": True},
    "never": {"frequency": "never"}, "bypassed": {"is_bypassed": True},
}  # fmt: skip


@pytest.mark.parametrize("case", CLOSED)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_reads_nothing_leaves_the_logits_exactly_as_they_were(family: str, case: str) -> None:
    options = dict(CLOSED[case])
    no_bank, is_closed, is_bypassed = (
        options.pop(name, False) for name in ("no_bank", "is_closed", "is_bypassed")
    )
    module, part = fused(family, **options)
    part.is_open = not is_closed
    if no_bank:
        part.memory = None
    ids = token_ids(2, 9)
    with torch.no_grad():
        wanted = decoder(family)(ids).logits
        if is_bypassed:
            assert not torch.equal(module(ids).logits, wanted)
            with bypassed(module), bypassed(module):
                found = module(ids).logits
        else:
            found = module(ids).logits
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_consumer_sees_the_fused_state(family: str) -> None:
    module, part = fused(family)
    ids = token_ids(1, 9)
    with torch.no_grad():
        h_BTD = decoder(family).get_decoder()(ids).last_hidden_state
        wanted = part(h_BTD) @ module.lm_head.weight.T
        trl = module.get_decoder()(input_ids=ids).last_hidden_state @ module.lm_head.weight.T
        torch.testing.assert_close(module(ids).logits, wanted, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(trl, wanted, rtol=1e-5, atol=1e-5)
    steps = 12
    by_hand = ids
    with torch.no_grad():
        for _ in range(steps):
            h_BTD = decoder(family).get_decoder()(by_hand).last_hidden_state[:, -1:]
            best = (part(h_BTD) @ module.lm_head.weight.T).argmax(-1)
            by_hand = torch.cat([by_hand, best], dim=1)
    options: Any = {"max_new_tokens": steps, "do_sample": False, "eos_token_id": None}
    assert torch.equal(module.generate(ids, **options), by_hand)
    plain = decoder(family).generate(ids, **options)
    assert not torch.equal(plain, by_hand), "the fusion changes no token: the test sees nothing"
    model = hf_model(module)
    model.eos_ids = frozenset()
    made = model.generate_ids([Request(ids=ids[0].tolist(), max_tokens=steps)])[0].ids
    assert made == by_hand[0, 9:].tolist()


def stepwise(module: Any, prompts: list[list[int]], answers: list[list[int]]) -> list[list[float]]:
    """Return log-probs of answers from a cached session; rows leave as their answers end."""
    session = ForwardSession(module, pad_id=0)
    live = list(range(len(prompts)))
    found: list[list[float]] = [[] for _ in prompts]
    logits_BV = session.prefill(prompts)
    for step in range(max(map(len, answers))):
        for row, logits_V in zip(live, logits_BV, strict=True):
            found[row].append(float(logits_V.log_softmax(-1)[answers[row][step]]))
        kept = [i for i, row in enumerate(live) if len(answers[row]) > step + 1]
        if not kept:
            break
        if len(kept) < len(live):
            live = [live[i] for i in session.keep(kept)]
        logits_BV = session.step([answers[row][step] for row in live])
    return found


def scored(module: Any, prompts: list[list[int]], answers: list[list[int]]) -> list[list[float]]:
    """Return log-probs of answers from one pass over left-padded prompts, as TRL scores."""
    width, most = max(map(len, prompts)), max(map(len, answers))
    rows, mask = [], []
    for prompt, answer in zip(prompts, answers, strict=True):
        left, right = width - len(prompt), most - len(answer)
        rows.append([0] * left + prompt + answer + [0] * right)
        mask.append([0] * left + [1] * (len(prompt) + len(answer)) + [0] * right)
    mask_BT = torch.tensor(mask)
    places_BT = (mask_BT.cumsum(1) - 1).clamp(min=0)
    with anchored(module, width - 1):
        logits_BTV = module(
            input_ids=torch.tensor(rows), attention_mask=mask_BT, position_ids=places_BT
        ).logits
    table = logits_BTV.log_softmax(-1)[:, width - 1 :]
    return [
        [float(table[b, t, token]) for t, token in enumerate(answer)]
        for b, answer in enumerate(answers)
    ]


@pytest.mark.parametrize("frequency", ["every", "once"])
@pytest.mark.parametrize("family", FAMILIES)
def test_stepwise_log_probs_are_those_of_the_full_sequence(family: str, frequency: str) -> None:
    module, _ = fused(family, frequency=frequency)
    draw = token_ids(5, 40, seed=2).tolist()
    prompts = [row[: 3 + 5 * i] for i, row in enumerate(draw)]
    answers = [row[25 : 25 + n] for row, n in zip(draw, (9, 1, 6, 12, 4), strict=True)]
    with torch.no_grad():
        for _ in range(2):  # a second batch must not read what the first one found
            found = stepwise(module, prompts, answers)
            wanted = scored(module, prompts, answers)
            gaps = [
                abs(a - b)
                for mine, theirs in zip(found, wanted, strict=True)
                for a, b in zip(mine, theirs, strict=True)
            ]
            assert len(gaps) == sum(map(len, answers)) and max(gaps) < 1e-4
            prompts = prompts[::-1]
        with bypassed(module):
            plain = scored(module, prompts, answers)
    assert any(abs(a - b) > 1e-2 for a, b in zip(plain[3], wanted[3], strict=True))


def test_retrieval_once_reads_what_the_prompt_found_for_the_whole_answer() -> None:
    module, part = fused("llama", frequency="once")
    norm = fused_norm(module)
    h_BTD = states(14, WIDTH).view(2, 7, WIDTH)
    with torch.no_grad(), anchored(module, 3):
        found_BTD = norm(h_BTD)
        h_BTD = norm.norm(h_BTD)
        prompt_BK = part.retrieve(h_BTD[:, 3])
        for t in range(7):
            wanted_BD = h_BTD[:, t] if t < 3 else part(h_BTD[:, t], prompt_BK)
            torch.testing.assert_close(found_BTD[:, t], wanted_BD)
        assert not torch.equal(part.retrieve(h_BTD[:, 5]), prompt_BK)


def test_retrieval_once_starts_anew_with_every_batch_of_one_token_prompts() -> None:
    module, _ = fused("llama", frequency="once")
    answers = token_ids(3, 4, seed=6).tolist()
    with torch.no_grad():
        for seed in (7, 8, 9):
            prompts = token_ids(3, 1, seed=seed).tolist()
            found = torch.tensor(stepwise(module, prompts, answers))
            wanted = torch.tensor(scored(module, prompts, answers))
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("frequency", ["every", "once"])
def test_scoring_fuses_the_answer_alone(frequency: str) -> None:
    module, part = fused("llama", frequency=frequency)
    ids = token_ids(2, 9)
    with torch.no_grad():
        with bypassed(module):
            plain_BTV = module(ids).logits
        with anchored(module, 4):
            found_BTV = module(ids).logits
        if frequency == "every":
            torch.testing.assert_close(found_BTV[:, 4:], module(ids).logits[:, 4:])
    assert torch.equal(found_BTV[:, :4], plain_BTV[:, :4])
    assert float((found_BTV[:, 4:] - plain_BTV[:, 4:]).abs().amax(-1).min()) > 1e-2
    assert fused_norm(module).anchor is None and part.is_active


@pytest.mark.parametrize("query", QUERIES)
def test_every_parameter_learns_and_the_bank_does_not(query: str) -> None:
    module, part = fused("llama", query=query)
    assert part.memory is not None
    module.requires_grad_(False)
    part.requires_grad_(True)
    before = part.memory.z_ND.clone()
    part.memory.z_ND.requires_grad_(True)
    ids = token_ids(2, 9)
    logits = module(ids).logits
    functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()  # type: ignore[no-untyped-call]
    for name, parameter in part.named_parameters():
        assert parameter.grad is not None and float(parameter.grad.abs().sum()) > 0, name
    assert sum(map(len, part.groups().values())) == len(list(part.parameters()))
    assert part.memory.z_ND.grad is None and torch.equal(part.memory.z_ND, before)


def test_new_weights_and_new_banks_are_seen_without_gradients() -> None:
    part, h_TD = fusion(bank(12).memory()), states(3, WIDTH)
    with torch.no_grad():
        first = part(h_TD)
        part.w_v.weight.mul_(-1)
        second = part(h_TD)
        part.memory = bank(12, seed=1).memory()
        third = part(h_TD)
    with torch.enable_grad():
        torch.testing.assert_close(part(h_TD), third)
    assert not torch.allclose(first, second) and not torch.allclose(second, third)


@pytest.mark.parametrize(("low", "high"), [(0.9, 0.99), (0.1, 0.5), (0.7, 0.7)])
def test_the_retained_share_starts_in_its_range(low: float, high: float) -> None:
    part = fusion(None, width=512, gate_low=low, gate_high=high)
    keep_D = torch.exp(-8 * functional.softplus(-part.decay.detach()) * 0.5)
    assert float(keep_D.min()) >= low - 1e-6 and float(keep_D.max()) <= high + 1e-6
    assert float(keep_D.std()) >= 0.9 * (high - low) / math.sqrt(12)
    keep_TD = part._gates(states(20, 512))[0].detach()
    assert float((keep_TD - keep_D).abs().mean()) < 0.02


def test_the_backbone_may_be_bfloat16() -> None:
    module, part = fused("llama", dtype=torch.bfloat16)
    assert {p.dtype for p in part.parameters()} == {torch.float32}
    ids = token_ids(2, 9)
    with torch.no_grad():
        logits = module(ids).logits
        h_BTD = decoder("llama", torch.bfloat16).get_decoder()(ids).last_hidden_state
        assert logits.dtype == torch.bfloat16
        wanted = part(h_BTD.float()).bfloat16()
        assert torch.equal(module.get_decoder()(ids).last_hidden_state, wanted)
    module(ids).logits.float().sum().backward()
    assert part.decay.grad is not None and bool(torch.isfinite(part.decay.grad).all())


def test_a_bank_with_room_for_one_is_read() -> None:
    held = bank(5, capacity=1)
    assert [entry.id for entry in held.entries] == ["0004"]
    part, h_TD = fusion(held.memory()), states(4, WIDTH)
    with torch.no_grad():
        said = part.explain(h_TD)
        assert said.positions_TK.tolist() == [[0]] * 4 and said.weights_TK.tolist() == [[1.0]] * 4
        wanted = reference(part, held.vectors_ND, h_TD, normalise="standardise")
        assert float((part(h_TD) - wanted).abs().max()) < 1e-5


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_what_is_explained_is_what_is_computed(aggregation: str) -> None:
    part, h_TD = fusion(bank(12).memory(), aggregation=aggregation), states(6, WIDTH)
    with torch.no_grad():
        said = part.explain(h_TD)
        torch.testing.assert_close(said.weights_TK.sum(1), torch.ones(6))
        assert torch.equal(said.positions_TK, part.retrieve(h_TD))
        assert bool(((said.gate_T > 0) & (said.gate_T < 1)).all())
        torch.testing.assert_close(part(h_TD, said.positions_TK), part(h_TD))
