"""`expbench show`."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from expbench.console import say
from expbench.core import Question, Record
from expbench.errors import ConfigError, DataError, RecordError, UnknownName
from expbench.records import RunFolder, find_run
from expbench.registry import get_task
from expbench.report.trace import Trace, read_trace
from expbench.report.trace_html import trace_page
from expbench.report.trace_text import print_trace
from expbench.report.visible import visible
from expbench.suites import load

SHOWN = 10
"""Samples that are shown where no limit is given."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `expbench show` was asked for."""

    run: str
    root: Path
    wrong: bool = False
    sample: str | None = None
    limit: int | None = None
    """Samples at most; 0 for all; None for 10, or all on a page."""
    data_dir: Path | None = None
    trace: bool = False
    html: Path | None = None
    as_json: bool = False


def show_run(request: Request) -> None:
    """Print samples of a run: question, output, grade; or which experiences touched which token.

    Raises:
        ConfigError: both JSON and a page are asked for.
        RecordError: no such run, or several; no trace is stored; the page cannot be written.
        UnknownName: the run has no such sample.
    """
    if request.as_json and request.html:
        raise ConfigError("--json and --html are two forms of one view; give one of them.")
    folder = find_run(request.root, request.run)
    records = _chosen(folder, request)
    if request.trace or request.html:
        _require_trace(folder, records)
    questions = _questions(folder, request.data_dir)
    limit = request.limit if request.limit is not None else 0 if request.html else SHOWN
    shown = records[:limit] if limit else records
    if request.as_json:
        _print_json(folder, shown, questions)
    elif request.html:
        _write_page(request.html, _trace(folder, shown, questions))
    elif request.trace:
        print_trace(_trace(folder, records, questions), limit=limit)
    else:
        console = Console(highlight=False)
        for record in shown:
            console.print(_panel(record, questions.get(record.sample_id)))
        what = "below 1" if request.wrong else "in all"
        console.print(f"{len(shown)} shown of {len(records)} samples {what}; run {folder.run_id}.")


def _chosen(folder: RunFolder, request: Request) -> list[Record]:
    records = list(folder.records())
    if request.sample is not None:
        ids = [record.sample_id for record in records]
        if request.sample not in ids:
            near = difflib.get_close_matches(request.sample, ids, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UnknownName(
                f"Run {folder.run_id} has no sample {request.sample!r}.{hint} "
                f"`expbench show {folder.run_id} --limit 0` shows all {len(ids)}."
            )
        records = [record for record in records if record.sample_id == request.sample]
    return [r for r in records if not request.wrong or r.score is None or r.score.value < 1]


def _require_trace(folder: RunFolder, records: Sequence[Record]) -> None:
    if records and not any(record.output.trace for record in records):
        spec = folder.info["spec"]
        raise RecordError(
            f"Run {folder.run_id} ({spec['method']} on {spec['task']}) stores no trace for the "
            "samples asked for. A method that can trace has a setting for it: run it again with "
            "--set trace=true."
        )


def _trace(
    folder: RunFolder, records: Sequence[Record], questions: Mapping[str, Question]
) -> Trace:
    spec = folder.info["spec"]
    return read_trace(
        records,
        run_id=folder.run_id,
        title=f"{spec['method']} on {spec['task']}, seed {spec['seed']}",
        questions={name: question.prompt for name, question in questions.items()},
    )


def _write_page(path: Path, trace: Trace) -> None:
    page = trace_page(trace).encode()
    try:
        path.write_bytes(page)
    except OSError as error:
        raise RecordError(
            f"Cannot write {path}: {error.strerror}. Give --html a file in a folder that exists."
        ) from error
    say(f"Wrote {path}: {len(trace.answers)} answers, {len(page) / 1000:,.0f} kB.")


def _print_json(
    folder: RunFolder, records: Sequence[Record], questions: Mapping[str, Question]
) -> None:
    lines = [
        {"question": questions[r.sample_id].prompt if r.sample_id in questions else None}
        | asdict(r)
        for r in records
    ]
    print(json.dumps({"run": folder.info, "records": lines}, ensure_ascii=False, indent=1))


def _questions(folder: RunFolder, data_dir: Path | None) -> dict[str, Question]:
    """Load the questions of a run; without its data the outputs are shown alone."""
    spec = folder.info["spec"]
    limits = spec["limits"]
    if spec["suite"] == "dir" and data_dir is None:
        say("Questions are not shown: the run read a folder; name it with --data-dir.")
        return {}
    try:
        data = load(
            get_task(spec["task"]),
            suite=spec["suite"],
            data_dir=data_dir,
            train_limit=limits["train"],
            test_limit=limits["test"],
        )
    except DataError as error:
        say(f"Questions are not shown: {error}")
        return {}
    return {sample.id: sample.question() for sample in data.test}


def _panel(record: Record, question: Question | None) -> Panel:
    text = Text()
    if question is not None:
        text.append(visible(question.prompt.strip()) + "\n\n", style="dim")
    output = record.output
    if output.ranking is not None:
        text.append("ranking: " + ", ".join(str(p + 1) for p in output.ranking) + "\n")
    else:
        text.append((visible(output.text.strip()) or "(empty)") + "\n")
    if record.score is None:
        text.append(visible(f"\nerror: {record.error}"), style="bold red")
        style = "red"
    else:
        style = "green" if record.score.value == 1 else "yellow"
        text.append(
            visible(
                f"\nscore {record.score.value:.3f}   read: {record.score.answer or 'no answer'}"
                f"   right: {record.target or '(by its tests)'}   {record.score.explanation}"
            ),
            style=style,
        )
    costs = ", ".join(f"{s.role} {s.tokens}" for s in output.segments) or "no tokens"
    return Panel(
        text,
        title=Text(visible(record.sample_id)),
        subtitle=f"{costs} · {output.stop_reason}",
        border_style=style,
        title_align="left",
    )
