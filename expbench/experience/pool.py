"""The shared experience pool: the untouched backbone's graded attempts at train samples.

Collected once per backbone, suite, task and seed; every method that learns from experience reads
the same pool, and its checksum is part of their run's identity. Stored as
`pools/<task>-<key>.jsonl` beside the runs, one attempt a line; a killed collection goes on where it
stopped.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from expbench.core import (
    Experience,
    Model,
    Output,
    Prompt,
    Sample,
    Score,
    checksum,
)
from expbench.records import append_lines, locked, output_from_json, read_lines, repair

TEMPERATURE = 0.7
"""Attempts are sampled, so that seeds give different pools; below 1 because small models derail."""
CHUNK = 64
SUMMARY_CHARS = 400


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A complete pool of one task."""

    entries: tuple[Experience, ...]
    checksum: str
    tokens: int
    """Prompt and generated tokens that the collection cost."""
    seconds: float
    """Time that the attempts took, grading not counted."""
    errors: int
    """Attempts that no grader could judge; they are not in `entries`."""


def summarise_attempt(sample: Sample, output: str, score: Score) -> str:
    """Write the extractive summary: the question's start, what was answered, and how it went.

    >>> s = Sample(id="1", task="t", kind="math", input="What is 1+1?", target=("2",))
    >>> summarise_attempt(s, "It is 2.", Score(value=1.0, answer="2"))
    'Question: What is 1+1? Answer given: 2 (right).'
    """
    question = " ".join(sample.input.split())[:SUMMARY_CHARS]
    given = score.answer if score.answer is not None else " ".join(output.split())[-80:]
    if score.value in (0.0, 1.0):
        verdict = "right" if score.value else "wrong"
    else:
        verdict = f"score {score.value:.2f}"
    return f"Question: {question} Answer given: {given or 'none'} ({verdict})."


def collect(
    samples: Sequence[Sample],
    *,
    model: Model,
    grade: Callable[[Sequence[tuple[Sample, Output]]], list[Score | str]],
    seed: int,
    identity: dict[str, Any],
    folder: Path,
    advance: Callable[[int], None] = lambda n: None,
) -> Pool:
    """Read the pool, collecting what is missing.

    Args:
        samples: Train samples to attempt, in order.
        model: The untouched backbone.
        grade: Grades a batch; a string is the error of a grader that could not decide.
        seed: Seed of the sampling.
        identity: What decides the pool's content besides the samples; names the file.
        folder: Where pools are kept.
        advance: Called with the number of attempts done.

    Raises:
        RecordError: the folder cannot be written, or another process collects for over an hour.
    """
    key = checksum({**identity, "seed": seed, "ids": [s.id for s in samples], "t": TEMPERATURE})
    name = f"{identity['task']}-{key[:12]}"
    path = folder / f"{name}.jsonl"
    with locked(folder / ".locks", name, what=f"Pool {name}", wait_s=3600.0):
        repair(path, key=lambda v: (v["sample_id"], v["output"]["text"], v["seconds"])[0])
        done = {value["sample_id"] for _, value in read_lines(path)}
        for start in range(0, len(samples), CHUNK):
            chunk = samples[start : start + CHUNK]
            if any(s.id not in done for s in chunk):
                # The whole chunk again: a batch of other composition could round differently.
                lines = _attempt(chunk, model=model, grade=grade, seed=seed)
                append_lines(path, (x for x in lines if x["sample_id"] not in done))
            advance(len(chunk))
    return _read(path, samples)


def _attempt(
    chunk: Sequence[Sample],
    *,
    model: Model,
    grade: Callable[[Sequence[tuple[Sample, Output]]], list[Score | str]],
    seed: int,
) -> list[dict[str, Any]]:
    start = time.perf_counter()
    prompts = [Prompt(question=sample.question()) for sample in chunk]
    outputs = model.generate(prompts, temperature=TEMPERATURE, seed=seed)
    seconds = (time.perf_counter() - start) / len(chunk)
    lines: list[dict[str, Any]] = []
    pairs = list(zip(chunk, outputs, strict=True))
    for (sample, output), result in zip(pairs, grade(pairs), strict=True):
        score = result if isinstance(result, Score) else None
        summary = summarise_attempt(sample, output.text, score) if score else ""
        lines.append(
            {
                "sample_id": sample.id,
                "split": "train",
                "output": asdict(output),
                "score": asdict(score) if score else None,
                "error": None if score else result,
                "summary": summary,
                "seconds": seconds,
            }
        )
    return lines


def _read(path: Path, samples: Sequence[Sample]) -> Pool:
    by_id = {sample.id: sample for sample in samples}
    values = {v["sample_id"]: v for _, v in read_lines(path) if v["sample_id"] in by_id}
    ordered = [values[sample.id] for sample in samples]
    entries = tuple(
        Experience(
            sample=by_id[v["sample_id"]],
            output=v["output"]["text"],
            score=Score(**v["score"]),
            summary=v["summary"],
        )
        for v in ordered
        if v["score"] is not None
    )
    outputs = [output_from_json(v["output"]) for v in ordered]
    return Pool(
        entries=entries,
        checksum=pool_checksum(entries),
        tokens=sum(segment.tokens for output in outputs for segment in output.segments),
        seconds=sum(v["seconds"] for v in ordered),
        errors=sum(v["score"] is None for v in ordered),
    )


def pool_checksum(entries: Iterable[Experience]) -> str:
    """Hash what a method can learn from: ids, outputs, scores and summaries, in order."""
    return checksum([[e.sample.id, e.output, e.score.value, e.summary] for e in entries])
