"""The parts of an ExpWeaver: a private backbone with adapters, the fusion, the scorer, the bank."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from expbench.core import Model
from expbench.errors import ConfigError, DataError
from expbench.experience.bank import Bank, Memory
from expbench.models.hf import HFModel
from expbench.training.loop import ParameterGroup
from expbench.training.lora import attach, load_adapter, merged, save_adapter
from expbench_methods.expweaver.candidates import CandidateScorer
from expbench_methods.expweaver.config import ExpWeaverConfig
from expbench_methods.expweaver.fusion import Fusion
from expbench_methods.expweaver.install import bypassed, install


@dataclass(kw_only=True)
class Weaver:
    """Everything that learns or is read while answering."""

    config: ExpWeaverConfig
    seed: int
    model: HFModel
    """A fork of the shared backbone: base weights are shared, adapters and fusion are its own."""
    fusion: Fusion
    scorer: CandidateScorer
    bank: Bank
    tokens: dict[str, int] = field(default_factory=lambda: {"summaries": 0, "encoded": 0})
    """Tokens that building the bank cost."""

    def show_bank(self) -> None:
        """Let the fusion read the bank as it is now."""
        self.fusion.memory = self.bank.memory()

    @contextmanager
    def for_rollouts(self) -> Iterator[None]:
        """Merge the adapters: faster without gradients, and restored exactly afterwards."""
        with merged(self.model.module):
            yield

    @contextmanager
    def as_encoder(self) -> Iterator[None]:
        """Merge the adapters and leave the fusion out: the policy as the bank's encoder."""
        with merged(self.model.module), bypassed(self.model.module):
            yield

    @contextmanager
    def controlled(self) -> Iterator[Memory | None]:
        """Answer with the bank that the configured control asks for."""
        control, was_open = self.config.control, self.fusion.is_open
        read: dict[str, Callable[[], Bank]] = {
            "none": lambda: self.bank,
            "closed_gate": lambda: self.bank,
            "empty": self.bank.empty_copy,
            "random": lambda: self.bank.random(self.seed),
            "shuffled": lambda: self.bank.shuffled(self.seed),
        }
        memory = read[control]().memory()
        with ExitStack() as stack:
            stack.callback(setattr, self.fusion, "memory", self.fusion.memory)
            stack.callback(setattr, self.fusion, "is_open", was_open)
            self.fusion.memory = memory
            self.fusion.is_open = control != "closed_gate"
            yield memory

    def groups(self) -> list[ParameterGroup]:
        """Return the trained parameters with their learning rates."""
        own = {id(p) for part in (self.fusion, self.scorer) for p in part.parameters()}
        policy = [p for p in self.model.module.parameters() if p.requires_grad and id(p) not in own]
        rates = {
            "attention": self.config.attention_rate,
            "gates": self.config.gate_rate,
            "decay": self.config.decay_rate,
        }
        return [
            ParameterGroup(
                name="policy", parameters=policy, learning_rate=self.config.learning_rate
            ),
            *(
                ParameterGroup(name=name, parameters=parameters, learning_rate=rates[name])
                for name, parameters in self.fusion.groups().items()
            ),
        ]

    def save(self, folder: Path) -> None:
        """Write adapter or weights, fusion, scorer and bank."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.config.lora_rank:
            save_adapter(self.model, folder / "adapter")
        else:
            save_file(_tensors(self.model.module), folder / "weights.safetensors")
        save_file(_tensors(self.fusion), folder / "fusion.safetensors")
        save_file(_tensors(self.scorer.state_module()), folder / "scorer.safetensors")
        self.bank.save(folder / "bank")
        about = {"backbone": self.model.fingerprint, "lora_rank": self.config.lora_rank}
        (folder / "expweaver.json").write_text(json.dumps(about) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote.

        Raises:
            DataError: a part is missing or damaged, or was made with another backbone.
        """
        try:
            about = json.loads((folder / "expweaver.json").read_text(encoding="utf-8"))
            if about["backbone"] != self.model.fingerprint:
                raise DataError(
                    f"The checkpoint in {folder} was trained on another backbone than "
                    f"{self.model.name}; give the backbone it was made with."
                )
            if about["lora_rank"] != self.config.lora_rank:
                raise DataError(
                    f"The checkpoint in {folder} has LoRA rank {about['lora_rank']}, not "
                    f"{self.config.lora_rank}; set lora_rank to it."
                )
            if self.config.lora_rank:
                load_adapter(self.model, folder / "adapter")
            else:
                _restore(self.model.module, load_file(folder / "weights.safetensors"))
            _restore(self.fusion, load_file(folder / "fusion.safetensors"))
            _restore(self.scorer.state_module(), load_file(folder / "scorer.safetensors"))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"The checkpoint in {folder} cannot be read ({error}); delete it and train again."
            ) from error
        self.bank = Bank.load(
            folder / "bank", encoder=self.model.fingerprint, width=self.fusion.width
        )
        self.scorer.refresh()
        self.show_bank()


def build_weaver(config: ExpWeaverConfig, model: Model, seed: int) -> Weaver:
    """Fork the backbone and put adapters and fusion in place; the backbone itself stays as it is.

    Raises:
        ConfigError: the backbone has no weights, or `heads` does not divide its hidden size.
    """
    if not isinstance(model, HFModel):
        raise ConfigError(
            f"expweaver trains the backbone's weights and {model.name!r} has none; use "
            "--model tiny for a trial, or a real model."
        )
    fork = model.fork(share_weights=config.lora_rank > 0)
    width = int(fork.module.config.get_text_config().hidden_size)
    if config.lora_rank:
        attach(fork, rank=config.lora_rank, alpha=2 * config.lora_rank, seed=seed)
    fusion = Fusion(width, config, seed=seed)
    install(fork.module, fusion)
    bank = Bank(
        width=width,
        capacity=config.capacity,
        encoder=fork.fingerprint,
        policy=config.bank_policy,
        normalise=config.normalise,
        seed=seed,
    )
    return Weaver(
        config=config,
        seed=seed,
        model=fork,
        fusion=fusion,
        scorer=CandidateScorer(fork, normalise=config.normalise),
        bank=bank,
    )


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the module's parameters, each once, contiguous and on the CPU."""
    return {
        name: parameter.detach().cpu().contiguous() for name, parameter in module.named_parameters()
    }


def _restore(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    wanted: dict[str, Any] = dict(module.named_parameters())
    if wanted.keys() != tensors.keys():
        odd = sorted(wanted.keys() ^ tensors.keys())[0]
        raise ValueError(f"{odd!r} is on one side only")
    for name, parameter in wanted.items():
        if parameter.shape != tensors[name].shape:
            raise ValueError(f"{name!r} has shape {tuple(tensors[name].shape)}")
        parameter.data.copy_(tensors[name])


__all__ = ["Weaver", "build_weaver"]
