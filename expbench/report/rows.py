"""One row a run: everything a table needs, read from the run folder and from nothing else."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from expbench.core import Record, Role, checksum
from expbench.errors import RecordError
from expbench.records import RunFolder
from expbench.report.estimates import estimate_macro, estimate_mean

ROLES: tuple[Role, ...] = ("prompt", "retrieved", "generated")


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """The result of one run."""

    run_id: str
    board: str
    """Runs of one board may stand in one table: same suite, preset, limits, and code isolation."""
    backbone: str
    """Name and number format of the model; empty for methods without one."""
    method: str
    config: Mapping[str, Any]
    reference: bool
    seed: int
    task: str
    scenario: str
    group: str
    metric: str
    edition: str
    """Task version and checksum of the test samples: scores of two editions are not comparable."""
    samples: int
    """Size of the test set: the denominator, whatever came back."""
    answered: int
    errors: int
    truncated: int
    unread: int
    """Outputs from which no answer could be read."""
    score: float
    """The headline metric in [0, 1]; errors and missing samples count as 0 in it."""
    low: float
    high: float
    """95 % interval of `score` over samples."""
    metrics: Mapping[str, float]
    """Secondary metrics, means over the same denominator."""
    tokens: Mapping[str, int]
    """Tokens of all answers by role."""
    earned: float
    """Sum of the scores: the number of right answers where scores are 0 or 1."""
    seconds: Mapping[str, float]
    """Seconds by phase, over all sessions."""
    pool_tokens: int
    """Tokens that collecting the pool cost; shared by all methods that read it."""
    notes: tuple[str, ...]
    provenance: Mapping[str, Any]

    @property
    def is_ranked(self) -> bool:
        """Tell whether the run is complete and free of errors."""
        return self.answered == self.samples and not self.errors


def read_row(folder: RunFolder) -> RunRow:
    """Summarise a run folder.

    Raises:
        RecordError: the folder is damaged, or its records are not those of its `run.json`.
    """
    info = folder.info
    records = list(folder.records())
    if len({record.sample_id for record in records}) != len(records):
        raise RecordError(f"{folder.path} holds a sample twice; run its command again.")
    try:
        return _build_row(folder.run_id, info, records)
    except KeyError as error:
        raise RecordError(f"{folder.path}/run.json lacks {error}; it cannot be reported.") from None


def _build_row(run_id: str, info: Mapping[str, Any], records: list[Record]) -> RunRow:
    spec, task, samples = info["spec"], info["task"], int(info["samples"])
    values = [record.score.value if record.score else None for record in records]
    filled = [*values, *[None] * (samples - len(records))]
    strata = _strata(records, task["macro_over"], samples)
    if strata:
        score, low, high = estimate_macro(strata)
    else:
        score, low, high = estimate_mean(filled)
    outputs = [record.output for record in records]
    return RunRow(
        run_id=run_id,
        board=_board(spec),
        backbone=_backbone(spec["backbone"]),
        method=spec["method"],
        config=spec["method_config"],
        reference=info["method"]["reference"],
        seed=spec["seed"],
        task=spec["task"],
        scenario=task["scenario"],
        group=task["group"],
        metric=task["metric"],
        edition=f"v{task['graded_version']}/{spec['data']['checksums']['test'][:12]}",
        samples=samples,
        answered=len(records),
        errors=sum(record.error is not None for record in records),
        truncated=sum(output.stop_reason == "length" for output in outputs),
        unread=sum(r.score is not None and r.score.answer is None for r in records),
        score=score,
        low=low,
        high=high,
        metrics=_secondary(records, samples, kind=task["kind"]),
        tokens={role: sum(output.tokens(role) for output in outputs) for role in ROLES},
        earned=sum(value or 0.0 for value in values),
        seconds=_seconds(info, records),
        pool_tokens=int(info.get("pool", {}).get("tokens", 0)),
        notes=tuple(info["notes"]),
        provenance=info["provenance"],
    )


def _board(spec: Mapping[str, Any]) -> str:
    """Name the table a run belongs to; anything that differs here is never mixed."""
    limits = ", ".join(f"{k} {spec['limits'][k] or 'all'}" for k in ("train", "test"))
    unsafe = ", UNSAFE code grading" if spec["sandbox"] == "unsafe" else ""
    return f"suite {spec['suite']}, preset {spec['preset']}, {limits} samples{unsafe}"


def _backbone(backbone: Mapping[str, Any]) -> str:
    if not backbone:
        return ""
    name = str(backbone["name"]).rstrip("/").rpartition("/")[2]
    return f"{name} ({backbone['dtype']}, {backbone['device']}, {backbone['fingerprint'][:8]})"


def _strata(
    records: Iterable[Record], tag: str, samples: int
) -> Mapping[str, list[float | None]] | None:
    """Group the scores of a finished run by a tag; None where the plain mean is meant."""
    if not tag:
        return None
    groups: dict[str, list[float | None]] = defaultdict(list)
    for record in records:
        groups[record.tags.get(tag, "")].append(record.score.value if record.score else None)
    if (absent := samples - sum(map(len, groups.values()))) > 0:
        groups["not answered"] = [None] * absent
    return groups


def _secondary(records: list[Record], samples: int, *, kind: str) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for record in records:
        for name, value in (record.score.metrics if record.score else {}).items():
            sums[name] += value
    metrics = {name: total / samples for name, total in sums.items()}
    if kind == "chem" and len(records) == samples:
        metrics |= _two_class(records)
    return metrics


def _two_class(records: list[Record]) -> dict[str, float]:
    """Balanced accuracy and MCC over all molecules; an unread answer counts as the wrong class."""
    cells = Counter(
        (r.target == "Yes", r.score is not None and r.score.value == 1.0) for r in records
    )
    tp, fn = cells[True, True], cells[True, False]
    tn, fp = cells[False, True], cells[False, False]
    if not (tp + fn and tn + fp):
        return {}
    spread = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    return {
        "balanced accuracy": (tp / (tp + fn) + tn / (tn + fp)) / 2,
        "MCC": (tp * tn - fp * fn) / spread if spread else 0.0,
    }


def _seconds(info: Mapping[str, Any], records: list[Record]) -> dict[str, float]:
    """Add up the phases of all sessions; answering is taken from the records that were kept."""
    total: dict[str, float] = defaultdict(float)
    for session in info["sessions"]:
        for phase, seconds in session.get("seconds", {}).items():
            total[phase] += seconds
    pool = info.get("pool")
    return {
        **total,
        "answer": sum(record.seconds for record in records),
        **({"collect": float(pool["seconds"])} if pool else {}),
    }


def same_edition(rows: Iterable[RunRow]) -> tuple[list[RunRow], list[str]]:
    """Keep, for every task, the rows of the edition that most runs have.

    Returns:
        The rows kept, and one sentence for each task of which runs were left out.
    """
    by_task: dict[str, dict[str, list[RunRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_task[row.task][row.edition].append(row)
    kept: list[RunRow] = []
    notes: list[str] = []
    for task, editions in by_task.items():
        best = max(editions, key=lambda e: (len(editions[e]), e))
        kept += editions.pop(best)
        if editions:
            ids = ", ".join(row.run_id for rows in editions.values() for row in rows)
            notes.append(f"{task}: left out {ids}, made on another task version or other samples.")
    return kept, notes


def label_methods(rows: Iterable[RunRow]) -> dict[str, str]:
    """Name every run's method as a table shows it, with the settings and backbone that differ.

    Returns:
        Run id -> label.
    """
    rows = list(rows)
    labels = {}
    many = len({row.backbone for row in rows if row.backbone}) > 1
    for row in rows:
        kin = [r for r in rows if r.method == row.method]
        keys = [k for k in row.config if len({checksum(r.config.get(k)) for r in kin}) > 1]
        differing = ", ".join(f"{k}={row.config[k]}" for k in sorted(keys))
        label = f"{row.method}({differing})" if differing else row.method
        labels[row.run_id] = f"{label} · {row.backbone}" if many and row.backbone else label
    return labels
