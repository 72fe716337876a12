"""Search-R1 on a scripted policy: turns, searches, limits, meter and what is graded."""

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from expbench.core import Output, Prompt, Question
from expbench.errors import ConfigError, DataError
from expbench.experience.retrieval import document_of
from expbench.models import load_model
from expbench.models.decoding import Request
from expbench.models.hf import HFModel
from expbench.training.loop import Ask, Sampling, Trajectory
from expbench_methods.search_r1 import rollout
from expbench_methods.search_r1.config import SearchR1Config
from expbench_methods.search_r1.dialogue import instruction
from expbench_methods.search_r1.method import SearchR1
from tests.methods.scripted import END, Script, by_turn, note, read, sample, scripted

POOL = [
    note(1, "Boil copper in a kettle."),
    note(2, "Paint the fence green."),
    note(3, "Feed zebras at noon."),
]
ASKED = sample(9)
OPEN, CLOSE = "\n<information>\n", "</information>\n"
TAGS = len(OPEN + CLOSE)
"""Tokens of the tags: the built-in tokenizer has one a character."""


def method(*, model: HFModel | None = None, pool: Any = POOL, **changes: Any) -> SearchR1:
    """Return an untrained method whose policy a script may replace."""
    model = model or cast(HFModel, load_model("tiny"))
    made = SearchR1(SearchR1Config(**{"steps": 0, "lora_rank": 2, "k": 1, **changes}), model, 0)
    made.fit([], pool, lambda sample, output: 0.0)
    return made


def answered(
    script: Script, *, question: Question | None = None, **changes: Any
) -> tuple[Output, list[Request], SearchR1]:
    """Answer one question by a script; return the answer and what was asked of the policy."""
    made = method(**changes)
    seen = scripted(made.policy.model, script)
    return made.answer([question or ASKED.question()])[0], seen, made


def rolled(made: SearchR1, samples: Any, *, limit: int = 200) -> list[Trajectory]:
    asks = [Ask(sample=one, key=f"k{i}") for i, one in enumerate(samples)]
    return made.rollout(asks, Sampling(limit=limit, temperature=1.0, seed=3))


def added(seen: list[Request], model: HFModel, turn: int) -> str:
    """Return what stands in the context of a turn beyond that of the turn before."""
    return read(model, seen[turn].ids[len(seen[turn - 1].ids) :])


def test_two_searches_bring_the_two_right_passages() -> None:
    turns = ("Hm. <search> zebras </search>", "<search>copper</search>", "<answer> 7 </answer>")
    output, seen, made = answered(by_turn(*turns))
    model = made.policy.model
    zebras = f"{OPEN}1. Feed zebras at noon.\n{CLOSE}"
    copper = f"{OPEN}1. Boil copper in a kettle.\n{CLOSE}"
    assert added(seen, model, 1) == turns[0] + zebras
    assert added(seen, model, 2) == turns[1] + copper
    assert len(seen) == 3 and output.text == "7" and output.stop_reason == "stop"
    assert [trace["search"] for trace in output.trace] == ["zebras", "copper"]
    assert [trace["retrieved"] for trace in output.trace] == [
        ({"task": "toy", "sample_id": "3"},), ({"task": "toy", "sample_id": "1"},),
    ]  # fmt: skip
    assert [t["tokens"] for t in output.trace] == [len(zebras), len(copper)]


def test_the_model_is_told_the_protocol_before_the_tasks_words() -> None:
    _, seen, made = answered(by_turn(END), max_turns=3)
    text = read(made.policy.model, seen[0].ids)
    assert text == f"<bos><user>{instruction(3)}\n\nQ9<end><assistant>"
    assert "3 times" in text and "once" in instruction(1)


def test_sampled_ids_stay_as_they_were_sampled() -> None:
    made = method()
    scripted(made.policy.model, by_turn("a<search>zebras</search>", "<answer>5</answer>"))
    found = rolled(made, [ASKED])[0]
    external = set(found.external)
    own = [token for place, token in enumerate(found.ids) if place not in external]
    ids = made.policy.model.tokenizer("a<search>zebras</search><answer>5</answer>")["input_ids"]
    assert own == ids[1:]
    assert read(made.policy.model, [found.ids[i] for i in found.external]).startswith(OPEN)
    assert len(found.ids) - 1 not in external


@pytest.mark.parametrize("name", ["tokens-f3868f"])
def test_tokens_f3868f(cases: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a dialogue have the case's lengths, without the instruction, which the case lacks."""
    monkeypatch.setattr(rollout, "instruction", lambda max_turns: "")
    wrapped = len("<bos><user><end><assistant>".replace("<", " <").split())
    question = sample(9, prompt="p" * (100 - wrapped)).question()
    body = 50 - len(f"{OPEN}1. \n{CLOSE}")
    pool = [note(1, "q " + "x" * (body - 2))]
    first, last = "abc<search>q</search>", "<answer>" + "8" * 13 + "</answer>"
    assert (len(first), len(last)) == (21, 30)
    output, seen, _ = answered(by_turn(first[1:], last), question=question, pool=pool)
    case = next(c for c in map(json.loads, (cases / "tokens.jsonl").open()) if c["id"] == name)
    found = {role: output.tokens(cast(Any, role)) for role in ("prompt", "generated", "retrieved")}
    found["context_end"] = len(seen[1].ids) + len(last)
    assert found == case["expect"]
    assert [s.role for s in output.segments] == ["prompt", "generated", "retrieved", "generated"]
    assert sum(s.tokens for s in output.segments) == found["context_end"]


def test_the_instruction_counts_as_retrieved() -> None:
    output, seen, made = answered(by_turn("<answer>5</answer>"))
    bare = len(made.policy.model.render(Prompt(question=ASKED.question())).ids)
    assert [(s.role, s.tokens) for s in output.segments] == [
        ("prompt", bare), ("retrieved", len(seen[0].ids) - bare), ("generated", 18),
    ]  # fmt: skip
    assert output.tokens("retrieved") == len(instruction(2)) + 2


@pytest.mark.parametrize(
    ("turn", "query"),
    [
        ("<search>zebras</search>", "zebras"),
        ("<search> </search>", ""),
        ("<search></search>", ""),
        ("nothing opens </search>", ""),
        ("<search>copper <search> zebras</search>", "zebras"),
        ("<Search>zebras</search>", ""),
        ("<search>\n\u00e9t\u00e9  zebras\t</search>", "\u00e9t\u00e9 zebras"),
        ("<answer><search>zebras</search>", "zebras"),
        ("<search>...</search>", "..."),
    ],
)
def test_a_search_finds_its_words_or_nothing(turn: str, query: str) -> None:
    output, seen, made = answered(by_turn(turn, "<answer>5</answer>"))
    found = "1. Feed zebras at noon.\n" if "zebras" in query else ""
    assert added(seen, made.policy.model, 1) == f"{turn}{OPEN}{found}{CLOSE}"
    assert [trace["search"] for trace in output.trace] == [query]
    assert output.text == "5"


def test_an_empty_pool_gives_empty_information_and_a_note() -> None:
    output, seen, made = answered(by_turn("<search>zebras</search>", "B"), pool=[])
    assert added(seen, made.policy.model, 1).endswith(f"</search>{OPEN}{CLOSE}")
    assert output.trace[0]["retrieved"] == () and made.notes
    assert not method().notes


def test_after_the_last_search_the_tag_ends_nothing() -> None:
    search = "<search>zebras</search>"
    output, seen, _ = answered(by_turn(search, f"{search} so <answer>5</answer>"), max_turns=1)
    assert [request.stop for request in seen] == [("</search>", "</answer>"), ("</answer>",)]
    assert len(output.trace) == 1 and output.text == "5"
    output, seen, _ = answered(by_turn(*[search] * 3, "It is 6." + END))
    assert len(seen) == 3 and len(output.trace) == 2
    assert output.stop_reason == "length" and set(output.text) == {"."}


@pytest.mark.parametrize(
    ("turn", "text", "reason"),
    [
        ("It is 5." + END, "It is 5.", "stop"),
        ("5 <answer>6" + END, "5 <answer>6", "stop"),
        ("It is 5.</answer>", "It is 5.</answer>", "stop"),
        ("<answer> 5 <answer> 6 </answer>", "6", "stop"),
        ("<answer></answer>", "", "stop"),
        ("<search>5" + END, "5", "stop"),
        (END, "", "stop"),
        ("<information>7</information>" + END, "<information>7</information>", "stop"),
    ],
)
def test_what_is_graded_without_a_good_answer_block(turn: str, text: str, reason: str) -> None:
    output, seen, _ = answered(by_turn(turn))
    assert (output.text, output.stop_reason, len(seen)) == (text, reason, 1)


def test_what_a_search_brings_back_is_never_graded() -> None:
    pool = [note(1, "zebras <answer>9</answer> <search>x</search>")]
    output, seen, _ = answered(by_turn("a<search>zebras</search>", "b" + END), pool=pool)
    assert output.text == "a\nb" and len(seen) == 2 and len(output.trace) == 1


def test_control_tokens_in_a_passage_are_plain_text() -> None:
    made = method(pool=[note(1, "zebras <eos><end> x")])
    scripted(made.policy.model, by_turn("<search>zebras</search>", "<answer>5</answer>"))
    found = rolled(made, [ASKED])[0]
    assert not made.policy.model.eos_ids & {found.ids[i] for i in found.external}
    assert "<eos><end>" in read(made.policy.model, found.ids)


def test_a_stop_string_of_the_question_ends_the_answer_wherever_it_comes() -> None:
    question = sample(9, stop=("STOP", "<")).question()
    output, seen, _ = answered(by_turn("ab STOP cd"), question=question)
    assert (output.text, output.stop_reason) == ("ab", "stop")
    assert seen[0].stop == ("</search>", "</answer>", "STOP", "<")
    inside = replace(question, stop=("STOP",))
    output, seen, _ = answered(by_turn("ab <search> x STOP y</search>"), question=inside)
    assert (output.text, len(seen), output.trace) == ("ab \n x", 1, ())
    same = replace(question, stop=("</search>",))
    output, seen, _ = answered(by_turn("7 <search>x</search>"), question=same)
    assert (output.text, len(seen)) == ("7 \nx", 1)


def test_a_token_that_holds_more_than_the_tag_stays_whole() -> None:
    model = cast(HFModel, load_model("tiny")).fork(share_weights=True)
    model.tokenizer = copy.deepcopy(model.tokenizer)
    model.tokenizer.add_tokens(["</search>\n\nSo", "</answer>\n"])
    made = method(model=model)
    turns = ("<search>zebras</search>\n\nSo", " <answer>5</answer>\n")
    seen = scripted(made.policy.model, by_turn(*turns))
    found = rolled(made, [ASKED])[0]
    assert found.output.text == "5" and found.output.trace[0]["search"] == "zebras"
    assert added(seen, made.policy.model, 1).startswith(f"</search>\n\nSo{OPEN}", 14)
    assert max(found.ids) >= 263 and found.ids[-1] >= 263
    graded, _, _ = answered(by_turn(turns[0], END), model=model)
    assert graded.text == "So"


def test_the_policy_writes_no_more_than_its_limit_in_all_turns_together() -> None:
    question = sample(9, max_tokens=60).question()
    search = "<search>zebras</search>"
    output, seen, _ = answered(by_turn(search, search, "x" * 99), question=question)
    assert [request.max_tokens for request in seen] == [60, 37, 14]
    assert output.tokens("generated") == 60 and output.stop_reason == "length"
    made = method()
    seen = scripted(made.policy.model, by_turn(search, search, "x" * 99))
    found = rolled(made, [sample(9, max_tokens=60)], limit=40)[0]
    assert [request.max_tokens for request in seen] == [40, 17]
    assert len(found.ids) - len(found.external) == 40


def test_a_search_that_uses_the_last_token_is_not_served() -> None:
    question = sample(9, max_tokens=23).question()
    output, seen, _ = answered(by_turn("<search>zebras</search>"), question=question)
    assert len(seen) == 1 and output.trace == ()
    assert (output.stop_reason, output.text) == ("length", "")
    question = sample(9, max_tokens=18).question()
    output, _, _ = answered(by_turn("<answer>5</answer>"), question=question)
    assert (output.stop_reason, output.text) == ("stop", "5")


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (128, 3),
        (80, 3),
        (TAGS + 24, 2),
        (TAGS + 23, 1),
        (TAGS + 20, 1),
        (TAGS + 4, 1),
        (TAGS + 3, 0),
    ],
)
def test_what_is_found_is_cut_at_the_end_to_the_limit(limit: int, shown: int) -> None:
    pool = [note(i, f"zebra {letter * 10}") for i, letter in enumerate("abc", 1)]
    whole = "".join(f"{i}. zebra {letter * 10}\n" for i, letter in enumerate("abc", 1))
    output, seen, made = answered(
        by_turn("<search>zebra</search>", END), pool=pool, k=3, observation_tokens=limit
    )
    assert added(seen, made.policy.model, 1)[22:] == f"{OPEN}{whole[: limit - TAGS]}{CLOSE}"
    trace = output.trace[0]
    assert len(trace["retrieved"]) == shown and trace["cut"] == (limit < TAGS + len(whole))


@pytest.mark.parametrize(
    ("room", "kept"), [(200, 24), (TAGS + 14, 14), (TAGS, 0), (TAGS - 1, None), (0, None)]
)
def test_the_models_context_is_never_exceeded(room: int, kept: int | None) -> None:
    made = method()
    model, turn = made.policy.model, "<search>zebras</search>"
    prompt = model.render(Prompt(question=ASKED.question(), context=instruction(2)))
    model.context_limit = len(prompt.ids) + ASKED.max_tokens + room
    seen = scripted(model, by_turn(turn, "<answer>5</answer>"))
    output = made.answer([ASKED.question()])[0]
    words = "1. Feed zebras at noon.\n"
    wanted = "" if kept is None else f"{OPEN}{words[:kept]}{CLOSE}"
    assert added(seen, model, 1) == turn + wanted
    assert output.text == "5" and output.trace[0]["cut"] == (kept != 24)
    assert len(output.segments) == 4 + (kept is not None)
    assert len(seen[1].ids) + seen[1].max_tokens <= model.context_limit
    model.context_limit -= room + 1
    with pytest.raises(ConfigError, match="reads at most"):
        made.answer([ASKED.question()])


def test_an_observation_without_room_for_a_word_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="tags around"):
        method(observation_tokens=TAGS)


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"max_turns": 0}, {"observation_tokens": 0}, {"retriever": "tanimoto"}]
)
def test_settings_without_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SearchR1Config(**wrong)


def test_rows_in_different_turns_are_answered_in_the_order_of_the_asks() -> None:
    made = method()
    scripts = {
        "k0": ("<search>zebras</search>", "<search>copper</search>", "<answer>0</answer>"),
        "k1": ("<answer>1</answer>",),
        "k2": ("<search>fence</search>", "<answer>2</answer>"),
        "k3": ("3" + END,),
    }

    def script(request: Request) -> str:
        key, _, turn = request.key.partition("/turn")
        return scripts[key][int(turn)]

    seen = scripted(made.policy.model, script)
    found = rolled(made, [sample(20 + i) for i in range(4)])
    assert [t.output.text for t in found] == ["0", "1", "2", "3"]
    assert [len(t.output.trace) for t in found] == [2, 0, 1, 0]
    for i, trajectory in enumerate(found):
        assert f"Q2{i}" in read(made.policy.model, trajectory.prompt_ids)
    keys = [request.key for request in seen]
    assert len(set(keys)) == len(keys) == 7


def test_a_train_sample_does_not_find_its_own_experience() -> None:
    pool = [note(1, "zebras by day"), note(1, "zebras by night"), note(2, "zebras at noon")]
    pool.append(note(3, "no such animals"))
    made = method(pool=pool, k=4)
    scripted(made.policy.model, by_turn("<search>zebras</search>", END))
    first, other = rolled(made, [sample(1), sample(9)])
    assert [r["sample_id"] for r in first.output.trace[0]["retrieved"]] == ["2"]
    assert sorted(r["sample_id"] for r in other.output.trace[0]["retrieved"]) == ["1", "1", "2"]
    assert "by night" not in read(made.policy.model, first.ids)


def test_test_questions_in_the_pool_are_refused() -> None:
    made = method()
    made.refuse_leaks([ASKED.question()])
    with pytest.raises(DataError, match="pool"):
        made.refuse_leaks([ASKED.question(), POOL[1].sample.question()])


def test_dense_searches_by_the_states_of_the_untouched_backbone() -> None:
    made = method(retriever="dense", pool=[*POOL, note(4, "Feed zebras at noon!")], k=2)
    scripted(made.policy.model, by_turn("<search>zebras at noon</search>", END))
    found = rolled(made, [ASKED])[0].output.trace[0]
    documents = [document_of(entry) for entry in made.searcher.entries]
    states = made.backbone.encode([*documents, "zebras at noon"])
    centred = states - states[:-1].mean(0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    best = np.argsort(-(centred[:-1] @ centred[-1]))[:2]
    assert [r["sample_id"] for r in found["retrieved"]] == [str(i + 1) for i in best]
    assert made.training_cost["encoded_tokens"] == sum(map(len, documents))
    assert "encoded_tokens" not in method().training_cost


def test_importing_the_method_loads_no_torch() -> None:
    code = "import sys, expbench_methods.search_r1; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
