"""`expbench diagnose`."""

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from expbench.config import parse_settings
from expbench.console import Stages
from expbench.diagnose.driving import diagnose
from expbench.diagnose.findings import WHAT, Diagnosis, Rate, Reading
from expbench.errors import ConfigError
from expbench.registry import get_method

MODES = ("supervised", "grpo")


def run_diagnosis(
    method: str,
    *,
    model: str | None,
    seeds: tuple[int, ...] | None,
    mode: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a method on key-value worlds and print rates, intervals and verdicts.

    Raises:
        ConfigError: an unknown mode, or a method that does not use experience.
    """
    if mode is not None and mode not in MODES:
        raise ConfigError(f"--mode is {mode!r}; allowed: {', '.join(MODES)}.")
    with Stages(quiet=as_json) as stages:
        found = diagnose(
            get_method(method),
            settings=parse_settings(settings),
            seeds=seeds or (0, 1, 2),
            mode="grpo" if mode == "grpo" else "supervised" if mode else None,
            model=model,
            progress=stages,
        )
    if as_json:
        print(json.dumps(to_json(found), ensure_ascii=False, indent=1))
        return
    console = Console(highlight=False)
    console.print(table(found))
    for finding in found.findings:
        mark = Text("✓ ", style="green") if finding.good else Text("✗ ", style="bold red")
        console.print(mark + Text(finding.text, style=""), soft_wrap=True)


def to_json(found: Diagnosis) -> dict[str, Any]:
    """Return everything as plain values: rates with intervals, seeds, findings."""
    return {
        "method": found.method,
        "protocol": found.protocol,
        "backbone": found.backbone,
        "mode": found.mode,
        "settings": dict(found.settings),
        "accuracy": {control: _rate(rate) for control, rate in found.rates.items()},
        "hit": _rate(found.hit) if found.hit else None,
        "retrieved": found.places,
        "gate": found.gate,
        "seeds": [
            {
                "seed": reading.seed,
                "accuracy": {c: _rate(Rate.of(row)) for c, row in reading.marks.items()},
                "seconds": round(reading.seconds, 2),
                "numbers": dict(reading.numbers),
            }
            for reading in found.readings
        ],
        "findings": [asdict(finding) for finding in found.findings],
    }


def table(found: Diagnosis) -> Table:
    """Lay out accuracy by control and seed, then hit rate and gate."""
    learnt = "as it is" if found.mode == "none" else f"learnt by {found.mode}"
    result = Table(title=f"{found.method} on key-value worlds ({found.backbone}, {learnt})")
    result.add_column("right answers with", no_wrap=True)
    for reading in found.readings:
        result.add_column(f"seed {reading.seed}", justify="right")
    result.add_column("all, 95 % interval", justify="right", no_wrap=True)
    for control, rate in found.rates.items():
        seeds = [_share(Rate.of(reading.marks[control])) for reading in found.readings]
        result.add_row(WHAT[control], *seeds, _interval(rate))
    result.add_section()
    if found.hit is not None:
        hits = [_share(Rate.of(reading.hits)) for reading in found.readings]
        name = f"right entry in top {found.places:.0f}"
        result.add_row(name, *hits, _interval(found.hit))
    if found.gate is not None:
        gates = [_mean(reading.gates) for reading in found.readings]
        result.add_row("gate openness", *gates, f"{found.gate:.3f}")
    result.add_row("seconds", *(_seconds(reading) for reading in found.readings), "")
    return result


def _rate(rate: Rate) -> dict[str, float]:
    return {**asdict(rate), "value": rate.value}


def _share(rate: Rate) -> str:
    return f"{rate.value:.3f}"


def _interval(rate: Rate) -> str:
    return f"{rate.value:.3f} [{rate.low:.2f}, {rate.high:.2f}]"


def _mean(values: tuple[float, ...]) -> str:
    return f"{sum(values) / len(values):.3f}" if values else ""


def _seconds(reading: Reading) -> str:
    return f"{reading.seconds:.1f}"
