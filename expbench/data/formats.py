"""Files as streams of rows: the format follows the name of the file (or of the zip's member).

`.jsonl`, `.json` (one object a line), `.tab`, `.tsv`, `.csv` (a header line), RecBole's atomic
`.inter` and `.item` (tab-separated, header `name:type`), GroupLens' `.dat` (latin-1, `::`, no
header); `.gz` and members of a zip are unpacked on the way. Reading is lazy: one line in memory at
a time, so a file of 11 MB costs what its longest row costs.
"""

import csv
import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from expbench.data.rows import Row
from expbench.errors import DataError

GROUPLENS_FIELDS = {
    "ratings.dat": ("user_id", "item_id", "rating", "timestamp"),
    "movies.dat": ("item_id", "movie_title", "genre"),
}
"""Columns of the MovieLens-1M files, which have no header (README of ml-1m)."""
TEXT_SUFFIXES = (".jsonl", ".json", ".tab", ".tsv", ".csv", ".inter", ".item")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class RowFile:
    """The rows of one file, read anew on every pass."""

    path: Path
    member: str = ""
    """Name inside a zip; empty for a plain or gzipped file."""
    label: str = ""
    """How messages name the file; the path when empty."""

    @property
    def name(self) -> str:
        """What messages call this file."""
        return self.label or (f"{self.path}#{self.member}" if self.member else str(self.path))

    def __iter__(self) -> Iterator[Row]:
        """Stream the rows.

        Raises:
            DataError: a row that cannot be read, or a file without rows.
        """
        inner = (self.member or self.path.name).removesuffix(".gz")
        reader = _READERS.get(Path(inner).suffix)
        if reader is None:
            known = ", ".join(sorted(_READERS))
            raise DataError(f"{self.name}: no reader for this kind of file. Known: {known}.")
        empty = True
        with self._open() as stream:
            for row in reader(self.name, inner, stream):
                empty = False
                yield row
        if empty:
            raise DataError(f"{self.name} has no rows. Fetch the file again.")

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            if self.member:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
                    yield stream  # type: ignore[misc]
            elif self.path.suffix == ".gz":
                with gzip.open(self.path, "rb") as stream:
                    yield stream  # type: ignore[misc]
            else:
                with self.path.open("rb") as plain:
                    yield plain
        except (OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
            message = f"{self.name} cannot be read ({error}). Fetch the file again."
            raise DataError(message) from error


def file_checksum(path: Path) -> str:
    r"""SHA-256 (hex) of a file; of a text file with `\n` line ends, so that git may turn them."""
    digest = hashlib.sha256()
    is_text = path.suffix in TEXT_SUFFIXES
    with path.open("rb") as stream:
        for line in stream if is_text else iter(lambda: stream.read(1 << 20), b""):
            digest.update(line[:-2] + b"\n" if is_text and line.endswith(b"\r\n") else line)
    return digest.hexdigest()


def _lines(name: str, stream: Iterable[bytes], encoding: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(stream, 1):
        if number == 1 and raw.startswith(_BOM):
            raise DataError(
                f"{name}, line 1: the file begins with a byte order mark. Save it as plain UTF-8."
            )
        try:
            yield number, raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: not valid {encoding} at byte {error.start}."
                " Save the file in this encoding or fetch it again."
            ) from None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _read_jsonl(name: str, inner: str, stream: BinaryIO) -> Iterator[Row]:
    for number, line in _lines(name, stream, "utf-8"):
        if not line.strip():
            continue
        try:
            values = json.loads(line, parse_constant=_no_constant)
        except ValueError as error:
            cut = "" if line.endswith("\n") else " The line has no end: the file may be cut off."
            raise DataError(
                f"{name}, line {number}: not a JSON object ({error}).{cut}"
                " Correct this line or fetch the file again."
            ) from None
        if not isinstance(values, dict):
            raise DataError(
                f"{name}, line {number}: a {type(values).__name__}, not an object."
                " Write one JSON object a line."
            )
        yield Row(values, name, number)


def _read_table(name: str, inner: str, stream: BinaryIO) -> Iterator[Row]:
    """Tables with quoting and a header line; every value is a text."""
    delimiter = "," if inner.endswith(".csv") else "\t"
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        for fields in reader:
            if fields:
                yield _table_row(name, reader.line_num, header, fields)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(
            f"{name}, line {reader.line_num}: {error}. Correct this line or fetch the file again."
        ) from None


def _read_atomic(name: str, inner: str, stream: BinaryIO) -> Iterator[Row]:
    """RecBole's files: tabs only, quotes are part of the text (titles hold single ones)."""
    header: list[str] = []
    for number, line in _lines(name, stream, "utf-8"):
        fields = line.rstrip("\n").removesuffix("\r").split("\t")
        if not header:
            header = [field.partition(":")[0] for field in fields]
        elif fields != [""]:
            yield _table_row(name, number, header, fields)


def _read_dat(name: str, inner: str, stream: BinaryIO) -> Iterator[Row]:
    header = GROUPLENS_FIELDS.get(Path(inner).name)
    if header is None:
        raise DataError(f"{name}: unknown columns. Known: {', '.join(GROUPLENS_FIELDS)}.")
    for number, line in _lines(name, stream, "latin-1"):
        fields = line.rstrip("\n").removesuffix("\r").split("::")
        yield _table_row(name, number, header, fields)


def _table_row(name: str, line: int, header: Sequence[str], fields: list[str]) -> Row:
    if len(header) != len(fields):
        raise DataError(
            f"{name}, line {line}: {len(fields)} values for {len(header)} columns"
            f" ({', '.join(header)}). Correct this line or fetch the file again."
        )
    return Row(dict(zip(header, fields, strict=True)), name, line)


_READERS: dict[str, Callable[[str, str, Any], Iterator[Row]]] = {
    ".jsonl": _read_jsonl,
    ".json": _read_jsonl,
    ".tab": _read_table,
    ".tsv": _read_table,
    ".csv": _read_table,
    ".inter": _read_atomic,
    ".item": _read_atomic,
    ".dat": _read_dat,
}
