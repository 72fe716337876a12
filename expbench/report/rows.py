"""One row a run: everything a table needs, read from the run folder and from nothing else."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
    """Tokens that collecting the pool cost, of all tasks that were learnt from; shared by all
    methods that read it."""
    method_version: int
    pool_limit: int
    training: Mapping[str, Any]
    """`key`, `scope`, `tasks`, `seconds`, `tokens` of the checkpoint that was answered with; empty
    for methods that keep none. Runs with one key share one training and its pools."""
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
        pool_tokens=_pool_tokens(info),
        method_version=int(spec["method_version"]),
        pool_limit=int(spec["limits"].get("pool", 0)),
        training=_training(info),
        notes=tuple(info["notes"]),
        provenance=info["provenance"],
    )


def _pool_tokens(info: Mapping[str, Any]) -> int:
    pools = info.get("training", {}).get("pools", {}).values()
    return sum(int(pool["tokens"]) for pool in (*pools, info.get("pool", {"tokens": 0})))


def _training(info: Mapping[str, Any]) -> dict[str, Any]:
    account = info.get("training")
    if not account:
        return {}
    spent = {name: value for name, value in account["cost"].items() if name.endswith("tokens")}
    return {
        "key": account["key"],
        "scope": account["scope"],
        "tasks": account["tasks"],
        "seconds": account["seconds"],
        "tokens": round(sum(spent.values())),
    }


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
    """Name every run's method as a table shows it, with whatever else differs among its runs.

    Two runs of one task and seed never share a label: settings, version, pool size, backbone, or
    the training that they answer with tell them apart.

    Returns:
        Run id -> label.
    """
    rows = list(rows)
    labels = {}
    many = len({row.backbone for row in rows if row.backbone}) > 1
    for row in rows:
        kin = [r for r in rows if r.method == row.method]
        label = f"{row.method}{_differing(row, kin)}"
        if row.training and row.task not in row.training["tasks"]:
            label += f" from {row.training['scope']}"
        labels[row.run_id] = f"{label} · {row.backbone}" if many and row.backbone else label
    return _told_apart(rows, labels)


def _differing(row: RunRow, kin: Sequence[RunRow]) -> str:
    """Name the settings of a run that its method's other runs have otherwise."""
    keys = [k for k in row.config if len({checksum(r.config.get(k)) for r in kin}) > 1]
    parts = [f"{k}={row.config[k]}" for k in sorted(keys)]
    if len({r.method_version for r in kin}) > 1:
        parts.append(f"version {row.method_version}")
    if row.pool_tokens and len({r.pool_limit for r in kin}) > 1:
        parts.append(f"pool {row.pool_limit or 'all'}")
    return f"({', '.join(parts)})" if parts else ""


def _told_apart(rows: Sequence[RunRow], labels: Mapping[str, str]) -> dict[str, str]:
    """Tell runs apart that would stand in one cell: by their training, or by their own id."""
    cells: dict[tuple[str, str, int], dict[str, RunRow]] = defaultdict(dict)
    for row in rows:
        cells[labels[row.run_id], row.task, row.seed][row.run_id] = row
    clashing = {key: found for key, found in cells.items() if len(found) > 1}
    trained = {key[0] for key, found in clashing.items() if any(r.training for r in found.values())}
    told = dict(labels)
    for row in rows:
        label = labels[row.run_id]
        if row.training and label in trained:
            told[row.run_id] = f"{label} #{row.training['key'][:4]}"
        elif not row.training and (label, row.task, row.seed) in clashing:
            told[row.run_id] = f"{label} #{row.run_id[:4]}"
    return told
