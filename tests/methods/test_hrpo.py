"""HRPO's mixing, decoding and scoring on small random decoders of several families."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from expbench.errors import ConfigError, PluginError
from expbench.models.generation import ForwardSession, decode
from expbench.models.llama import LlamaSession, is_plain_llama
from expbench.models.tiny import build_tokenizer
from expbench_methods.hrpo.config import HRPOConfig
from expbench_methods.hrpo.embedding import install
from expbench_methods.hrpo.gates import Gates, expected
from expbench_methods.hrpo.policy import HybridModel
from expbench_methods.hrpo.session import HybridSession
from expbench_methods.hrpo.thinking import Thinking, thinking_tokens
from tests.methods.fused import decoder, hf_model
from tests.methods.hybrid import Drawn, Watched, hybrid, log_probs, padded, requests


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def one_mixture(gates: Gates, e: list[float], h: list[float]) -> list[float]:
    """Mix one token, number by number, in Python's float64."""
    mixed = []
    for d, own in enumerate(e):
        dots = [
            sum(w * x for w, x in zip(gate.weight[d].tolist(), e, strict=True))
            + float(gate.bias.detach()[d])
            for gate in (gates.retain, gates.admit)
        ]
        r, i = (1 / (1 + math.exp(-dot)) for dot in dots)
        a = math.exp(-8 * math.log1p(math.exp(-float(gates.decay.detach()[d]))) * r)
        mixed.append(a * own + math.sqrt(1 - a * a) * i * h[d])
    return mixed


def one_latent(logits: list[float], weight: list[list[float]], temperature: float) -> list[float]:
    top = max(logits)
    mass = [math.exp((x - top) / temperature) for x in logits]
    p = [m / sum(mass) for m in mass]
    root = math.sqrt(sum(x * x for x in p))
    return [
        sum(x * row[d] for x, row in zip(p, weight, strict=True)) / root
        for d in range(len(weight[0]))
    ]


def test_mixing_is_what_the_equations_say_token_by_token() -> None:
    gates = Gates(6, r_min=0.1, r_max=0.9, seed=4)
    with torch.no_grad():
        for parameter in (*gates.retain.parameters(), *gates.admit.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=parameter.numel()))
    logits, weight, e = 3 * draw(5, 40, seed=1), draw(40, 6, seed=2), draw(5, 6, seed=3)
    latents = expected(logits, weight, temperature=0.7)
    found = gates(e, latents)
    for n in range(5):
        h = one_latent(logits[n].tolist(), weight.tolist(), 0.7)
        assert latents[n].tolist() == pytest.approx(h, rel=1e-5, abs=1e-6)
        assert found[n].tolist() == pytest.approx(
            one_mixture(gates, e[n].tolist(), h), rel=1e-5, abs=1e-6
        )


def test_a_certain_token_expects_its_own_embedding() -> None:
    logits, weight = torch.zeros(1, 9), draw(9, 4)
    logits[0, 5] = 200
    torch.testing.assert_close(expected(logits, weight, temperature=1.0)[0], weight[5])


def test_lambda_starts_evenly_in_its_range() -> None:
    retained = Gates(4000, r_min=0.99, r_max=0.999, seed=0).retained().detach()
    assert 0.99 - 1e-6 < float(retained.min()) < 0.9901
    assert 0.9989 < float(retained.max()) < 0.999 + 1e-6
    quarters = torch.histc(retained, bins=4, min=0.99, max=0.999) / 4000
    assert float((quarters - 0.25).abs().max()) < 0.03


def test_shut_gates_leave_the_embedding_and_finite_gradients() -> None:
    gates, e = Gates(4, r_min=0.5, r_max=0.5, seed=0), draw(3, 4)
    with torch.no_grad():
        gates.decay.fill_(200.0)
    mixed = gates(e, draw(3, 4, seed=1))
    assert torch.equal(mixed, e)
    mixed.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in gates.parameters() if p.grad is not None)


TOKENIZER = build_tokenizer()


def ids_of(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("It is 7. Answer: B", "It is 7. Answer"),
        (r"So \boxed{7}", r"So \boxe"),
        ("Hm.\n```python\nx", "Hm.\n``"),
        ("é Answer:", "é Answer"),
        ("answer: 7, `x`", "answer: 7, `x`"),
        ("", ""),
        ("Answer: 1 ``` Answer: 2", "Answer"),
    ],
)
def test_thinking_ends_with_the_token_that_completes_a_marker(text: str, thought: str) -> None:
    found = thinking_tokens(ids_of(text), TOKENIZER, HRPOConfig().markers)
    assert found == len(ids_of(thought))
    assert thinking_tokens(ids_of(text), TOKENIZER, ()) == len(ids_of(text))


def test_thinking_never_comes_back() -> None:
    thinking = Thinking(TOKENIZER, ("b",))
    assert [thinking.push(token) for token in ids_of("abcab")] == [True, *[False] * 4]


FAMILIES = ["llama", "qwen2", "qwen3", "gemma3"]


def played(model: HybridModel, *, temperature: float, count: int = 10, most: int = 12) -> Any:
    """Return requests, completions, and what each was drawn from."""
    asked = sorted(requests(count, most=most), key=lambda r: -len(r.ids))
    drawn: list[Drawn] = []
    with torch.no_grad():
        done = decode(
            Watched(model.session(most), drawn), asked, tokenizer=model.tokenizer,
            eos_ids=model.eos_ids, temperature=temperature, seed=5,
        )  # fmt: skip
    return asked, done, [row.logits for row in drawn]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_scoring_gives_the_log_probs_of_generation(family: str, temperature: float) -> None:
    model = hybrid(family, temperature=temperature or 1.0)
    with model.learning() as hooks:
        asked, done, logits = played(model, temperature=temperature)
        prompts, replies = [r.ids for r in asked], [c.ids for c in done]
        ends = {thinking_tokens(ids, TOKENIZER, model.config.markers) for ids in replies}
        assert len(ends) > 2 and len({len(ids) for ids in replies}) > 2
        ids_BT, mask_BT = padded(prompts, replies)
        order = torch.randperm(len(ids_BT), generator=torch.Generator().manual_seed(0))
        ids_BT, mask_BT = ids_BT[order], mask_BT[order]
        kept = max(map(len, replies))
        with torch.no_grad(), hooks.scoring(ids_BT, mask_BT, kept):
            # In parts, as a trainer scores a batch that is too large.
            parts = [
                model.module(input_ids=ids, attention_mask=mask).logits
                for ids, mask in zip(torch.split(ids_BT, 4), torch.split(mask_BT, 4), strict=True)
            ]
        with torch.no_grad():
            plain = model.module(input_ids=ids_BT, attention_mask=mask_BT).logits
    scored, first = torch.cat(parts), max(map(len, prompts)) - 1
    seen = 0.0
    for place, b in enumerate(order.tolist()):
        wanted = log_probs(logits[b], replies[b], model.config.temperature)
        rows = range(first, first + len(replies[b]))
        found = log_probs(list(scored[place, rows]), replies[b], model.config.temperature)
        assert found == pytest.approx(wanted, abs=1e-4)
        bare = log_probs(list(plain[place, rows]), replies[b], model.config.temperature)
        seen = max(seen, *(abs(x - y) for x, y in zip(bare, wanted, strict=True)))
        # Nothing is mixed before the first token is drawn.
        assert bare[0] == pytest.approx(wanted[0], abs=1e-4)
    assert seen > 0.1, "mixing does nothing: the test sees nothing"


def test_what_each_row_reads_is_the_mixture_of_a_plain_loop() -> None:
    """Decode row by row without a cache, from embeddings mixed one by one."""
    model = hybrid("llama")
    asked, done, logits = played(model, temperature=0.0, count=4, most=8)
    weight = model.embedding.weight.tolist()
    for request, completion, drawn in zip(asked, done, logits, strict=True):
        inputs = model.embedding.embedding(torch.tensor(request.ids)).detach()
        for t, token in enumerate(completion.ids[:-1]):
            e = weight[token]
            if thinking_tokens(completion.ids[: t + 1], TOKENIZER, model.config.markers) == t + 1:
                e = one_mixture(model.embedding.gates, e, one_latent(drawn[t].tolist(), weight, 1))
            inputs = torch.cat((inputs, torch.tensor([e])))
            with torch.no_grad():
                wanted = model.module(inputs_embeds=inputs[None]).logits[0, -1]
            torch.testing.assert_close(drawn[t + 1], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_row_does_not_depend_on_its_batch(family: str, temperature: float) -> None:
    model = hybrid(family)
    asked = requests(20)
    together = model.generate_ids(asked, temperature=temperature, seed=1)
    alone = [model.generate_ids([r], temperature=temperature, seed=1)[0] for r in asked]
    assert together == alone


def test_every_position_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = hybrid("qwen2"), []
    forward = ForwardSession._forward

    def counted(self: ForwardSession, inputs: dict[str, Tensor], positions_BT: Tensor) -> Tensor:
        calls.append(positions_BT.shape)
        assert {value.shape[:2] for value in inputs.values()} == {positions_BT.shape}
        return forward(self, inputs, positions_BT)

    monkeypatch.setattr(ForwardSession, "_forward", counted)
    asked, done, _ = played(model, temperature=0.0)
    assert calls[0] == (len(asked), max(len(r.ids) for r in asked))
    assert all(columns == 1 for _, columns in calls[1:])
    # The last token of a reply is never read.
    assert sum(rows for rows, _ in calls[1:]) == sum(len(c.ids) - 1 for c in done)


def test_the_fast_session_reads_every_position_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = hybrid("llama"), 0
    assert is_plain_llama(model.module)
    project = LlamaSession._project

    def counted(self: LlamaSession, layer: Any, x_NE: Tensor, *rotation: Tensor) -> Any:
        nonlocal read
        read += len(x_NE)
        return project(self, layer, x_NE, *rotation)

    monkeypatch.setattr(LlamaSession, "_project", counted)
    asked, done, _ = played(model, temperature=0.0)
    tokens = sum(len(r.ids) for r in asked) + sum(len(c.ids) - 1 for c in done)
    assert read == tokens * len(model.module.model.layers)


def test_a_hook_on_the_embedding_sends_decoding_through_the_forward() -> None:
    model = hybrid("llama")
    assert is_plain_llama(model.module)
    handle = model.embedding.gates.register_forward_hook(lambda module, args, out: None)
    assert not is_plain_llama(model.module)
    handle.remove()
    assert is_plain_llama(model.module)
    model.embedding.embedding.register_forward_pre_hook(lambda module, args: None)
    assert not is_plain_llama(model.module)


def test_both_sessions_generate_alike() -> None:
    model = hybrid("llama")
    fast = model.generate_ids(requests(20), temperature=1.0, seed=1)
    model.module.model.layers[0].register_forward_hook(lambda module, args, out: None)
    assert not is_plain_llama(model.module)
    assert model.generate_ids(requests(20), temperature=1.0, seed=1) == fast


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_half_precision_is_mixed_in_float32_and_read_in_half(family: str) -> None:
    model = hybrid(hf_model(decoder(family, torch.bfloat16)))
    assert {p.dtype for p in model.embedding.gates.parameters()} == {torch.float32}
    with model.learning():
        asked, done, _ = played(model, temperature=1.0, count=4)
        assert model.latents is not None
        _, latents = model.latents.find(asked[0].ids + done[0].ids)
    assert latents is not None and latents.dtype == torch.float32
    rows, tokens = torch.tensor([0]), torch.tensor([9])
    mixed = model.embedding.mix(tokens, rows, latents[:1])
    assert mixed.dtype == torch.bfloat16 and not torch.equal(mixed, model.embedding(tokens))


def test_a_tied_head_stays_tied() -> None:
    module = decoder("llama")
    module.lm_head.weight = module.model.embed_tokens.weight
    wrapped = install(module, r_min=0.2, r_max=0.6, seed=0)
    assert module.get_input_embeddings() is wrapped
    assert module.lm_head.weight is wrapped.weight
    ids = torch.tensor([[7, 8, 9]])
    torch.testing.assert_close(wrapped(ids), module.lm_head.weight[ids])
    with pytest.raises(ConfigError, match="wrapped already"):
        install(module, r_min=0.2, r_max=0.6, seed=0)


def test_mixing_is_bypassed_where_asked_and_only_there() -> None:
    model = hybrid("llama")
    with model.learning() as hooks:
        asked, done, _ = played(model, temperature=0.0)
        ids, mask = padded([r.ids for r in asked], [c.ids for c in done])

        def logits() -> Tensor:
            with torch.no_grad():
                found: Tensor = model.module(input_ids=ids, attention_mask=mask).logits
            return found

        plain = logits()
        with hooks.scoring(ids, mask, 1):
            mixed = logits()
            with hooks.reference():
                assert torch.equal(logits(), plain)
            assert torch.equal(logits(), mixed)
        with hooks.reference(), hooks.scoring(ids, mask, 1):
            assert torch.equal(logits(), plain)
        assert torch.equal(logits(), plain) and not torch.allclose(mixed, plain, atol=1e-2)


def test_rollouts_that_nobody_made_or_of_another_window_are_refused() -> None:
    model = hybrid("llama")
    with model.learning() as hooks:
        asked, done, _ = played(model, temperature=0.0, count=2)
        ids, mask = padded([r.ids for r in asked], [c.ids for c in done])
        odd = ids.clone()
        odd[0, len(asked[0].ids)] += 1
        with pytest.raises(PluginError, match="did not make"), hooks.scoring(odd, mask, 1):
            pass
        assert model.latents is not None
        model.latents.clear()
        with pytest.raises(PluginError, match="did not make"), hooks.scoring(ids, mask, 1):
            pass
    assert model.latents is None


def test_answers_keep_no_latents() -> None:
    model = hybrid("llama")
    session = model.session(4)
    assert isinstance(session, HybridSession)
    with torch.no_grad():
        session.prefill([[7, 8, 9]])
        session.step([10])
    assert session._readings[0].latents == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"r_min": 0.0}, "r_min is 0.0"),
        ({"r_min": 0.9999}, "r_max 0.999"),
        ({"r_max": 1.0}, "r_max 1.0"),
        ({"gate_rate": -1.0}, "gate_rate"),
        ({"decay_rate": -1.0}, "decay_rate"),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HRPOConfig(**changes)  # type: ignore[arg-type]
