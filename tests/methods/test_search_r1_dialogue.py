"""How Search-R1 reads what a model wrote: every text is read, none raises."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expbench.core import Prompt
from expbench.models import load_model
from expbench.models.hf import HFModel
from expbench.training.loop import Ask, Sampling
from expbench_methods.search_r1.config import SearchR1Config
from expbench_methods.search_r1.dialogue import (
    answer_in,
    graded_text,
    instruction,
    query_in,
    without_searches,
)
from expbench_methods.search_r1.method import SearchR1
from tests.methods.scripted import END, note, sample, scripted

TAGS = ["<search>", "</search>", "<answer>", "</answer>", "<information>", "</information>"]
PLAIN = st.text(alphabet=st.characters(exclude_characters="<>", exclude_categories=["Cs"]))
PARTS = st.lists(st.one_of(st.sampled_from([*TAGS, "zebras", " ", "\n", "<", ">", "/"]), PLAIN))


@given(PARTS)
def test_any_text_is_read_and_reading_it_again_changes_nothing(parts: list[str]) -> None:
    written = "".join(parts)
    rest = without_searches(written)
    assert "<search>" not in rest and "</search>" not in rest
    assert without_searches(rest) == rest
    assert "<search>" not in graded_text(written) and "<search>" not in query_in(written)
    answer = answer_in(rest)
    assert graded_text(written) == (rest.strip() if answer is None else answer)
    if answer is not None:
        assert f"<answer>{answer}</answer>" in "".join(rest.split()) or answer in rest
        assert "<answer>" not in answer and "</answer>" not in answer


@given(st.lists(st.tuples(PLAIN, PLAIN), max_size=4), PLAIN, PLAIN)
def test_a_well_formed_dialogue_comes_back_in_its_parts(
    turns: list[tuple[str, str]], thought: str, answer: str
) -> None:
    searches = [f"{before}<search>{query}</search>" for before, query in turns]
    for text, (_, query) in zip(searches, turns, strict=True):
        assert query_in(text.removesuffix("</search>")).split() == query.split()
    written = "".join([*searches, thought])
    assert without_searches(written) == "\n".join([*(before for before, _ in turns), thought])
    assert graded_text(f"{written}<answer>{answer}</answer>") == answer.strip()
    assert answer_in(written) is None


@pytest.mark.parametrize("piece", ["<search>", "</search>", "<answer>", "</answer>", "<answer>a"])
def test_long_texts_are_read_in_no_time(piece: str) -> None:
    assert isinstance(graded_text(piece * 100_000), str)


@pytest.fixture(scope="module")
def searching() -> SearchR1:
    model = cast(HFModel, load_model("tiny"))
    made = SearchR1(SearchR1Config(steps=0, lora_rank=1, observation_tokens=60), model, 0)
    made.fit([], [note(1, "Feed zebras."), note(2, "zebras sleep")], lambda s, o: 0.0)
    return made


@settings(max_examples=60, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=4), st.integers(1, 60), st.booleans())
def test_whatever_is_written_the_account_is_right(
    searching: SearchR1, turns: list[list[str]], limit: int, is_ended: bool
) -> None:
    texts = ["".join(parts) + END * is_ended for parts in turns]
    model = searching.policy.model
    seen = scripted(model, lambda r: texts[min(int(r.key[-1]), len(texts) - 1)])
    asks = [Ask(sample=sample(9), key="k")]
    [found] = searching.rollout(asks, Sampling(limit=limit, temperature=1.0, seed=1))
    output, external = found.output, set(found.external)
    bare = len(model.render(Prompt(question=sample(9))).ids)
    assert output.tokens("prompt") == bare
    assert output.tokens("retrieved") == len(found.prompt_ids) - bare + len(external)
    assert output.tokens("generated") == len(found.ids) - len(external)
    assert 1 <= output.tokens("generated") <= limit
    assert len(external) == sum(turn["tokens"] for turn in output.trace)
    assert len(output.trace) == len(seen) - 1 <= 2
    assert len(found.ids) - 1 not in external
    own = [token for place, token in enumerate(found.ids) if place not in external]
    whole = found.prompt_ids + found.ids
    assert all(request.ids == whole[: len(request.ids)] for request in seen)
    assert output.stop_reason == "stop" or len(own) == limit
    assert instruction(2) in str(model.tokenizer.decode(found.prompt_ids))
