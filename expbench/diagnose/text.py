"""Text methods: each test world's experiences go through `fit`, its questions through `answer`."""

from collections.abc import Mapping, Sequence

from expbench.config import build_config
from expbench.core import Experience, Model, Output, Question
from expbench.diagnose.asking import Progress, examine
from expbench.diagnose.findings import TEXT_CONTROLS, Control, Diagnosis, Reading
from expbench.diagnose.worlds import reward
from expbench.models import load_model
from expbench.registry import MethodInfo

WORLDS = 3
"""Test worlds a seed: 24 questions, few enough for a real backbone on a CPU."""


def diagnose_text(
    method: MethodInfo,
    *,
    settings: Mapping[str, str],
    seeds: Sequence[int],
    model: str,
    progress: Progress,
) -> Diagnosis:
    """Ask a method as it is, once a seed; see `expbench.diagnose.driving`."""
    config = build_config(method.cls.Config, settings, method=method.name)
    progress.stage(f"loading {model}", 0)
    backbone: Model | None = load_model(model) if method.uses_model else None

    def read(seed: int) -> Reading:
        def ask(
            control: Control, known: Sequence[Experience], asked: Sequence[Question]
        ) -> Sequence[Output]:
            reader = method.cls(config, backbone, seed)
            reader.fit((), known, reward)
            return list(reader.answer(asked))

        return examine(
            ask,
            seed=seed,
            controls=TEXT_CONTROLS,
            count=WORLDS,
            wording="english",
            progress=progress,
        )

    return Diagnosis(
        method=method.name,
        protocol="text",
        backbone=model if method.uses_model else "none",
        mode="none",
        settings=dict(settings),
        readings=tuple(read(seed) for seed in seeds),
    )
