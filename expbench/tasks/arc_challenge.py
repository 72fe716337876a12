"""ARC-Challenge: hard grade-school science questions (Clark et al. 2018).

Source: https://huggingface.co/datasets/allenai/ai2_arc, config `ARC-Challenge`. A row (invented):

    {"id": "Made_up_1", "question": "What do bees make?",
     "choices": {"text": ["honey", "glass", "paper", "salt"], "label": ["1", "2", "3", "4"]},
     "answerKey": "1"}

Labels are `A`-`D` mostly, but `1`-`4` in some rows, and there may be three or five choices: the
key is looked up among the labels, and the prompt shows the labels of the row.
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
        "test": list(unique((row, _sample(row)) for row in rows("test"))),
    }


TASK = Task(
    name="arc_challenge",
    version=1,
    title="Hard grade-school science",
    scenario="general",
    group="qa",
    kind="choice",
    metric="accuracy",
    source=Source(
        dataset="allenai/ai2_arc",
        config="ARC-Challenge",
        revision="210d026faf9955653af8916fad021475a3f00453",
        licence="CC BY-SA 4.0",
        paper="Clark et al. 2018, arXiv 1803.05457",
        splits=("train", "test"),
    ),
    load=_load,
    prompt=choice_prompt,
    grade=grade_choice,
    gold=gold,
    max_tokens=MAX_TOKENS["choice"],
)
