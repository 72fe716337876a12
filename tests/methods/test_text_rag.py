"""Text retrieval with the tiny model, whose tokenizer has one token a byte."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expbench.core import Experience, Output, Question, Sample, Score
from expbench.diagnose.driving import diagnose
from expbench.errors import ConfigError, DataError
from expbench.experience.retrieval import RetrieverKind
from expbench.models import load_model
from expbench.registry import get_method
from expbench_methods.direct.method import Direct
from expbench_methods.grpo.method import GRPO
from expbench_methods.text_rag.config import TextRAGConfig
from expbench_methods.text_rag.method import TextRAG
from expbench_methods.text_rag.passages import HEADING, context_of

KINDS: tuple[RetrieverKind, ...] = ("bm25", "dense", "tanimoto")
SMALL: dict[str, Any] = {"steps": 0, "lora_rank": 2, "group": 2, "max_completion": 4}


def sample(name: str, text: str, *, smiles: str = "CCO", tokens: int = 6) -> Sample:
    return Sample(
        id=name,
        task="t",
        kind="chem",
        input=text,
        prompt=f"{text} Answer.",
        target=("Yes",),
        features={"smiles": smiles, "property": name},
        max_tokens=tokens,
    )


def attempt(at: Sample, summary: str) -> Experience:
    return Experience(sample=at, output="Yes", score=Score(value=1.0), summary=summary)


TRAIN = [sample(f"s{i}", f"is thing {i} red", smiles="C" * (i + 2)) for i in range(4)]
POOL = [attempt(s, f"Question: {s.input}? Answer given: no. {s.id}") for s in TRAIN]
TEST = [sample(f"q{i}", f"is box {i} red", smiles="C" * (i + 1) + "O") for i in range(3)]
QUESTIONS = [s.question() for s in TEST]


def reward(sample: Sample, output: Output) -> float:
    return random.Random(output.text).random()


def method(pool: Sequence[Experience] = POOL, **changes: Any) -> TextRAG:
    made = TextRAG(TextRAGConfig(**{**SMALL, **changes}), load_model("tiny"), 1)
    made.fit((), pool, reward)
    return made


def retrieved(output: Output) -> list[str]:
    return [line["sample_id"] for line in output.trace[0]["retrieved"]]


def test_k_0_without_training_is_exactly_direct() -> None:
    direct = Direct(Direct.Config(), load_model("tiny"), 1)
    assert method(k=0).answer(QUESTIONS) == direct.answer(QUESTIONS)
    for rank in (0, 2):
        assert method(k=0, lora_rank=rank).answer(QUESTIONS) == direct.answer(QUESTIONS)


def test_k_0_with_training_is_exactly_grpo() -> None:
    budget: dict[str, Any] = {**SMALL, "steps": 1, "prompts": 2, "learning_rate": 1e-2}
    one = TextRAG(TextRAGConfig(**budget, k=0), load_model("tiny"), 1)
    other = GRPO(GRPO.Config(**budget), load_model("tiny"), 1)
    for each in (one, other):
        each.fit(TRAIN, POOL, reward)
    assert one.answer(QUESTIONS) == other.answer(QUESTIONS)


@pytest.mark.parametrize("kind", KINDS)
def test_retrieved_tokens_grow_linearly_in_k_and_prompt_tokens_do_not(kind: RetrieverKind) -> None:
    outputs = {k: method(k=k, retriever=kind).answer(QUESTIONS) for k in range(5)}
    passage = len("\n1. ") + len(POOL[0].summary)
    for number, bare in enumerate(outputs[0]):
        for k in range(1, 5):
            output = outputs[k][number]
            assert output.tokens("retrieved") == len(HEADING) + k * passage + len("\n\n")
            assert output.tokens("prompt") == bare.tokens("prompt")
            assert len(retrieved(output)) == k
        assert bare.tokens("retrieved") == 0


def test_more_than_the_pool_holds_is_all_of_it() -> None:
    output = method(k=50).answer(QUESTIONS)[0]
    assert sorted(retrieved(output)) == ["s0", "s1", "s2", "s3"]


def test_the_most_similar_come_first_and_the_prompt_shows_what_the_trace_says() -> None:
    rag = method(k=2)
    output = rag.answer([replace(QUESTIONS[0], input="is thing 2 red")])[0]
    assert retrieved(output)[0] == "s2"
    context = rag.brief([replace(QUESTIONS[0], input="is thing 2 red")])[0].prompt.context
    lines = [
        HEADING,
        *(f"{n}. {POOL[int(i[1])].summary}" for n, i in enumerate(retrieved(output), 1)),
    ]
    assert context.split("\n") == lines


def test_tanimoto_retrieves_by_molecule() -> None:
    outputs = method(k=1, retriever="tanimoto").answer(
        [replace(QUESTIONS[0], features={"smiles": "C" * n, "property": "x"}) for n in (3, 4, 5)]
    )
    assert [retrieved(o) for o in outputs] == [["s1"], ["s2"], ["s3"]]


def test_tanimoto_refuses_what_is_no_molecule_before_training_and_answering() -> None:
    plain = [replace(POOL[0], sample=replace(TRAIN[0], features={}))]
    with pytest.raises(ConfigError, match="bm25 or dense"):
        method(plain, retriever="tanimoto")
    with pytest.raises(ConfigError, match="bm25 or dense"):
        method(retriever="tanimoto").answer([replace(QUESTIONS[0], features={})])
    with pytest.raises(ConfigError, match="bm25, dense, tanimoto"):
        method(retriever="sparse")
    with pytest.raises(ConfigError, match="k is -1"):
        method(k=-1)


def test_a_test_sample_in_the_pool_is_refused() -> None:
    rag = method([*POOL, attempt(TEST[1], "Question: leaked")])
    with pytest.raises(DataError, match=r"'q1' .* is in the pool"):
        rag.refuse_leaks(QUESTIONS)
    rag.refuse_leaks([QUESTIONS[0], QUESTIONS[2]])


def test_even_a_leak_that_nobody_refused_does_not_reach_the_prompt() -> None:
    rag = method([*POOL, attempt(TEST[1], "Question: leaked")], k=9)
    assert all("q1" not in retrieved(output) for output in rag.answer([QUESTIONS[1]]))
    assert "q1" in retrieved(rag.answer([QUESTIONS[0]])[0])


def test_passages_without_room_in_the_context_are_dropped_from_the_end_and_counted() -> None:
    room = 4096
    long = [replace(e, summary=f"{e.sample.id} " + "x" * 1000) for e in POOL]
    rag = method(long, k=4, passage_chars=2000)
    everything = rag.answer(QUESTIONS[:1])[0]
    assert everything.trace[0]["dropped"] == 0
    full = everything.tokens("prompt") + everything.tokens("retrieved")
    exact = replace(QUESTIONS[0], max_tokens=room - full)
    assert [b.dropped for b in rag.brief([exact])] == [0]
    tight = replace(QUESTIONS[0], max_tokens=room - full + 1, stop=("",))
    found = rag.brief([tight])[0]
    assert found.dropped == 1
    assert [e.sample.id for e in found.shown] == retrieved(everything)[:3]
    output = rag.answer([replace(QUESTIONS[0], prompt="y" * (room - 1200))])[0]
    assert (len(retrieved(output)), output.trace[0]["dropped"]) == (1, 3)
    bare = rag.answer([replace(QUESTIONS[0], prompt="y" * (room - 100))])[0]
    assert (retrieved(bare), bare.trace[0]["dropped"]) == ([], 4)
    assert bare.tokens("retrieved") == 0


def test_a_question_that_does_not_fit_by_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="reads at most 4096"):
        method().answer([replace(QUESTIONS[0], prompt="y" * 4096)])


def test_long_passages_are_cut_and_line_breaks_in_them_are_not_kept() -> None:
    entries = [attempt(TRAIN[0], "one\ntwo   three" + "x" * 50), attempt(TRAIN[1], "")]
    assert context_of(entries, 13) == f"{HEADING}\n1. one two three\n2. "
    assert context_of([], 13) == ""


def test_training_asks_with_what_was_retrieved_but_never_with_the_own_attempt() -> None:
    budget: dict[str, Any] = {"steps": 1, "prompts": 4, "k": 4}
    rag, bare = method(**budget), method(**{**budget, "k": 0})
    for each in (rag, bare):
        each.fit(TRAIN, POOL, reward)
    # A step asks about all four: each `group` times, with the three other attempts.
    passage = len("\n1. ") + len(POOL[0].summary)
    added = len(HEADING) + 3 * passage + len("\n\n")
    extra = rag.training_cost["prompt_tokens"] - bare.training_cost["prompt_tokens"]
    assert extra == 4 * 2 * added
    for own in TRAIN:
        context = rag.brief([own.question()])[0].prompt.context
        assert own.id not in context
        assert sum(other.id in context for other in TRAIN) == 3


def test_training_changes_the_policy_and_neither_backbone_nor_index(tmp_path: Path) -> None:
    model = load_model("tiny")
    before = {n: p.clone() for n, p in model.module.named_parameters()}  # type: ignore[attr-defined]
    config = TextRAGConfig(
        **{**SMALL, "steps": 1, "prompts": 4, "learning_rate": 0.05, "retriever": "dense"}
    )
    rag = TextRAG(config, model, 1)
    rag.fit(TRAIN, POOL, reward)
    untrained = method(retriever="dense")
    assert all((p == before[n]).all() for n, p in model.module.named_parameters())  # type: ignore[attr-defined]
    outputs = rag.answer(QUESTIONS)
    expected = untrained.answer(QUESTIONS)
    assert [o.trace for o in outputs] == [o.trace for o in expected]
    assert [o.text for o in outputs] != [o.text for o in expected]

    rag.save(tmp_path)
    again = TextRAG(config, load_model("tiny"), 1)
    again.load(tmp_path)
    assert again.answer(QUESTIONS) == outputs
    with pytest.raises(DataError, match="'s2'"):
        again.refuse_leaks([TRAIN[2].question()])
    pool = tmp_path / "pool.jsonl"
    pool.write_text(pool.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        TextRAG(config, load_model("tiny"), 1).load(tmp_path)


def test_what_dense_encodes_to_learn_is_counted() -> None:
    documents = sum(len(f"{e.summary}\n{e.sample.input}") for e in POOL)
    rag = method(retriever="dense")
    assert rag.training_cost["encoded_tokens"] == documents
    rag.answer(QUESTIONS)
    assert rag.training_cost["encoded_tokens"] == documents
    assert method().training_cost["encoded_tokens"] == 0
    trained = method(retriever="dense", steps=1, prompts=4)
    trained.fit(TRAIN, POOL, reward)
    queries = sum(len(s.input) for s in TRAIN)
    assert trained.training_cost["encoded_tokens"] == documents + queries


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_answers_in_any_batch(kind: RetrieverKind) -> None:
    outputs = method(retriever=kind).answer(QUESTIONS)
    assert method(retriever=kind).answer(QUESTIONS) == outputs
    rag = method(retriever=kind)
    assert [rag.answer([question])[0] for question in QUESTIONS[::-1]] == outputs[::-1]


def test_an_empty_pool_asks_the_bare_question_and_says_so() -> None:
    for kind in KINDS:
        rag = method((), retriever=kind)
        direct = method(k=0)
        outputs = rag.answer(QUESTIONS)
        assert [(o.text, o.segments) for o in outputs] == [
            (o.text, o.segments) for o in direct.answer(QUESTIONS)
        ]
        assert all(retrieved(output) == [] for output in outputs)
        assert rag.notes == ["The pool was empty: nothing was retrieved."]
    assert method().notes == direct.notes == []


@pytest.mark.parametrize("text", ["", "?!", "\x00\u202e\ud7ff", "ÄÖ 你好 🙂", "<|im_end|>", "a\nb"])
def test_strange_questions_are_answered(text: str) -> None:
    asked: Question = replace(QUESTIONS[0], id="odd", input=text, prompt=text)
    for kind in KINDS:
        assert method(retriever=kind).answer([asked])[0].segments


class Watch:
    def stage(self, label: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


def test_diagnose_sees_what_was_retrieved() -> None:
    found = diagnose(
        get_method("text_rag"),
        settings={"lora_rank": "2", "k": "3"},
        seeds=(0,),
        mode=None,
        model="tiny",
        progress=Watch(),
    )
    assert found.hit is not None
    assert found.hit.value == 1.0
    assert found.places == 3
