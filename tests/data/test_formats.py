"""Files as streams of rows, and everything that can be wrong with them."""

import gzip
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.data.formats import RowFile, file_checksum
from expbench.errors import DataError


def written(folder: Path, name: str, content: bytes) -> RowFile:
    path = folder / name
    path.write_bytes(content)
    return RowFile(path)


def complaint(file: RowFile) -> str:
    with pytest.raises(DataError) as caught:
        list(file)
    return str(caught.value)


def test_unicode_line_separators_inside_a_text_do_not_end_the_row(tmp_path: Path) -> None:
    text = "one\u2028two\u0085three\rfour\x0bfive"
    raw = json.dumps({"q": text}, ensure_ascii=False) + "\n"
    rows = list(written(tmp_path, "a.jsonl", raw.encode() * 2))
    assert [row.values["q"] for row in rows] == [text, text]
    assert [row.line for row in rows] == [1, 2]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=8))
def test_any_texts_survive_the_round_trip(texts: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(json.dumps({"q": text}, ensure_ascii=False) + "\n" for text in texts)
        rows = list(written(Path(folder), "a.jsonl", lines.encode()))
    assert [row.values["q"] for row in rows] == texts


def test_a_half_written_last_line_is_called_cut_off(tmp_path: Path) -> None:
    message = complaint(written(tmp_path, "a.jsonl", b'{"q": "1"}\n{"q": "tw'))
    assert f"{tmp_path / 'a.jsonl'}, line 2" in message
    assert "cut off" in message
    assert "fetch the file again" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no rows"),
        (b"\n\n", "has no rows"),
        (b'\xef\xbb\xbf{"q": 1}\n', "byte order mark"),
        (b'{"q": "\x00"}\n', "line 1"),
        (b'{"q": "\xff"}\n', "not valid utf-8"),
        (b"[1, 2]\n", "not an object"),
        (b'{"q": NaN}\n', "NaN is not JSON"),
        (b'{"q": 1}\n{"q": 1} {"q": 2}\n', "line 2"),
    ],
)
def test_a_broken_file_is_named_with_line_and_remedy(
    tmp_path: Path, content: bytes, said: str
) -> None:
    message = complaint(written(tmp_path, "a.jsonl", content))
    assert said in message
    assert "a.jsonl" in message
    assert message.endswith(".")


def test_windows_line_ends_are_read_and_do_not_change_the_checksum(tmp_path: Path) -> None:
    unix = written(tmp_path, "a.jsonl", b'{"q": "x"}\n{"q": "y"}\n')
    windows = written(tmp_path, "b.jsonl", b'{"q": "x"}\r\n{"q": "y"}\r\n')
    assert [row.values for row in windows] == [row.values for row in unix]
    assert file_checksum(windows.path) == file_checksum(unix.path)
    table = written(tmp_path, "a.item", b"item_id:token\ttitle:token_seq\r\n1\tA\r\n")
    assert [dict(row.values) for row in table] == [{"item_id": "1", "title": "A"}]


def test_a_changed_byte_changes_the_checksum(tmp_path: Path) -> None:
    first = written(tmp_path, "a.jsonl", b'{"q": "x"}\n')
    second = written(tmp_path, "b.jsonl", b'{"q": "z"}\n')
    assert file_checksum(first.path) != file_checksum(second.path)


def test_reading_twice_gives_the_same_rows(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", b'{"q": "x"}\n{"q": "y"}\n')
    assert list(file) == list(file)


def test_recbole_files_drop_types_and_keep_single_quotes(tmp_path: Path) -> None:
    content = b'item_id:token\ttitle:token_seq\n1\tThe "Best\n2\tNone\n'
    rows = list(written(tmp_path, "a.item", content))
    assert [row.text("title") for row in rows] == ['The "Best', "None"]
    assert rows[1].line == 3


def test_quoted_tables_as_dataverse_serves_them_are_read(tmp_path: Path) -> None:
    content = b'Drug_ID\tDrug\tY\n"Some ""drug"""\tCCO\t1\n""\tC\t0\n'
    rows = list(written(tmp_path, "HIA_Hou.tab", content))
    assert rows[0].text("Drug_ID") == 'Some "drug"'
    assert [row.integer("Y") for row in rows] == [1, 0]


@pytest.mark.parametrize("name", ["a.inter", "a.tab", "a.csv"])
def test_a_short_table_line_is_named(tmp_path: Path, name: str) -> None:
    sign = b"," if name.endswith("csv") else b"\t"
    message = complaint(written(tmp_path, name, b"u%si\n1%s2\n3\n" % (sign, sign)))
    assert f"{name}, line 3" in message
    assert "2 columns (u, i)" in message


def test_grouplens_files_are_latin_1_inside_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "ml-1m.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml-1m/movies.dat", "7::Café (1961)::Drama\n".encode("latin-1"))
        archive.writestr("ml-1m/ratings.dat", b"1::7::4::978300760\n")
    movies = list(RowFile(path, "ml-1m/movies.dat"))
    ratings = list(RowFile(path, "ml-1m/ratings.dat"))
    assert movies[0].text("movie_title") == "Café (1961)"
    assert ratings[0].number("timestamp") == 978300760
    assert "no-such.dat" in complaint(RowFile(path, "ml-1m/no-such.dat"))


def test_gzipped_lines_are_read_and_a_cut_archive_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"asin": "B0"}\n' * 2000)
    assert len(list(written(tmp_path, "a.json.gz", packed))) == 2000
    assert "b.json.gz" in complaint(written(tmp_path, "b.json.gz", packed[:-20]))


def test_an_unknown_kind_of_file_lists_the_known_ones(tmp_path: Path) -> None:
    assert ".jsonl" in complaint(written(tmp_path, "a.xlsx", b"x"))
