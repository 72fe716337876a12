"""Run shared test cases through the real graders and statistics: `run_cases.py FILE.jsonl ...`.

Prints one line a case and exits with 1 if any failed. Cases that only describe a situation are
checked where a module of this project decides it, and skipped with a reason elsewhere.
"""

import argparse
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from expbench import stats
from expbench.core import Output, Sample, Score
from expbench.errors import DataError, GradingError

Case = dict[str, Any]
Found = dict[str, Any]
"""What the project gives, by the names of the case's `expect`."""


class Skipped(Exception):
    """A case that no code of the graders and statistics decides; the message says why."""


def grade(case: Case, grader: Callable[[Sample, Output], Score], target: str, **more: Any) -> Score:
    sample = Sample(
        id=case["id"], task="cases", kind=case["area"], target=(target,), **{"input": "", **more}
    )
    return grader(sample, Output(text=case["input"]["output"]))


def math_case(case: Case) -> Found:
    from expbench.graders.math import grade_math

    return {"correct": grade(case, grade_math, case["input"]["reference"]).value == 1.0}


def choice_case(case: Case) -> Found:
    from expbench.graders.choice import grade_choice

    given = case["input"]
    score = grade(
        case,
        grade_choice,
        given["reference"],
        labels=tuple(given["labels"]),
        choices=tuple(given["choices"]),
    )
    return {"extracted": score.answer, "correct": score.value == 1.0}


def code_case(case: Case) -> Found:
    from expbench.graders.code import judge

    given = case["input"]
    verdict = judge(
        given["output"],
        prompt=given["prompt"],
        entry_point=given["entry_point"],
        test=given["test"],
        timeout_s=10.0,
    )
    return {"passed": verdict.status == "passed", "status": verdict.status}


def chem_case(case: Case) -> Found:
    checks: dict[str, Callable[[Case], Found]] = {
        "answer": chem_answer,
        "metric": chem_metric,
        "validity": molecule_validity,
        "identity": molecule_pair,
        "parent": molecule_pair,
        "scaffold": molecule_pair,
        "scaffold_groups": molecule_groups,
        "overlap": molecule_overlap,
        "conflicts": molecule_conflicts,
    }
    return checks[case["input"]["kind"]](case)


def chem_answer(case: Case) -> Found:
    from expbench.graders.chem import grade_chem

    score = grade(case, grade_chem, case["input"]["reference"], input=case["input"]["question"])
    return {"extracted": score.answer, "correct": score.value == 1.0}


def chem_metric(case: Case) -> Found:
    from expbench.graders.chem import grade_chem

    scores = []
    for label, said in zip(case["input"]["labels"], case["input"]["predictions"], strict=True):
        reply = {**case, "input": {"output": said or "I cannot tell."}}
        scores.append(grade(reply, grade_chem, "Yes" if label else "No"))
    summary = stats.summarise([score.value for score in scores], len(scores))
    return {"accuracy": summary.mean, "unanswered": sum(s.answer is None for s in scores)}


def molecule_validity(case: Case) -> Found:
    from expbench.molecules import is_valid

    return {"valid": is_valid(case["input"]["smiles"])}


def molecule_pair(case: Case) -> Found:
    from expbench import molecules

    names: dict[str, Callable[[str], str]] = {
        "same_canonical": molecules.canonical,
        "same_ignoring_stereo": molecules.canonical_no_stereo,
        "same_parent": molecules.parent,
        "same_scaffold": molecules.scaffold,
    }
    a, b = case["input"]["smiles_a"], case["input"]["smiles_b"]
    return {name: key(a) == key(b) for name, key in names.items()}


def molecule_groups(case: Case) -> Found:
    from expbench.molecules import scaffold, scaffold_split

    smiles = case["input"]["smiles"]
    scaffolds = [scaffold(text) for text in smiles]
    sides = scaffold_split(smiles)
    assert len({(s, side) for s, side in zip(scaffolds, sides, strict=True)}) == len(set(scaffolds))
    sizes = sorted((scaffolds.count(s) for s in set(scaffolds)), reverse=True)
    return {
        "group_sizes_sorted": sizes,
        "scaffolds": scaffolds,
        "dropped": len(smiles) - len(sides),
    }


def molecule_overlap(case: Case) -> Found:
    from expbench.molecules import overlap

    train, test = case["input"]["train"], case["input"]["test"]
    rows = overlap([smiles for _, smiles in train], [smiles for _, smiles in test])
    return {"overlap": len(rows), "overlap_test_ids": [test[row][0] for row in rows]}


def molecule_conflicts(case: Case) -> Found:
    from expbench.molecules import conflicts

    found = conflicts((smiles, label) for smiles, label in case["input"]["rows"])
    return {name: getattr(found, name) for name in case["expect"]}


def ranking_case(case: Case) -> Found:
    from expbench.graders.ranking import grade_ranking

    given = case["input"]
    if given["kind"] == "metric":
        return ranking_data(case)
    candidates = tuple(given["candidates"])
    score = grade(case, grade_ranking, str(given["reference"]), candidates=candidates)
    order = [int(number) - 1 for number in score.answer.split(", ")] if score.answer else []
    return {"ranking": order, "ndcg@10": score.value, **score.metrics}


def ranking_data(case: Case) -> Found:
    scenario = case["input"]["scenario"]
    if scenario.startswith("Negatives are drawn"):
        return candidate_drawing()
    if scenario.startswith("The candidate list was sampled without"):
        return missing_target(case)
    raise Skipped("no code for this scenario")


def candidate_drawing() -> Found:
    """Draw many lists; none may repeat an item or lack the target, and repeats are refused."""
    from expbench.tasks.next_item import draw_candidates

    items = [str(i) for i in range(60)]
    lists = [
        draw_candidates({"1", "2"}, "7", items, count=20, rng_key=f"user {i}") for i in range(200)
    ]
    sound = all(len(set(c)) == len(c) == 20 and c.count("7") == 1 for c in lists)
    try:
        draw_candidates(set(), "7", ["7", "3", "3", "9", "7"], count=5, rng_key="user")
        accepts = True
    except DataError:
        accepts = False
    built = "20 distinct items with the true next item exactly once"
    return {"built_candidates": built if sound else "unsound", "accepts_duplicates": accepts}


def missing_target(case: Case) -> Found:
    """Grade a sample whose target is no candidate: an error that stays in the denominator."""
    from expbench.graders.ranking import grade_ranking

    reply = {**case, "input": {"output": "1. 1"}}
    try:
        grade(reply, grade_ranking, "20", candidates=tuple(map(str, range(20))))
    except GradingError:
        summary = stats.summarise([None], 1)
        return {
            "counted_as": "data error, reported",
            "ndcg@10": summary.mean,
            "silently_skipped": summary.errors != 1,
        }
    return {"counted_as": "graded"}


def stats_case(case: Case) -> Found:
    given = case["input"]
    return stats_metric(given) if "metric" in given else stats_scenario(given["scenario"])


def stats_metric(given: Case) -> Found:
    checks: dict[str, Callable[[], Found]] = {
        "wilson95": lambda: {"interval": list(stats.wilson_interval(given["correct"], given["n"]))},
        "standard error of the mean": lambda: spread(given["scores"]),
        "mean pass@1 over tasks": lambda: {
            "value": stats.mean_pass_at_k([(n, c) for n, c in given["tasks"]], 1)
        },
        "mcnemar exact two-sided": lambda: {
            "p": stats.mcnemar_exact(given["only_a_right"], given["only_b_right"])
        },
        "pass@k": lambda: {"value": stats.pass_at_k(given["n"], given["c"], given["k"])},
        "bootstrap": resampling,
        "bootstrap95": lambda: bootstrap(given),
    }
    return checks[given["metric"]]()


def spread(scores: Sequence[float]) -> Found:
    found = stats.standard_error(scores)
    flag = "not a bare 0.0: an interval with non-zero width, or a flag that the error is degenerate"
    return {"value": found.value, "reported": flag if found.degenerate else found.value}


def bootstrap(given: Case) -> Found:
    found = stats.bootstrap_interval(given["scores"], resamples=given["resamples"])
    finite = math.isfinite(found.low) and math.isfinite(found.high)
    flag = " with a small-sample warning" if found.small_sample else ""
    return {"finite": finite, "value": f"[{found.low}, {found.high}]{flag}"}


def resampling() -> Found:
    """Tell n draws with replacement from fewer draws by the width, from a permutation by any."""
    scores = [0.0, 1.0] * 50
    found = stats.bootstrap_interval(scores, resamples=4000)
    width = (found.high - found.low) / (2 * 1.96 * 0.05)
    return {
        "resample_size": "n" if 0.9 < width < 1.1 else f"width factor {width:.2f}",
        "with_replacement": width > 0.0,
    }


def stats_scenario(scenario: str) -> Found:
    for start, check in {
        "180 shared items": paired_items,
        "A submission was produced with --limit 3": partial_submission,
        "10 items; 3 right, 4 wrong, 3 crashed": crashed_items,
        "120 problems, one greedy sample each": one_sample_each,
    }.items():
        if scenario.startswith(start):
            return check()
    raise Skipped("no code for this scenario")


def paired_items() -> Found:
    a = [True] * 100 + [True] * 24 + [False] * 8 + [False] * 48
    b = [True] * 100 + [False] * 24 + [True] * 8 + [False] * 48
    found = stats.compare_paired(a, b)
    return {
        "test": "paired",
        "accuracy_a": found.rate_a,
        "accuracy_b": found.rate_b,
        "mcnemar_p": found.p,
        "significant_at_0.05": found.p < 0.05,
    }


def partial_submission() -> Found:
    found = stats.summarise([1, 1, 0], 10)
    return {
        "items_total": found.total,
        "items_answered": found.answered,
        "shown_as_complete": found.complete,
    }


def crashed_items() -> Found:
    found = stats.summarise([1, 1, 1, 0, 0, 0, 0, None, None, None], 10)
    return {"accuracy": found.mean, "errors": found.errors}


def one_sample_each() -> Found:
    problems = [(1, 1)] * 36 + [(1, 0)] * 84
    at_8 = stats.mean_pass_at_k(problems, 8)
    text = "not reported (n < k), or equal to pass@1"
    return {"pass@1": stats.mean_pass_at_k(problems, 1), "pass@8": text if at_8 is None else at_8}


AREAS: dict[str, Callable[[Case], Found]] = {
    "math": math_case,
    "choice": choice_case,
    "code": code_case,
    "chem": chem_case,
    "ranking": ranking_case,
    "stats": stats_case,
}


def agrees(found: Any, wanted: Any) -> bool:
    """Compare a value with the expectation: numbers to 1e-6, those with four decimals to 1e-4."""
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(map(agrees, found, wanted))
        )
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return bool(found == wanted)
    decimals = len(str(wanted).partition(".")[2])
    tolerance = {3: 5e-4, 4: 1e-4, 5: 1e-5}.get(decimals, 1e-6)
    return isinstance(found, int | float) and abs(found - wanted) <= tolerance


def faults(found: Found, expect: Case) -> list[str]:
    """List where the project's values are not what the case wants."""
    wrong = [
        f"{name}: expected {wanted!r} got {found.get(name)!r}"
        for name, wanted in expect.items()
        if name not in ("not", "never", "acceptable") and not agrees(found.get(name), wanted)
    ]
    value = found.get("value")
    if "acceptable" in expect and not any(agrees(value, wanted) for wanted in expect["acceptable"]):
        wrong.append(f"expected one of {expect['acceptable']!r} got {value!r}")
    for key in ("not", "never"):
        if key in expect and any(
            agrees(v, expect[key]) or str(v) == expect[key] for v in found.values()
        ):
            wrong.append(f"got {expect[key]!r}, which shows the fault")
    return wrong


def run(lines: Sequence[str], area: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield (verdict, printed line) a case; verdicts are `passed`, `failed`, `skipped`."""
    for line in filter(str.strip, lines):
        case = json.loads(line)
        check = AREAS.get(area or case["area"])
        try:
            if check is None:
                raise Skipped(f"area {case['area']} is not run here")
            wrong = faults(check(case), case["expect"])
        except Skipped as reason:
            yield "skipped", f"{case['id']} skipped ({reason})"
        except Exception as error:  # A crash is a failed case, and the next one still runs.
            yield "failed", f"{case['id']} WRONG {type(error).__name__}: {error}"
        else:
            if wrong:
                yield "failed", f"{case['id']} WRONG {'; '.join(wrong)}"
            else:
                yield "passed", f"{case['id']} ok"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--area", choices=sorted(AREAS), help="overrides each line's own area")
    options = parser.parse_args(arguments)
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for file in options.files:
        for verdict, text in run(file.read_text(encoding="utf-8").splitlines(), options.area):
            counts[verdict] += 1
            print(text, flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
