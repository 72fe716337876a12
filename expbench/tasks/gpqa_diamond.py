"""GPQA-Diamond: graduate-level science that a search engine does not answer (Rein et al. 2023).

Source: https://huggingface.co/datasets/Idavidrein/gpqa, config `gpqa_diamond`, gated. Its authors
ask that the questions are never shown in plain text online; the row below is invented:

    {"Record ID": "rec0", "Question": "Which particle has no charge?", "Correct Answer": "neutron",
     "Incorrect Answer 1": "proton", "Incorrect Answer 2": "electron",
     "Incorrect Answer 3": "muon", "Subdomain": "Particle physics"}

The right answer always comes first in the table, so options are shuffled by a seed of their own
(the id of the sample). One seeded half of the ids is train, the rest test.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row, unique
from expbench.data.draws import content_id, first_half
from expbench.tasks.choices import LABELS, choice_sample, gold, shuffle_options
from expbench.tasks.grading import grade_choice
from expbench.tasks.prompts import MAX_TOKENS, choice_prompt

_OPTIONS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def _sample(row: Row) -> Sample:
    question = row.text("Question").strip()
    texts = [row.text(field).strip() for field in _OPTIONS if row.has(field)]
    if len(set(texts)) != len(texts):
        raise row.error("two of the answers are the same text, so the key would be ambiguous.")
    name = row.text("Record ID") if row.has("Record ID") else content_id(question)
    right = row.text("Correct Answer").strip()
    order = shuffle_options(texts, f"options:{name}")
    subject = row.text("Subdomain") if row.has("Subdomain") else ""
    return choice_sample(
        row,
        id=name,
        input=question,
        options=list(zip(LABELS, order, strict=False)),
        key=LABELS[order.index(right)],
        tags={"subject": subject} if subject else {},
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    samples = list(unique((row, _sample(row)) for row in rows("train")))
    chosen = first_half([sample.id for sample in samples], "gpqa_diamond")
    return {
        "train": [sample for sample in samples if sample.id in chosen],
        "test": [sample for sample in samples if sample.id not in chosen],
    }


TASK = Task(
    name="gpqa_diamond",
    version=1,
    title="Graduate-level science, hard to look up",
    scenario="general",
    group="qa",
    kind="choice",
    metric="accuracy",
    source=Source(
        dataset="Idavidrein/gpqa",
        config="gpqa_diamond",
        revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
        licence="CC BY 4.0",
        paper="Rein et al. 2023, arXiv 2311.12022",
        gated=True,
        splits=("train",),
    ),
    load=_load,
    prompt=choice_prompt,
    grade=grade_choice,
    gold=gold,
    max_tokens=MAX_TOKENS["choice"],
)
