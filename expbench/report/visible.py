"""Text of models and data sets, made safe to show."""

import unicodedata

_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    r"""Name each character that a terminal or browser would obey; keep newlines and tabs.

    Named are control characters, marks of writing direction, line and paragraph separators and
    lone surrogates.

    >>> visible("a\x1b[31m\u202eb\n")
    'a‹U+001B›[31m‹U+202E›b\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"‹U+{ord(c):04X}›" if _is_obeyed(c) else c for c in text)


def _is_obeyed(character: str) -> bool:
    if character in "\n\t":
        return False
    return character in _DIRECTION or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
