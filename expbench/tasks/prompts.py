"""The tasks' words, one builder a kind of answer, the same for every method.

Short and plain, because the smallest backbone has 135M parameters: the question first, the form of
the answer last, no example.
"""

from expbench.core import Question

MAX_TOKENS = {"choice": 64, "chem": 64, "math": 256, "code": 384, "ranking": 96}
"""Room for the answer by kind: a sentence and a label; a short derivation; a function of some 30
lines; ten numbers of two digits with separators."""


def math_prompt(question: Question) -> str:
    r"""Ask for the final answer in `\boxed{}`."""
    return (
        f"{question.input.strip()}\n\n"
        "Solve this step by step. End with the final answer in the form \\boxed{answer}."
    )


def choice_prompt(question: Question) -> str:
    """Show the lettered choices and ask for `Answer: X`.

    >>> q = Question(id="1", task="t", kind="choice", input="2+2?", labels=("A", "B"),
    ...              choices=("4", "5"))
    >>> print(choice_prompt(q))
    2+2?
    <BLANKLINE>
    A. 4
    B. 5
    <BLANKLINE>
    Answer with the letter of the right choice in the form `Answer: X`.
    """
    lines = [
        f"{label}. {choice}"
        for label, choice in zip(question.labels, question.choices, strict=True)
    ]
    word = "letter" if all(label.isalpha() for label in question.labels) else "number"
    ending = f"Answer with the {word} of the right choice in the form `Answer: X`."
    return "\n".join([question.input.strip(), "", *lines, "", ending])


def code_prompt(question: Question) -> str:
    """Ask for one fenced Python block.

    With `features["code"]` (the head of the function) the code itself is shown in a block;
    otherwise the input says what to write.
    """
    code = question.features.get("code")
    wanted = question.input.strip()
    if code is not None:
        wanted = f"Complete this Python function.\n\n```python\n{code.strip()}\n```"
    return (
        f"{wanted}\n\n"
        "Answer with the complete function and its imports in one fenced Python block (```python)."
    )


def chem_prompt(question: Question) -> str:
    """Ask for `Answer: Yes` or `Answer: No`."""
    return f"{question.input.strip()}\n\nAnswer with `Answer: Yes` or `Answer: No`."


def ranking_prompt(question: Question) -> str:
    """Number the candidates from 1 and ask for the ten best."""
    numbered = [f"{number}. {title}" for number, title in enumerate(question.candidates, 1)]
    ending = (
        "Which of the candidates will the user choose next? Reply with the numbers of the ten most"
        " likely ones only, best first, separated by commas."
    )
    return "\n".join([question.input.strip(), "", "Candidates:", *numbered, "", ending])
