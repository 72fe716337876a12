import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from expbench.errors import ConfigError, DataError
from expbench.experience import search
from expbench.experience.search import Index
from expbench.experience.selection import cosines, largest
from expbench.experience.sketch import Sketch


def reference(rows_ND: Tensor, queries_BD: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Cosines in float64, one product, a stable sort."""
    units = [torch.nn.functional.normalize(x.double(), dim=1) for x in (queries_BD, rows_ND)]
    ordered = (units[0] @ units[1].T).sort(dim=1, descending=True, stable=True)
    return ordered.values[:, :k], ordered.indices[:, :k]


def vectors(count: int, width: int = 32, seed: int = 0, decay: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.arange(1, width + 1) ** (-decay / 2)
    return torch.randn(count, width, generator=generator) * scales


@pytest.mark.parametrize("count", [1, 2, 7, 500, 9000])
@pytest.mark.parametrize("k", [1, 8, 20])
def test_search_equals_the_reference(count: int, k: int) -> None:
    rows, queries = vectors(count), vectors(16, seed=1)
    scores, positions = Index(rows).search(queries, k)
    expected, places = reference(rows, queries, k)
    assert scores.dtype == torch.float32 and scores.shape == (16, min(k, count))
    assert torch.allclose(scores.double(), expected, atol=1e-6)
    assert torch.equal(positions, places)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_few_distinct_vectors_are_ranked_by_score_then_position(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 4))
    component = st.integers(-2, 2)
    vector = st.lists(component, min_size=width, max_size=width)
    kinds = data.draw(st.lists(vector, min_size=1, max_size=4))
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=60))
    rows = torch.tensor(chosen, dtype=torch.float32)
    query = torch.tensor([data.draw(vector)], dtype=torch.float32)
    scores, positions = Index(rows).search(query, data.draw(st.integers(1, 70)))
    expected, _ = reference(rows, query, len(rows))
    assert torch.allclose(scores[0].double(), expected[0, : scores.shape[1]], atol=1e-6)
    assert torch.isfinite(scores).all() and len(set(positions[0].tolist())) == scores.shape[1]
    ranks = list(zip((-scores[0]).tolist(), positions[0].tolist(), strict=True))
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("count", [300, 20_000])
def test_copies_of_one_vector_come_in_the_order_of_their_positions(count: int) -> None:
    rows = vectors(7).repeat(count // 7, 1)
    scores, positions = Index(rows).search(vectors(5, seed=2), 12)
    assert torch.equal(positions, positions[:, :1] + 7 * torch.arange(12))
    assert (scores == scores[:, :1]).all()


@pytest.mark.parametrize("count", [700, 20_000])
def test_a_result_depends_neither_on_the_batch_nor_on_the_place_in_it(count: int) -> None:
    index, queries = Index(vectors(count, decay=1.0)), vectors(33, seed=3, decay=1.0)
    scores, positions = index.search(queries, 8)
    for batch in ([4], [4, 5], list(range(4, 33)), [32, 7, 4]):
        some, where = index.search(queries[batch], 8)
        assert torch.equal(some, scores[batch]) and torch.equal(where, positions[batch])


def test_nearly_parallel_vectors_are_told_apart() -> None:
    rows, queries = 1 + 0.03 * vectors(3000), 1 + 0.03 * vectors(8, seed=1)
    scores, positions = Index(rows).search(queries, 8)
    assert float(scores.min()) > 0.999
    expected, _ = reference(rows, queries, 8)
    all_scores, all_places = reference(rows, queries, len(rows))
    of_place = torch.zeros_like(all_scores).scatter(1, all_places, all_scores)
    # Unit rows are kept in float32, so what differs by less than 1e-7 may change places.
    assert torch.allclose(of_place.gather(1, positions), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("decay", [0.0, 1.2])
@pytest.mark.parametrize("count", [16_384, 20_001])
def test_a_thinned_out_search_equals_the_reference(count: int, decay: float) -> None:
    rows, queries = vectors(count, 192, decay=decay), vectors(16, 192, seed=1, decay=decay)
    rows[[5, 900, 16_000]] = rows[77].clone()  # ties across blocks
    rows[1234] = 0
    queries[3] = rows[77]
    scores, positions = Index(rows).search(queries, 8)
    expected, places = reference(rows, queries, 8)
    assert torch.allclose(scores.double(), expected, atol=1e-6)
    assert torch.equal(positions[3, :4], torch.tensor([5, 77, 900, 16_000]))
    others = [i for i in range(16) if i != 3]
    assert torch.equal(positions[others], places[others])


@pytest.mark.parametrize("width", [1, 33, 576])
def test_a_score_is_the_same_to_the_last_bit_beside_any_others(width: int) -> None:
    rows, queries = vectors(700, width), vectors(40, width, seed=1)
    at = torch.randint(700, (40, 25), generator=torch.Generator().manual_seed(2))
    table = cosines(queries, rows, at)
    plain = torch.stack(
        [rows[places].double() @ q.double() for q, places in zip(queries, at, strict=True)]
    )
    assert torch.allclose(table, plain, rtol=0, atol=1e-12 * width)
    assert torch.equal(cosines(queries[7:8], rows, at[7:8, 3:4]), table[7:8, 3:4])
    each = cosines(queries.repeat_interleave(25, 0), rows, at.reshape(-1, 1))
    assert torch.equal(each.view(40, 25), table)
    many = torch.arange(700).repeat(2, 3)
    assert torch.equal(cosines(queries[:2], rows, many)[:, at[0]][0], table[0])


@pytest.mark.parametrize("count", [5, 320, 2000, 9001])
@pytest.mark.parametrize("queries", [1, 20])
def test_the_largest_are_those_of_a_sort(count: int, queries: int) -> None:
    scores = vectors(count, queries)
    values, rows = largest(scores, 5)
    assert torch.equal(values, scores.sort(dim=0, descending=True).values[:5].T)
    assert torch.equal(scores.T.gather(1, rows), values)


@pytest.mark.parametrize("kept", [64, 128, 192])
def test_a_sketch_of_any_width_keeps_the_best(kept: int) -> None:
    if Sketch.of(vectors(1000, 192, decay=1.2)) is None:
        pytest.skip("This torch does not multiply 8-bit integers here.")
    rows, queries = (
        torch.nn.functional.normalize(vectors(n, 192, seed=n, decay=1.5), dim=1) for n in (5000, 9)
    )
    basis = torch.linalg.eigh(rows.T @ rows).eigenvectors.flip(1)[:, : kept - 1]
    found = Sketch(rows, kept, basis).candidates(queries, 4)
    if found is None:  # too many to be worth it, which is an answer too
        assert kept == 64
        return
    _, best = reference(rows, queries, 4)
    for row, places in enumerate(best.tolist()):
        assert set(places) <= set(found[1][row].tolist())


def test_the_query_batch_is_cut_where_the_scores_would_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, queries = Index(vectors(100)), vectors(10, seed=1)
    whole = index.search(queries, 3)
    monkeypatch.setattr(search, "MOST_NUMBERS", 250)
    parts = index.search(queries, 3)
    assert torch.equal(whole[0], parts[0]) and torch.equal(whole[1], parts[1])


def test_zeros_score_zero_and_extreme_lengths_do_not_count() -> None:
    rows = torch.tensor([[0.0, 0.0], [1e-30, 0.0], [-1e30, 0.0], [0.0, 1e30]])
    scores, positions = Index(rows).search(torch.tensor([[1e38, 0.0], [0.0, 0.0]]), 4)
    assert positions.tolist() == [[1, 0, 3, 2], [0, 1, 2, 3]]
    assert scores.tolist() == [[1.0, 0.0, 0.0, -1.0], [0.0] * 4]


def test_an_empty_index_and_an_empty_batch_give_nothing() -> None:
    scores, positions = Index(torch.zeros(0, 4)).search(torch.ones(3, 4), 2)
    assert scores.shape == positions.shape == (3, 0) and positions.dtype == torch.int64
    assert Index(torch.ones(5, 4)).search(torch.ones(0, 4), 2)[1].shape == (0, 2)


def test_mixed_precision_around_a_search_does_not_reach_it() -> None:
    index, queries = Index(vectors(2000)), vectors(6, seed=1)
    plain = index.search(queries, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = index.search(queries, 5)
    assert torch.equal(plain[0], mixed[0]) and torch.equal(plain[1], mixed[1])


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(DataError, match="NaN"):
        Index(torch.tensor([[float("nan"), 1.0]]))
    with pytest.raises(DataError, match="matrix"):
        Index(torch.ones(3))
    with pytest.raises(ConfigError, match="k is 0"):
        Index(torch.ones(3, 2)).search(torch.ones(1, 2), 0)


def test_a_deep_copy_shares_the_index() -> None:
    index = Index(vectors(10))
    assert copy.deepcopy({"index": index})["index"] is index
