"""What survives a crash, and what refuses to be mixed."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.core import Output, Record, RunSpec, Score, Segment
from expbench.errors import RecordError
from expbench.records import (
    RunFolder,
    append_lines,
    find_run,
    locked,
    read_lines,
    record_from_json,
    repair,
    spec_values,
    write_json,
)

SPEC = RunSpec(
    task="toy",
    task_version=1,
    method="echo",
    method_version=1,
    method_config={},
    backbone={},
    preset="smoke",
    suite="mini",
    seed=1,
    limits={"train": 0, "test": 0},
    data={"checksums": {"test": "0"}},
    pool=None,
)


def record(name: str) -> Record:
    return Record(
        run_id="r",
        sample_id=name,
        output=Output(text="a\nb\u2028c", segments=(Segment(role="prompt", tokens=3),)),
        score=Score(value=0.5, metrics={"hr@10": 1.0}),
        error=None,
        seconds=0.1,
    )


def prepared(root: Path) -> RunFolder:
    folder = RunFolder(root, "r")
    folder.prepare(SPEC)
    return folder


@pytest.mark.parametrize(
    "tail",
    [
        b'{"sample_id": "q3", "out',
        b'{"sample_id": "q3", "out\n',
        b'{"sample_id": "q3", "out\n\n',
        b"\x00\x00\x00",
        b"null\n",
        b"[]\n\n",
        b"\xff\xfe\n",
    ],
)
def test_a_cut_tail_is_removed_and_whole_lines_stay(tmp_path: Path, tail: bytes) -> None:
    folder = prepared(tmp_path)
    folder.append_records([record("q1"), record("q2")])
    with (folder.path / "records.jsonl").open("ab") as file:
        file.write(tail)
    assert folder.prepare(SPEC) == 1
    folder.append_records([record("q3"), record("q4")])
    assert [r.sample_id for r in folder.records()] == ["q1", "q2", "q3", "q4"]


def test_a_damaged_line_in_the_middle_costs_only_its_sample(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    folder.append_records([record("q1"), record("q2"), record("q3")])
    path = folder.path / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[2])
    assert folder.prepare(SPEC) == 1
    assert [r.sample_id for r in folder.records()] == ["q1", "q3"]
    assert (folder.path / "records.jsonl.damaged").exists()


def test_a_killed_repair_and_a_second_kill_still_end_with_whole_lines(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    folder.append_records([record("q1"), record("q2")])
    for name in ("q3", "q4"):
        with (folder.path / "records.jsonl").open("ab") as file:
            file.write(b'{"cut')
        folder.prepare(SPEC)
        folder.append_records([record(name)])
    # Not splitlines(): the text holds a Unicode line separator, which ends no JSON line.
    lines = (folder.path / "records.jsonl").read_text().rstrip("\n").split("\n")
    assert len(lines) == 4
    assert all(json.loads(line) for line in lines)


@given(st.text(), st.floats(0, 1), st.sampled_from(["stop", "length", "none"]))
def test_a_record_survives_its_json(text: str, value: float, reason: Any) -> None:
    from dataclasses import asdict

    made = replace(
        record("q"),
        output=Output(text=text, stop_reason=reason, ranking=(2, 0)),
        score=Score(value=value, answer=text),
    )
    assert record_from_json(json.loads(json.dumps(asdict(made)))) == made


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_repair_never_fails_on_any_bytes(junk: list[bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.write_bytes(b"".join(junk))
        repair(path, key=lambda v: record_from_json(v).sample_id)
        append_lines(path, [{"sample_id": "next"}])
        assert [v for _, v in read_lines(path)][-1] == {"sample_id": "next"}


def test_another_seed_in_the_same_folder_is_refused_by_name(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    from dataclasses import asdict

    folder.write_info({"spec": asdict(SPEC), "status": "running"})
    with pytest.raises(RecordError, match="another seed"):
        folder.prepare(replace(SPEC, seed=2))


def test_a_run_recorded_before_there_was_training_is_gone_on_with(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    stored = {name: value for name, value in vars(SPEC).items() if name != "training"}
    assert spec_values(SPEC) == stored
    folder.write_info({"spec": stored, "status": "running"})
    assert folder.prepare(SPEC) == 0
    trained = replace(SPEC, training={"key": "abc"})
    with pytest.raises(RecordError, match="another training"):
        folder.prepare(trained)
    folder.write_info({"spec": spec_values(trained), "status": "running"})
    with pytest.raises(RecordError, match="another training"):
        folder.prepare(SPEC)


def test_every_part_of_the_spec_moves_the_run_id() -> None:
    changes: list[dict[str, Any]] = [
        {"task": "other"},
        {"task_version": 2},
        {"method": "other"},
        {"method_version": 2},
        {"method_config": {"k": 1}},
        {"backbone": {"name": "m"}},
        {"preset": "laptop"},
        {"suite": "full"},
        {"seed": 2},
        {"limits": {"train": 1, "test": 0}},
        {"data": {"checksums": {"test": "1"}}},
        {"pool": "abc"},
        {"sandbox": "unsafe"},
        {"training": {"key": "abc"}},
    ]
    ids = {replace(SPEC, **change).run_id for change in changes}
    assert len(ids | {SPEC.run_id}) == len(changes) + 1
    assert {name for change in changes for name in change} == set(vars(SPEC))


def test_a_replaced_file_is_old_or_new_but_never_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"n": 1})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match="No space left"):
        write_json(path, {"n": 2})
    assert json.loads(path.read_text()) == {"n": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RecordError, match=r"No space left.*goes on where it stopped"):
        append_lines(tmp_path / "x.jsonl", [{"a": 1}])


def test_a_second_process_is_refused_while_the_first_holds_the_run(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from expbench.records import locked\n"
        "from expbench.errors import RecordError\n"
        "try:\n"
        "    with locked(pathlib.Path(sys.argv[1]), 'r', what='Run r'): print('got it')\n"
        "except RecordError as error: print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with locked(tmp_path, "r", what="Run r"):
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "in use by another process" in said
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "got it"


def test_eight_threads_appending_long_lines_never_share_a_line(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "lines.jsonl"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: append_lines(path, [{"n": n, "x": "y" * 5000}]), range(80)))
    assert sorted(v["n"] for _, v in read_lines(path)) == list(range(80))


def test_a_score_outside_the_unit_interval_is_refused() -> None:
    for bad in (float("nan"), float("inf"), -0.1, 1.1):
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
            Score(value=bad)
        with pytest.raises(ValueError, match="Score metric"):
            Score(value=0.0, metrics={"metric": bad})


def test_a_record_is_graded_or_broken_but_not_both() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        replace(record("q"), error="boom")
    with pytest.raises(ValueError, match="exactly one"):
        replace(record("q"), score=None)


def test_a_run_is_found_by_the_start_of_its_id_and_ambiguity_is_an_error(tmp_path: Path) -> None:
    for name in ("abc1", "abd2"):
        folder = RunFolder(tmp_path, name)
        folder.path.mkdir()
        folder.write_info({})
    assert find_run(tmp_path, "abc").run_id == "abc1"
    with pytest.raises(RecordError, match="2 runs"):
        find_run(tmp_path, "ab")
    with pytest.raises(RecordError, match="No run"):
        find_run(tmp_path, "zzz")


def test_a_run_made_by_a_newer_version_is_refused(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    (folder.path / "run.json").write_text('{"schema": 99}')
    with pytest.raises(RecordError, match="schema 99"):
        _ = folder.info
