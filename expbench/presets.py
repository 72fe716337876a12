"""Presets: named sets of defaults for `expbench run`. A record keeps the resolved values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from expbench.errors import UnknownName


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Defaults that a command-line option overrides one by one."""

    name: str
    title: str
    model: str
    dtype: str
    """Number format of the model, or `auto` for what the hardware is fastest in."""
    suite: str
    train_limit: int
    """Train samples a task at most; 0 means all."""
    test_limit: int
    """Test samples a task at most; 0 means all."""
    pool_limit: int
    """Train samples a task that the backbone attempts for the experience pool."""
    seeds: tuple[int, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings for every method whose Config has the field; the user's `--set` wins."""


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="smoke",
            title="a fake model, seconds; for tests",
            model="fake",
            dtype="float32",
            suite="mini",
            train_limit=8,
            test_limit=4,
            pool_limit=4,
            seeds=(1,),
            settings={
                "steps": "1",
                "prompts": "1",
                "group": "2",
                "max_completion": "4",
                "lora_rank": "2",
                "trees": "10",
            },
        ),
        Preset(
            name="laptop",
            title="SmolLM2-135M-Instruct on the mini suite, minutes on two cores (the default)",
            model="HuggingFaceTB/SmolLM2-135M-Instruct",
            # The same numbers on every CPU: some compute in bfloat16 and some do not.
            dtype="float32",
            suite="mini",
            train_limit=32,
            test_limit=32,
            pool_limit=16,
            seeds=(1,),
            # What two cores can do in minutes. A gate close to shut, because so few steps cannot
            # teach the fusion, and what it has not learnt would only disturb the backbone.
            settings={
                "steps": "6",
                "prompts": "2",
                "group": "8",
                "max_completion": "64",
                "micro_batch": "4",
                "rank_prompts": "4",
                "learning_rate": "1e-4",
                "gate_low": "0.99",
                "gate_high": "0.999",
                "attention_rate": "1e-3",
                "gate_rate": "1e-3",
                "decay_rate": "1e-2",
                "summary": "extractive",
                "fresh": "4",
                "save_every": "5",
            },
        ),
        Preset(
            name="paper",
            title="Qwen2.5-3B-Instruct on the official data, 750/450 samples a task, three seeds",
            model="Qwen/Qwen2.5-3B-Instruct",
            dtype="auto",
            suite="full",
            train_limit=750,
            test_limit=450,
            pool_limit=750,
            seeds=(1, 2, 3),
        ),
    )
}


def get_preset(name: str) -> Preset:
    """Look a preset up.

    Raises:
        UnknownName: no such preset.
    """
    if name not in PRESETS:
        raise UnknownName.among("preset", name, PRESETS)
    return PRESETS[name]
