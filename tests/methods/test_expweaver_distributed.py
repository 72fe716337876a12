"""ExpWeaver trained by two processes on a CPU is ExpWeaver trained by one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.methods.test_expweaver import POOL, SMALL
from tests.methods.two_weavers import STEPS

ROOT = Path(__file__).parents[2]
ALONE = [sys.executable]
# Without --multi_gpu accelerate starts a single process where there is no GPU, whatever is asked.
ACCELERATE = [
    sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
    "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
    "--main_process_port", "0",
]  # fmt: skip
TORCHRUN = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
]  # fmt: skip


def run(launcher: list[str], folder: Path) -> list[dict[str, Any]]:
    """Train with a launcher; return what each process held at the end."""
    folder.mkdir()
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "methods"))),
    }  # fmt: skip
    done = subprocess.run(
        [*launcher, "-m", "tests.methods.two_weavers", str(folder)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(path.read_text()) for path in sorted(folder.glob("held-*.json"))]


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("alone") / "one"
    (held,) = run(ALONE, folder)
    return held, log(folder)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("launcher", [ACCELERATE, TORCHRUN], ids=["accelerate", "torchrun"])
def test_two_processes_hold_what_one_holds(
    launcher: list[str], alone: tuple[dict[str, Any], list[dict[str, Any]]], tmp_path: Path
) -> None:
    first, second = run(launcher, tmp_path / "two")
    held, rows = alone
    assert first["processes"] == second["processes"] == 2 and held["processes"] == 1
    # Between the processes everything is equal to the last bit.
    assert first == second
    assert first["fusion"] != first["fusion_before"] == held["fusion_before"]
    # One process adds up in another order, so numbers are close and texts are equal.
    assert first["entries"] == held["entries"]
    assert len(held["entries"]) == len(POOL) + STEPS * SMALL["fresh"]
    vectors = torch.tensor(first["vectors"]), torch.tensor(held["vectors"])
    assert torch.allclose(*vectors, rtol=0, atol=1e-3)
    shared = log(tmp_path / "two")
    assert [row["step"] for row in shared] == [row["step"] for row in rows] == [1, 2]
    for a, b in zip(rows, shared, strict=True):
        for name in ("loss", "reward", "gate_openness", "retrieval_entropy", "bank_age"):
            assert b[name] == pytest.approx(a[name], abs=1e-4), name
        assert b["bank_size"] == a["bank_size"]
        assert b["grad_norm"] == pytest.approx(a["grad_norm"], abs=1e-3)
