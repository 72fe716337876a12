"""The candidates of one ranking question, prepared for being found in a reply."""

import html
import re
from dataclasses import dataclass
from functools import lru_cache

MAX_TITLE = 1000
MIN_PREFIX = 30
"""Shortest beginning of a long title that stands for it, if it is the only one that begins so."""

_TITLE_END = re.compile(r"\s?(?:$|[-–—:|(\[\"”,.;>]|\bby\b)")


@dataclass(frozen=True)
class Catalogue:
    """The candidates of one question, prepared for matching."""

    count: int
    titles: dict[str, int]
    """Folded title -> position; also without a trailing year where that is unique."""

    def number(self, text: str) -> int | None:
        """Read a candidate number, 1-based, as a position."""
        plain = text.isdecimal() and not text.startswith("0")
        return int(text) - 1 if plain and 1 <= int(text) <= self.count else None

    def title(self, text: str) -> int | None:
        """Find the candidate with exactly this title, or a long beginning of just one."""
        folded = fold(text)
        if folded in self.titles:
            return self.titles[folded]
        folded = folded.rstrip(" .…")
        if len(folded) < MIN_PREFIX:
            return None
        begin = {position for title, position in self.titles.items() if title.startswith(folded)}
        return begin.pop() if len(begin) == 1 else None

    def leading_title(self, folded: str) -> tuple[int, int] | None:
        """Find the longest title that a folded text begins with: its position and length."""
        folded = folded[:MAX_TITLE]
        for end in sorted((m.start() for m in _TITLE_END.finditer(folded)), reverse=True):
            position = self.titles.get(folded[:end].strip())
            if position is not None:
                return position, end
        return None


@lru_cache(maxsize=256)
def catalogue_of(candidates: tuple[str, ...]) -> Catalogue:
    """Fold the titles of one question; the first of equal ones wins."""
    folded = [fold(title) for title in candidates]
    titles = {title: i for i, title in reversed(list(enumerate(folded))) if title}
    short = [re.sub(r"\s*\(\d{4}\)$", "", title) for title in folded]
    for i, title in enumerate(short):
        if short.count(title) == 1 and title:
            titles.setdefault(title, i)
    return Catalogue(len(candidates), titles)


def fold(text: str) -> str:
    """Compare titles without entities, case, markup, quotes and repeated spaces."""
    text = html.unescape(html.unescape(text)).casefold().replace("’", "'").replace("`", "'")
    return re.sub(r"\s+", " ", text.replace("*", "")).strip(" \"“”'_.")
