r"""Rows of the mini suite for `gsm8k` and `gsm_symbolic`.

Each of 32 templates gives one train and one test row of `gsm8k`. As in the dataset that it
stands in for, `gsm_symbolic` takes some `gsm8k` test questions and varies their names, things and
numbers: 16 templates with four more draws each.

A raw row of `gsm8k`:
    {"question": "One postcard costs $5. How many dollars do 5 postcards cost?",
     "answer": "They cost 5 * 5 = $<<5*5=25>>25.\n#### 25"}
"""

import re
from random import Random

from expbench.mini.drawing import distinct
from expbench.mini.stories import Story, Template
from expbench.mini.stories_long import LONG
from expbench.mini.stories_one_step import ONE_STEP
from expbench.mini.stories_two_steps import TWO_STEPS

Row = dict[str, str | int]

TEMPLATES: tuple[Template, ...] = (*ONE_STEP, *TWO_STEPS, *LONG)

INSTANCES = 4
"""Draws of each template in `gsm_symbolic`."""

SYMBOLIC = (
    *("doors", "market", "workshop"),
    *("rows", "sharing", "bus"),
    *("ages", "tickets", "sale"),
    *("prices", "barrel", "trip"),
    *("practice", "ride", "festival"),
    "passengers",
)
"""Short, middle and long templates in turn: any cut through the ids is about as hard on both
sides."""


def gsm8k() -> dict[str, list[Row]]:
    """Make the train and test rows, short and long questions mixed."""
    return {split: [_row(story) for _, story in _stories(split)] for split in ("train", "test")}


def gsm_symbolic() -> dict[str, list[Row]]:
    """Make the only split that the official data has; a loader divides it by template id.

    `original_id` is the position of the original question in the mini test split of `gsm8k`.
    """
    originals = {name: (position, story) for position, (name, story) in enumerate(_stories("test"))}
    templates = {template.__name__: template for template in TEMPLATES}
    rows: list[Row] = []
    for number, name in enumerate(SYMBOLIC):
        position, original = originals[name]
        for instance, story in enumerate(_draws(templates[name])[2:]):
            rows.append(
                {
                    "id": number,
                    "instance": instance,
                    "question": story.question,
                    "answer": without_notes(_answer(story)),
                    "original_id": position,
                    "original_question": original.question,
                    "original_answer": without_notes(_answer(original)),
                    "canary": "",
                }
            )
    return {"test": rows}


def without_notes(answer: str) -> str:
    """Drop the calculator notes.

    >>> without_notes("They cost 4 * 3 = $<<4*3=12>>12.")
    'They cost 4 * 3 = $12.'
    """
    return re.sub(r"<<[^>]*>>", "", answer)


def _draws(template: Template) -> list[Story]:
    """Draw the train story, the test story and the symbolic ones, in this order."""
    return distinct(template, 2 + INSTANCES, key=_numbers)


def _numbers(story: Story) -> str:
    """Two stories of a template with the same numbers would have the same answer."""
    return " ".join(re.findall(r"\d+", story.question))


def _stories(split: str) -> list[tuple[str, Story]]:
    """Draw one named story a template, in a shuffled order of the split's own."""
    which = ("train", "test").index(split)
    stories = [(template.__name__, _draws(template)[which]) for template in TEMPLATES]
    Random(f"gsm8k {split}").shuffle(stories)
    return stories


def _row(story: Story) -> Row:
    return {"question": story.question, "answer": _answer(story)}


def _answer(story: Story) -> str:
    return "\n".join((*story.steps, f"#### {story.answer:,}"))
