"""`expbench show`."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from expbench.console import say
from expbench.core import Question, Record
from expbench.errors import DataError
from expbench.records import RunFolder, find_run
from expbench.registry import get_task
from expbench.suites import load


def show_run(
    run_id: str, *, root: Path, wrong: bool, limit: int, data_dir: Path | None, as_json: bool
) -> None:
    """Print samples of a run: question, output, grade.

    Raises:
        RecordError: no such run, or several.
    """
    folder = find_run(root, run_id)
    records = [r for r in folder.records() if not wrong or r.score is None or r.score.value < 1]
    shown = records[:limit] if limit else records
    questions = _questions(folder, data_dir)
    if as_json:
        lines = [
            {"question": questions[r.sample_id].prompt if r.sample_id in questions else None}
            | asdict(r)
            for r in shown
        ]
        print(json.dumps({"run": folder.info, "records": lines}, ensure_ascii=False, indent=1))
        return
    console = Console(highlight=False)
    for record in shown:
        console.print(_panel(record, questions.get(record.sample_id)))
    what = "below 1" if wrong else "in all"
    console.print(f"{len(shown)} shown of {len(records)} samples {what}; run {folder.run_id}.")


def _questions(folder: RunFolder, data_dir: Path | None) -> dict[str, Question]:
    """Load the questions of a run; without its data the outputs are shown alone."""
    spec = folder.info["spec"]
    limits = spec["limits"]
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
        text.append(question.prompt.strip() + "\n\n", style="dim")
    output = record.output
    if output.ranking is not None:
        text.append("ranking: " + ", ".join(str(p + 1) for p in output.ranking) + "\n")
    else:
        text.append((output.text.strip() or "(empty)") + "\n")
    if record.score is None:
        text.append(f"\nerror: {record.error}", style="bold red")
        style = "red"
    else:
        style = "green" if record.score.value == 1 else "yellow"
        text.append(
            f"\nscore {record.score.value:.3f}   read: {record.score.answer or 'no answer'}"
            f"   right: {record.target or '(by its tests)'}   {record.score.explanation}",
            style=style,
        )
    costs = ", ".join(f"{s.role} {s.tokens}" for s in output.segments) or "no tokens"
    return Panel(
        text,
        title=record.sample_id,
        subtitle=f"{costs} · {output.stop_reason}",
        border_style=style,
        title_align="left",
    )
