import subprocess
import sys

import numpy as np
import pytest

from expbench.core import Prompt, Question
from expbench.errors import ConfigError
from expbench.models import load_model
from tests.models.samples import prompt


def ask(**given: object) -> Prompt:
    fields = {"id": "1", "task": "t", "kind": "choice", "input": "Which?"} | given
    return Prompt(question=Question(**fields))  # type: ignore[arg-type]


def test_the_fake_answers_in_the_form_of_each_kind() -> None:
    model = load_model("fake")
    texts = [
        output.text
        for output in model.generate(
            [
                ask(labels=("P", "Q"), choices=("x", "y")),
                ask(kind="chem"),
                ask(kind="math"),
                ask(kind="ranking", candidates=tuple("abcdefghijkl")),
                ask(kind="code", features={"entry_point": "double"}),
            ]
        )
    ]
    assert texts[0] in ("Answer: P", "Answer: Q")
    assert texts[1] in ("Answer: Yes", "Answer: No")
    assert "\\boxed{" in texts[2]
    order = [int(number) for number in texts[3].split(",")]
    assert len(set(order)) == 10 and set(order) <= set(range(1, 13))
    namespace: dict[str, object] = {}
    exec(texts[4].removeprefix("```python\n").removesuffix("```"), namespace)  # noqa: S102
    assert callable(namespace["double"])


def test_the_fake_varies_with_the_question_and_with_the_seed_only_when_it_samples() -> None:
    model = load_model("fake")
    asked = [prompt(i) for i in range(30)]
    greedy = [output.text for output in model.generate(asked, seed=1)]
    assert greedy == [output.text for output in model.generate(asked, seed=2)]
    assert len(set(greedy)) > 3
    sampled = [
        [o.text for o in model.generate(asked, temperature=1.0, seed=seed)] for seed in (1, 1, 2)
    ]
    assert sampled[0] == sampled[1] != sampled[2]


def test_the_fake_keeps_limits_and_stop_strings_and_meters_words() -> None:
    model = load_model("fake")
    cut = model.generate([prompt(1, max_tokens=2, context="two words")])[0]
    assert cut.stop_reason == "length" and len(cut.text.split()) == 2
    assert (cut.tokens("prompt"), cut.tokens("retrieved"), cut.tokens("generated")) == (6, 2, 2)
    stopped = model.generate([prompt(1, stop=(" is",))])[0]
    assert stopped.text == "The answer" and stopped.stop_reason == "stop"


def test_the_fake_encodes_equal_words_alike() -> None:
    vectors = load_model("fake").encode(["red pear", "pear red", "blue owl"])
    assert vectors.dtype == np.float32 and vectors.shape == (3, 32)
    assert np.allclose(vectors[0], vectors[1]) and not np.allclose(vectors[0], vectors[2])


def test_the_door_to_the_models_loads_no_torch() -> None:
    code = (
        "import sys; from expbench.models import load_model; load_model('fake').encode(['a']);"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_dtype_or_budget_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'fp4'"):
        load_model("fake", dtype="fp4")
    with pytest.raises(ConfigError, match="batch_tokens is 0"):
        load_model("fake", batch_tokens=0)
