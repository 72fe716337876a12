"""The shared cases of the area `bank`, one test a case, named after its id."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from expbench.core import Sample
from expbench.errors import DataError
from expbench.experience.bank import Bank, Entry, entry_of
from expbench.experience.search import Index


def entries(names: Sequence[str]) -> list[Entry]:
    samples = [Sample(id=n, task="toy", kind="math", input=n, target=("1",)) for n in names]
    return [entry_of(s, n=0, step=0, reward=1.0, summary=s.id, encoder="enc") for s in samples]


def filled(names: Sequence[str], vectors: Tensor, capacity: int = 100) -> Bank:
    bank = Bank(vectors.shape[1], capacity, "enc", normalise="none")
    bank.add(entries(names), vectors)
    return bank


def found(bank: Bank, query: Tensor, k: int) -> list[str]:
    memory = bank.memory()
    return [memory.ids[at] for at in memory.index.search(query, k)[1][0].tolist()]


def test_bank_0b9045(tmp_path: Path) -> None:
    names, vectors = ["d", "b", "a", "c"], torch.tensor([[1.0, 2], [3, 1], [1, 2], [-1, 0]])
    bank = filled(names, vectors)
    bank.save(tmp_path)
    loaded = Bank.load(tmp_path, encoder="enc", width=2)
    order = list(range(4))
    random.Random(1).shuffle(order)
    other = filled([names[i] for i in order], vectors[order])
    query = torch.tensor([[1.0, 2.0]])
    expected = [f"toy/{name}/0/0" for name in ("a", "d", "b", "c")]
    assert found(bank, query, 4) == found(loaded, query, 4) == found(other, query, 4) == expected


def test_bank_0bda07() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, query = torch.randn(40, 5, generator=generator), torch.randn(5, generator=generator)
    scores, positions = Index(rows).search(query[None], 6)
    assert scores[0].tolist() == sorted(scores[0].tolist(), reverse=True)
    for score, at in zip(scores[0], positions[0], strict=True):
        assert torch.allclose(score, torch.cosine_similarity(rows[at], query, dim=0), atol=1e-6)


def test_bank_23902c() -> None:
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    _, positions = Index(rows).search(rows[:1], 10)
    assert sorted(positions[0].tolist()) == [0, 1, 2]


def test_bank_5c2532() -> None:
    rows = torch.tensor([[0.0, 1.0], [0.6, 0.6], [0.0, 0.0]])
    scores, positions = Index(rows).search(torch.tensor([[0.0, 2.0]]), 2)
    assert positions.tolist() == [[0, 1]] and torch.isfinite(scores).all()


def test_bank_609d29() -> None:
    # A score that is not a number never leaves the search, so no measure can be made of it.
    index = Index(torch.eye(3))
    broken = torch.tensor([[1.0, 0.0, 0.0], [math.nan, 1.0, 0.0]])
    with pytest.raises(DataError, match="NaN"):
        index.search(broken, 2)
    scores, _ = index.search(broken[:1], 3)
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_bank_66f7db(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    rows, queries = (torch.randn(n, 16, generator=generator) for n in (200, 64))
    scores, single = Index(rows).search(queries, 2)
    _, half = Index(rows.to(dtype)).search(queries, 2)
    clear = scores[:, 0] - scores[:, 1] > 0.01
    assert clear.sum() > 30
    assert torch.equal(half[clear, 0], single[clear, 0])


def test_bank_7a651a() -> None:
    with pytest.raises(DataError, match=r"query.*NaN"):
        Index(torch.eye(2)).search(torch.tensor([[math.nan, 0.0]]), 1)


def test_bank_ba977c() -> None:
    bank = filled([str(i) for i in range(50)], torch.randn(50, 4))
    before = bank.checksum
    for _ in range(3):
        bank.memory().index.search(torch.randn(7, 4), 5)
    assert len(bank) == len(bank.memory()) == 50 and bank.checksum == before


def test_bank_c79e1f() -> None:
    bank = filled("abc", torch.eye(3), capacity=3)
    bank.add(entries("d"), torch.ones(1, 3))
    assert [entry.sample_id for entry in bank.entries] == ["b", "c", "d"] and len(bank) == 3


def test_bank_e84fd1() -> None:
    with pytest.raises(DataError) as caught:
        Index(torch.ones(3, 512)).search(torch.ones(1, 256), 1)
    assert "512" in str(caught.value) and "256" in str(caught.value)


def test_every_shared_case_has_a_test_of_its_name(cases: Path) -> None:
    lines = (cases / "bank.jsonl").read_text(encoding="utf-8").splitlines()
    names = {"test_" + json.loads(line)["id"].replace("-", "_") for line in lines}
    assert names and names <= set(globals()), sorted(names - set(globals()))
