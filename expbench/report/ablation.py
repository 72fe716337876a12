"""The ablation table: what each variant's bank is worth, from run folders alone.

Gain = the score with the bank minus the score of the same weights without it, on the same samples.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from expbench.errors import RecordError
from expbench.records import RunFolder
from expbench.report.rows import RunRow, read_row
from expbench.report.tables import SCENARIOS, Cell, Table
from expbench.stats import SMALL_SAMPLE, paired_gain

ALL = "mean: all tasks"
MOST_TASKS = 4
"""With more tasks than these, the table shows means by scenario; JSON always has every task."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One task with one seed, answered with and without the bank."""

    row: RunRow
    without: RunRow
    strata: Mapping[str, Mapping[str, tuple[float, float]]]
    """Value of the tag that the task averages over -> sample id -> (score with, without)."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One variant on one task or one mean over tasks."""

    variant: str
    scope: str
    """Task, `mean: scenario` or `mean: all tasks`."""
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    """Ids of the runs with the bank, then of those without."""
    score: float | None
    """With the bank, in [0, 1]; None where a run failed, is unfinished or has errors."""
    without: float | None
    gain: float | None
    low: float | None
    high: float | None
    """95 % interval of `gain`: paired bootstrap over samples, a sample's seeds averaged first."""
    n: int
    differing: int
    """Samples whose score depends on the bank."""


def read_pair(with_bank: RunFolder, without: RunFolder) -> Pair:
    """Read two runs of one task and seed.

    Raises:
        RecordError: a folder is damaged, or the two were not asked the same samples.
    """
    row, other = read_row(with_bank), read_row(without)
    if (row.task, row.edition, row.seed) != (other.task, other.edition, other.seed):
        raise RecordError(f"Runs {row.run_id} and {other.run_id} were not asked the same samples.")
    tag = with_bank.info["task"]["macro_over"]
    second = {r.sample_id: r.score.value for r in without.records() if r.score}
    strata: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for record in with_bank.records():
        if record.score and record.sample_id in second:
            pair = (record.score.value, second[record.sample_id])
            strata[record.tags.get(tag, "") if tag else ""][record.sample_id] = pair
    return Pair(row=row, without=other, strata=strata)


def ablation_lines(
    variants: Mapping[str, Sequence[Pair]], *, tasks: Mapping[str, str], seeds: Sequence[int]
) -> list[Line]:
    """Compute every variant on every task, every scenario with several, and all tasks.

    Args:
        variants: Label -> its pairs; one that failed is absent.
        tasks: Task -> scenario, for all tasks that were asked for, in order.
        seeds: All seeds that were asked for.
    """
    scopes = list(_scopes(tasks))
    return [
        _line(label, scope, inside, seeds, {(p.row.task, p.row.seed): p for p in pairs})
        for label, pairs in variants.items()
        for scope, inside in scopes
    ]


def _scopes(tasks: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for task in tasks:
        yield task, (task,)
    scenarios = [s for s in SCENARIOS if s in tasks.values()]
    for scenario in scenarios:
        inside = tuple(task for task in tasks if tasks[task] == scenario)
        if len(inside) > 1:
            yield f"mean: {scenario}", inside
    if len(scenarios) > 1:
        yield ALL, tuple(tasks)


def _line(
    label: str,
    scope: str,
    tasks: tuple[str, ...],
    seeds: Sequence[int],
    pairs: Mapping[tuple[str, int], Pair],
) -> Line:
    wanted = [(task, seed) for task in tasks for seed in seeds]
    found = [pairs[key] for key in wanted if key in pairs]
    ranked = [p for p in found if p.row.is_ranked and p.without.is_ranked]
    complete = len(ranked) == len(wanted)
    gain = None
    if complete:
        gain = paired_gain(
            [x for task in tasks for x in _strata([pairs[task, s] for s in seeds], len(tasks))]
        )
    return Line(
        variant=label,
        scope=scope,
        tasks=tasks,
        seeds=tuple(seeds),
        runs=(*(p.row.run_id for p in found), *(p.without.run_id for p in found)),
        score=fmean(p.row.score for p in ranked) if complete else None,
        without=fmean(p.without.score for p in ranked) if complete else None,
        gain=gain.mean if gain else None,
        low=gain.low if gain else None,
        high=gain.high if gain else None,
        n=gain.n if gain else 0,
        differing=gain.differing if gain else 0,
    )


def _strata(pairs: Sequence[Pair], tasks: int) -> list[tuple[float, list[float]]]:
    """Give one task's differences by stratum, each sample averaged over seeds."""
    names = sorted({name for pair in pairs for name in pair.strata})
    strata = []
    for name in names:
        by_sample: dict[str, list[float]] = defaultdict(list)
        for pair in pairs:
            for sample, (score, without) in pair.strata[name].items():
                by_sample[sample].append(score - without)
        strata.append((1 / (tasks * len(names)), [fmean(d) for d in by_sample.values()]))
    return strata


def ablation_table(title: str, lines: Sequence[Line]) -> Table:
    """Scopes down, within each the variants: score, score without the bank, and the gain."""
    scopes = _shown(lines)
    shown = [line for scope in scopes for line in lines if line.scope == scope]
    starts = [i for i, x in enumerate(shown) if i and x.scope != shown[i - 1].scope]
    return Table(
        title=title,
        columns=("on", "variant", "n", "score", "without bank", "gain [95 %]"),
        rows=tuple((line.scope, line.variant, line.n or None, *_cells(line)) for line in shown),
        notes=tuple(_notes(shown)),
        rules=tuple(starts),
    )


def _shown(lines: Sequence[Line]) -> list[str]:
    """Give the scopes for people: tasks where they are few, else the means that cover them."""
    scopes = list(dict.fromkeys(line.scope for line in lines))
    if len({line.scope for line in lines if len(line.tasks) == 1}) <= MOST_TASKS:
        return scopes
    means = [line for line in lines if len(line.tasks) > 1 and line.scope != ALL]
    covered = {task for line in means for task in line.tasks}
    return [scope for scope in scopes if scope not in covered]


def _cells(line: Line) -> tuple[Cell, Cell, Cell]:
    if line.score is None or line.without is None or line.gain is None:
        return (None, None, None)
    if line.low is None or line.high is None or not line.differing:
        gain = f"{_points(line.gain)} [none differ]"
    else:
        gain = f"{_points(line.gain)} [{_points(line.low)}, {_points(line.high)}]"
    return (f"{100 * line.score:.1f}", f"{100 * line.without:.1f}", gain)


def _points(share: float) -> str:
    # Adding 0 turns the -0.0 of a rounded residue into 0.0.
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def _notes(lines: Sequence[Line]) -> Iterator[str]:
    yield (
        "Scores in percent. Gain: with the bank minus the same weights without it, "
        "paired bootstrap over the same samples."
    )
    yield "A gain whose interval holds 0 is not one."
    if any(line.score is not None and not line.differing for line in lines):
        yield "none differ: no sample scored otherwise without the bank; a small n shows little."
    if small := list(dict.fromkeys(x.scope for x in lines if 0 < x.n < SMALL_SAMPLE)):
        yield f"Fewer than {SMALL_SAMPLE} samples, so the interval says little: {', '.join(small)}."
    if any(line.score is None for line in lines):
        yield "-: a run failed, is unfinished or has errors; the same command goes on with it."
    seeds = sorted({seed for line in lines for seed in line.seeds})
    yield f"Seeds: {', '.join(map(str, seeds))}; a sample's seeds are averaged before the interval."
