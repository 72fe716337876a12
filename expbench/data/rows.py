"""Rows that know their file and line, so that every complaint about data names both.

JSONL is split on the newline alone: texts may hold U+2028, U+0085 or a carriage return, at which
`str.splitlines` would cut a row in two. A value is never converted behind the reader's back: the
text `None` stays a text, and a null is an error unless the getter says otherwise.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from expbench.core import Sample
from expbench.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """One official row with its place."""

    values: Mapping[str, Any]
    file: str
    line: int
    """1-based line of the file, or 1-based row number for data that is not in lines."""
    path: str = ""
    """Dotted path of the field these values are nested in, ending with a dot."""

    def error(self, problem: str, remedy: str = "Correct or remove this row.") -> DataError:
        """Build the error that names file, line, problem and remedy.

        >>> str(Row({}, "a.jsonl", 3).error("the key is 'E'."))
        "a.jsonl, line 3: the key is 'E'. Correct or remove this row."
        """
        return DataError(f"{self.file}, line {self.line}: {problem} {remedy}")

    def has(self, field: str) -> bool:
        """Tell whether the field is there and not null."""
        return self.values.get(field) is not None

    def any_of(self, *fields: str) -> str:
        """Return the first of these fields that the row has.

        Raises:
            DataError: it has none of them.
        """
        for field in fields:
            if self.has(field):
                return field
        names = " or ".join(repr(self.path + f) for f in fields)
        raise self.error(f"field {names} is missing.", self._schema())

    def text(self, field: str) -> str:
        """Read a text, which may be empty."""
        return self._checked(field, self._get(field, str, "a text"))

    def integer(self, field: str) -> int:
        """Read a whole number; tables without types give it as text.

        >>> Row({"Y": "1.0"}, "a.tab", 2).integer("Y")
        1
        """
        value = self.number(field)
        if not value.is_integer():
            raise self.error(f"field {self.path + field!r} is {value!r}, not a whole number.")
        return int(value)

    def number(self, field: str) -> float:
        """Read a number; tables without types give it as text."""
        value = self._get(field, (int, float, str), "a number")
        try:
            return float(value)
        except ValueError:
            raise self.error(f"field {self.path + field!r} is {value!r}, not a number.") from None

    def texts(self, field: str) -> list[str]:
        """Read a list of texts.

        Raises:
            DataError: not a list, or an entry is not a text (null included).
        """
        found = self.optional_texts(field)
        if any(text is None for text in found):
            raise self.error(f"field {self.path + field!r} holds a null among its texts.")
        return [text for text in found if text is not None]

    def optional_texts(self, field: str) -> list[str | None]:
        """Read a list of texts in which a null stands for an entry that is not there."""
        found = self._get(field, (list, tuple), "a list of texts")
        for entry in found:
            if entry is not None and not isinstance(entry, str):
                raise self.error(f"field {self.path + field!r} holds {entry!r}, not a text.")
        return [None if entry is None else self._checked(field, entry) for entry in found]

    def nested(self, field: str) -> "Row":
        """Enter a nested record, such as `choices` of ARC."""
        found = self._get(field, Mapping, "a record")
        return Row(found, self.file, self.line, f"{self.path}{field}.")

    def _get(self, field: str, kind: Any, wanted: str) -> Any:
        if field not in self.values:
            problem = f"field {self.path + field!r} is missing; {wanted} is expected."
            raise self.error(problem, self._schema())
        value = self.values[field]
        if isinstance(value, bool) or not isinstance(value, kind):
            given = "null" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
            raise self.error(f"field {self.path + field!r} is {given}, not {wanted}.")
        return value

    def _checked(self, field: str, text: str) -> str:
        if "\x00" in text or not (text.isascii() or _is_unicode(text)):
            raise self.error(f"field {self.path + field!r} holds a NUL or half a surrogate pair.")
        return text

    def _schema(self) -> str:
        known = ", ".join(str(name) for name in list(self.values)[:12])
        return f"The row has: {known or 'no fields'}. Use the field names of the official data."


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unique(pairs: Iterable[tuple[Row, Sample]]) -> Iterator[Sample]:
    """Pass samples on and refuse a second one with the same id.

    Raises:
        DataError: an id was used before; both places are named.
    """
    places: dict[str, Row] = {}
    for row, sample in pairs:
        first = places.setdefault(sample.id, row)
        if first is not row:
            raise row.error(
                f"id {sample.id!r} was used before in {first.file}, line {first.line}.",
                "Ids must be unique: remove one of the two rows.",
            )
        yield sample
