import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from expbench.core import Question, Sample
from expbench.errors import ConfigError, DataError
from expbench.experience.bank import Bank, Entry, entry_of
from expbench.experience.normalise import Statistics

WIDTH = 6


def entry(name: str, reward: float = 0.5, **changes: Any) -> Entry:
    sample = Sample(id=name, task="toy", kind="math", input=f"What is {name}?", target=("1",))
    made = entry_of(sample, n=0, step=0, reward=reward, summary=f"About {name}.", encoder="enc")
    return replace(made, **changes)


def vectors(count: int, seed: int = 0) -> Tensor:
    return 5 + torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))


def bank_of(names: Sequence[str], capacity: int = 100, **given: Any) -> Bank:
    bank = Bank(WIDTH, capacity, "enc", **given)
    bank.add([entry(name) for name in names], vectors(len(names)))
    return bank


def held(bank: Bank) -> list[str]:
    return [e.sample_id for e in bank.entries]


def test_an_entry_says_what_its_sample_would_be_recognised_by() -> None:
    made = entry("a")
    assert made.id == "toy/a/0/0" and made.split == "train"
    assert ("id", "toy", "a") in made.identities and ("text", "what is a") in made.identities


def test_the_oldest_entry_leaves_at_capacity() -> None:
    bank = bank_of("abc", capacity=3)
    bank.add([entry("d")], vectors(1, seed=1))
    assert held(bank) == ["b", "c", "d"]
    assert torch.equal(bank.vectors_ND, torch.cat([vectors(3)[1:], vectors(1, seed=1)]))


def test_the_lowest_reward_leaves_and_the_oldest_among_equals() -> None:
    bank = Bank(WIDTH, 2, "enc", policy="best_reward")
    for name, reward in (("a", 0.5), ("b", 0.9), ("c", 0.5), ("d", 0.1)):
        bank.add([entry(name, reward)], vectors(1))
    assert held(bank) == ["b", "c"]


@pytest.mark.parametrize("policy", ["fifo", "best_reward", "random"])
def test_one_by_one_and_all_at_once_give_the_same_bank(policy: str) -> None:
    names, rewards = "abcdefghij", [0.3, 0.9, 0.3, 0.1, 0.8, 0.8, 0.0, 1.0, 0.3, 0.2]
    entries = [entry(n, r) for n, r in zip(names, rewards, strict=True)]
    once, slowly = (Bank(WIDTH, 4, "enc", policy=policy) for _ in range(2))  # type: ignore[arg-type]
    once.add(entries, vectors(10))
    for one, vector in zip(entries, vectors(10), strict=True):
        slowly.add([one], vector[None])
    assert len(once) == 4 and once.checksum == slowly.checksum


def test_random_replacement_goes_on_alike_after_loading(tmp_path: Path) -> None:
    bank = bank_of("abcdefgh", capacity=4, policy="random", seed=3)
    bank.save(tmp_path)
    loaded = Bank.load(tmp_path, encoder="enc", width=WIDTH)
    for some in (bank, loaded):
        some.add([entry(n) for n in "ijklmn"], vectors(6, seed=1))
    assert held(bank) == held(loaded) and "n" in held(bank)
    other = bank_of("abcdefgh", capacity=4, policy="random", seed=4)
    other.add([entry(n) for n in "ijklmn"], vectors(6, seed=1))
    assert held(other) != held(bank)


@pytest.mark.parametrize("policy", ["fifo", "best_reward", "random"])
def test_a_bank_of_one_holds_the_newest(policy: str) -> None:
    bank = Bank(WIDTH, 1, "enc", policy=policy)  # type: ignore[arg-type]
    for name in "abc":
        bank.add([entry(name)], vectors(1))
        assert held(bank) == [name]
    assert bank.memory().index.search(vectors(1), 8)[1].tolist() == [[0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": "other"}, "'other'.*'enc'"),
        ({"split": "test"}, "'test' split"),
        ({"id": "toy/a/0/0"}, "already"),
    ],
)
def test_a_wrong_entry_is_refused_and_nothing_is_added(
    changes: dict[str, Any], message: str
) -> None:
    bank = bank_of("a")
    before = bank.checksum
    with pytest.raises(DataError, match=message):
        bank.add([entry("b"), entry("c", **changes)], vectors(2))
    assert bank.checksum == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.full((1, WIDTH), float("nan")), "toy/b/0/0.*NaN"),
        (torch.full((1, WIDTH), float("inf")), "infinity"),
        (torch.ones(1, 4), "4 wide and the bank 6"),
        (torch.ones(2, WIDTH), "1 entries"),
        (torch.ones(WIDTH), "shape"),
    ],
)
def test_wrong_vectors_are_refused_and_nothing_is_added(given: Tensor, message: str) -> None:
    bank = bank_of("a")
    before = bank.checksum
    with pytest.raises(DataError, match=message):
        bank.add([entry("b")], given)
    assert bank.checksum == before


def test_wrong_settings_are_refused() -> None:
    for given in ({"policy": "lru"}, {"normalise": "whiten"}, {"dtype": "int8"}):
        with pytest.raises(ConfigError, match="must be one of"):
            Bank(WIDTH, 3, "enc", **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least 1"):
        Bank(WIDTH, 0, "enc")


def test_memory_is_in_the_order_of_ids_and_normalised() -> None:
    bank = bank_of("cab")
    memory = bank.memory()
    assert memory.ids == ("toy/a/0/0", "toy/b/0/0", "toy/c/0/0")
    assert [e.id for e in memory.entries] == list(memory.ids)
    raw = vectors(3)[[1, 2, 0]]
    assert torch.allclose(memory.z_ND, Statistics.of(raw, "standardise").apply(raw), atol=1e-6)
    assert memory.index.search(memory.z_ND, 1)[1].flatten().tolist() == [0, 1, 2]
    assert bank.memory() is memory


def test_an_empty_bank_has_an_empty_memory() -> None:
    memory = Bank(WIDTH, 3, "enc").memory()
    assert not memory and memory.z_ND.shape == (0, WIDTH) and memory.ids == ()
    assert memory.index.search(vectors(2), 4)[1].shape == (2, 0)


def test_query_statistics_are_read_saved_and_do_not_rebuild_the_index(tmp_path: Path) -> None:
    bank = bank_of("ab")
    first = bank.memory()
    own = Statistics.of(bank.vectors_ND, "standardise")
    assert torch.equal(first.query.centre_D, own.centre_D) and first.query.scale == own.scale
    bank.query = Statistics(torch.arange(6.0), 2.0)
    assert bank.memory().index is first.index and bank.memory().query.scale == 2.0
    bank.save(tmp_path)
    query = Bank.load(tmp_path, encoder="enc", width=WIDTH).query
    assert query is not None and query.scale == 2.0
    assert torch.equal(query.centre_D, torch.arange(6.0))
    with pytest.raises(DataError, match="2 wide"):
        bank.query = Statistics.identity(2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_bank_comes_back_whole(tmp_path: Path, dtype: str) -> None:
    bank = bank_of("abcd", dtype=dtype, policy="best_reward", normalise="centre", seed=9)
    bank.save(tmp_path / "deep" / "bank")
    loaded = Bank.load(tmp_path / "deep" / "bank", encoder="enc", width=WIDTH)
    assert loaded.checksum == bank.checksum and loaded.entries == bank.entries
    assert torch.equal(loaded.vectors_ND, bank.vectors_ND)
    assert (loaded.policy, loaded.normalise, loaded.seed) == ("best_reward", "centre", 9)


def test_the_checksum_tells_vectors_entries_and_settings_apart() -> None:
    banks = [
        bank_of("ab"),
        bank_of("ac"),
        bank_of("ab", policy="random"),
        bank_of("ab", dtype="bfloat16"),
        bank_of("ab").random(1),
    ]
    assert len({bank.checksum for bank in banks}) == len(banks)
    assert bank_of("ab").checksum == banks[0].checksum


@pytest.mark.parametrize("name", ["bank.json", "entries.jsonl", "vectors.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "changed", "absent", "empty"])
def test_a_damaged_or_half_written_bank_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    bank_of("abc").save(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    middle = len(content) // 2
    if damage == "absent":
        path.unlink()
    else:
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"cut": content[:middle], "changed": changed, "empty": b""}[damage])
    with pytest.raises(DataError, match="build it again"):
        Bank.load(tmp_path, encoder="enc", width=WIDTH)


def test_another_encoder_or_width_or_a_newer_file_is_refused(tmp_path: Path) -> None:
    bank_of("abc").save(tmp_path)
    with pytest.raises(DataError, match="'enc' of width 6, and 'new'"):
        Bank.load(tmp_path, encoder="new", width=WIDTH)
    with pytest.raises(DataError, match="width 7"):
        Bank.load(tmp_path, encoder="enc", width=7)
    info = json.loads((tmp_path / "bank.json").read_text())
    (tmp_path / "bank.json").write_text(json.dumps(info | {"schema": 99}))
    with pytest.raises(DataError, match="schema 99"):
        Bank.load(tmp_path, encoder="enc", width=WIDTH)


def test_a_test_sample_in_the_bank_is_refused_also_after_loading(tmp_path: Path) -> None:
    bank_of("ab").save(tmp_path)
    bank = Bank.load(tmp_path, encoder="enc", width=WIDTH)
    bank.refuse_leaks([Question(id="z", task="toy", kind="math", input="Something else")])
    same_text = Question(id="z", task="toy", kind="math", input="WHAT  is b")
    with pytest.raises(DataError, match="same text"):
        bank.refuse_leaks([same_text])
    with pytest.raises(DataError, match="same id"):
        bank.refuse_leaks([Question(id="a", task="toy", kind="math", input="Something else")])


def test_a_shuffled_bank_finds_the_same_entries_and_reads_others_vectors(tmp_path: Path) -> None:
    bank = bank_of("abcdefgh")
    bank.query = Statistics.identity(WIDTH)
    plain, shuffled = bank.memory(), bank.shuffled(1)
    shuffled.save(tmp_path)
    for control in (shuffled, Bank.load(tmp_path, encoder="enc", width=WIDTH)):
        memory = control.memory()
        found = memory.index.search(plain.z_ND, 3)
        assert torch.equal(found[1], plain.index.search(plain.z_ND, 3)[1])
        assert not (memory.z_ND == plain.z_ND).all(1).any()
        assert sorted(memory.z_ND.tolist()) == sorted(plain.z_ND.tolist())
        assert memory.ids == plain.ids and memory.query.scale == 1.0
    assert not torch.equal(bank.shuffled(2).memory().z_ND, shuffled.memory().z_ND)
    assert len(bank_of("a").shuffled(1).memory()) == 1
    assert bank.memory() is plain


def test_a_random_bank_keeps_entries_mean_and_scale() -> None:
    bank = Bank(WIDTH, 2000, "enc")
    bank.add([entry(str(i)) for i in range(2000)], 3 * vectors(2000))
    control = bank.random(1)
    assert control.entries == bank.entries
    ours, theirs = (Statistics.of(b.vectors_ND, "standardise") for b in (bank, control))
    assert torch.allclose(ours.centre_D, theirs.centre_D, atol=0.3)
    assert abs(ours.scale - theirs.scale) < 0.1
    assert not (control.vectors_ND == bank.vectors_ND).any()
    assert control.checksum == bank.random(1).checksum


def test_an_empty_copy_keeps_settings_and_query_statistics() -> None:
    bank = bank_of("ab", capacity=7, normalise="centre")
    bank.query = Statistics.identity(WIDTH)
    copy = bank.empty_copy()
    assert len(copy) == 0 and copy.capacity == 7 and copy.query is not None
    assert copy.normalise == "centre" and len(bank) == 2


def test_what_a_bank_holds_cannot_be_changed_from_outside() -> None:
    given = vectors(2)
    bank = Bank(WIDTH, 5, "enc")
    bank.add([entry("a"), entry("b")], given)
    given.zero_()
    assert torch.equal(bank.vectors_ND, vectors(2))
