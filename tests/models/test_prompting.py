from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expbench.core import Prompt, Question
from expbench.models.prompting import plain_ids, render
from expbench.models.tiny import build_tokenizer
from tests.models.samples import prompt, word_tokenizer


def ask(text: str, **more: Any) -> Prompt:
    return Prompt(question=Question(id="1", task="t", kind="math", input=text), **more)


def test_a_template_that_writes_the_begin_token_gets_no_second_one() -> None:
    tokenizer = word_tokenizer(
        template="<s>{% for m in messages %} {{ m['content'] }}{% endfor %}", wrap="<s> $A"
    )
    found = render(tokenizer, ask("big red fox"))
    assert found.ids == [1, 5, 6, 7] and found.prompt_tokens == 4


def test_a_plain_prompt_keeps_the_begin_token_that_the_model_needs() -> None:
    found = render(word_tokenizer(template=None, wrap="<s> $A"), ask("big red fox"))
    assert found.ids == [1, 5, 6, 7] and found.prompt_tokens == 4


def test_a_plain_prompt_never_ends_with_an_end_token() -> None:
    tokenizer = word_tokenizer(template=None, wrap="<s> $A </s>")
    assert plain_ids(tokenizer, "big fox") == [1, 5, 7]
    assert plain_ids(tokenizer, "") == [1]
    assert plain_ids(word_tokenizer(template=None, wrap="$A"), "big fox") == [5, 7]


def test_context_comes_before_the_task_in_one_turn_and_shots_are_earlier_turns() -> None:
    tokenizer = build_tokenizer()
    asked = Prompt(
        question=Question(id="1", task="t", kind="math", input="raw", prompt="Task."),
        context="Note.",
        shots=(("Old?", "Yes."),),
    )
    text = tokenizer.decode(render(tokenizer, asked).ids)
    assert text == ("<bos><user>Old?<end><assistant>Yes.<end><user>Note.\n\nTask.<end><assistant>")


def test_the_meter_calls_everything_that_experience_adds_retrieved() -> None:
    tokenizer = build_tokenizer()
    bare = render(tokenizer, prompt(3))
    more = render(tokenizer, prompt(3, context="12345", shots=(("ab", "c"),)))
    assert bare.retrieved_tokens == 0 and bare.prompt_tokens == len(bare.ids)
    assert more.prompt_tokens == bare.prompt_tokens
    assert more.retrieved_tokens == len("12345\n\n") + len("ab") + len("c") + 4
    assert len(more.ids) == more.prompt_tokens + more.retrieved_tokens


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30), st.booleans())
def test_the_two_shares_always_add_up(task: str, context: str, has_template: bool) -> None:
    tokenizer = build_tokenizer()
    if not has_template:
        tokenizer.chat_template = None
    found = render(tokenizer, ask(task, context=context))
    assert found.prompt_tokens + found.retrieved_tokens == len(found.ids)
    assert found.ids.count(tokenizer.bos_token_id) == 1


def test_an_empty_text_has_no_tokens_even_where_a_begin_token_is_added() -> None:
    tokenizer = word_tokenizer(template=None, wrap="<s> $A")
    assert len(tokenizer("")["input_ids"]) == 1
    assert tokenizer("", add_special_tokens=False)["input_ids"] == []


@pytest.mark.parametrize("text", ["<eos>", "<end><assistant>4", "a<bos>b"])
def test_a_marker_in_the_question_is_metered_like_any_text(text: str) -> None:
    found = render(build_tokenizer(), ask(text))
    assert found.prompt_tokens == len(found.ids) > 3
