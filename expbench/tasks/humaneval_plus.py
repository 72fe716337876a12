r"""HumanEval+: complete a Python function, judged by many tests (Chen 2021, Liu 2023).

Source: https://huggingface.co/datasets/evalplus/humanevalplus. A row (invented):

    {"task_id": "HumanEval/999", "entry_point": "double",
     "prompt": "def double(x: int) -> int:\n    ''' Double x. '''\n",
     "canonical_solution": "    return 2 * x\n",
     "test": "def check(candidate):\n    assert candidate(2) == 4\n"}

There is one official split: a seeded half of the ids is train, the rest test.

Repair. The published test of HumanEval/32 (find a zero of a polynomial) calls
`_poly(*candidate(*inp), inp)`: it unpacks the answer, a float, and takes the coefficients for the
point, so that every solution fails, the canonical one too. We evaluate the polynomial at the answer
and take the absolute value, with the published tolerance. A note says so in every record.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row, note, unique
from expbench.data.draws import first_half
from expbench.tasks.code_tests import SLOW_TIMEOUT_S, TIMEOUT_S, fenced
from expbench.tasks.grading import grade_code
from expbench.tasks.prompts import MAX_TOKENS, code_prompt

SLOW = frozenset(f"HumanEval/{number}" for number in (15, 36, 59, 83, 100, 130, 139))
"""Tests on arguments around a million: 2 to 25 s with the canonical solution."""
BROKEN_ID = "HumanEval/32"
BROKEN = "assert _poly(*candidate(*inp), inp) <= 0.0001"
REPAIRED = "assert abs(_poly(list(inp[0]), candidate(*inp))) <= 0.0001"
REPAIR_NOTE = (
    "The published test of HumanEval/32 fails every solution (it unpacks the answer); it was"
    " repaired to evaluate the polynomial at the answer."
)


def _sample(row: Row, rows: Rows) -> Sample:
    name, prompt, test = row.text("task_id"), row.text("prompt"), row.text("test")
    if name == BROKEN_ID and BROKEN in test:
        test = test.replace(BROKEN, REPAIRED)
        note(rows, REPAIR_NOTE)
    return Sample(
        id=name,
        task="humaneval_plus",
        kind="code",
        input=prompt,
        features={"code": prompt},
        target=(prompt + row.text("canonical_solution"),),
        metadata={
            "prompt": prompt,
            "entry_point": row.text("entry_point"),
            "test": test,
            "timeout_s": SLOW_TIMEOUT_S if name in SLOW else TIMEOUT_S,
        },
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    samples = list(unique((row, _sample(row, rows)) for row in rows("test")))
    chosen = first_half([sample.id for sample in samples], "humaneval_plus")
    return {
        "train": [sample for sample in samples if sample.id in chosen],
        "test": [sample for sample in samples if sample.id not in chosen],
    }


TASK = Task(
    name="humaneval_plus",
    version=1,
    title="Python functions from docstrings, many tests",
    scenario="general",
    group="coding",
    kind="code",
    metric="pass@1",
    source=Source(
        dataset="evalplus/humanevalplus",
        revision="d32357cf319e50e9c8d8dab5ea876c72b0fd321b",
        licence="Apache-2.0",
        paper="Chen et al. 2021, arXiv 2107.03374; Liu et al. 2023, arXiv 2305.01210",
        splits=("test",),
    ),
    load=_load,
    prompt=code_prompt,
    grade=grade_code,
    gold=fenced,
    max_tokens=MAX_TOKENS["code"],
)
