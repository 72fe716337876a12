"""The parts of an ExpWeaver: a private backbone with adapters, the fusion, the scorer, the bank."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from expbench.core import Model
from expbench.experience.bank import Bank, Memory
from expbench.models.hf import HFModel
from expbench.training.loop import ParameterGroup
from expbench.training.lora import merged
from expbench.training.policy import Policy, build_policy, load_tensors, reading, save_tensors
from expbench_methods.expweaver.candidates import CandidateScorer
from expbench_methods.expweaver.config import ExpWeaverConfig
from expbench_methods.expweaver.fusion import Fusion
from expbench_methods.expweaver.install import bypassed, install


@dataclass(kw_only=True)
class Weaver:
    """Everything that learns or is read while answering."""

    config: ExpWeaverConfig
    seed: int
    policy: Policy
    """A fork of the shared backbone; the fusion is installed in it."""
    fusion: Fusion
    scorer: CandidateScorer
    bank: Bank
    tokens: dict[str, int] = field(default_factory=lambda: {"summaries": 0, "encoded": 0})
    """Tokens that building the bank cost."""

    @property
    def model(self) -> HFModel:
        """The policy's model."""
        return self.policy.model

    def show_bank(self) -> None:
        """Let the fusion read the bank as it is now."""
        self.fusion.memory = self.bank.memory()

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
        """Return all trained parameters with their learning rates."""
        return [self.policy.group(), *self.fusion_groups()]

    def fusion_groups(self) -> list[ParameterGroup]:
        """Return the fusion's parameters with their learning rates."""
        rates = {
            "attention": self.config.attention_rate,
            "gates": self.config.gate_rate,
            "decay": self.config.decay_rate,
        }
        return [
            ParameterGroup(name=name, parameters=parameters, learning_rate=rates[name])
            for name, parameters in self.fusion.groups().items()
        ]

    def save(self, folder: Path) -> None:
        """Write policy, fusion, scorer and bank."""
        self.policy.save(folder)
        save_tensors(self.fusion, folder / "fusion.safetensors")
        save_tensors(self.scorer.state_module(), folder / "scorer.safetensors")
        self.bank.save(folder / "bank")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote.

        Raises:
            DataError: a part is missing or damaged, or was made with another backbone.
        """
        self.policy.load(folder)
        with reading(folder):
            load_tensors(self.fusion, folder / "fusion.safetensors")
            load_tensors(self.scorer.state_module(), folder / "scorer.safetensors")
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
    policy = build_policy(config, model, seed=seed, method="expweaver")
    fork = policy.model
    width = int(fork.module.config.get_text_config().hidden_size)
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
        policy=policy,
        fusion=fusion,
        scorer=CandidateScorer(fork, normalise=config.normalise),
        bank=bank,
    )
