"""Downloads against a loopback server that can break off, change the file, or refuse."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from expbench.data.download import download
from expbench.errors import DataError, MissingData

CONTENT = bytes(range(256)) * 2000


class Server(ThreadingHTTPServer):
    """One file; `break_after` bytes are sent of the next answer, then the connection ends."""

    content = CONTENT
    etag: str | None = '"v1"'
    break_after: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        if self.path != "/data.bin":
            self.send_error(404)
            return
        start = 0
        if wanted and self.headers.get("If-Range") == self.server.etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(self.server.content):
            self.send_error(416)
            return
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        if self.server.etag:
            self.send_header("ETag", self.server.etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        limit, self.server.break_after = self.server.break_after, None
        self.wfile.write(body[:limit])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_only_once(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    target = tmp_path / "deep" / "data.bin"
    download(server.url, target, lambda *args: seen.append(args))
    assert target.read_bytes() == CONTENT
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    download(server.url, target)
    assert len(server.ranges) == 1
    assert {path.name for path in target.parent.iterdir()} <= {"data.bin", "data.bin.lock"}


def test_a_broken_download_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "data.bin"
    server.break_after = 100_000
    with pytest.raises(DataError, match=r"after 100000 of 512000 bytes.*again"):
        download(server.url, target)
    assert not target.exists()
    download(server.url, target)
    assert server.ranges == [None, "bytes=100000-"]
    assert hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256(CONTENT).digest()


def test_a_file_that_changed_meanwhile_is_fetched_from_the_start(
    server: Server, tmp_path: Path
) -> None:
    target = tmp_path / "data.bin"
    server.break_after = 1000
    with pytest.raises(DataError):
        download(server.url, target)
    server.content, server.etag = b"new" * 50_000, '"v2"'
    download(server.url, target)
    assert target.read_bytes() == server.content


def test_without_a_validator_nothing_is_continued(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "data.bin"
    server.break_after, server.etag = 1000, None
    with pytest.raises(DataError):
        download(server.url, target)
    download(server.url, target)
    assert server.ranges == [None, None]
    assert target.read_bytes() == CONTENT


def test_a_part_that_is_already_complete_is_fetched_again(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "data.bin"
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    (tmp_path / "data.bin.part.tag").write_text('"v1"')
    download(server.url, target)
    assert target.read_bytes() == CONTENT


def test_a_missing_file_and_a_missing_network_say_so(server: Server, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"404.*put the file at"):
        download(server.url.replace("data.bin", "other.bin"), tmp_path / "other.bin")
    with pytest.raises(MissingData, match="no network"):
        download("http://127.0.0.1:1/data.bin", tmp_path / "data.bin")
    assert not (tmp_path / "data.bin").exists()
