"""Reading a ranked list out of a reply: numbered lines, bullets, JSON, `[14] > [6]`, titles."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from expbench.graders.ranking_titles import Catalogue, catalogue_of, fold
from expbench.graders.reply import graded_part, marked_answer

MAX_LINE = 20_000
"""Characters of a line that are read; a line of 20 titles is shorter."""
MAX_LINES = 1000
"""Lines of a reply that are read, from the end."""
MAX_ITEMS = 200
"""Items of a one-line list that are read."""

_BULLET = re.compile(r"^(?:[-+•>#]+ +)*")
_NUMBERED = re.compile(r"^(?:rank )?#?\(?(\d{1,3}) ?[.):]\)?(?: |$|(?=[\[\"“'\d]))", re.I)
_CANDIDATE = re.compile(
    r"^(?:(?:candidate|item|number|option|no\.?) ?|#)?[\[(]?(\d{1,3})[\])]?"
    r"(?=$|[.,:|]?$| ?[-–—.,|(:]|(?<=[\])]) | (?:because|since|as)\b)",
    re.I,
)
_FLAT_LIST = re.compile(r"^\d{1,3}[.)] ?\d{1,3}(?:[ ,;]+\d{1,3}[.)] ?\d{1,3})+$")
_FINAL = re.compile(r"^.{0,40}\b(?:final|answer|ranking)\b[^\n]{0,40}:[ \t*]*$", re.I | re.M)


def read_ranking(text: str, candidates: Sequence[str]) -> list[int]:
    r"""Read candidate positions, 0-based, best first, each once; empty for nothing readable.

    >>> films = ["Heat", "Up", "1942", "Tom &amp; Jerry"]
    >>> read_ranking("1. 4\n2. 1", films), read_ranking("[2] > [3]", films)
    ([3, 0], [1, 2])
    >>> read_ranking("1. Tom & Jerry\n2. 1942\n3. Alien\n4. Up (2009)", films)
    [3, 2, 1]
    """
    part = graded_part(text)
    marked = marked_answer(part)
    catalogue = catalogue_of(tuple(candidates))
    part = part if marked is None else marked
    final = list(_FINAL.finditer(part))
    for region in ([part[final[-1].end() :]] if final else []) + [part]:
        found = _from_json(region, catalogue)
        if found is None:
            found = _from_lines(region, catalogue)
        if found:
            return list(dict.fromkeys(found))
    return []


def _from_json(text: str, catalogue: Catalogue) -> list[int] | None:
    """Read a JSON list of titles or numbers, alone, in a fence or within prose; None if none."""
    start, end = text.find("["), text.rfind("]")
    if start < 0 or end < start or not re.match(r"\[\s*[\"\d{]", text[start : start + 80]):
        return None
    try:
        items = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    if len(items) < 2 and not isinstance(items[0], str):
        return None  # [14] alone may begin "[14] is best"; the line reader knows better.
    names = [_json_name(item) for item in items]
    return _resolve([name for name in names if name is not None], catalogue)


def _json_name(item: Any) -> str | None:
    """Name one element: a string, a number, or an object with a title or number."""
    if isinstance(item, dict):
        keys = ("title", "name", "candidate", "number", "id")
        item = next((item[key] for key in keys if key in item), None)
    if isinstance(item, bool) or not isinstance(item, (str, int)):
        return None
    return str(item)


def _from_lines(text: str, catalogue: Catalogue) -> list[int]:
    """Read the last list whose items are candidates; numbering that starts again is a new list."""
    blocks: list[list[_Entry]] = [[]]
    for line in text.splitlines()[-MAX_LINES:]:
        for entry in _entries(re.sub(r"\s+", " ", line[:MAX_LINE]).strip(), catalogue):
            numbers = [other.number for other in blocks[-1] if other.number is not None]
            if entry.number == 1 and numbers[:2] == [1, 2]:
                blocks.append([])
            blocks[-1].append(entry)
    for block in reversed(blocks):
        found = _resolve([entry.text for entry in block if entry.text], catalogue)
        found = found or _from_numbering(block, catalogue)
        if found:
            return found
    return []


@dataclass(frozen=True)
class _Entry:
    """One item of a list as written: its list number, if any, and its text."""

    number: int | None
    text: str


def _entries(line: str, catalogue: Catalogue) -> list[_Entry]:
    """Take a line apart into list items; none for prose."""
    body = _BULLET.sub("", line.replace("*", "").replace("`", ""))
    if _FLAT_LIST.match(body):
        return [_Entry(None, number) for number in re.findall(r"\d+[.)]\s?(\d+)", body)]
    numbered = _NUMBERED.match(body)
    if numbered:
        return [_Entry(int(numbered[1]), body[numbered.end() :].strip())]
    if catalogue.title(body) is not None:
        return [_Entry(None, body)]
    parts = (body, body.partition(":")[2].strip())
    items = max((_one_line_list(part, catalogue) for part in parts), key=len)
    if items:
        return [_Entry(None, item) for item in items]
    bulleted = line[:1] in "-*+•" and len(line) > 1
    return [_Entry(None, body)] if bulleted else []


def _one_line_list(text: str, catalogue: Catalogue) -> list[str]:
    """Split one line that lists numbers or titles; commas inside titles do not split."""
    tokens = [token.strip("[](){}#") for token in re.split(r"[\s,;>→]+|->", text.rstrip("."))]
    tokens = [token for token in tokens if token]
    if tokens and all(re.fullmatch(r"\d{1,3}", token) for token in tokens):
        return tokens
    if ">" in text:
        return [part.strip() for part in re.split(r"-?>+", text)][:MAX_ITEMS]
    found: list[str] = []
    rest, unknown = fold(text), 0
    while rest and len(found) + unknown < MAX_ITEMS:
        hit = catalogue.leading_title(rest)
        if hit:
            found.append(rest[: hit[1]])
        unknown += not hit
        separator = re.compile(r"[,;] ").search(rest, hit[1] if hit else 0)
        rest = rest[separator.end() :] if separator else ""
    return found if len(found) > max(1, unknown) else []


def _resolve(items: Sequence[str], catalogue: Catalogue) -> list[int]:
    """Turn the items of one list into positions; unknown ones are dropped.

    Bare numbers are candidate numbers if all items are; beside titles, a number is first a title.
    """
    numbers = [catalogue.number(item.strip("[]()#. ")) for item in items]
    if all(number is not None for number in numbers):
        return [number for number in numbers if number is not None]
    return [found for item in items if (found := _position(item, catalogue)) is not None]


def _position(item: str, catalogue: Catalogue) -> int | None:
    """Find the candidate that one item means."""
    exact = catalogue.title(item)
    if exact is not None:
        return exact
    number = _CANDIDATE.match(item)
    if number:
        rest = catalogue.leading_title(fold(item[number.end() :].lstrip(" -–—:.,|()[]")))
        return rest[0] if rest else catalogue.number(number[1])
    lead = catalogue.leading_title(fold(item[:MAX_LINE]))
    return lead[0] if lead else None


def _from_numbering(block: Sequence[_Entry], catalogue: Catalogue) -> list[int]:
    """Read "14. <words>" and "14." as candidate numbers, unless they just count upwards."""
    numbers = [entry.number for entry in block if entry.number is not None]
    steps = {b - a for a, b in pairwise(numbers)}
    if steps <= {0, 1} and (steps or numbers[:1] == [1] or any(entry.text for entry in block)):
        return []
    found = (catalogue.number(str(number)) for number in numbers)
    return [position for position in found if position is not None]
