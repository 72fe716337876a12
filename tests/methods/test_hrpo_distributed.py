"""HRPO trained by two processes on a CPU is HRPO trained by one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
ALONE = [sys.executable]
TORCHRUN = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
]  # fmt: skip


def run(launcher: list[str], folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Train with a launcher; return what each process held at the end, and the log."""
    folder.mkdir()
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "methods"))),
    }  # fmt: skip
    done = subprocess.run(
        [*launcher, "-m", "tests.methods.two_hybrids", str(folder)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    held = [json.loads(path.read_text()) for path in sorted(folder.glob("held-*.json"))]
    log = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    return held, log


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    (alone,), log = run(ALONE, tmp_path / "one")
    (first, second), both = run(TORCHRUN, tmp_path / "two")
    assert (alone["processes"], first["processes"]) == (1, 2)
    assert (first["tensors"], first["gates"]) == (second["tensors"], second["gates"])
    for name in ("loss", "grad_norm", "reward", "mixed_share", "retained"):
        mine, theirs = ([row[name] for row in rows if name in row] for rows in (log, both))
        assert mine == pytest.approx(theirs, abs=1e-4) and mine
    for name, values in alone["gates"].items():
        torch.testing.assert_close(
            torch.tensor(first["gates"][name]), torch.tensor(values), rtol=1e-2, atol=1e-3
        )
