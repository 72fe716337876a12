"""The command line as a user meets it: in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def expbench(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "expbench.cli", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "200", **environment},
    )


def value_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SMOKE = ("run", "--preset", "smoke", "--method", "direct,random,majority")


def test_the_smoke_preset_answers_all_thirteen_tasks(tmp_path: Path) -> None:
    value = value_of(expbench(*SMOKE, "--task", "all", "--json", cwd=tmp_path))
    [board] = value["boards"]
    assert len({run["task"] for run in board["runs"]}) == 13
    assert len(board["runs"]) == 39
    assert all(run["is_ranked"] and run["samples"] == 4 for run in board["runs"])
    again = value_of(expbench(*SMOKE, "--task", "all", "--json", cwd=tmp_path))
    assert again == value
    report = value_of(expbench("report", "--json", cwd=tmp_path))
    assert report["boards"][0]["tables"] == board["tables"]


def test_show_and_regrade_work_on_a_finished_run(tmp_path: Path) -> None:
    value = value_of(expbench(*SMOKE, "--task", "gsm8k", "--json", cwd=tmp_path))
    run_id = value["boards"][0]["runs"][0]["run_id"]
    shown = value_of(expbench("show", run_id[:6], "--json", cwd=tmp_path))
    assert len(shown["records"]) == 4
    assert all(record["question"] for record in shown["records"])
    wrong = expbench("show", run_id, "--wrong", cwd=tmp_path)
    assert wrong.returncode == 0
    assert "below 1" in wrong.stdout
    again = value_of(expbench("regrade", "--json", cwd=tmp_path))
    assert [result["changed"] for result in again] == [[], [], []]


def test_markdown_and_json_reports_are_written_to_files(tmp_path: Path) -> None:
    value_of(expbench(*SMOKE, "--task", "gsm8k", "--json", cwd=tmp_path))
    for name in ("board.md", "board.json"):
        assert expbench("report", "-o", name, cwd=tmp_path).returncode == 0
    assert "| gsm8k |" in (tmp_path / "board.md").read_text()
    json.loads((tmp_path / "board.json").read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "-m", "direkt", "-t", "all"), "Did you mean 'direct'"),
        (("run", "-m", "direct", "-t", "gsmk"), "Did you mean 'gsm8k'"),
        (("run", "-m", "direct", "-t", "all", "--preset", "big"), "No preset named 'big'"),
        (("run", "-m", "direct", "-t", "gsm8k", "--suite", "tiny"), "No suite named 'tiny'"),
        (("run", "-m", "few_shot", "-t", "gsm8k", "--set", "kk=1"), "Did you mean 'k'"),
        (("run", "-m", "few_shot", "-t", "gsm8k", "--set", "k=x"), "few_shot.k is 'x'"),
        (("run", "-m", "few_shot", "-t", "gsm8k", "--set", "k"), "key=value"),
        (("run", "-m", "direct,few_shot", "-t", "gsm8k", "--set", "k=1"), "which method"),
        (("run", "-m", "direct", "-t", "gsm8k", "--set", "few_shot.k=1"), "not run"),
        (("run", "-m", "direct", "-t", "gsm8k", "--seed", "one"), "whole numbers"),
        (("run", "-m", "direct", "-t", "gsm8k", "--seed", "-1"), "0 or more"),
        (("run", "-m", "direct", "-t", "gsm8k", "--data-dir", "nowhere"), "nowhere"),
        (("run", "-m", "direct", "-t", "gsm8k", "--preset", "smoke", "--model", "./no"), "./no"),
        (("report",), "no folder"),
        (("show", "abc"), "No run"),
        (("report", "-o", "x.pdf", "."), "No runs"),
    ],
)
def test_a_users_mistake_is_one_or_two_sentences_and_exit_code_2(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = expbench(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3


def test_a_missing_task_is_named_and_the_others_run(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "gsm8k"
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        rows = [{"question": f"{split} {i}+1?", "answer": f"#### {i + 1}"} for i in range(3)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    done = expbench(*SMOKE, "-t", "all", "--data-dir", "data", "--json", cwd=tmp_path)
    value = value_of(done)
    assert {run["task"] for run in value["boards"][0]["runs"]} == {"gsm8k"}
    assert len(value["not_run"]) == 12
    assert "Not run: math" in done.stderr


def test_listings_are_complete(tmp_path: Path) -> None:
    tasks = value_of(expbench("tasks", "--json", cwd=tmp_path))
    assert len(tasks) == 13
    methods = value_of(expbench("methods", "--json", cwd=tmp_path))
    assert {"direct", "few_shot", "random", "majority"} <= {m["name"] for m in methods}
    for words in (("tasks",), ("methods",)):
        done = expbench(*words, cwd=tmp_path)
        assert done.returncode == 0
        assert done.stdout


def test_data_status_covers_every_task_and_fetches_nothing(tmp_path: Path) -> None:
    value = value_of(expbench("data", "status", "--json", cwd=tmp_path, EXPBENCH_CACHE="cache"))
    assert [line["remarks"] for line in value["local"] if line["test"] == "-"] == []
    assert len(value["local"]) == 13
    assert {part["state"] for part in value["official"]} == {"missing"}


def test_help_and_listings_do_not_import_torch(tmp_path: Path) -> None:
    for words in (["--help"], ["tasks"], ["methods"], ["report", "."]):
        code = (
            f"import sys; sys.argv = ['expbench', *{words!r}]\n"
            "from expbench.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print('torch' in sys.modules, file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr.strip().endswith("False")


def test_two_commands_on_one_run_never_mix_their_records(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "expbench.cli", *SMOKE, "-t", "mmlu,gsm8k", "--json"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    first, second = (json.loads(out)["boards"][0]["runs"] for out, _ in said)
    assert first == second
    for path in (tmp_path / "results" / "runs").glob("*/records.jsonl"):
        ids = [json.loads(line)["sample_id"] for line in path.open("rb")]
        assert len(ids) == len(set(ids)) == 4
