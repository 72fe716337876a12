"""The text of an experience: what is encoded into the bank.

The paper lets the policy write a summary of the trajectory; the extractive form is a template over
the question, the answer and the grade, which costs no generation.
"""

from collections.abc import Sequence
from dataclasses import replace

from expbench.core import Experience, Prompt, Question
from expbench.models.hf import HFModel

QUESTION_CHARS = 600
OUTPUT_CHARS = 600
REQUEST = (
    "In one sentence, say what this attempt teaches about answering such a question: what worked, "
    "or what to do instead."
)


def summary_question(experience: Experience, *, max_tokens: int) -> Question:
    """Ask the policy for the summary of an attempt; both texts are cut to 600 characters."""
    sample = experience.sample
    grade = experience.score.value
    verdict = {1.0: "right", 0.0: "wrong"}.get(grade, f"worth {grade:.2f} of 1")
    prompt = (
        f"Question: {sample.input.strip()[:QUESTION_CHARS]}\n\n"
        f"Attempt: {experience.output.strip()[-OUTPUT_CHARS:] or '(no answer)'}\n\n"
        f"The attempt was {verdict}. {REQUEST}"
    )
    return replace(
        sample.question(), id=f"summary/{sample.id}", prompt=prompt, max_tokens=max_tokens, stop=()
    )


def write_summaries(
    model: HFModel, experiences: Sequence[Experience], *, max_tokens: int
) -> tuple[list[str], int]:
    """Let the policy summarise attempts, greedily.

    Returns:
        One text an experience, and the tokens that were read and written for them. A policy that
        writes nothing leaves the extractive summary in place.
    """
    prompts = [Prompt(question=summary_question(e, max_tokens=max_tokens)) for e in experiences]
    outputs = model.generate(prompts)
    texts = [
        f"Question: {e.sample.input.strip()[:QUESTION_CHARS]} {o.text.strip()}"
        if o.text.strip()
        else e.summary
        for e, o in zip(experiences, outputs, strict=True)
    ]
    return texts, sum(segment.tokens for output in outputs for segment in output.segments)
