"""Run by a launcher: train HRPO on the built-in backbone, write what this process holds."""

import json
import os
import sys
from pathlib import Path

from expbench.core import Workbench
from tests.methods.test_hrpo_training import TRAIN, even, method


def main(folder: Path) -> None:
    made = method(steps=2, window=2, beta=0.1, gate_rate=1e-2, decay_rate=1e-1)
    assert made.hybrid is not None
    made.workbench = Workbench(folder=folder)
    made.fit(TRAIN, [], even)
    module = made.hybrid.module
    held = {
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "tensors": {n: p.tolist() for n, p in module.named_parameters() if "lora_" in n},
        "gates": {n: p.tolist() for n, p in made.hybrid.embedding.gates.named_parameters()},
    }
    rank = os.environ.get("RANK", "0")
    (folder / f"held-{rank}.json").write_text(json.dumps(held))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
