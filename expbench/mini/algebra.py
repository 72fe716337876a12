r"""Rows of the mini suite for `math`.

Each of 32 templates gives one train row, in the fields of Hendrycks' MATH, and one test row, in
the fields of MATH-500.

A raw test row:
    {"problem": "Simplify $\\sqrt{32}$.",
     "solution": "Since $32 = 4^2 \\cdot 2$, we have $\\sqrt{32} = \\boxed{4\\sqrt{2}}$.",
     "answer": "4\\sqrt{2}", "subject": "Algebra", "level": 2, "unique_id": "mini/algebra/6.json"}
"""

from collections import Counter
from random import Random

from expbench.mini.drawing import distinct
from expbench.mini.exercises import Exercise, Topic
from expbench.mini.exercises_numbers import NUMBER_TOPICS
from expbench.mini.exercises_symbols import SYMBOL_TOPICS

Row = dict[str, str | int]

TOPICS: tuple[Topic, ...] = (*NUMBER_TOPICS, *SYMBOL_TOPICS)


def math() -> dict[str, list[Row]]:
    """Make the train and test rows, subjects and levels mixed."""
    return {
        "train": [_train_row(topic, exercise) for topic, exercise in _exercises("train")],
        "test": _test_rows(),
    }


def _exercises(split: str) -> list[tuple[Topic, Exercise]]:
    """Draw one exercise a topic, in a shuffled order of the split's own."""
    which = ("train", "test").index(split)
    exercises = [
        (topic, distinct(topic.template, 2, key=lambda exercise: exercise.problem)[which])
        for topic in TOPICS
    ]
    Random(f"math {split}").shuffle(exercises)
    return exercises


def _train_row(topic: Topic, exercise: Exercise) -> Row:
    return {
        "problem": exercise.problem,
        "level": f"Level {topic.level}",
        "type": topic.subject,
        "solution": exercise.worked,
    }


def _test_rows() -> list[Row]:
    rows: list[Row] = []
    seen: Counter[str] = Counter()
    for topic, exercise in _exercises("test"):
        folder = topic.subject.lower().replace("&", "and").replace(" ", "_")
        seen[folder] += 1
        rows.append(
            {
                "problem": exercise.problem,
                "solution": exercise.worked,
                "answer": exercise.answer,
                "subject": topic.subject,
                "level": topic.level,
                "unique_id": f"mini/{folder}/{seen[folder]}.json",
            }
        )
    return rows
