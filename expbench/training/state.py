"""Training checkpoints: what a killed training goes on from.

`folder/state/<loop>/<step>/` holds the trained parameters, the optimizer, the account and what the
method's own hook writes; the file `COMPLETE` comes last, so that a half-written one is never read.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from expbench.errors import DataError
from expbench.training.loop import Hooks, ParameterGroup

FOLDER = "state"
KEPT = 2
"""Complete checkpoints that are kept."""


@dataclass(kw_only=True)
class Account:
    """What a training has done and cost, up to its newest checkpoint."""

    step: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    external_tokens: int = 0


class States:
    """The checkpoints of one loop.

    Args:
        folder: The folder of the training.
        loop: Name of the loop.
        groups: The trained parameters; names, order and shapes decide whether a checkpoint fits.
        hooks: `save` and `load` are called with a folder of their own.
    """

    def __init__(
        self, folder: Path, loop: str, *, groups: Sequence[ParameterGroup], hooks: Hooks
    ) -> None:
        self.path = folder / FOLDER / loop
        self._groups = groups
        self._hooks = hooks

    def newest(self) -> Path | None:
        """Return the complete checkpoint with the most steps."""
        complete = self._complete()
        return complete[-1] if complete else None

    def write(self, account: Account, optimizer: Any) -> None:
        """Write a checkpoint and drop the ones that are too old."""
        path = self.path / f"{account.step:08d}"
        shutil.rmtree(path, ignore_errors=True)
        (path / "method").mkdir(parents=True)
        save_file({k: p.detach().clone() for k, p in self._named()}, path / "weights.safetensors")
        torch.save(optimizer.state_dict(), path / "optimizer.pt")
        (path / "account.json").write_text(json.dumps(asdict(account)), encoding="utf-8")
        self._hooks.save(path / "method")
        (path / "COMPLETE").touch()
        for old in self._complete()[:-KEPT]:
            # Without its marker first: a kill while it is removed must not leave half of it.
            (old / "COMPLETE").unlink()
            shutil.rmtree(old)

    def read(self, path: Path, optimizer: Any) -> Account:
        """Put a checkpoint's parameters and optimizer state in place and let the method load.

        Raises:
            DataError: it is damaged or belongs to other parameters.
        """
        try:
            account = Account(**json.loads((path / "account.json").read_text(encoding="utf-8")))
            tensors = load_file(path / "weights.safetensors")
            state = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True)
        except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
            raise DataError(
                f"The training state {path} cannot be read ({error}); remove it and run again."
            ) from error
        own = dict(self._named())
        if {k: p.shape for k, p in own.items()} != {k: t.shape for k, t in tensors.items()}:
            raise DataError(
                f"The training state {path} belongs to other parameters; remove it and run again."
            )
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(tensors[name])
        optimizer.load_state_dict(state)
        self._hooks.load(path / "method")
        return account

    def _complete(self) -> list[Path]:
        return sorted(marker.parent for marker in self.path.glob("*/COMPLETE"))

    def _named(self) -> Iterator[tuple[str, Any]]:
        for group in self._groups:
            for index, parameter in enumerate(group.parameters):
                yield f"{group.name}.{index}", parameter


def new_optimizer(groups: Sequence[ParameterGroup]) -> Any:
    """Return AdamW over the groups, each with its own constant learning rate."""
    return torch.optim.AdamW(
        [
            {
                "params": list(group.parameters),
                "lr": group.learning_rate,
                "weight_decay": group.weight_decay,
            }
            for group in groups
            if group.parameters
        ]
    )


def is_due(step: int, last: int, every: int) -> bool:
    """Tell whether a checkpoint is due at a step, when the last one was at another.

    A checkpoint is only taken when a window has ended, so it may come a little late.

    >>> is_due(50, 0, 50), is_due(52, 48, 50), is_due(99, 52, 50)
    (True, True, False)
    """
    return step // every > last // every
