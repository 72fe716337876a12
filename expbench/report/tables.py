"""Tables as values: built once from rows, shown in the terminal, as Markdown or as JSON."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from expbench.core import Role
from expbench.report.rows import RunRow, label_methods, same_edition

Cell = str | float | int | None
SCENARIOS = ("general", "pharma-chemistry", "recommendation")
GROUPS = ("qa", "reasoning", "coding", "chem", "rec")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A titled table; cells are numbers or text, None where there is nothing."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    rules: tuple[int, ...] = ()
    """Indices of rows before which a line is drawn."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """All tables of runs that may be compared."""

    name: str
    tables: tuple[Table, ...]
    rows: tuple[RunRow, ...]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The runs of one method, added up."""

    rows: tuple[RunRow, ...]

    @property
    def covered(self) -> int:
        """Number of tasks."""
        return len({row.task for row in self.rows})

    @property
    def answered(self) -> int:
        """Number of answers, at least 1 so that a share of none is 0."""
        return sum(row.answered for row in self.rows) or 1

    def per_sample(self, role: Role) -> float:
        """Tokens of a role an answer."""
        return round(sum(row.tokens[role] for row in self.rows) / self.answered, 1)

    @property
    def per_right_answer(self) -> float | None:
        """Tokens of all roles over the sum of scores; None where nothing was right."""
        earned = sum(row.earned for row in self.rows)
        spent = sum(sum(row.tokens.values()) for row in self.rows)
        return round(spent / earned, 1) if earned else None

    def share(self, count: str) -> str:
        """Share of answers that a counter of the rows counts, in percent."""
        return f"{sum(getattr(row, count) for row in self.rows) / self.answered:.0%}"

    @property
    def _own_and_shared(self) -> list[RunRow]:
        """The runs whose learning counts: all without a checkpoint, one of each that share one."""
        first = {row.training["key"]: row for row in self.rows if row.training}
        return [*(row for row in self.rows if not row.training), *first.values()]

    @property
    def pool_tokens(self) -> int:
        """Tokens of the pools that were learnt from."""
        return sum(row.pool_tokens for row in self._own_and_shared)

    @property
    def learning_tokens(self) -> int:
        """Tokens that training read and wrote; shared trainings count once."""
        return sum(int(row.training.get("tokens", 0)) for row in self._own_and_shared)

    @property
    def learning_seconds(self) -> float:
        """Seconds of learning; shared trainings count once."""
        trained = sum(float(row.training.get("seconds", 0.0)) for row in self._own_and_shared)
        return round(self.seconds("fit") + trained, 1)

    def seconds(self, phase: str) -> float:
        """Seconds of a phase."""
        return sum(row.seconds.get(phase, 0.0) for row in self.rows)


def boards(rows: Iterable[RunRow]) -> list[Board]:
    """Sort runs into boards and build each board's tables."""
    by_name: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        by_name[row.board].append(row)
    found = []
    for name in sorted(by_name):
        kept, notes = same_edition(by_name[name])
        tables = (accuracy_table(kept, notes), token_table(kept), *_detail_tables(kept))
        found.append(Board(name=name, tables=tables, rows=tuple(kept)))
    return found


def _columns(rows: Sequence[RunRow], labels: Mapping[str, str]) -> list[str]:
    """Order methods: references last, then by name."""
    last = {labels[row.run_id]: row.reference for row in rows}
    return sorted(last, key=lambda label: (last[label], label))


def _task_order(rows: Iterable[RunRow]) -> list[str]:
    place = {r.task: (SCENARIOS.index(r.scenario), _group(r.group), r.task) for r in rows}
    return sorted(place, key=lambda task: place[task])


def _group(name: str) -> int:
    return GROUPS.index(name) if name in GROUPS else len(GROUPS)


def accuracy_table(rows: Sequence[RunRow], notes: Iterable[str] = ()) -> Table:
    """Tasks down, methods across, then means by scenario and over all tasks.

    A cell is the mean over seeds with its interval. A run with errors is marked `!` and an
    unfinished one shows its share; neither takes part in a mean, and a mean stands only for methods
    that have every task of it.
    """
    labels = label_methods(rows)
    columns = _columns(rows, labels)
    cells: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for row in rows:
        cells[row.task, labels[row.run_id]].append(row)
    tasks = _task_order(rows)
    info = {row.task: row for row in rows}
    body: list[tuple[Cell, ...]] = [
        (t, info[t].metric, info[t].samples, *(_score_cell(cells[t, c]) for c in columns))
        for t in tasks
    ]
    means: list[tuple[Cell, ...]] = []
    scopes = [(s, [t for t in tasks if info[t].scenario == s]) for s in SCENARIOS]
    scopes = [(name, inside) for name, inside in scopes if inside]
    if len(tasks) > 1:
        for name, inside in [*scopes, ("all tasks", tasks)]:
            row_means = [_mean_cell([cells[t, c] for t in inside]) for c in columns]
            means.append((f"mean: {name}", None, len(inside), *row_means))
    return Table(
        title="Accuracy: score in percent [95 % interval]",
        columns=("task", "metric", "n", *columns),
        rows=(*body, *means),
        notes=(*notes, *_accuracy_notes(rows, labels)),
        rules=(len(body),) if means else (),
    )


def _score_cell(rows: Sequence[RunRow]) -> Cell:
    if not rows:
        return None
    if any(row.answered < row.samples for row in rows):
        return f"{sum(r.answered for r in rows)}/{sum(r.samples for r in rows)} done"
    errors = sum(row.errors for row in rows)
    score, low, high = (fmean(100 * getattr(r, f) for r in rows) for f in ("score", "low", "high"))
    text = f"{score:.1f} [{low:.0f},{high:3.0f}]"
    return f"{text} !{errors}" if errors else text


def _mean_cell(cells: Sequence[Sequence[RunRow]]) -> Cell:
    if not all(rows and all(row.is_ranked for row in rows) for rows in cells):
        return None
    return f"{100 * fmean(fmean(row.score for row in rows) for rows in cells):.1f}"


def _accuracy_notes(rows: Sequence[RunRow], labels: Mapping[str, str]) -> list[str]:
    notes = ["A difference smaller than the intervals is not a win."]
    references = sorted({labels[row.run_id] for row in rows if row.reference})
    if references:
        notes.append(f"References that use no language model: {', '.join(references)}.")
    backbones = sorted({row.backbone for row in rows if row.backbone})
    if backbones:
        notes.append(f"Backbone: {'; '.join(backbones)}.")
    seeds = sorted({row.seed for row in rows})
    notes.append(f"Seeds: {', '.join(map(str, seeds))}. An interval is over the test samples.")
    if any(row.errors for row in rows):
        notes.append(
            "!N: the grader could not judge N samples. They stay in the denominator and the method "
            "has no mean until `expbench regrade` has mended them."
        )
    if any(row.answered < row.samples for row in rows):
        notes.append("An unfinished run has no score; its own command completes it.")
    return notes


COSTS: tuple[tuple[str, Callable[[Cost], Cell]], ...] = (
    ("tasks", lambda c: c.covered),
    ("prompt tokens / sample", lambda c: c.per_sample("prompt")),
    ("retrieved tokens / sample", lambda c: c.per_sample("retrieved")),
    ("generated tokens / sample", lambda c: c.per_sample("generated")),
    ("tokens / right answer", lambda c: c.per_right_answer),
    ("truncated answers", lambda c: c.share("truncated")),
    ("no answer read", lambda c: c.share("unread")),
    ("seconds / sample", lambda c: round(c.seconds("answer") / c.answered, 3)),
    ("tokens to collect the pool", lambda c: c.pool_tokens),
    ("tokens to learn", lambda c: c.learning_tokens),
    ("seconds to learn", lambda c: c.learning_seconds),
)


def token_table(rows: Sequence[RunRow]) -> Table:
    """Costs down, methods across."""
    labels = label_methods(rows)
    columns = _columns(rows, labels)
    costs = [Cost(rows=tuple(r for r in rows if labels[r.run_id] == c)) for c in columns]
    return Table(
        title="Cost",
        columns=("", *columns),
        rows=tuple((name, *(read(cost) for cost in costs)) for name, read in COSTS),
        notes=(
            "Prompt: the task's words and the chat template; retrieved: what a method adds from "
            "experience; generated: what the model wrote.",
            "The pool's tokens are counted for every method that learns from it, and apart from "
            "what learning costs; a training that several tasks share is counted once.",
        ),
    )


def _detail_tables(rows: Sequence[RunRow]) -> list[Table]:
    """Secondary metrics (HR@10, MRR, balanced accuracy, MCC) of the tasks that have any."""
    labels = label_methods(rows)
    columns = _columns(rows, labels)
    cells: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.metrics.items():
            cells[row.task, name, labels[row.run_id]].append(value)
    keys = {(task, name) for task, name, _ in cells}
    order = _task_order(rows)
    body = [
        (task, name, *(_percent(cells.get((task, name, c))) for c in columns))
        for task, name in sorted(keys, key=lambda key: (order.index(key[0]), key[1]))
    ]
    if not body:
        return []
    title = "Secondary metrics, in percent"
    return [Table(title=title, columns=("task", "metric", *columns), rows=tuple(body))]


def _percent(values: Sequence[float] | None) -> Cell:
    return f"{100 * fmean(values):.1f}" if values else None
