r"""GSM8K: grade-school word problems with whole-number answers (Cobbe et al. 2021).

Source: https://huggingface.co/datasets/openai/gsm8k, config `main`. A row (invented):

    {"question": "Ann has 3 boxes of 4 pens. How many pens has she?",
     "answer": "She has 3 * 4 = <<3*4=12>>12 pens.\n#### 12"}

The key is what follows `####`, without thousands commas. Rows have no id: it is made from the
question. Official splits are used as they are.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row
from expbench.data.draws import content_id
from expbench.tasks.grading import grade_math
from expbench.tasks.prompts import MAX_TOKENS, math_prompt
from expbench.tasks.repeats import without_repeats


def key_of(row: Row) -> str:
    """Read the number after `####`.

    Raises:
        DataError: no marker, or nothing numeric after it.
    """
    _, marker, tail = row.text("answer").rpartition("####")
    key = tail.strip().replace(",", "")
    if not marker or not key.lstrip("-").replace(".", "", 1).isdigit():
        raise row.error(f"field 'answer' ends with {tail.strip()[:40]!r}, not with '#### number'.")
    return key


def gold(sample: Sample) -> str:
    r"""Answer in the form the prompt asks for: `\boxed{...}`."""
    return f"The answer is \\boxed{{{sample.target[0]}}}."


def _sample(row: Row) -> Sample:
    question = row.text("question")
    return Sample(
        id=content_id(question), task="gsm8k", kind="math", input=question, target=(key_of(row),)
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    splits: tuple[Split, ...] = ("train", "test")
    return {
        split: without_repeats(rows, split, ((row, _sample(row)) for row in rows(split)))
        for split in splits
    }


TASK = Task(
    name="gsm8k",
    version=1,
    title="Grade-school word problems",
    scenario="general",
    group="reasoning",
    kind="math",
    metric="exact match",
    source=Source(
        dataset="openai/gsm8k",
        config="main",
        revision="740312add88f781978c0658806c59bc2815b9866",
        licence="MIT",
        paper="Cobbe et al. 2021, arXiv 2110.14168",
        splits=("train", "test"),
    ),
    load=_load,
    prompt=math_prompt,
    grade=grade_math,
    gold=gold,
    max_tokens=MAX_TOKENS["math"],
)
