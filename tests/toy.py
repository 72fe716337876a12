"""A toy task, a toy model and ready-made jobs for tests of everything around them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from expbench.core import (
    Experience,
    Grader,
    Method,
    Model,
    NoConfig,
    Output,
    Prompt,
    Question,
    Reward,
    Sample,
    Score,
    Segment,
    Source,
    Task,
    checksum,
)
from expbench.registry import MethodInfo
from expbench.runner import Job
from expbench.suites import TaskData, samples_checksum


def grade_exact(sample: Sample, output: Output) -> Score:
    """Score 1 where the text is the target."""
    return Score(value=float(output.text == sample.target[0]), answer=output.text or None)


def toy_samples(
    split: str, count: int, target: Callable[[int], str] = str, *, task: str = "toy"
) -> tuple[Sample, ...]:
    what = split if task == "toy" else f"{task} {split}"
    return tuple(
        Sample(
            id=f"{split}-{i}",
            task=task,
            kind="math",
            input=f"Name {what} number {i}",
            prompt=f"Name {what} number {i}",
            target=(target(i),),
            max_tokens=8,
        )
        for i in range(count)
    )


def toy_task(grade: Grader = grade_exact, **changes: Any) -> Task:
    task = Task(
        name="toy",
        version=1,
        title="Name a number",
        scenario="general",
        group="reasoning",
        kind="math",
        metric="accuracy",
        source=Source(dataset="toy", licence="none", paper="none"),
        load=lambda rows: {"train": toy_samples("train", 8), "test": toy_samples("test", 8)},
        prompt=lambda question: question.input,
        grade=grade,
        gold=lambda sample: sample.target[0],
        max_tokens=8,
    )
    return replace(task, **changes)


def toy_data(train: int = 8, test: int = 8, *, task: str = "toy") -> TaskData:
    splits = {
        "train": toy_samples("train", train, task=task),
        "test": toy_samples("test", test, task=task),
    }
    return TaskData(
        task=task,
        suite="mini",
        train=splits["train"],
        test=splits["test"],
        revision=None,
        notes=(),
        sizes={},
        checksums={name: samples_checksum(samples) for name, samples in splits.items()},
        files={},
    )


@dataclass
class CountingModel:
    """Answers with the last word of the prompt and counts what it is asked."""

    name: str = "counting"
    fingerprint: str = "0" * 64
    asked: int = 0

    def generate(
        self, prompts: Sequence[Prompt], *, temperature: float = 0.0, seed: int = 0
    ) -> list[Output]:
        self.asked += len(prompts)
        return [
            Output(
                text=p.question.prompt.split()[-1],
                segments=(Segment(role="prompt", tokens=4), Segment(role="generated", tokens=1)),
            )
            for p in prompts
        ]

    def encode(self, texts: Sequence[str]) -> Any:
        raise NotImplementedError

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class Echo:
    """A method that asks the model; tests change its behaviour by subclassing."""

    version = 1
    Config = NoConfig

    def __init__(self, config: NoConfig, model: Model, seed: int) -> None:
        self.model = model
        self.seed = seed

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        self.experience = experience

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        return self.model.generate([Prompt(question=q) for q in questions], seed=self.seed)


def info_of(cls: type[Any]) -> MethodInfo:
    return MethodInfo(
        name=cls.__name__.lower(),
        cls=cls,
        version=cls.version,
        summary="",
        origin="tests",
        uses_model=getattr(cls, "uses_model", True),
        uses_experience=getattr(cls, "uses_experience", False),
        reference=False,
        kinds=("math",),
        answer_only=tuple(getattr(cls, "answer_only", ())),
        needs_weights=getattr(cls, "needs_weights", False),
    )


def toy_job(out: Path, cls: type[Any] = Echo, **changes: Any) -> Job:
    job = Job(
        task=toy_task(),
        method=info_of(cls),
        config=NoConfig(),
        seed=1,
        data=toy_data(),
        preset="smoke",
        limits={"train": 0, "test": 0, "pool": 0},
        out=out,
    )
    return replace(job, **changes)


class Silent:
    """Progress that nobody watches."""

    def stage(self, label: str, total: int) -> None:
        pass

    def advance(self, count: int) -> None:
        pass


def same_but_seconds(records: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return records as comparable values without their times."""
    return [{**vars(record), "seconds": None} for record in records]


__all__ = ["CountingModel", "Echo", "Method", "Silent", "checksum", "toy_job", "toy_task"]
