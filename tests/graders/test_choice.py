import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.core import Output, Sample
from expbench.errors import GradingError
from expbench.graders.choice import grade_choice, read_choice

METALS = ("iron", "copper", "zinc", "tin")
FORMS = [
    "{}", "({})", "{}.", "**{}**", "Answer: {}", "answer: {}.", "**Answer:** {}", "Answer: ({})",
    "The answer is {}.", "The correct answer is option {}.", r"\boxed{{{}}}", "I choose {}.",
    "<answer>{}</answer>", r"Final answer: $\boxed{{\text{{{}}}}}$", "My choice would be {}",
    "Option {} is correct.", "Answer:\n\n{}", "It is iron or tin? The answer is {}", "答案是{}。",
]  # fmt: skip


@given(st.sampled_from("ABCD"), st.sampled_from(FORMS))
def test_every_usual_form_gives_its_label(label: str, form: str) -> None:
    assert read_choice(form.format(label), "ABCD", METALS) == label


@given(st.integers(1, 15), st.sampled_from(FORMS))
def test_numbers_are_labels_too(number: int, form: str) -> None:
    labels = [str(i) for i in range(1, 16)]
    texts = [f"metal {i}" for i in labels]
    assert read_choice(form.format(number), labels, texts) == str(number)


@given(st.permutations("ABCD"), st.sampled_from(["Answer: {} or {}", "Answer: {}, {}", "{}/{}"]))
def test_two_labels_are_no_answer(labels: list[str], form: str) -> None:
    assert read_choice(form.format(*labels), "ABCD", METALS) is None


@given(
    st.permutations("ABCD"),
    st.sampled_from(
        ["Not {0} but {1}", "Answer: {1}, not {0}", "{0} is wrong. The answer is {1}.",
         "Answer: {1} rather than {0}", "The answer isn't {0}; the answer is {1}",
         "With {0} and {2} eliminated, that leaves {1}", "The answer is {1}. {0} is tempting."]
    ),
)  # fmt: skip
def test_rejected_labels_are_not_picks(labels: list[str], form: str) -> None:
    assert read_choice(form.format(*labels), "ABCD", METALS) == labels[1]


@given(st.sampled_from(METALS), st.sampled_from(["{}", "Answer: {}", "It is {}.", "The {}"]))
def test_the_text_of_an_option_is_its_label(metal: str, form: str) -> None:
    assert read_choice(form.format(metal), "ABCD", METALS) == "ABCD"[METALS.index(metal)]


@pytest.mark.parametrize("labels", [("A", "B"), ("B", "A", "C")])
def test_a_target_or_menu_that_does_not_fit_is_an_error(labels: tuple[str, ...]) -> None:
    target = "C" if len(labels) == 2 else "A"
    sample = Sample(
        id="1", task="t", kind="choice", input="", labels=labels, choices=("x", "y"),
        target=(target,),
    )  # fmt: skip
    with pytest.raises(GradingError, match="must be one of the labels"):
        grade_choice(sample, Output(text="A"))
