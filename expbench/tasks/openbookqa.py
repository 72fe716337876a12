"""OpenBookQA: elementary science facts and common knowledge (Mihaylov et al. 2018).

Source: https://huggingface.co/datasets/allenai/openbookqa, config `main`. A row (invented):

    {"id": "7-1", "question_stem": "Ice turns into water when it is",
     "choices": {"text": ["warmed", "painted", "weighed", "hidden"],
                 "label": ["A", "B", "C", "D"]}, "answerKey": "A"}

Official splits. A few stems occur in train and test: those are dropped from train by the suite.
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
        input=row.text("question_stem"),
        options=labelled(row),
        key=row.text("answerKey"),
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    return {
        "train": list(unique((row, _sample(row)) for row in rows("train"))),
        "test": list(unique((row, _sample(row)) for row in rows("test"))),
    }


TASK = Task(
    name="openbookqa",
    version=1,
    title="Elementary science with common knowledge",
    scenario="general",
    group="qa",
    kind="choice",
    metric="accuracy",
    source=Source(
        dataset="allenai/openbookqa",
        config="main",
        revision="388097ea7776314e93a529163e0fea805b8a6454",
        licence="Apache-2.0 (as stated by the authors)",
        paper="Mihaylov et al. 2018, arXiv 1809.02789",
        splits=("train", "test"),
    ),
    load=_load,
    prompt=choice_prompt,
    grade=grade_choice,
    gold=gold,
    max_tokens=MAX_TOKENS["choice"],
)
