"""Files behind plain URLs: atomic, resumable, checked by the caller.

A download grows in `NAME.part` and is renamed when it is complete, so a file under its own name is
always whole. After a kill the next call goes on where it stopped, if the server still has the very
same file (its ETag or date is kept in `NAME.part.tag` and sent as `If-Range`).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from expbench.errors import DataError, MissingData

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request

Progress = Callable[[str, int, int], None]
"""Called with the name of the source, bytes (or rows) done, and their total, 0 when unknown."""
TIMEOUT_S = 60.0
_BLOCK = 1 << 16


def download(url: str, target: Path, progress: Progress | None = None) -> None:
    """Fetch a URL into a file unless the file is there.

    Raises:
        MissingData: no network, or the server does not have the file.
        DataError: the server sent fewer bytes than it announced.
    """
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError

    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if target.exists():
            return
        try:
            _fetch(url, target, progress)
        except HTTPError as error:
            raise MissingData(
                f"{url} answered {error.code} {error.reason}. Try again later, or put the file"
                f" at {target} yourself."
            ) from None
        except (URLError, TimeoutError, HTTPException, ConnectionError) as error:
            raise MissingData(
                f"{url} could not be reached ({error}): there is no network here, or the server"
                " is down. Run the command again to go on where it stopped, or use --suite mini."
            ) from None


def _fetch(url: str, target: Path, progress: Progress | None) -> None:
    from urllib.request import Request

    part, tag = Path(f"{target}.part"), Path(f"{target}.part.tag")
    request = Request(url, headers={"User-Agent": "expbench"})
    if part.exists() and tag.exists():
        request.add_header("Range", f"bytes={part.stat().st_size}-")
        request.add_header("If-Range", tag.read_text(encoding="utf-8"))
    with _open(request, part) as response:
        start = part.stat().st_size if response.status == 206 else 0
        validator = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if validator and not validator.startswith("W/"):
            tag.write_text(validator, encoding="utf-8")
        else:
            tag.unlink(missing_ok=True)
        total = start + int(response.headers.get("Content-Length") or 0)
        with part.open("ab" if start else "wb") as stream:
            done = start
            while block := response.read(_BLOCK):
                stream.write(block)
                done += len(block)
                if progress:
                    progress(target.name, done, total)
    if total > start and done != total:
        raise DataError(
            f"{url} broke off after {done} of {total} bytes. Run the command again to go on."
        )
    os.replace(part, target)
    tag.unlink(missing_ok=True)


def _open(request: "Request", part: Path) -> "HTTPResponse":
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        response: HTTPResponse = urlopen(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        if error.code != 416:  # the part is already complete, or longer than today's file
            raise
        part.unlink(missing_ok=True)
        request.remove_header("Range")
        request.remove_header("If-range")
        response = urlopen(request, timeout=TIMEOUT_S)
    return response
