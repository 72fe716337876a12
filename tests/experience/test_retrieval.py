import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expbench.core import Experience, Question, Sample, Score
from expbench.errors import ConfigError, DataError
from expbench.experience.retrieval import (
    BM25,
    Query,
    RetrieverKind,
    Tanimoto,
    build_retriever,
    document_of,
    query_of,
    words,
)
from expbench.models import load_model

MOLECULES = ("CCO", "CCN", "CCCO", "c1ccccc1O", "CC(=O)Oc1ccccc1C(=O)O", "C[C@H](N)C(=O)O", "O")
VOCABULARY = ("cat", "dog", "sat", "on", "the", "mat", "mouse", "ran", "house", "7")


def entry(text: str, *, summary: str = "", **features: Any) -> Experience:
    sample = Sample(id=text, task="t", kind="math", input=text, target=("1",), features=features)
    return Experience(sample=sample, output="", score=Score(value=1.0), summary=summary)


def molecule(smiles: str) -> Query:
    return Query(text="Is it toxic?", features={"smiles": smiles})


def encode(texts: Sequence[str]) -> Any:
    """Return states as a language model's are: almost parallel, and different in little."""
    rows = [np.random.default_rng(list(t.encode())).normal(size=16) for t in texts]
    return np.array([[*(row / 50), 10.0] for row in rows], dtype=np.float32)


def texts_of(seed: int, count: int) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(dice.choices(VOCABULARY, k=dice.randint(0, 9))) for _ in range(count)]


def bm25_by_hand(documents: list[list[str]], query: list[str]) -> list[float]:
    """Score by the formula: rarity times saturated frequency, summed over the query's words."""
    count = len(documents)
    mean = sum(map(len, documents)) / count
    scores = []
    for document in documents:
        frequency = Counter(document)
        score = 0.0
        for word in query:
            holders = sum(word in other for other in documents)
            rarity = math.log(1 + (count - holders + 0.5) / (holders + 0.5))
            length = 1 - 0.75 + 0.75 * len(document) / mean
            score += rarity * frequency[word] / (frequency[word] + 1.5 * length)
        scores.append(score)
    return scores


@pytest.mark.parametrize("seed", range(5))
def test_bm25_scores_and_order_are_those_of_the_formula(seed: int) -> None:
    texts = texts_of(seed, 40)
    documents = [words(text) for text in texts]
    retriever = BM25(texts)
    for query in ("the cat sat", "mouse mouse 7", "dog and unknown", "on the house"):
        expected = bm25_by_hand(documents, words(query))
        np.testing.assert_allclose(retriever.scores(query), expected, rtol=1e-12)
        rounded = [round(score, 9) for score in expected]
        order = sorted((i for i in range(40) if rounded[i]), key=lambda i: (-rounded[i], i))
        assert retriever.search([Query(query)], 7) == [order[:7]]


def test_equal_documents_are_found_in_the_order_of_their_positions() -> None:
    texts = ["a dog", "a cat", "one more cat here", "a cat", "a cat"]
    for kind in ("bm25", "dense"):
        retriever = build_retriever(kind, [entry(text) for text in texts], encode=encode)
        found = retriever.search([Query("a cat")], 3)
        assert found == [[1, 3, 4]], kind
    molecules = build_retriever("tanimoto", [entry(s, smiles=s) for s in ("CCN", "OCC", "CCO")])
    assert molecules.search([molecule("CCO")], 2) == [[1, 2]]


def test_bm25_finds_nothing_where_no_word_is_shared() -> None:
    retriever = build_retriever("bm25", [entry("a cat"), entry("the dog"), entry("")])
    assert retriever.search([Query("cat"), Query("mouse"), Query("?!")], 3) == [[0], [], []]


def test_an_entry_is_found_by_its_question_beyond_what_the_summary_tells() -> None:
    long = entry("first words and the zebra", summary="Question: first words")
    assert build_retriever("bm25", [entry("cat"), long]).search([Query("zebra")], 2) == [[1]]
    assert document_of(long).endswith("the zebra")


def test_dense_ranks_by_the_cosine_of_centred_states() -> None:
    texts = [f"text {i}" for i in range(30)]
    asked = ["what?", "text 7", "another"]
    states = encode(texts).astype(np.float64)
    queries = encode(asked).astype(np.float64)
    centre = states.mean(0)

    def unit(rows: Any) -> Any:
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    cosines = unit(queries - centre) @ unit(states - centre).T
    expected = [np.argsort(-row)[:5].tolist() for row in cosines]
    bare = [np.argsort(-row)[:5].tolist() for row in unit(queries) @ unit(states).T]
    retriever = build_retriever("dense", [entry(text) for text in texts], encode=encode)
    found = retriever.search([Query(text) for text in asked], 5)
    assert found == expected
    assert found[1][0] == 7
    assert expected != bare, "states that centring changes nothing of would test nothing"


def test_dense_reads_the_hidden_states_of_a_backbone() -> None:
    model = load_model("tiny")
    texts = ["the cat sat", "a dog ran", "two and two are four"]
    retriever = build_retriever("dense", [entry(text) for text in texts], encode=model.encode)
    assert [f[0] for f in retriever.search([Query(t) for t in texts], 1)] == [0, 1, 2]


def test_dense_encodes_a_text_that_several_entries_have_once() -> None:
    seen: list[str] = []

    def watching(texts: Sequence[str]) -> Any:
        seen.extend(texts)
        return encode(texts)

    retriever = build_retriever("dense", [entry("a"), entry("b"), entry("a")], encode=watching)
    assert seen == ["a", "b"]
    retriever.search([Query("c"), Query(" ")], 2)
    assert seen == ["a", "b", "c"]


def test_tanimoto_is_the_similarity_that_rdkit_computes() -> None:
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.DataStructs import TanimotoSimilarity

    generator = GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(MolFromSmiles(smiles)) for smiles in MOLECULES]
    retriever = Tanimoto(MOLECULES)
    for smiles, mine in zip(MOLECULES, prints, strict=True):
        expected = [TanimotoSimilarity(mine, other) for other in prints]
        np.testing.assert_allclose(retriever.scores(molecule(smiles)), expected, rtol=1e-14)
        order = sorted((i for i, s in enumerate(expected) if s), key=lambda i: (-expected[i], i))
        assert retriever.search([molecule(smiles)], 3) == [order[:3]]


def test_tanimoto_says_which_retrievers_serve_what_is_no_molecule() -> None:
    with pytest.raises(ConfigError, match="bm25 or dense"):
        build_retriever("tanimoto", [entry("CCO", smiles="CCO"), entry("2+2?")])
    for entries in ([entry("CCO", smiles="CCO")], []):
        with pytest.raises(ConfigError, match="bm25 or dense"):
            build_retriever("tanimoto", entries).search([Query("2+2?")], 1)
    with pytest.raises(DataError, match="SMILES"):
        build_retriever("tanimoto", [entry("x", smiles="C1CC")])


def all_kinds(texts: Sequence[str]) -> list[Any]:
    kinds: tuple[RetrieverKind, ...] = ("bm25", "dense", "tanimoto")
    entries = [entry(t, smiles=MOLECULES[i % len(MOLECULES)]) for i, t in enumerate(texts)]
    return [build_retriever(kind, entries, encode=encode) for kind in kinds]


def test_a_blank_query_an_empty_pool_and_k_0_find_nothing() -> None:
    for retriever in all_kinds(["a cat", "a dog"]):
        assert retriever.search([Query(""), Query(" \n\t")], 2) == [[], []]
        assert retriever.search([], 2) == []
        assert retriever.search([molecule("CCO")], 0) == [[]]
        with pytest.raises(ConfigError, match="k is -1"):
            retriever.search([molecule("CCO")], -1)
    for retriever in all_kinds([]):
        assert retriever.search([molecule("CCO"), molecule("O")], 3) == [[], []]
    # Neither words nor a mean: nothing may be divided by zero.
    assert build_retriever("bm25", [entry("?!"), entry("")]).search([Query("?!")], 2) == [[]]


def test_a_query_finds_the_same_alone_as_in_a_batch() -> None:
    queries = [
        Query(text, {"smiles": MOLECULES[i % len(MOLECULES)]})
        for i, text in enumerate(texts_of(9, 12))
    ]
    for retriever in all_kinds(texts_of(3, 25)):
        together = retriever.search(queries, 4)
        assert together == [retriever.search([query], 4)[0] for query in queries]
        assert together[::-1] == retriever.search(queries[::-1], 4)
        assert any(together)


def test_the_same_entries_give_the_same_results() -> None:
    texts = texts_of(4, 30)
    queries = [Query(text, {"smiles": "CCO"}) for text in texts_of(5, 10)]
    for first, second in zip(all_kinds(texts), all_kinds(texts), strict=True):
        assert first.search(queries, 5) == second.search(queries, 5)


def test_indexing_and_searching_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for retriever in all_kinds(texts_of(1, 20)):
        retriever.search([molecule("CCO")], 3)
    assert capfd.readouterr() == ("", "")


def test_an_unknown_kind_and_a_dense_one_without_an_encoder_are_refused() -> None:
    with pytest.raises(ConfigError, match="bm25, dense, tanimoto"):
        build_retriever(cast(RetrieverKind, "sparse"), [])
    with pytest.raises(ConfigError, match="give encode"):
        build_retriever("dense", [])


def test_what_is_looked_for_is_the_question_and_its_features() -> None:
    question = Question(
        id="1", task="t", kind="chem", input="toxic?", prompt="Say Yes.", features={"smiles": "C"}
    )
    assert query_of(question) == Query("toxic?", {"smiles": "C"})


STRANGE = st.lists(st.text(max_size=30), max_size=6)


@settings(max_examples=60, deadline=None)
@given(texts=STRANGE, asked=STRANGE, k=st.integers(0, 8))
def test_strange_texts_find_distinct_entries_and_no_more_than_k(
    texts: list[str], asked: list[str], k: int
) -> None:
    for kind in ("bm25", "dense"):
        retriever = build_retriever(kind, [entry(t) for t in texts], encode=encode)
        found = retriever.search([Query(text) for text in asked], k)
        assert len(found) == len(asked)
        for text, positions in zip(asked, found, strict=True):
            assert len(set(positions)) == len(positions) <= min(k, len(texts))
            assert set(positions) <= set(range(len(texts)))
            assert text.strip() or not positions
            if kind == "bm25":
                shares = [bool(set(words(text)) & set(words(texts[i]))) for i in range(len(texts))]
                assert len(positions) == min(k, sum(shares))
                assert all(shares[i] for i in positions)
