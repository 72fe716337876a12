r"""MBPP+: small Python functions from one sentence, judged by many tests (Austin 2021, Liu 2023).

Sources: test https://huggingface.co/datasets/evalplus/mbppplus; train
https://huggingface.co/datasets/google-research-datasets/mbpp, config `full`, split `train`, minus
every id of MBPP+. A row of each (invented; MBPP calls the sentence `text` and has no `test`):

    {"task_id": 9001, "prompt": "Write a function to double a number.",
     "code": "def double(x):\r\n  return 2 * x", "test_imports": [],
     "test_list": ["assert double(2) == 4"], "test": "for i in range(9):\n    assert ..."}
    {"task_id": 9002, "text": "Write a function to halve a number.",
     "code": "def half(x):\r\n  return x / 2", "test_setup_code": "",
     "test_list": ["assert half(4) == 2"]}

The prompt shows the first test, as is usual, because it alone tells the name of the function. Train
samples have base tests only. Some canonical solutions are slow: see `SLOW`.

Repair. The published tests of 737, 787 and 794 work out whether an answer matches and then do
nothing with it, so that `return None` passes. We add the assert that all other tests have. A note
says so in every record.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row, note, unique
from expbench.tasks.code_tests import (
    SLOW_TIMEOUT_S,
    TIMEOUT_S,
    called_function,
    fenced,
)
from expbench.tasks.grading import grade_code
from expbench.tasks.prompts import MAX_TOKENS, code_prompt

SLOW = frozenset({"123", "255", "271", "392", "589", "592", "599", "603"})
"""Tests that take 3 to 25 s with the canonical solution."""
TOOTHLESS = "        exact_match = exp == (out is not None)\n"
REPAIRED = f"{TOOTHLESS}    assert exact_match\n"
REPAIR_NOTE = (
    "The published tests of MBPP+ 737, 787 and 794 compare but never assert, so that every program"
    " passes; the missing assert was added."
)
_TRAIN = "hub://google-research-datasets/mbpp@4bb6404fdc6cacfda99d4ac4205087b89d32030c/full#train"


def _sample(row: Row, rows: Rows) -> Sample:
    name, code = str(row.integer("task_id")), row.text("code").replace("\r\n", "\n")
    sentence, tests = row.text(row.any_of("prompt", "text")), row.texts("test_list")
    if not tests:
        raise row.error("field 'test_list' is empty, so nothing tells the function's name.")
    entry_point = called_function(row, code, tests[0])
    return Sample(
        id=name,
        task="mbpp_plus",
        kind="code",
        input=f"{sentence.strip()}\nIt must pass this test:\n{tests[0].strip()}",
        target=(code,),
        metadata={
            "prompt": "",
            "entry_point": entry_point,
            "test": _script(row, tests, rows),
            "timeout_s": SLOW_TIMEOUT_S if name in SLOW else TIMEOUT_S,
        },
    )


def _script(row: Row, tests: Sequence[str], rows: Rows) -> str:
    """Asserts at top level that call the function by name; repaired where they lack the assert."""
    setup = row.text("test_setup_code") if row.has("test_setup_code") else ""
    script = row.text("test") if row.has("test") else "\n".join([setup, *tests])
    script = script.replace("\r\n", "\n")
    if TOOTHLESS in script and REPAIRED not in script:
        script = script.replace(TOOTHLESS, REPAIRED)
        note(rows, REPAIR_NOTE)
    return script


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    test = list(unique((row, _sample(row, rows)) for row in rows("test")))
    taken = {sample.id for sample in test}
    train = list(
        unique(
            (row, _sample(row, rows))
            for row in rows("train")
            if str(row.integer("task_id")) not in taken
        )
    )
    note(rows, "Train samples of mbpp_plus have MBPP's base tests only.")
    return {"train": train, "test": test}


TASK = Task(
    name="mbpp_plus",
    version=1,
    title="Small Python functions from one sentence, many tests",
    scenario="general",
    group="coding",
    kind="code",
    metric="pass@1",
    source=Source(
        dataset="evalplus/mbppplus",
        revision="b2d74c91837c3f2a20c1299ae98133cbe7cfa077",
        urls={"train/mbpp": _TRAIN},
        licence="Apache-2.0 (MBPP+), CC BY 4.0 (MBPP)",
        paper="Austin et al. 2021, arXiv 2108.07732; Liu et al. 2023, arXiv 2305.01210",
        splits=("train", "test"),
    ),
    load=_load,
    prompt=code_prompt,
    grade=grade_code,
    gold=fenced,
    max_tokens=MAX_TOKENS["code"],
)
