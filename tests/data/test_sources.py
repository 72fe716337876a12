"""The three places of rows: a folder, the bundled suite, the official source in the cache."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from expbench.core import Question, Rows, Sample, Source, Split, Task
from expbench.data import folder_rows, full_rows, lock, mini_rows, note, pull, status
from expbench.errors import DataError, MissingData
from expbench.tasks.gsm8k import TASK as GSM8K

CARD = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: train.jsonl
  - split: test
    path: test.jsonl
---
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPBENCH_CACHE", str(tmp_path / "cache"))


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def complaint(call: object, *arguments: object) -> str:
    with pytest.raises(DataError) as caught:
        call(*arguments)  # type: ignore[operator]
    return str(caught.value)


def test_a_folder_is_read_by_split_in_official_field_names(tmp_path: Path) -> None:
    write_rows(tmp_path / "gsm8k" / "train.jsonl", [{"question": "q", "answer": "#### 1"}])
    rows = folder_rows("gsm8k", tmp_path)
    train = rows("train")
    assert len(train) == 1
    assert train[0].text("question") == train[-1].text("question") == "q"
    assert [row.text("answer") for row in train[0:5]] == ["#### 1"]
    with pytest.raises(IndexError):
        train[1]
    assert list(rows.checksums) == ["train.jsonl"]


def test_a_missing_folder_or_file_says_what_is_expected_where(tmp_path: Path) -> None:
    rows = folder_rows("gsm8k", tmp_path)
    with pytest.raises(MissingData) as caught:
        rows("train")
    for said in ("gsm8k", "train.jsonl", str(tmp_path / "gsm8k"), "is not there"):
        assert said in str(caught.value)
    (tmp_path / "gsm8k").mkdir()
    with pytest.raises(MissingData, match=r"train\.jsonl .*has 0 such files"):
        rows("train")


def test_a_star_reads_all_files_in_name_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write_rows(tmp_path / "chem_tdc" / f"{name}.jsonl", [{"Drug_ID": name}])
    rows = folder_rows("chem_tdc", tmp_path)("*")
    assert [row.text("Drug_ID") for row in rows] == ["a", "b", "c"]


def test_two_interaction_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "movielens").mkdir()
    for name in ("a", "b"):
        (tmp_path / "movielens" / f"{name}.inter").write_text("user_id:token\n1\n")
    message = complaint(folder_rows("movielens", tmp_path), "*.inter")
    assert "exactly one file *.inter" in message
    assert "2 such files" in message


def test_a_changed_bundled_file_is_an_error_with_both_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expbench.data.sources.MINI", tmp_path)
    write_rows(tmp_path / "gsm8k" / "train.jsonl", [{"question": "q", "answer": "#### 1"}])
    message = complaint(mini_rows("gsm8k"), "train")
    assert lock.committed()["mini/gsm8k/train.jsonl"]["sha256"] in message
    assert "mini/gsm8k/train.jsonl has SHA-256" in message
    assert "Reinstall expbench" in message


def test_a_task_without_bundled_rows_says_so() -> None:
    with pytest.raises(MissingData, match=r"no data in the mini suite.*--suite full"):
        mini_rows("no_such_task")


def test_notes_are_kept_once_and_ignored_by_plain_functions(tmp_path: Path) -> None:
    rows = folder_rows("gsm8k", tmp_path)
    note(rows, "Said.")
    note(rows, "Said.")
    assert rows.notes == ["Said."]
    note(lambda split: [], "Nobody hears this.")


def hub_task(folder: Path) -> Task:
    """GSM8K, read from a local folder in the Hub's layout."""
    return replace(GSM8K, source=Source(
        dataset=str(folder), config="main", licence="MIT", paper="none", splits=("train", "test")
    ))  # fmt: skip


@pytest.fixture
def hub_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "hub"
    write_rows(folder / "train.jsonl", [{"question": "1+1?", "answer": "#### 2"}])
    write_rows(folder / "test.jsonl", [{"question": "2+2?", "answer": "#### 4"}])
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def test_the_first_pull_records_the_hash_and_says_so(hub_folder: Path) -> None:
    task = hub_task(hub_folder)
    assert [found.state for found in status(task)] == ["missing", "missing"]
    pulled = pull(task)
    assert all("recorded SHA-256" in found.note for found in pulled)
    after = status(task)
    assert [(found.state, found.locked) for found in after] == [("ready", "user")] * 2
    assert {found.key: found.sha256 for found in after} == {
        key: entry["sha256"] for key, entry in lock.recorded().items()
    }
    assert [found.note for found in pull(task)] == ["", ""]


def test_a_pulled_source_is_read_without_the_source(hub_folder: Path) -> None:
    task = hub_task(hub_folder)
    first = full_rows(task)
    questions = [row.text("question") for row in first("train")]
    assert any("recorded" in said for said in first.notes)
    for path in hub_folder.iterdir():
        path.unlink()
    again = full_rows(task)
    assert [row.text("question") for row in again("train")] == questions == ["1+1?"]
    assert again.notes == []


def test_later_changes_are_errors_that_name_both_hashes(hub_folder: Path) -> None:
    task = hub_task(hub_folder)
    found = pull(task)[0]
    found.path.write_text('{"answer":"#### 3","question":"1+1?"}\n', encoding="utf-8")
    changed = status(task)[0]
    assert changed.state == "changed"
    message = complaint(full_rows(task), "train")
    for said in (found.sha256, changed.sha256, str(found.path), "expbench data pull --task gsm8k"):
        assert str(said) in message
    found.path.unlink()
    assert pull(task)[0].sha256 == found.sha256


def test_a_publisher_who_changes_the_data_is_noticed(hub_folder: Path) -> None:
    task = hub_task(hub_folder)
    found = pull(task)[0]
    found.path.unlink()
    write_rows(hub_folder / "train.jsonl", [{"question": "1+1?", "answer": "#### 11"}])
    assert "the data have changed" in complaint(pull, task)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "site"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


def url_task(urls: Mapping[str, str], load: object = None) -> Task:
    def nothing(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
        return {"train": [], "test": []}

    def prompt(question: Question) -> str:
        return question.input

    source = Source(dataset="site", licence="none", paper="none", urls=urls, splits=("*",))
    return replace(GSM8K, name="site", source=source, load=nothing, prompt=prompt)


def test_url_files_are_cached_under_names_with_a_suffix(site: tuple[str, Path]) -> None:
    url, folder = site
    (folder / "4711").write_bytes(b'Drug_ID\tDrug\tY\n"A"\tCCO\t1\n')
    (folder / "4712").write_bytes(b'Drug_ID\tDrug\tY\n"B"\tC\t0\n')
    task = url_task({"HIA_Hou.tab": f"{url}/4711", "AMES.tab": f"{url}/4712"})
    rows = full_rows(task)
    assert [(row.text("Drug_ID"), Path(row.file).stem) for row in rows("*")] == [
        ("A", "HIA_Hou"),
        ("B", "AMES"),
    ]
    assert sorted(rows.checksums) == ["AMES.tab", "HIA_Hou.tab"]
    assert all(found.state == "ready" and found.locked == "user" for found in status(task))


def test_a_changed_url_file_is_an_error(site: tuple[str, Path]) -> None:
    url, folder = site
    (folder / "a.tab").write_bytes(b"Y\n1\n")
    task = url_task({"a.tab": f"{url}/a.tab"})
    pull(task)[0].path.unlink()
    (folder / "a.tab").write_bytes(b"Y\n0\n")
    assert "the data have changed" in complaint(pull, task)
