"""The policy of HRPO: a backbone that decodes with mixed inputs and is scored with them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from expbench.core import Model
from expbench.models.generation import Session
from expbench.models.hf import HFModel, start_session
from expbench.training.loop import Hooks, ParameterGroup, Window
from expbench.training.policy import Policy, build_policy
from expbench_methods.hrpo.config import HRPOConfig
from expbench_methods.hrpo.embedding import HybridEmbedding, install
from expbench_methods.hrpo.session import HybridSession
from expbench_methods.hrpo.thinking import Latents, Thinking, thinking_tokens


class HybridModel(HFModel):
    """A fork whose sessions mix.

    Args:
        fork: A private copy of the backbone, with its adapter; its module is wrapped in place.
        config: See `HRPOConfig`.
        seed: Of the gates.
    """

    def __init__(self, fork: HFModel, config: HRPOConfig, *, seed: int) -> None:
        super().__init__(
            name=fork.name,
            module=fork.module,
            tokenizer=fork.tokenizer,
            fingerprint=fork.fingerprint,
            source=fork.source,
            revision=fork.revision,
            batch_tokens=fork.batch_tokens,
        )
        self.config = config
        self.embedding: HybridEmbedding = install(
            fork.module, r_min=config.r_min, r_max=config.r_max, seed=seed
        )
        self.latents: Latents | None = None
        """Where rollouts' latents are kept; None while nothing is learnt."""

    def session(self, max_new: int) -> Session:
        """Start a batch whose thinking rows read mixtures."""
        return HybridSession(
            start_session(self.module, max_new=max_new, pad_id=self.pad_id),
            self.embedding,
            temperature=self.config.temperature,
            thinking=partial(Thinking, self.tokenizer, self.config.markers),
            latents=self.latents,
        )

    def groups(self) -> list[ParameterGroup]:
        """Return what is trained beside the policy."""
        gates, config = self.embedding.gates, self.config
        linear = [*gates.retain.parameters(), *gates.admit.parameters()]
        return [
            ParameterGroup(name="gates", parameters=linear, learning_rate=config.gate_rate),
            ParameterGroup(name="decay", parameters=[gates.decay], learning_rate=config.decay_rate),
        ]

    @contextmanager
    def learning(self) -> Iterator[Hooks]:
        """Keep what rollouts read, for as long as the same policy is scored with it."""
        latents = self.latents = Latents()

        def after_window(window: Window) -> Mapping[str, float]:
            latents.clear()
            return self._numbers(window)

        try:
            yield Hooks(
                after_window=after_window,
                reference=self.embedding.bypassed,
                scoring=lambda ids_BT, mask_BT, kept: self.embedding.scoring(
                    ids_BT, mask_BT, latents
                ),
            )
        finally:
            self.latents = None

    def _numbers(self, window: Window) -> dict[str, float]:
        """Say how much was mixed: the share of tokens, and what the gates retain at least."""
        mixed = written = 0
        for attempt in window.attempts:
            written += len(attempt.ids)
            # Nobody reads the last token.
            mixed += thinking_tokens(attempt.ids[:-1], self.tokenizer, self.config.markers)
        retained = float(self.embedding.gates.retained().mean().detach())
        return {"mixed_share": mixed / max(1, written), "retained": retained}


def build_hybrid(config: HRPOConfig, model: Model | None, *, seed: int) -> Policy:
    """Return a policy with a `HybridModel`, or a plain one where nothing is to be mixed.

    Raises:
        ConfigError: the backbone has no weights.
    """
    policy = build_policy(config, model, seed=seed, method="hrpo")
    if config.is_plain:
        return policy
    return replace(policy, model=HybridModel(policy.model, config, seed=seed))
