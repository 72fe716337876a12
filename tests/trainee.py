"""A method that trains in steps, for tests of everything around training; it needs no weights."""

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from expbench.core import Experience, Output, Question, Reward, Sample, Workbench
from expbench.errors import DataError


@dataclass(frozen=True, kw_only=True)
class TraineeConfig:
    """Settings of the trainee."""

    steps: int = 3
    mix: Literal["scenario", "task"] = "scenario"
    control: Literal["none", "empty", "shuffled"] = "none"


class Trainee:
    """Counts its steps; answers the prompt's last word, or the first label of a choice.

    Without its bank (`control=empty`) it misses every word that ends in an odd digit and every
    choice; with a shuffled one it gives the second label.
    """

    version = 1
    Config = TraineeConfig
    uses_experience = True
    answer_only = ("control",)
    workbench: Workbench | None = None
    ABLATIONS: ClassVar[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
        "controls": {"bank": {}, "shuffled bank": {"control": "shuffled"}},
        "length": {"one step": {"steps": "1"}, "two steps": {"steps": "2"}},
    }

    def __init__(self, config: TraineeConfig, model: Any, seed: int) -> None:
        self.config = config
        self.seed = seed
        self.learnt: dict[str, Any] = {}
        self.notes: list[str] = []
        self.training_cost: dict[str, float] = {}

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Take the steps that are left, one line in `train.jsonl` each."""
        assert self.workbench is not None
        folder, steps = self.workbench.folder, self.config.steps
        state = folder / "state.json"
        done = json.loads(state.read_text()) if state.exists() else 0
        self.workbench.stage("steps", steps)
        for step in range(done + 1, steps + 1):
            sample = train[step % len(train)]
            right = reward(sample, Output(text=sample.target[0]))
            with (folder / "train.jsonl").open("a") as file:
                line = {"step": step, "reward": right / step, "process": os.getpid()}
                file.write(json.dumps(line) + "\n")
            state.write_text(str(step))
            time.sleep(float(os.environ.get("TRAINEE_SLEEPS", "0")))
            self.workbench.advance(1)
            if os.environ.get("TRAINEE_DIES_AT") == str(step):
                os.kill(os.getpid(), signal.SIGKILL)
        self.notes = ["Learnt in steps."]
        self.training_cost = {"steps": steps, "prompt_tokens": 10 * steps, "generated_tokens": 5}
        self.learnt = {
            "steps": steps,
            "seed": self.seed,
            "samples": [f"{s.task}/{s.id}" for s in train],
            "experience": len(experience),
        }

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Answer from the bank, or worse without it."""
        assert self.learnt["steps"] == self.config.steps
        return [Output(text=self._text(question), stop_reason="none") for question in questions]

    def _text(self, question: Question) -> str:
        control = self.config.control
        if question.labels:
            place = {"none": 0, "shuffled": 1}.get(control)
            return "" if place is None else f"Answer: {question.labels[place]}"
        word = question.prompt.split()[-1]
        return "?" if control == "empty" and ord(word[-1]) % 2 else word

    def save(self, folder: Path) -> None:
        """Keep what was learnt."""
        (folder / "learnt.json").write_text(json.dumps(self.learnt))

    def load(self, folder: Path) -> None:
        """Read what was learnt."""
        self.learnt = json.loads((folder / "learnt.json").read_text())

    def refuse_leaks(self, questions: Sequence[Question]) -> None:
        """Refuse a question that was learnt from."""
        for question in questions:
            if f"{question.task}/{question.id}" in self.learnt["samples"]:
                raise DataError(f"The bank holds {question.id}.")


METHOD = Trainee
