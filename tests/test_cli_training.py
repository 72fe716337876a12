"""`train`, `run --checkpoint` and `ablate` as a user meets them, with a method that is a plugin."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from expbench.registry import get_task
from expbench.suites import load
from tests.test_cli import expbench, value_of

ROOT = Path(__file__).parent.parent
WORDS = ("--preset", "smoke", "--method", "trainee")


@pytest.fixture
def plugin(tmp_path: Path) -> dict[str, str]:
    """Install `tests.trainee` as somebody's package; gives the environment that finds it."""
    info = tmp_path / "site" / "trainee-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trainee\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[expbench.methods]\ntrainee = tests.trainee:METHOD\n")
    paths = [str(info.parent), str(ROOT), str(ROOT / "methods"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def log(tmp_path: Path) -> list[Any]:
    [path] = (tmp_path / "results" / "runs" / "checkpoints").glob("*/train.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_train_makes_the_checkpoint_that_run_then_answers_with(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    words = (*WORDS, "--task", "openbookqa", "--set", "steps=4")
    [made] = value_of(expbench("train", *words, "--json", cwd=tmp_path, **plugin))
    assert made["scope"] == "general"
    assert {"openbookqa", "gsm8k"} < set(made["tasks"])
    assert {"name": "reward", "first": 1.0, "last": 0.25} in made["log"]
    assert made["cost"]["prompt_tokens"] == 40
    ran = value_of(expbench("run", *words, "--json", cwd=tmp_path, **plugin))
    [row] = ran["boards"][0]["runs"]
    assert row["training"]["key"] == made["key"]
    assert len(log(tmp_path)) == 4
    shown = expbench("train", *words, cwd=tmp_path, **plugin)
    assert made["path"] in shown.stdout
    assert "reward" in shown.stdout
    assert "40 prompt tokens" in shown.stdout
    assert len(log(tmp_path)) == 4


def test_a_checkpoint_carries_over_to_another_scenario(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    [made] = value_of(
        expbench("train", *WORDS, "--task", "gsm8k", "--json", cwd=tmp_path, **plugin)
    )
    words = ("run", *WORDS, "--task", "movielens,gsm8k", "--json")
    ran = value_of(expbench(*words, "--checkpoint", made["path"], cwd=tmp_path, **plugin))
    [board] = ran["boards"]
    assert {row["training"]["key"] for row in board["runs"]} == {made["key"]}
    assert set(board["tables"][0]["columns"][3:]) == {"trainee", "trainee from general"}
    other = expbench(
        *words, "--checkpoint", made["path"], "--set", "steps=9", cwd=tmp_path, **plugin
    )
    assert other.returncode == 2
    assert "made with steps=1" in other.stderr


def test_train_force_trains_again_and_keeps_the_old_checkpoint(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    words = ("train", *WORDS, "--task", "movielens", "--json")
    [made] = value_of(expbench(*words, cwd=tmp_path, **plugin))
    [again] = value_of(expbench(*words, "--force", cwd=tmp_path, **plugin))
    assert again["path"] == made["path"]
    assert (tmp_path / f"{made['path']}.old1" / "COMPLETE").exists()


def test_a_command_killed_in_training_goes_on_with_it(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    words = ("run", *WORDS, "--task", "movielens", "--set", "steps=5", "--json")
    killed = expbench(*words, cwd=tmp_path, TRAINEE_DIES_AT="3", **plugin)
    assert killed.returncode == -signal.SIGKILL
    value_of(expbench(*words, cwd=tmp_path, **plugin))
    lines = log(tmp_path)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert len({line["process"] for line in lines}) == 2


def test_two_commands_share_one_training(tmp_path: Path, plugin: dict[str, str]) -> None:
    commands = [
        [sys.executable, "-m", "expbench.cli", "run", *WORDS, "--json", "--task", task]
        for task in ("movielens", "amazon_games")
    ]
    environment = {**os.environ, **plugin}
    both = [
        subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for command in commands
    ]
    said = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [line["step"] for line in log(tmp_path)] == [1]


def share(task: str, place: int) -> float:
    """Share of the test samples whose right answer is the label at a place."""
    test = load(get_task(task), suite="mini", train_limit=8, test_limit=12).test
    return sum(s.labels[place] in s.target for s in test) / len(test)


def test_ablate_shows_each_variant_with_and_without_its_bank(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    words = ("ablate", *WORDS, "--task", "openbookqa,mmlu", "--test-limit", "12")
    value = value_of(expbench(*words, "--json", cwd=tmp_path, **plugin))
    found = {(line["variant"], line["scope"]): line for line in value["lines"]}
    assert value["set"] == "controls"
    for place, variant in enumerate(("bank", "shuffled bank")):
        gains = [share(task, place) for task in ("openbookqa", "mmlu")]
        for task, gain in zip(("openbookqa", "mmlu"), gains, strict=True):
            line = found[variant, task]
            assert (line["score"], line["without"]) == (pytest.approx(gain), 0.0)
            assert line["gain"] == pytest.approx(gain)
        assert found[variant, "mean: general"]["gain"] == pytest.approx(sum(gains) / 2)
    # Two tasks, three controls: the two rows share the run without a bank, and all the training.
    runs = list((tmp_path / "results" / "runs").glob("*/run.json"))
    assert len(runs) == 6
    assert len(log(tmp_path)) == 1
    before = {path: path.stat().st_mtime_ns for path in runs}
    text = expbench(*words, "--markdown", cwd=tmp_path, **plugin)
    assert "| mean: general | shuffled bank | 24 |" in text.stdout
    assert "control=shuffled" in text.stderr
    assert {path: path.stat().st_mtime_ns for path in runs} == before


def test_ablate_of_settings_that_are_learnt_trains_each_row_once(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    words = ("ablate", *WORDS, "--task", "openbookqa", "--set-name", "length", "--seed", "1,2")
    done = expbench(*words, cwd=tmp_path, **plugin)
    assert done.returncode == 0, done.stderr
    assert "two steps" in done.stdout
    made = (tmp_path / "results" / "runs" / "checkpoints").glob("*/COMPLETE")
    assert len(list(made)) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ablate", "-m", "direct"), "declares no ABLATIONS"),
        (("ablate", "-m", "direct,random"), "takes one method"),
        (("ablate", *WORDS, "--set-name", "kontrols"), "Did you mean 'controls'"),
        (("train", "-m", "few_shot", "-t", "gsm8k"), "keeps no checkpoint"),
        (("run", "-m", "expweaver", "-t", "gsm8k", "--preset", "smoke"), "--model tiny"),
        (("train", "-m", "expweaver", "-t", "gsm8k", "--preset", "smoke"), "--model tiny"),
        (("run", "-m", "few_shot", "-t", "gsm8k", "--checkpoint", "no"), "no checkpoint in no"),
        (("run", "-m", "direct,random", "-t", "gsm8k", "--checkpoint", "no"), "holds one method"),
    ],
)
def test_a_users_mistake_is_one_or_two_sentences_and_exit_code_2(
    tmp_path: Path, plugin: dict[str, str], words: tuple[str, ...], said: str
) -> None:
    done = expbench(*words, cwd=tmp_path, **plugin)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_several_processes_are_for_training_alone(tmp_path: Path, plugin: dict[str, str]) -> None:
    done = expbench("run", *WORDS, "-t", "gsm8k", cwd=tmp_path, WORLD_SIZE="2", **plugin)
    assert done.returncode == 2
    assert "expbench train" in done.stderr
