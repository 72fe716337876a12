from hypothesis import given
from hypothesis import strategies as st

from expbench.graders.reply import MAX_GRADED, drafts, graded_part, marked_answer

plain_text = st.text(alphabet="abc .\n12", max_size=40)


@given(plain_text, plain_text)
def test_text_up_to_a_closing_reasoning_tag_is_dropped(reasoning: str, answer: str) -> None:
    assert graded_part(f"<think>{reasoning}</think>{answer}") == answer.strip()
    assert graded_part(f"{reasoning}</thinking>{answer}") == answer.strip()


@given(plain_text, plain_text)
def test_reasoning_that_never_closes_leaves_nothing(before: str, reasoning: str) -> None:
    assert graded_part(f"{before}</think>x <think>{reasoning}") == ""


@given(st.sampled_from(["Question", "Q", "Human", "**Question 2", "Problem", "### Next question"]))
def test_an_invented_next_question_ends_the_reply(marker: str) -> None:
    assert graded_part(f"It is 5.\n\n{marker}: What is 2+2?\nAnswer: 4") == "It is 5."


def test_a_repeated_question_does_not_end_the_reply() -> None:
    reply = "Question: What is 2+2?\nAnswer: 4"
    assert graded_part(reply) == reply
    assert graded_part(f"Here is my solution:\n\n{reply}").endswith("Answer: 4")


def test_the_word_question_inside_a_line_is_no_marker() -> None:
    reply = "The answer to the question: 5."
    assert graded_part(reply) == reply


@given(plain_text, st.text(alphabet="xyz1 ", min_size=1).filter(str.strip))
def test_the_last_block_is_the_submission(before: str, content: str) -> None:
    text = f"<answer>draft</answer>{before}<answer>{content}</answer> done"
    assert marked_answer(text) == content.strip()


@given(st.recursive(st.text("ab1", min_size=1, max_size=3), lambda s: s.map(lambda x: f"{{{x}}}")))
def test_a_box_is_read_with_its_nested_braces(content: str) -> None:
    assert marked_answer(f"So \\boxed{{{content}}} is it, not {{3}}.") == content


def test_an_empty_box_and_a_bare_mention_say_nothing() -> None:
    assert marked_answer(r"As \boxed asks: \boxed{}") is None
    assert marked_answer(r"\boxed{4} (in \boxed{} as asked)") == "4"


def test_a_box_after_a_block_is_the_later_answer() -> None:
    assert marked_answer(r"<answer>5</answer> No: \boxed{6}") == "6"
    assert marked_answer(r"\boxed{6} <answer>5</answer>") == "5"


@given(st.text(max_size=300))
def test_drafts_lose_no_text(text: str) -> None:
    assert "".join(drafts(text)) == text


@given(st.text(max_size=300))
def test_reading_never_fails_and_adds_nothing(text: str) -> None:
    assert graded_part(text) in text
    answer = marked_answer(text)
    assert answer is None or answer in text


def test_only_the_end_of_an_endless_reply_is_read() -> None:
    assert len(graded_part("word " * MAX_GRADED)) <= MAX_GRADED
