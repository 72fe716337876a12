r"""GSM-Symbolic: GSM8K problems as templates with other names and numbers (Mirzadeh et al. 2024).

Source: https://huggingface.co/datasets/apple/GSM-Symbolic, config `main`. A row (invented):

    {"id": 3, "instance": 7, "question": "Bo has 5 bags of 6 nuts. How many nuts has he?",
     "answer": "5 * 6 = 30\n#### 30", "original_id": 11, "canary": ""}

`id` is the template. Half of the templates, seeded, are train and the others test, so that no
template is on both sides. The `original_*` fields are never read.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row, unique
from expbench.data.draws import first_half
from expbench.tasks.grading import grade_math
from expbench.tasks.gsm8k import gold, key_of
from expbench.tasks.prompts import MAX_TOKENS, math_prompt


def _sample(row: Row) -> Sample:
    template = str(row.integer("id"))
    return Sample(
        id=f"{template}-{row.integer('instance')}",
        task="gsm_symbolic",
        kind="math",
        input=row.text("question"),
        target=(key_of(row),),
        tags={"template": template},
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    samples = list(unique((row, _sample(row)) for row in rows("test")))
    chosen = first_half([sample.tags["template"] for sample in samples], "gsm_symbolic")
    return {
        "train": [sample for sample in samples if sample.tags["template"] in chosen],
        "test": [sample for sample in samples if sample.tags["template"] not in chosen],
    }


TASK = Task(
    name="gsm_symbolic",
    version=1,
    title="Word problems from templates unseen in training",
    scenario="general",
    group="reasoning",
    kind="math",
    metric="exact match",
    source=Source(
        dataset="apple/GSM-Symbolic",
        config="main",
        revision="93b5b3758d9d9841ffe81d6cd2ae2b030685b078",
        licence="CC BY-NC-ND 4.0",
        paper="Mirzadeh et al. 2024, arXiv 2410.05229",
        splits=("test",),
    ),
    load=_load,
    prompt=math_prompt,
    grade=grade_math,
    gold=gold,
    max_tokens=MAX_TOKENS["math"],
)
