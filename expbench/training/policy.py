"""A policy that a text method trains: a private fork of the backbone, kept as adapter or weights.

Every method that learns with GRPO builds one; what a method adds comes through `Hooks`.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from expbench.core import Model, Reward, Sample, Workbench
from expbench.errors import ConfigError, DataError
from expbench.models.hf import HFModel
from expbench.training.loop import Hooks, ParameterGroup
from expbench.training.lora import attach, load_adapter, merged, save_adapter
from expbench.training.settings import GRPOSettings

ABOUT = "policy.json"
ADAPTER = "adapter"
WEIGHTS = "weights.safetensors"
DAMAGE = (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError)
"""What reading a damaged checkpoint may raise."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A backbone that may learn; the shared one stays as it is."""

    model: HFModel
    settings: GRPOSettings
    parameters: Sequence[Any]
    """All that is trained of the backbone itself."""

    def group(self) -> ParameterGroup:
        """Return the policy's parameters with their learning rate."""
        return ParameterGroup(
            name="policy", parameters=self.parameters, learning_rate=self.settings.learning_rate
        )

    @contextmanager
    def for_answers(self) -> Iterator[HFModel]:
        """Merge the adapter: faster without gradients, and taken back exactly afterwards."""
        self.model.module.eval()
        with merged(self.model.module):
            yield self.model

    def save(self, folder: Path) -> None:
        """Write what was learnt and what it belongs to."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.settings.lora_rank:
            save_adapter(self.model, folder / ADAPTER)
        else:
            save_tensors(self.model.module, folder / WEIGHTS)
        about = {"backbone": self.model.fingerprint, "lora_rank": self.settings.lora_rank}
        (folder / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote.

        Raises:
            DataError: a part is missing or damaged, or was made with another backbone or rank.
        """
        with reading(folder):
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if about["backbone"] != self.model.fingerprint:
                raise DataError(
                    f"The checkpoint in {folder} was trained on another backbone than "
                    f"{self.model.name}; give the backbone it was made with."
                )
            if about["lora_rank"] != self.settings.lora_rank:
                raise DataError(
                    f"The checkpoint in {folder} has LoRA rank {about['lora_rank']}, not "
                    f"{self.settings.lora_rank}; set lora_rank to it."
                )
            if self.settings.lora_rank:
                load_adapter(self.model, folder / ADAPTER)
            else:
                load_tensors(self.model.module, folder / WEIGHTS)


def build_policy(settings: GRPOSettings, model: Model | None, *, seed: int, method: str) -> Policy:
    """Fork the backbone and, where the settings have a rank, attach a fresh adapter.

    Args:
        settings: `lora_rank` and `learning_rate` are read.
        model: The shared backbone; its weights are shared with the fork if an adapter learns.
        seed: Of the adapter.
        method: Name of the method, for the message.

    Raises:
        ConfigError: the backbone has no weights.
    """
    if not isinstance(model, HFModel):
        name = getattr(model, "name", None)
        raise ConfigError(
            f"{method} trains the backbone's weights and {name!r} has none; use --model tiny for "
            "a trial, or a real model."
        )
    fork = model.fork(share_weights=settings.lora_rank > 0)
    if settings.lora_rank:
        attach(fork, rank=settings.lora_rank, alpha=2 * settings.lora_rank, seed=seed)
    else:
        fork.module.requires_grad_(True)
    fork.module.eval()
    parameters = [p for p in fork.module.parameters() if p.requires_grad]
    return Policy(model=fork, settings=settings, parameters=parameters)


def train_policy(
    policy: Policy,
    samples: Sequence[Sample],
    reward: Reward,
    *,
    seed: int,
    workbench: Workbench | None,
    hooks: Hooks | None = None,
    groups: Sequence[ParameterGroup] = (),
) -> dict[str, float]:
    """Train a policy on text with GRPO, together with the method's own parameters.

    Args:
        policy: Trained in place.
        samples: Train samples; without any, or with `steps` 0, nothing is trained.
        reward: The tasks' graders.
        seed: Decides questions and rollouts.
        workbench: Where state and log are kept; without one they are thrown away.
        hooks: What the method adds.
        groups: The method's own parameters.

    Returns:
        What it cost: `steps`, `seconds`, and tokens by purpose.
    """
    if not samples or not policy.settings.steps:
        return {"steps": 0, "seconds": 0.0, "prompt_tokens": 0, "generated_tokens": 0}
    from expbench.training.grpo import train_grpo

    with at(workbench) as bench:
        bench.stage("GRPO steps", policy.settings.steps)
        result = train_grpo(
            model=policy.model,
            samples=samples,
            reward=reward,
            settings=policy.settings,
            seed=seed,
            folder=bench.folder,
            groups=[policy.group(), *groups],
            hooks=hooks,
            advance=bench.advance,
        )
    return {
        "steps": result.steps,
        "seconds": result.seconds,
        "prompt_tokens": result.prompt_tokens,
        "generated_tokens": result.generated_tokens,
        "external_tokens": result.external_tokens,
    }


@contextmanager
def at(workbench: Workbench | None) -> Iterator[Workbench]:
    """Work at the runner's bench, or without one at a bench that is thrown away."""
    if workbench is not None:
        yield workbench
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Workbench(folder=Path(folder))


def save_tensors(module: nn.Module, path: Path) -> None:
    """Write a module's parameters, each once."""
    own = {name: p.detach().cpu().contiguous() for name, p in module.named_parameters()}
    save_file(own, path)


def load_tensors(module: nn.Module, path: Path) -> None:
    """Read what `save_tensors` wrote into a module of the same shapes.

    Raises:
        ValueError: a parameter is missing, too many or of another shape.
    """
    own: dict[str, Any] = dict(module.named_parameters())
    tensors = load_file(path)
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())[0]
        raise ValueError(f"{odd!r} is on one side only")
    for name, parameter in own.items():
        if parameter.shape != tensors[name].shape:
            raise ValueError(f"{name!r} has shape {tuple(tensors[name].shape)}")
        parameter.data.copy_(tensors[name])


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Turn what a damaged checkpoint raises into one clear error.

    Raises:
        DataError: the checkpoint cannot be read.
    """
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"The checkpoint in {folder} cannot be read ({error}); delete it and train again."
        ) from error
