from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expbench.core import Experience, Sample, Score
from expbench.errors import DataError
from expbench.experience.leaks import refuse_leaks
from expbench.experience.pool_file import FILE, read_pool, write_pool
from expbench.experience.retrieval import query_of
from expbench.experience.searcher import Searcher


def entry(name: str, text: str, *, task: str = "t", **features: Any) -> Experience:
    sample = Sample(
        id=name, task=task, kind="math", input=text, target=("1",), features=features,
        choices=("one", "two"),
    )  # fmt: skip
    score = Score(value=0.5, metrics={"hr@10": 1.0})
    return Experience(sample=sample, output="o\u2028p", score=score, summary=f"Question: {text}")


POOL = (
    entry("1", "the cat sat", task="chem", smiles="CCO", property="toxic"),
    entry("2", "the cat ran", task="chem", smiles="CCO", property="soluble"),
    entry("3", "the cat sat", task="films", user="u1", history=("a", "b")),
    entry("4", "The cat, sat!"),
    entry("5", "the cat slept"),
    entry("6", "the cat and the dog"),
)


def found(sample: Sample, k: int = 6) -> list[str]:
    searcher = Searcher(POOL, kind="bm25", k=k)
    question = sample.question()
    return [e.sample.id for e in searcher.find([(question, query_of(question))])[0]]


def test_an_attempt_at_the_question_itself_is_never_found() -> None:
    for own in POOL:
        ids = found(own.sample)
        assert own.sample.id not in ids
        assert len(ids) == 5


@pytest.mark.parametrize(
    ("asked", "own"),
    [
        (entry("5", "the cat sleeps").sample, "5"),
        (entry("9", "the CAT sat").sample, "4"),
        (entry("9", "cat", task="chem", smiles="CCO", property="toxic").sample, "1"),
        (entry("9", "cat", task="films", user="u1").sample, "3"),
    ],
    ids=["id", "text", "molecule", "user"],
)
def test_what_the_leak_guard_would_recognise_is_not_found(asked: Sample, own: str) -> None:
    assert own not in found(asked)
    with pytest.raises(DataError, match=f"'{own}'"):
        refuse_leaks([e.sample for e in POOL], [asked], where="pool")


def test_leaving_own_attempts_out_makes_room_for_others() -> None:
    everything = found(entry("9", "the cat sat elsewhere").sample)
    mine = replace(entry("9", "the cat sat").sample, task="chem", features=POOL[0].sample.features)
    assert found(mine, k=2) == [name for name in everything if name != "1"][:2]


def test_searches_of_a_batch_are_answered_in_order_and_each_without_its_own() -> None:
    searcher = Searcher(POOL, kind="bm25", k=3)
    searches = [(e.sample.question(), query_of(e.sample)) for e in POOL]
    assert searcher.find(searches) == [searcher.find([search])[0] for search in searches]
    assert searcher.find([]) == []
    assert Searcher((), kind="bm25", k=3).find(searches[:2]) == [[], []]


def test_a_written_pool_is_read_as_it_was(tmp_path: Path) -> None:
    plain = [replace(e, sample=replace(e.sample, features={"h": [1, 2]})) for e in POOL]
    write_pool(plain, tmp_path / "new")
    assert read_pool(tmp_path / "new") == plain
    write_pool([], tmp_path)
    assert read_pool(tmp_path) == []


def test_a_pool_that_was_read_is_searched_and_guarded_as_before(tmp_path: Path) -> None:
    write_pool(POOL, tmp_path)
    again = Searcher(read_pool(tmp_path), kind="bm25", k=3)
    searches = [(e.sample.question(), query_of(e.sample)) for e in POOL]
    before = Searcher(POOL, kind="bm25", k=3).find(searches)
    ids = [[e.sample.id for e in row] for row in again.find(searches)]
    assert ids == [[e.sample.id for e in row] for row in before]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "\n".join(text.split("\n")[:-2]),
        lambda text: text.replace("the cat ran", "the cat won"),
        lambda text: text.replace('"summary"', '"sumary"'),
        lambda text: "[]\n" + text,
        lambda text: "{}\n",
        lambda text: "1\n2\n",
    ],
    ids=["empty", "half", "short", "letter", "key", "list", "object", "numbers"],
)
def test_a_damaged_pool_is_refused(tmp_path: Path, damage: Callable[[str], str]) -> None:
    write_pool(POOL, tmp_path)
    path = tmp_path / FILE
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        read_pool(tmp_path)


def test_a_missing_pool_and_one_that_is_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_pool(tmp_path)
    (tmp_path / FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read"):
        read_pool(tmp_path)
