"""Run by torchrun: train a toy policy, write what this process saw."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from expbench.training.grpo import train_grpo
from expbench.training.loop import Hooks, Window
from tests.training.policies import letters, policy, question, settings, trained


def main(folder: Path) -> None:
    windows: list[Any] = []

    def after_window(window: Window) -> dict[str, float]:
        windows.append([[a.sample.id, a.text, a.reward] for a in window.attempts])
        return {}

    model = policy()
    train_grpo(
        model=model,
        samples=[question(i) for i in range(5)],
        reward=letters,
        settings=settings(steps=3, beta=0.1),
        seed=1,
        folder=folder,
        groups=trained(model),
        hooks=Hooks(after_window=after_window),
    )
    rank = os.environ.get("RANK", "0")
    (folder / f"windows-{rank}.json").write_text(json.dumps(windows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
