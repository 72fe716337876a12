"""The tasks' words, one builder a kind of answer, the same for every method.

Short and plain, because the smallest backbone has 135M parameters: no example, no role, one form.
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
    """Ask for `Answer: X`, then show the question and its labelled choices.

    The form comes first here: asked for last, the 135M model often copies the list of choices
    instead of choosing.

    >>> q = Question(id="1", task="t", kind="choice", input="2+2?", labels=("A", "B"),
    ...              choices=("4", "5"))
    >>> print(choice_prompt(q))
    Choose the right answer. Reply only with "Answer: " and its letter.
    <BLANKLINE>
    Question: 2+2?
    A. 4
    B. 5
    """
    word = "letter" if all(label.isalpha() for label in question.labels) else "number"
    pairs = zip(question.labels, question.choices, strict=True)
    return "\n".join(
        [
            f'Choose the right answer. Reply only with "Answer: " and its {word}.',
            "",
            f"Question: {question.input.strip()}",
            *(f"{label}. {choice}" for label, choice in pairs),
        ]
    )


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
