from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from expbench.core import Output
from expbench.errors import ConfigError
from expbench.models import load_model
from expbench.models.decoding import Request
from expbench.models.generation import ForwardSession
from expbench.models.hf import HFModel
from expbench.models.llama import LlamaSession
from tests.models.samples import mixed, prompt


@pytest.fixture(scope="module")
def tiny() -> HFModel:
    model = load_model("tiny", device="cpu", dtype="float32")
    assert isinstance(model, HFModel)
    return model


@pytest.fixture(params=["fast", "plain"])
def model(tiny: HFModel, request: pytest.FixtureRequest) -> Iterator[HFModel]:
    """Give the tiny model on its fast path, and with a hook that forces the plain one."""
    if request.param == "fast":
        yield tiny
        return
    hook = tiny.module.model.register_forward_hook(lambda *_: None)
    yield tiny
    hook.remove()


def texts(outputs: list[Output]) -> list[str]:
    return [output.text for output in outputs]


def reference(model: HFModel, ids: list[int], max_tokens: int) -> list[int]:
    """Continue with transformers' own greedy decoding of one prompt."""
    given = torch.tensor([ids])
    out = model.module.generate(
        given,
        attention_mask=torch.ones_like(given),
        do_sample=False,
        max_new_tokens=max_tokens,
        eos_token_id=sorted(model.eos_ids),
        pad_token_id=model.pad_id,
    )
    return list(out[0, len(ids) :].tolist())


def test_each_path_is_taken_when_it_should_be(tiny: HFModel) -> None:
    assert isinstance(tiny.session(4), LlamaSession)
    hook = tiny.module.model.norm.register_forward_hook(lambda *_: None)
    assert isinstance(tiny.session(4), ForwardSession)
    hook.remove()
    assert isinstance(tiny.session(4), LlamaSession)
    plain = tiny.module.model.norm
    tiny.module.model.norm = torch.nn.Sequential(plain, torch.nn.Identity())
    assert isinstance(tiny.session(4), ForwardSession)
    tiny.module.model.norm = plain
    tiny.module.forward = tiny.module.forward
    assert isinstance(tiny.session(4), ForwardSession)
    del tiny.module.forward


def test_a_batch_gives_the_tokens_of_transformers_for_each_prompt_alone(model: HFModel) -> None:
    prompts = mixed(37)
    requests = [Request(ids=model.render(p).ids, max_tokens=p.question.max_tokens) for p in prompts]
    done = model.generate_ids(requests)
    for request, completion in zip(requests, done, strict=True):
        assert completion.ids == reference(model, request.ids, request.max_tokens)


def test_the_same_batch_gives_the_same_answers_and_order_does_not_matter(model: HFModel) -> None:
    prompts = mixed(23)
    first = model.generate(prompts)
    assert model.generate(prompts) == first
    assert model.generate(prompts[::-1])[::-1] == first


def test_a_smaller_budget_changes_batches_but_not_answers(tiny: HFModel) -> None:
    small = load_model("tiny", device="cpu", dtype="float32", batch_tokens=150)
    assert small.generate(mixed(23)) == tiny.generate(mixed(23))


def test_an_unused_thread_share_changes_nothing(tiny: HFModel) -> None:
    threads = torch.get_num_threads()
    expected = tiny.generate(mixed(40))
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        assert tiny.generate(mixed(40)) == expected
    finally:
        torch.set_num_threads(threads)
    assert torch.get_num_threads() == threads


def test_sampled_text_depends_on_seed_and_question_but_not_on_the_batch(model: HFModel) -> None:
    prompts = mixed(20)
    together = texts(model.generate(prompts, temperature=1.0, seed=3))
    alone = [texts(model.generate([p], temperature=1.0, seed=3))[0] for p in prompts]
    assert alone == together
    assert texts(model.generate(prompts, temperature=1.0, seed=4)) != together
    assert texts(model.generate(prompts)) != together


def test_the_meter_counts_prompt_retrieved_and_generated_tokens(tiny: HFModel) -> None:
    bare, more = tiny.generate([prompt(1), prompt(1, context="twelve bytes")])
    assert [segment.role for segment in bare.segments] == ["prompt", "generated"]
    assert [segment.role for segment in more.segments] == ["prompt", "retrieved", "generated"]
    assert bare.tokens("prompt") == more.tokens("prompt") == len(tiny.render(prompt(1)).ids)
    assert more.tokens("retrieved") == len("twelve bytes\n\n")
    assert 1 <= bare.tokens("generated") <= 24
    assert tiny.count_tokens("") == 0 and tiny.count_tokens("four") == 4


def test_a_cut_off_answer_says_so(tiny: HFModel) -> None:
    outputs = tiny.generate(mixed(30))
    for output, asked in zip(outputs, mixed(30), strict=True):
        is_full = output.tokens("generated") == asked.question.max_tokens
        assert output.stop_reason == "stop" or is_full
    assert {output.stop_reason for output in outputs} == {"stop", "length"}


def test_a_prompt_that_does_not_fit_is_refused_and_never_cut(tiny: HFModel) -> None:
    with pytest.raises(ConfigError, match=r"'toy/q2' has .* reads at most 4096"):
        tiny.generate([prompt(1), prompt(2, words=900)])
    with pytest.raises(ConfigError, match="may grow by 5000"):
        tiny.generate([prompt(1, max_tokens=5000)])


def test_a_negative_temperature_is_refused(tiny: HFModel) -> None:
    with pytest.raises(ConfigError, match="temperature is -1"):
        tiny.generate([prompt(1)], temperature=-1.0)


def test_broken_weights_give_an_error_and_not_an_answer() -> None:
    model = load_model("tiny", device="cpu", dtype="float32")
    assert isinstance(model, HFModel)
    with torch.no_grad():
        model.module.model.layers[1].mlp.up_proj.weight[0, 0] = torch.nan
    with pytest.raises(ConfigError, match="float32"):
        model.generate([prompt(1)])
    with pytest.raises(ConfigError, match="float32"):
        model.generate(mixed(40))


def test_trained_weights_are_used_at_once() -> None:
    model = load_model("tiny", device="cpu", dtype="float32")
    assert isinstance(model, HFModel)
    before = texts(model.generate(mixed(12)))
    with torch.no_grad():
        model.module.model.layers[0].self_attn.q_proj.weight.mul_(-1.0)
    after = texts(model.generate(mixed(12)))
    assert after != before
    request = Request(ids=model.render(prompt(5)).ids, max_tokens=20)
    assert model.generate_ids([request])[0].ids == reference(model, request.ids, 20)


def test_a_module_behind_the_final_norm_decides_what_is_written(tiny: HFModel) -> None:
    class Fused(torch.nn.Module):
        def __init__(self, norm: torch.nn.Module) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            normed: torch.Tensor = self.norm(hidden)
            return -normed

    plain, before = tiny.module.model.norm, texts(tiny.generate(mixed(9)))
    states = tiny.encode(["one", "two words"])
    tiny.module.model.norm = Fused(plain)
    try:
        assert texts(tiny.generate(mixed(9))) != before
        assert np.allclose(tiny.encode(["one", "two words"]), -states)
    finally:
        tiny.module.model.norm = plain
    assert texts(tiny.generate(mixed(9))) == before


def test_states_are_those_of_a_forward_pass_over_each_text_alone(tiny: HFModel) -> None:
    asked = ["a", "two words", "", "a longer text about seven pears"]
    states = tiny.encode(asked)
    assert states.dtype == np.float32 and states.shape == (4, 64)
    for text, state in zip(asked, states, strict=True):
        ids = torch.tensor([tiny.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            alone = tiny.module.model(input_ids=ids).last_hidden_state[0, -1]
        assert np.allclose(state, alone.numpy(), atol=1e-5)


def test_a_state_kept_by_a_hook_can_be_trained_on(tiny: HFModel) -> None:
    kept: list[torch.Tensor] = []
    hook = tiny.module.model.norm.register_forward_hook(
        lambda _module, _given, out: kept.append(out)
    )
    tiny.generate([prompt(1)])
    hook.remove()
    weight = torch.ones(64, requires_grad=True)
    (kept[0] * weight).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None


def test_memory_that_runs_out_halves_the_batch_and_is_counted(
    tiny: HFModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tiny.generate(mixed(8))
    whole = ForwardSession.prefill

    def prefill(self: ForwardSession, prompts: Any) -> torch.Tensor:
        if len(prompts) > 2:
            raise torch.OutOfMemoryError("made for the test")
        return whole(self, prompts)

    monkeypatch.setattr(ForwardSession, "prefill", prefill)
    hook = tiny.module.model.register_forward_hook(lambda *_: None)
    try:
        assert tiny.generate(mixed(8)) == expected
    finally:
        hook.remove()
    assert tiny.memory_splits == 3


def test_a_mode_that_training_left_is_put_back(tiny: HFModel) -> None:
    tiny.module.train()
    tiny.generate([prompt(1)])
    tiny.encode(["x"])
    assert tiny.module.training
    tiny.module.eval()


def test_two_loads_have_one_fingerprint_and_other_weights_another(tiny: HFModel) -> None:
    from expbench.models.fingerprint import module_fingerprint

    again = load_model("tiny", device="cpu", dtype="bfloat16")
    assert isinstance(again, HFModel)
    assert again.fingerprint == tiny.fingerprint and again.dtype == "bfloat16"
    again.module.float()
    assert module_fingerprint(again.module, again.tokenizer) != tiny.fingerprint


def test_in_bfloat16_both_paths_write_almost_the_same() -> None:
    model = load_model("tiny", device="cpu", dtype="bfloat16")
    assert isinstance(model, HFModel)
    assert isinstance(model.session(4), LlamaSession)
    prompts = [prompt(i, max_tokens=8) for i in range(24)]
    fast = texts(model.generate(prompts))
    hook = model.module.model.register_forward_hook(lambda *_: None)
    plain = texts(model.generate(prompts))
    hook.remove()
    assert sum(a == b for a, b in zip(fast, plain, strict=True)) >= 20


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="'cuda:99'"):
        load_model("tiny", device="cuda:99")
    with pytest.raises(ConfigError, match="'abacus'"):
        load_model("tiny", device="abacus")
