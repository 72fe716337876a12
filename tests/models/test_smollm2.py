"""The real backbone of the laptop preset, from the Hub or the wheel."""

import pytest
import torch

from expbench.errors import MissingData
from expbench.models import LAPTOP, load_model
from expbench.models.decoding import Request
from expbench.models.hf import HFModel
from tests.models.samples import prompt

pytestmark = [pytest.mark.model, pytest.mark.network, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def model() -> HFModel:
    try:
        loaded = load_model(LAPTOP, device="cpu", dtype="float32")
    except MissingData as error:
        pytest.skip(str(error))
    assert isinstance(loaded, HFModel)
    return loaded


def test_it_answers_in_english_with_its_own_chat_format(model: HFModel) -> None:
    from expbench.core import Prompt, Question

    words = "Name the capital of France."
    question = Question(id="1", task="t", kind="choice", input=words, max_tokens=24)
    output = model.generate([Prompt(question=question)])[0]
    assert "Paris" in output.text and output.stop_reason == "stop"
    text = model.tokenizer.decode(model.render(Prompt(question=question)).ids)
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert text.endswith(f"<|im_start|>user\n{words}<|im_end|>\n<|im_start|>assistant\n")


def test_blanks_before_digits_are_cut_as_the_original_tokenizer_does(model: HFModel) -> None:
    assert model.tokenizer.tokenize("a  12\n 3") == ["a", "ĠĠ", "1", "2", "ĊĠ", "3"]


def test_a_batch_gives_the_tokens_of_transformers_for_each_prompt_alone(model: HFModel) -> None:
    # Rounding differs with the shape of a batch, and may turn a near tie: hence 99 % of rows.
    prompts = [prompt(i, words=4 + (i * 7) % 40) for i in range(32)]
    requests = [Request(ids=model.render(p).ids, max_tokens=24) for p in prompts]
    equal = 0
    for request, done in zip(requests, model.generate_ids(requests), strict=True):
        ids = torch.tensor([request.ids])
        out = model.module.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24
        )
        equal += out[0, len(request.ids) :].tolist() == done.ids
    assert equal >= 0.99 * len(requests) - 0.5
