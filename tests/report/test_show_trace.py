"""`expbench show --trace` on a run folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from expbench.commands.show import Request, show_run
from expbench.core import Record
from expbench.errors import ConfigError, RecordError, UnknownName
from expbench.records import RunFolder
from tests.report.traces import bank, record, token

TRACED = [
    record(f"q{i}", bank("a"), token(f"word{i}", ["a"], [1.0], gate=0.5), text=f"word{i}")
    for i in range(12)
]


def ask(root: Path, records: list[Record], **changes: Any) -> None:
    folder = RunFolder(root, "abc")
    folder.path.mkdir()
    spec = {
        "task": "gsm8k", "method": "expweaver", "seed": 1, "suite": "dir",
        "limits": {"train": 0, "test": 0},
    }  # fmt: skip
    folder.write_info({"status": "complete", "spec": spec})
    folder.append_records(records)
    show_run(Request(run="abc", root=root, **changes))


def test_the_trace_is_printed_for_ten_samples_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(tmp_path, TRACED, trace=True)
    said = capsys.readouterr().out
    assert "word9" in said
    assert "word10" not in said
    assert "10 shown of 12 traced answers" in said


def test_one_sample_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(tmp_path, TRACED, trace=True, sample="q11")
    said = capsys.readouterr().out
    assert "word11" in said
    assert "1 shown of 1 traced answers" in said


def test_an_unknown_sample_gets_the_nearest_id(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"no sample 'q111'\. Did you mean 'q11'\?"):
        ask(tmp_path, TRACED, sample="q111")


def test_a_page_holds_every_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "trace.html"
    ask(tmp_path, TRACED, html=page)
    assert "word11" in page.read_text(encoding="utf-8")
    assert "expweaver on gsm8k, seed 1" in page.read_text(encoding="utf-8")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "12 answers" in captured.err
    assert "name it with --data-dir" in captured.err


def test_a_run_without_trace_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"expweaver on gsm8k.*--set trace=true"):
        ask(tmp_path, [record("q1", text="two")], trace=True)


def test_json_passes_the_trace_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(tmp_path, TRACED[:1], trace=True, as_json=True)
    [line] = json.loads(capsys.readouterr().out)["records"]
    assert line["output"]["trace"] == json.loads(json.dumps(asdict(TRACED[0])))["output"]["trace"]


def test_json_and_a_page_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give one"):
        ask(tmp_path, TRACED, as_json=True, html=tmp_path / "x.html")


def test_a_page_in_a_folder_that_does_not_exist_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="folder that exists"):
        ask(tmp_path, TRACED, html=tmp_path / "no" / "x.html")


def test_the_plain_view_shows_what_a_terminal_would_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(tmp_path, [record("q1", text="before\x1b[2Jafter\u202e")])
    said = capsys.readouterr().out
    assert "before‹U+001B›[2Jafter‹U+202E›" in said
    assert "\x1b" not in said
