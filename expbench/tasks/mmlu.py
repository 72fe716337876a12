"""MMLU: 57 subjects from school to profession, four choices (Hendrycks et al. 2021).

Source: https://huggingface.co/datasets/cais/mmlu, config `all`. A row (invented):

    {"question": "Which gas do plants take in to make sugar?", "subject": "high_school_biology",
     "choices": ["Helium", "Carbon dioxide", "Neon", "None"], "answer": 1}

Train is `validation` and `dev` (`auxiliary_train` comes from other data sets and is noisy). Rows
have no id: it is made from subject, question and choices, so that the few rows that occur twice are
one sample. A choice may be the text `None`; a null is no choice.
"""

from collections.abc import Iterator, Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row
from expbench.data.draws import content_id
from expbench.tasks.choices import LABELS, choice_sample, gold
from expbench.tasks.grading import grade_choice
from expbench.tasks.prompts import MAX_TOKENS, choice_prompt
from expbench.tasks.repeats import without_repeats


def _sample(row: Row) -> Sample:
    question, subject = row.text("question"), row.text("subject")
    texts, answer = row.optional_texts("choices"), row.integer("answer")
    if not 0 <= answer < len(texts):
        raise row.error(f"the answer is {answer}, but there are {len(texts)} choices from 0.")
    return choice_sample(
        row,
        id=f"{subject}-{content_id(subject, question, *(text or '' for text in texts))}",
        input=question,
        options=list(zip(LABELS, texts, strict=False)),
        key=LABELS[answer],
        tags={"subject": subject},
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    def pairs(*splits: str) -> Iterator[tuple[Row, Sample]]:
        for split in splits:
            yield from ((row, _sample(row)) for row in rows(split))

    return {
        "train": without_repeats(rows, "train", pairs("validation", "dev")),
        "test": without_repeats(rows, "test", pairs("test")),
    }


TASK = Task(
    name="mmlu",
    version=1,
    title="Knowledge questions from 57 subjects",
    scenario="general",
    group="qa",
    kind="choice",
    metric="accuracy",
    source=Source(
        dataset="cais/mmlu",
        config="all",
        revision="c30699e8356da336a370243923dbaf21066bb9fe",
        licence="MIT",
        paper="Hendrycks et al. 2021, arXiv 2009.03300",
        splits=("validation", "dev", "test"),
    ),
    load=_load,
    prompt=choice_prompt,
    grade=grade_choice,
    gold=gold,
    max_tokens=MAX_TOKENS["choice"],
)
