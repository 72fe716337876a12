r"""MATH: competition problems with LaTeX answers (Hendrycks 2021; MATH-500 of Lightman 2023).

Sources: train https://huggingface.co/datasets/EleutherAI/hendrycks_math (seven subjects), test
https://huggingface.co/datasets/HuggingFaceH4/MATH-500. A row of each (invented):

    {"problem": "Find $x$ if $2x = 6$.", "level": "Level 1", "type": "Algebra",
     "solution": "Halving gives $x = \\boxed{3}$."}
    {"problem": "Find $1 + 1$.", "solution": "It is $\\boxed{2}$.", "answer": "2",
     "subject": "Prealgebra", "level": 1, "unique_id": "test/prealgebra/0.json"}

The train key is the content of the last `\boxed{}` or `\fbox{}` of the solution. Any MATH-500
problem is dropped from train, compared by normalised text. Train rows have no id: it is made from
the problem.
"""

import re
from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row, note, unique
from expbench.data.draws import content_id, normalised
from expbench.tasks.grading import grade_math
from expbench.tasks.gsm8k import gold
from expbench.tasks.prompts import MAX_TOKENS, math_prompt
from expbench.tasks.repeats import without_repeats

SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)
_TRAIN = "hub://EleutherAI/hendrycks_math@21a5633873b6a120296cce3e2df9d5550074f4a3"
_BOX = re.compile(r"\\(?:boxed|fbox)\s*")


def last_boxed(solution: str) -> str | None:
    r"""Read the content of the last box, braces matched; None if no box is closed.

    >>> last_boxed(r"so $\boxed{1}$, then $\boxed{\frac{1}{2}}$"), last_boxed(r"$\boxed 7$")
    ('\\frac{1}{2}', '7')
    """
    boxes = list(_BOX.finditer(solution))
    if not boxes:
        return None
    start = boxes[-1].end()
    if solution[start : start + 1] != "{":
        return solution[start : start + 1].strip() or None
    depth = 0
    for place, sign in _signs(solution, start):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth == 0:
            return solution[start + 1 : place].strip() or None
    return None


def _signs(text: str, start: int) -> list[tuple[int, str]]:
    r"""Characters with their places, `\{` and `\}` left out."""
    return [(m.start(), m[0]) for m in re.compile(r"\\.|[^\\]", re.DOTALL).finditer(text, start)]


def _train_sample(row: Row) -> Sample:
    problem, subject = row.text("problem"), row.text("type")
    key = last_boxed(row.text("solution"))
    if key is None:
        raise row.error("field 'solution' has no closed \\boxed{} with the answer.")
    level = row.text("level")
    return _sample(content_id(problem), problem, key, subject=subject, level=level)


def _test_sample(row: Row) -> Sample:
    name, level = row.text("unique_id"), f"Level {row.integer('level')}"
    problem, key, subject = row.text("problem"), row.text("answer"), row.text("subject")
    return _sample(name, problem, key, subject=subject, level=level)


def _sample(id: str, problem: str, key: str, *, subject: str, level: str) -> Sample:
    return Sample(
        id=id,
        task="math",
        kind="math",
        input=problem,
        target=(key,),
        tags={"subject": subject, "level": level},
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    test = list(unique((row, _test_sample(row)) for row in rows("test")))
    asked = {normalised(sample.input) for sample in test}
    train = without_repeats(rows, "train", ((row, _train_sample(row)) for row in rows("train")))
    kept = [sample for sample in train if normalised(sample.input) not in asked]
    if dropped := len(train) - len(kept):
        note(rows, f"{dropped} problems of MATH-500 were dropped from train.")
    return {"train": kept, "test": test}


TASK = Task(
    name="math",
    version=1,
    title="Competition mathematics",
    scenario="general",
    group="reasoning",
    kind="math",
    metric="exact match",
    source=Source(
        dataset="HuggingFaceH4/MATH-500",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        urls={f"train/{subject}": f"{_TRAIN}/{subject}#train" for subject in SUBJECTS},
        licence="MIT",
        paper="Hendrycks et al. 2021, arXiv 2103.03874; Lightman et al. 2023, arXiv 2305.20050",
        splits=("train", "test"),
    ),
    load=_load,
    prompt=math_prompt,
    grade=grade_math,
    gold=gold,
    max_tokens=MAX_TOKENS["math"],
)
