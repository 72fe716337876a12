import pytest
import torch

from expbench.core import Prompt
from expbench.diagnose.toy import HIDDEN, build_toy
from expbench.diagnose.worlds import VALUES, make_world
from expbench.models.hf import HFModel


@pytest.fixture(scope="module")
def toy() -> HFModel:
    model = build_toy(0)
    assert isinstance(model, HFModel)
    return model


def test_a_prompt_is_the_begin_token_and_the_words(toy: HFModel) -> None:
    world = make_world(0, seed=0)
    ids = toy.render(Prompt(question=world.questions[3])).ids
    assert toy.tokenizer.convert_ids_to_tokens(ids) == ["<bos>", "KEY", "k3", "Q"]
    text = world.experience[3].summary
    tokens = toy.tokenizer.convert_ids_to_tokens(toy.tokenizer(text)["input_ids"])
    assert tokens == ["<bos>", *text.split()]


def test_the_toy_names_values_and_knows_no_world(toy: HFModel) -> None:
    worlds = [make_world(i, seed=5) for i in range(32)]
    prompts = [Prompt(question=q) for w in worlds for q in w.questions]
    answers = [output.text for output in toy.generate(prompts)]
    assert all(answer in {f"v{i}" for i in range(VALUES)} for answer in answers)
    right = sum(
        answer == q.target[0]
        for answer, q in zip(answers, (q for w in worlds for q in w.questions), strict=True)
    )
    assert right / len(answers) <= 0.2


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(toy: HFModel) -> None:
    torch.manual_seed(99)
    state = torch.get_rng_state()
    again, other = build_toy(0), build_toy(1)
    assert torch.equal(torch.get_rng_state(), state)
    mine = toy.module.state_dict()
    theirs = again.module.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert again.fingerprint == toy.fingerprint != other.fingerprint
    assert not torch.equal(mine["lm_head.weight"], other.module.state_dict()["lm_head.weight"])


def test_its_shape_is_the_documented_one(toy: HFModel) -> None:
    config = toy.module.config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (2, 64, 4)
    assert HIDDEN == config.hidden_size
    assert toy.module.lm_head.weight is not toy.module.model.embed_tokens.weight
    assert toy.encode(["KEY k0 VAL v0 Q"]).shape == (1, 64)
