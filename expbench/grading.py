"""Grade many outputs at once, on threads: graders wait for worker processes and sandboxes."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from expbench.core import Grader, Output, Sample, Score
from expbench.errors import GradingError

WORKERS = os.cpu_count() or 1


def grade_one(grader: Grader, sample: Sample, output: Output) -> Score | str:
    """Grade an output; a grader that fails gives its error as text, never a zero."""
    try:
        score = grader(sample, output)
        if not isinstance(score, Score):
            raise GradingError(f"The grader of {sample.task} returned {score!r}, not a Score.")
    except Exception as error:  # a grader's failure is an error of this sample, whatever it is
        return f"{type(error).__name__}: {error}"
    return score


def grade_all(grader: Grader, pairs: Iterable[tuple[Sample, Output]]) -> list[Score | str]:
    """Grade (sample, output) pairs in parallel, results in the order given."""
    with ThreadPoolExecutor(max_workers=WORKERS) as threads:
        return list(threads.map(lambda pair: grade_one(grader, *pair), pairs))
