"""The Hub: a local folder in its layout, and a loopback server that answers as the Hub does."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from expbench.core import canonical_json
from expbench.data.hub import HubSplit, pull_split
from expbench.errors import DataError

ROWS = [
    {"question": "Wie heißt das?\u2028So.", "subject": "s", "choices": ["a", None, "None"]},
    {"question": "two", "subject": "s", "choices": ["x", "y", "z"]},
]
CARD = """---
configs:
- config_name: all
  data_files:
  - split: test
    path: test.jsonl
---
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "dataset"
    place.mkdir()
    (place / "README.md").write_text(CARD, encoding="utf-8")
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (place / "test.jsonl").write_text(lines, encoding="utf-8")
    return place


def test_a_split_is_kept_as_canonical_lines(folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    target = tmp_path / "cache" / "split.jsonl"
    part = HubSplit(str(folder), "all", None, "test")
    assert pull_split(part, target, lambda *args: seen.append(args)) is None
    assert target.read_text(encoding="utf-8") == "".join(canonical_json(r) + "\n" for r in ROWS)
    assert seen == [(part.key, 2, 2)]


@pytest.mark.parametrize(("config", "split"), [("none", "test"), ("all", "train")])
def test_an_unknown_configuration_or_split_says_what_is_known(
    folder: Path, tmp_path: Path, config: str, split: str
) -> None:
    with pytest.raises(DataError, match=r"all|test") as caught:
        pull_split(HubSplit(str(folder), config, None, split), tmp_path / "split.jsonl")
    assert "gated" not in str(caught.value)
    assert not (tmp_path / "split.jsonl").exists()


def test_keys_and_urls_agree() -> None:
    part = HubSplit("a/b", "main", "c0ffee", "train")
    assert HubSplit.parse(part.key) == part
    bare = HubSplit("a/b", None, "c0ffee", "train")
    assert HubSplit.parse(bare.key) == bare


class Hub(BaseHTTPRequestHandler):
    """Refuses everything: `gated/...` as gated, the rest as not found, in the Hub's words."""

    def do_GET(self) -> None:
        gated = "/gated/" in self.path
        self.send_response(403 if gated else 404)
        self.send_header("X-Error-Code", "GatedRepo" if gated else "RepoNotFound")
        self.send_header("X-Error-Message", "Access is restricted." if gated else "Not found.")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


PULL = """
import sys
from pathlib import Path
from expbench.data.hub import HubSplit, pull_split
from expbench.errors import MissingData
try:
    pull_split(HubSplit(sys.argv[1], None, None, "train"), Path(sys.argv[2]))
except MissingData as error:
    print(error)
"""


def refusal(endpoint: str, dataset: str, folder: Path, **more: str) -> str:
    """Pull in a fresh process, because the Hub's libraries read their settings on import."""
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), **more}
    found = subprocess.run(
        [sys.executable, "-c", PULL, dataset, str(folder / "split.jsonl")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert not (folder / "split.jsonl").exists()
    return found.stdout


def test_a_gated_set_names_its_page_the_login_and_the_way_on(hub: str, tmp_path: Path) -> None:
    message = refusal(hub, "gated/questions", tmp_path)
    for said in (
        "is gated",
        "https://huggingface.co/datasets/gated/questions",
        "`hf auth login`",
        "leave it out of --task",
    ):
        assert said in message


def test_a_set_that_does_not_exist_is_not_called_gated(hub: str, tmp_path: Path) -> None:
    message = refusal(hub, "nobody/nothing", tmp_path)
    assert "no public data set 'nobody/nothing'" in message
    assert "gated" not in message
    assert "network" not in message


def test_without_a_network_the_message_says_so(tmp_path: Path) -> None:
    for more in ({}, {"HF_HUB_OFFLINE": "1"}):
        message = refusal("http://127.0.0.1:1", "openai/gsm8k", tmp_path, **more)
        assert "no network here" in message
        assert "gated" not in message
        assert "no public data set" not in message
