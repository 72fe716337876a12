"""Latent methods: trained on a stream of worlds with the toy backbone, then asked about new ones.

A method is latent if its class has the two hooks of `Weaving`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, Protocol

from expbench.config import build_config
from expbench.core import Experience, Output, Question
from expbench.diagnose.asking import Progress, examine
from expbench.diagnose.findings import LATENT_CONTROLS, Control, Diagnosis, Reading
from expbench.diagnose.toy import build_toy
from expbench.diagnose.worlds import World, stream
from expbench.registry import MethodInfo

Mode = Literal["supervised", "grpo"]
WORLDS = 32
"""Test worlds a seed: 256 questions."""
SETTINGS: Mapping[str, str] = {
    "heads": "4",
    "k": "4",
    "summary": "extractive",
    "capacity": "8",
    "lora_rank": "0",
    "learning_rate": "1e-4",
    "attention_rate": "3e-3",
    "gate_rate": "3e-2",
    "decay_rate": "3e-2",
    "prompts": "8",
    "group": "16",
    "micro_batch": "128",
    "max_completion": "1",
    "save_every": "1000000",
    "trace": "true",
}
"""What fits the toy backbone, for every setting of these names that a method has."""
STEPS: Mapping[Mode, str] = {"supervised": "80", "grpo": "200"}


class Weaving(Protocol):
    """The two hooks of a latent method."""

    def learn_worlds(
        self, worlds: Iterator[World], *, mode: Mode, advance: Callable[[int], None]
    ) -> Mapping[str, float]:
        """Learn to read a bank from ever new worlds, for the configured number of `steps`.

        Args:
            worlds: Without end.
            mode: `supervised` (cross-entropy on the value) or `grpo` (reward 1 for the value).
            advance: To be told of finished steps.

        Returns:
            Numbers for people, such as the last loss.
        """
        ...

    def answer_world(
        self, experience: Sequence[Experience], questions: Sequence[Question], *, control: Control
    ) -> list[Output]:
        """Answer greedily with a bank that holds these experiences and nothing else.

        Args:
            experience: What the control leaves: nothing for `empty`, another world's for
                `shuffled`, experiences about nothing that is asked for `random`.
            questions: Of one world.
            control: `closed_gate` shuts the gate; the others need nothing but the experience.
        """
        ...


def toy_settings(config: type[Any], mode: Mode, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the toy backbone that a Config knows, overridden by given ones."""
    names = {field.name for field in fields(config)}
    fitting = {**SETTINGS, "steps": STEPS[mode]}
    return {key: value for key, value in fitting.items() if key in names} | dict(given)


def diagnose_latent(
    method: MethodInfo,
    *,
    settings: Mapping[str, str],
    seeds: Sequence[int],
    mode: Mode,
    progress: Progress,
) -> Diagnosis:
    """Train on worlds and ask about unseen ones, once a seed; see `expbench.diagnose.driving`."""
    chosen = toy_settings(method.cls.Config, mode, settings)
    config = build_config(method.cls.Config, chosen, method=method.name)

    def read(seed: int) -> Reading:
        start = time.perf_counter()
        progress.stage(f"seed {seed}: learning", int(chosen.get("steps", 0)))
        pupil: Weaving = method.cls(config, build_toy(seed), seed)
        numbers = pupil.learn_worlds(stream(seed=seed), mode=mode, advance=progress.advance)
        return examine(
            lambda control, known, asked: pupil.answer_world(known, asked, control=control),
            seed=seed,
            controls=LATENT_CONTROLS,
            count=WORLDS,
            wording="tokens",
            progress=progress,
            numbers=numbers,
            start=start,
        )

    return Diagnosis(
        method=method.name,
        protocol="latent",
        backbone="toy",
        mode=mode,
        settings=chosen,
        readings=tuple(read(seed) for seed in seeds),
    )
