"""CommonsenseQA: everyday knowledge, five choices (Talmor et al. 2019).

Source: https://huggingface.co/datasets/tau/commonsense_qa. A row (invented):

    {"id": "0f", "question": "Where do you keep milk cold?", "question_concept": "milk",
     "choices": {"label": ["A", "B", "C", "D", "E"],
                 "text": ["fridge", "oven", "desk", "shoe", "fridge"]}, "answerKey": "A"}

The test split has no answers, so `validation` is the test set. Some rows repeat a choice text, the
right one included: answers are labels, never texts.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row, unique
from expbench.tasks.choices import choice_sample, gold, labelled
from expbench.tasks.grading import grade_choice
from expbench.tasks.prompts import MAX_TOKENS, choice_prompt


def _sample(row: Row) -> Sample:
    return choice_sample(
        row,
        id=row.text("id"),
        input=row.text("question"),
        options=labelled(row),
        key=row.text("answerKey"),
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    return {
        "train": list(unique((row, _sample(row)) for row in rows("train"))),
        "test": list(unique((row, _sample(row)) for row in rows("validation"))),
    }


TASK = Task(
    name="commonsense_qa",
    version=1,
    title="Everyday knowledge, five choices",
    scenario="general",
    group="qa",
    kind="choice",
    metric="accuracy",
    source=Source(
        dataset="tau/commonsense_qa",
        revision="94630fe30dad47192a8546eb75f094926d47e155",
        licence="MIT",
        paper="Talmor et al. 2019, arXiv 1811.00937",
        splits=("train", "validation"),
    ),
    load=_load,
    prompt=choice_prompt,
    grade=grade_choice,
    gold=gold,
    max_tokens=MAX_TOKENS["choice"],
)
