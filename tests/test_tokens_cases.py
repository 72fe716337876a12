"""Every case of the token meter from public bug reports, one test each, named after the case."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from expbench import runner
from expbench.core import Output, Prompt, Question, Segment
from expbench.models import load_model
from expbench.models.hf import HFModel
from expbench.models.tiny import build_tiny
from expbench.records import RunFolder, find_runs
from expbench.report.rows import RunRow, read_row
from expbench.runner import execute
from tests.models.samples import Script, prompt, word_tokenizer
from tests.run_cases import Case, faults
from tests.toy import CountingModel, Echo, Silent, toy_data, toy_job

ELSEWHERE = {"tokens-f3868f"}
"""Tested with the method that it is about."""
Check = Callable[[str, dict[str, Any]], None]


def read(cases: Path) -> dict[str, Case]:
    lines = (cases / "tokens.jsonl").read_text(encoding="utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


@pytest.fixture
def check(cases: Path) -> Check:
    """Compare what the project gives with what the case expects."""
    expected = read(cases)

    def compare(name: str, found: dict[str, Any]) -> None:
        wrong = faults(found, expected[name]["expect"])
        assert not wrong, wrong

    return compare


def test_every_case_has_a_test(cases: Path) -> None:
    ids = set(read(cases)) - ELSEWHERE
    missing = [i for i in ids if f"test_{i.replace('-', '_')}" not in globals()]
    assert ids and not missing


def tiny(*, tokenizer: Any = None, ends: Sequence[int] = (2, 3)) -> HFModel:
    """Return a tiny backbone with another tokenizer or other end ids."""
    module, own = build_tiny()
    module.generation_config.eos_token_id = module.config.eos_token_id = list(ends)
    return HFModel(
        name="tiny", module=module, tokenizer=tokenizer or own, fingerprint="0" * 64,
        source="built-in", revision=None,
    )  # fmt: skip


def answered(out: Path, model: HFModel, *replies: list[int]) -> RunRow:
    """Run a task whose questions get these ids in one batch, and read its row of the report."""
    model.session = lambda max_new: Script(*replies)  # type: ignore[method-assign]
    job = toy_job(out, data=toy_data(test=len(replies)))
    return read_row(execute(job, lambda: model, Silent()))


def rendered(model: HFModel, text: str) -> dict[str, Any]:
    """Return the ids that the model gets for a text and what the meter says of them."""
    asked = Prompt(question=Question(id="1", task="t", kind="math", input=text, max_tokens=1))
    [(given, _)] = model.complete([asked])
    [output] = model.generate([asked])
    return {
        "prompt_ids": given.ids,
        "prompt_tokens": output.tokens("prompt"),
        "begin_tokens": given.ids.count(1),
    }


def total(folder: RunFolder) -> int:
    return sum(read_row(folder).tokens.values())


@pytest.mark.parametrize("name", ["tiny", "fake"])
def test_tokens_49f9f0(check: Check, name: str) -> None:
    model = load_model(name)
    check("tokens-49f9f0", {"output_tokens": model.count_tokens("")})
    if isinstance(model, HFModel):
        assert len(model.tokenizer("")["input_ids"]) == 1
        [silent] = model.generate([prompt(1, max_tokens=0)])
        check("tokens-49f9f0", {"output_tokens": silent.tokens("generated")})


class Costly(CountingModel):
    """Spends 650 tokens on each of four questions, and 900 on the fifth if it is let."""

    is_interrupted = True

    def generate(
        self, prompts: Sequence[Prompt], *, temperature: float = 0.0, seed: int = 0
    ) -> list[Output]:
        [asked] = prompts
        is_last = asked.question.id == "test-4"
        if is_last and self.is_interrupted:
            raise KeyboardInterrupt
        self.asked += 1
        costs = (
            Segment(role="prompt", tokens=850 if is_last else 600),
            Segment(role="generated", tokens=50),
        )
        return [Output(text="x", segments=costs)]


def test_tokens_4cd008(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CHUNK", 1)
    job = toy_job(tmp_path, data=toy_data(test=5))
    first, second = Costly(), Costly()
    with pytest.raises(KeyboardInterrupt):
        execute(job, lambda: first, Silent())
    [half] = find_runs(tmp_path)
    assert total(half) == 2600
    second.is_interrupted = False
    folder = execute(job, lambda: second, Silent())
    assert (first.asked, second.asked) == (4, 1)
    check("tokens-4cd008", {"run_total_tokens": total(folder)})


def test_tokens_5178f7(check: Check, tmp_path: Path) -> None:
    row = answered(tmp_path, tiny(ends=[4, 77]), [7, 8, 77, 0, 0])
    found = {"output_tokens": row.tokens["generated"], "truncated": row.truncated > 0}
    check("tokens-5178f7", found)


def test_tokens_6a4a14(check: Check, tmp_path: Path) -> None:
    replies = [[9] * (length - 1) + [2] + [0] * 8 for length in (3, 8, 5)]
    row = answered(tmp_path, tiny(), *replies)
    check("tokens-6a4a14", {"output_tokens_total": row.tokens["generated"]})


class Stubborn(Echo):
    """Asks again until the answer is right, and accounts for every attempt."""

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Output:
        spent: tuple[Segment, ...] = ()
        for attempt in range(1, 4):
            costs = (Segment(role="prompt", tokens=100), Segment(role="generated", tokens=20))
            text, spent = "0" if attempt == 3 else "", spent + costs
        return Output(text=text, segments=spent)


def test_tokens_a8d983(check: Check, tmp_path: Path) -> None:
    job = toy_job(tmp_path, Stubborn, data=toy_data(test=1))
    folder = execute(job, CountingModel, Silent())
    [record] = folder.records()
    assert record.score is not None and record.score.value == 1.0
    starts = [i for i, s in enumerate(record.output.segments) if s.role == "prompt"]
    final = record.output.segments[starts[-1] :]
    found = {
        "tokens_spent": total(folder),
        "attempts": len(starts),
        "tokens_of_final_attempt": sum(segment.tokens for segment in final),
    }
    check("tokens-a8d983", found)


def test_tokens_ec6974(check: Check) -> None:
    template = "<s>{% for m in messages %} {{ m['content'] }}{% endfor %}"
    model = tiny(tokenizer=word_tokenizer(template=template, wrap="<s> $A"))
    check("tokens-ec6974", rendered(model, "big red fox"))


def test_tokens_ef3066(check: Check) -> None:
    model = tiny(tokenizer=word_tokenizer(template=None, wrap="<s> $A"))
    check("tokens-ef3066", rendered(model, "big red fox"))
