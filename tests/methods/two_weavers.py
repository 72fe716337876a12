"""Run by a launcher: train ExpWeaver on the built-in backbone, write what this process holds."""

import json
import os
import sys
from hashlib import sha256
from pathlib import Path

import torch

from expbench.core import Workbench
from tests.methods.test_expweaver import POOL, TEXTS, even, method

STEPS = 2


def digest(tensors: dict[str, torch.Tensor]) -> str:
    """Name tensors by their bits."""
    found = sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode() + tensor.detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def main(folder: Path) -> None:
    made = method(
        steps=STEPS, beta=0.1, attention_rate=1e-2, gate_rate=1e-2, decay_rate=1e-1, micro_batch=4
    )
    weaver = made.weaver
    before = digest(dict(weaver.fusion.named_parameters()))
    made.workbench = Workbench(folder=folder)
    made.fit(TEXTS, POOL, even)
    policy = {n: p for n, p in weaver.model.module.named_parameters() if "lora_" in n}
    assert policy
    held = {
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "bank": weaver.bank.checksum,
        "entries": [[e.id, e.sample_id, e.step, e.reward, e.summary] for e in weaver.bank.entries],
        "vectors": weaver.bank.vectors_ND.tolist(),
        "fusion_before": before,
        "fusion": digest(dict(weaver.fusion.named_parameters())),
        "policy": digest(policy),
    }
    rank = os.environ.get("RANK", "0")
    (folder / f"held-{rank}.json").write_text(json.dumps(held))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
