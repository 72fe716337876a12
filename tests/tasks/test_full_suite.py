"""The full suite end to end, from small sources in official form on loopback or on disk."""

import gzip
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from expbench import suites
from expbench.core import Task
from expbench.data import status
from expbench.errors import DataError
from expbench.tasks.amazon_games import TASK as AMAZON
from expbench.tasks.chem_tdc import TASK as CHEM
from expbench.tasks.math import TASK as MATH
from expbench.tasks.mbpp_plus import TASK as MBPP
from expbench.tasks.movielens import TASK as MOVIELENS


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPBENCH_CACHE", str(tmp_path / "cache"))


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


def moved(task: Task, url: str) -> Task:
    """The same task with its files on another server."""
    urls = {name: f"{url}/{address.rsplit('/', 1)[-1]}" for name, address in _plain(task)}
    return replace(task, source=replace(task.source, urls=urls))


def _plain(task: Task) -> list[tuple[str, str]]:
    """Names and addresses in which a zip's member does not hold the last slash."""
    return [
        (name, address.replace("ml-1m.zip#ml-1m/", "ml-1m.zip#"))
        for name, address in task.source.urls.items()
    ]


def test_movielens_comes_out_of_the_zip_of_grouplens(site: tuple[str, Path]) -> None:
    url, folder = site
    movies = "".join(f"{n}::Amélie &amp; {n} (1999)::Drama\n" for n in range(70))
    ratings = "".join(f"{user}::{n + user}::4::{n}\n" for user in range(6) for n in range(22))
    with zipfile.ZipFile(folder / "ml-1m.zip", "w") as archive:
        archive.writestr("movies.dat", movies.encode("latin-1"))
        archive.writestr("ratings.dat", ratings)
    task = moved(MOVIELENS, url)
    data = suites.load(task, suite="full")
    assert (len(data.train), len(data.test)) == (3, 3)
    assert data.suite == "full"
    assert list(data.files) == ["ml-1m.zip"]
    assert "Amélie & 9 (1999)" in {t for s in data.test for t in s.features["history"]}
    assert any("First pull" in said for said in data.notes)
    (folder / "ml-1m.zip").unlink()
    again = suites.load(task, suite="full")
    assert again.checksums == data.checksums


def test_the_hash_of_the_real_movielens_zip_is_fixed_by_the_project() -> None:
    (source,) = status(MOVIELENS)
    assert source.locked == "project"


def test_amazon_reviews_and_metadata_are_read_as_published(site: tuple[str, Path]) -> None:
    url, folder = site
    reviews = [
        {"reviewerID": f"A{user}", "asin": f"B{n + user}", "unixReviewTime": n, "overall": 5.0}
        for user in range(4)
        for n in range(21)
    ]
    meta: list[dict[str, Any]] = [{"asin": f"B{n}", "title": f"Game {n}"} for n in range(70)]
    meta += [{"asin": "B1", "title": "Other"}, {"asin": "B99"}, {"asin": "B98", "title": ""}]
    reviews += [{"reviewerID": "A0", "asin": "B99", "unixReviewTime": 99, "overall": 1.0}]
    for name, rows in (("Video_Games_5", reviews), ("meta_Video_Games", meta)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(lines.encode()))
    data = suites.load(moved(AMAZON, url), suite="full")
    assert (len(data.train), len(data.test)) == (2, 2)
    assert "Other" not in {t for s in data.train + data.test for t in s.features["history"]}
    assert "1 interactions with items that have no title were dropped." in data.notes


def test_the_eight_tables_of_tdc_name_their_property(site: tuple[str, Path]) -> None:
    url, folder = site
    smiles = ["Cc1ccccc1", "CCO", "CC1CCCCC1", "Cc1ccncc1"]
    for number, address in enumerate(CHEM.source.urls.values()):
        rows = "".join(f'"D{n}"\t{text}\t{(n + number) % 2}\n' for n, text in enumerate(smiles))
        (folder / address.rsplit("/", 1)[-1]).write_text("Drug_ID\tDrug\tY\n" + rows)
    data = suites.load(moved(CHEM, url), suite="full")
    both = data.train + data.test
    assert len(both) == 32
    assert {s.tags["property"] for s in both} == {name[:-4] for name in CHEM.source.urls}
    assert len(data.files) == 8


def hub(folder: Path, name: str, split: str, rows: Sequence[Mapping[str, Any]]) -> str:
    place = folder / name
    place.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (place / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return str(place)


def test_math_joins_its_subjects_and_another_test_set(tmp_path: Path) -> None:
    def problem(text: str) -> dict[str, Any]:
        solution = "So $\\boxed{\\frac{1}{2}}$."
        return {"problem": text, "level": "Level 1", "type": "Algebra", "solution": solution}

    test = {"subject": "Algebra", "level": 1, "unique_id": "test/1.json", "answer": "2"}
    first = hub(tmp_path, "algebra", "train", [problem("a"), problem("T")])
    second = hub(tmp_path, "geometry", "train", [problem("b")])
    urls = {"train/algebra": f"hub://{first}#train", "train/geometry": f"hub://{second}#train"}
    dataset = hub(tmp_path, "math500", "test", [{"problem": "t", "solution": "", **test}])
    source = replace(MATH.source, dataset=dataset, revision=None, urls=urls)
    data = suites.load(replace(MATH, source=source), suite="full")
    assert {s.input for s in data.train} == {"a", "b"}
    assert [s.target for s in data.test] == [("2",)]
    assert "1 problems of MATH-500 were dropped from train." in data.notes


def test_a_cut_file_in_the_cache_is_noticed(tmp_path: Path) -> None:
    def row(number: int) -> dict[str, Any]:
        code, test = f"def f{number}(x):\n  return x", [f"assert f{number}(1) == 1"]
        known = {"task_id": number, "prompt": f"P{number}", "code": code, "test_list": test}
        return {**known, "test": test[0], "test_imports": []}

    train = hub(tmp_path, "mbpp", "train", [row(601), row(602)])
    dataset = hub(tmp_path, "plus", "test", [row(2)])
    urls = {"train/mbpp": f"hub://{train}#train"}
    source = replace(MBPP.source, dataset=dataset, revision=None, urls=urls)
    task = replace(MBPP, source=source)
    assert len(suites.load(task, suite="full").train) == 2
    path = next(found.path for found in status(task) if found.key.endswith("#train"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="the data have changed"):
        suites.load(task, suite="full")
