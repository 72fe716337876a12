"""Equality of two mathematical answers: structure here, symbolic leaves through a given function.

Lists and sets of solutions are unordered; tuples, intervals and matrices are not. A plain number
is compared exactly. Only what is left goes to computer algebra.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from expbench.graders.math_text import normalise, plain_number

LeafEqual = Callable[[str, str], bool]
"""(reference, answer), both normalised -> equal in value."""

MAX_PARTS = 40
"""Most elements of a list that are compared one by one."""

_NAME = re.compile(
    r"^(?:\\?[A-Za-z]+(?:_\{?\w+\}?)?|[A-Za-z]\([A-Za-z]\))\s*(?:=|\\in(?![A-Za-z]))\s*(?=\S)"
)
_BASED = re.compile(r"^([0-9A-F]+)\s*_\s*\{?\s*(\d+)\s*\}?$")
_MATRIX = re.compile(r"^\\begin\{([pbB]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}$", re.S)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_TRAILING_UNIT = re.compile(r"(?<=[\d})\]])(?:\s+(?:[A-Za-z]{3,}|[cmk]m)(?:\^\{?\d\}?)?)+$")
_RELATION = re.compile(r"[<>]|\\(?:le|ge|ne|cup|cap|setminus|mathbb)\b")


@dataclass(frozen=True)
class _Shape:
    """An answer taken apart one level."""

    kind: str
    """`list`, `leaf`, or brackets and rows that make order matter: `()`, `[)`, `matrix 2`."""
    parts: tuple[str, ...]


def equivalent(reference: str, answer: str, leaf_equal: LeafEqual) -> bool:
    r"""Compare a model's answer with the reference.

    >>> never = lambda a, b: False
    >>> equivalent("4,-9,0", r"\{-9, 0, 4\}", never), equivalent("(4,-9)", "(-9,4)", never)
    (True, False)
    """
    return _equal(normalise(reference), normalise(answer), leaf_equal, depth=0)


def _equal(ref: str, ans: str, leaf_equal: LeafEqual, depth: int) -> bool:
    if re.sub(r"\s", "", ref) == re.sub(r"\s", "", ans) and ref:
        return True
    if not ref or not ans or depth > 4:
        return False
    ref, ans = _drop_names(ref, ans)
    by_value = _equal_numbers(ref, ans)
    if by_value is not None:
        return by_value
    if _is_words(ref):
        return _words(ref) == _words(ans)
    a, b = _shape(ref), _shape(ans)
    if a.kind == b.kind == "leaf":
        return _equal_leaves(a.parts[0], b.parts[0], leaf_equal)
    if a.kind != b.kind:
        related = _RELATION.search(ref) or _RELATION.search(ans)
        return bool(related) and _equal_leaves(ref, ans, leaf_equal)
    if max(len(a.parts), len(b.parts)) > MAX_PARTS:
        return False
    return _equal_parts(a, b, lambda x, y: _equal(x, y, leaf_equal, depth + 1))


def _equal_parts(ref: _Shape, ans: _Shape, same: LeafEqual) -> bool:
    """Compare part by part, or as sets for a list."""
    if ref.kind != "list":
        return len(ref.parts) == len(ans.parts) and all(map(same, ref.parts, ans.parts))
    unmatched = list(dict.fromkeys(ans.parts))
    for part in dict.fromkeys(ref.parts):
        hit = next((other for other in unmatched if same(part, other)), None)
        if hit is None:
            return False
        unmatched.remove(hit)
    return not unmatched


def _equal_numbers(ref: str, ans: str) -> bool | None:
    """Compare plain numbers; None where the reference or the answer is none."""
    wanted, given = plain_number(ref), plain_number(ans)
    if wanted is None or given is None:
        return None
    # A key of 10% is 10 with its unit dropped; as a value it is also 0.1.
    return given == wanted or ("%" in ref and "%" not in ans and given == wanted / 100)


def _equal_leaves(ref: str, ans: str, leaf_equal: LeafEqual) -> bool:
    """Compare single expressions."""
    based_ref, based_ans = _BASED.match(ref), _BASED.match(ans)
    if based_ref or based_ans:
        return bool(based_ref and based_ans and based_ref.groups() == based_ans.groups())
    ref, ans = (_TRAILING_UNIT.sub("", text) for text in (ref, ans))
    # Prose is no formula: computer algebra would read its letters as a product of symbols.
    if _WORD.search(ans) or _WORD.search(ref) or not ref or not ans:
        return False
    return leaf_equal(ref, ans)


def _drop_names(ref: str, ans: str) -> tuple[str, str]:
    """Remove "x =" in front; different names on both sides stay and so remain different."""
    named_ref, named_ans = _NAME.match(ref), _NAME.match(ans)
    if named_ref and named_ans and named_ref[0].split("=")[0] != named_ans[0].split("=")[0]:
        return ref, ans
    ref = ref[named_ref.end() :] if named_ref else ref
    ans = ans[named_ans.end() :] if named_ans else ans
    left, equals, right = ans.rpartition("=")
    if equals and "=" not in ref and not re.search(r"[A-Za-z,<>]", left):
        ans = right.strip()  # A sum worked out: 2 + 3 = 5.
    return ref, ans


def _is_words(text: str) -> bool:
    """Tell whether a reference is words, such as `even` or `(C)`, and no formula."""
    return bool(re.fullmatch(r"[^\w\\]*[^\W\d_]{2,}[^\d\\=+*/^<>]*", text)) or bool(
        re.fullmatch(r"\([A-Z]\)", text)
    )


def _words(text: str) -> list[str]:
    """Letters only, without case and without articles."""
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in ("a", "an", "the")]


def _shape(text: str) -> _Shape:
    """Take an answer apart one level."""
    if r"\pm" in text or r"\mp" in text:
        plus = text.replace(r"\pm", "+").replace(r"\mp", "-")
        minus = text.replace(r"\pm", "-").replace(r"\mp", "+")
        return _Shape("list", (plus.strip(" +"), minus.strip()))
    matrix = _MATRIX.match(text)
    if matrix:
        rows = [row.split("&") for row in re.split(r"\\\\", matrix[2]) if row.strip()]
        return _Shape(f"matrix {len(rows)}", tuple(c.strip() for row in rows for c in row))
    text = re.sub(r"\b(?:and|or)\b", ",", text)
    parts = _split(text, r",|;|\\cup(?![A-Za-z])")
    if len(parts) > 1:
        return _Shape("list", tuple(parts))
    inner = _inside(text)
    if inner is None:
        return _Shape("leaf", (text,))
    opened, body, closed = inner
    parts = _split(body, ",")
    if opened == r"\{":
        return _Shape("list" if len(parts) > 1 else "leaf", tuple(parts) or ("",))
    if len(parts) > 1:
        return _Shape(opened + closed, tuple(parts))
    return _shape(body) if opened == "(" and body else _Shape("leaf", (text,))


def _depths(text: str) -> list[int]:
    """Bracket depth before each character and at the end; any kind of bracket closes any."""
    depth, depths = 0, []
    for char in text:
        depths.append(depth)
        depth += (char in "([{") - (char in ")]}")
    return [*depths, depth]


def _split(text: str, separator: str) -> list[str]:
    """Split at a separator that stands outside all brackets."""
    depths, parts, start = _depths(text), [], 0
    for match in re.finditer(separator, text):
        if depths[match.start()] == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _inside(text: str) -> tuple[str, str, str] | None:
    """Open one pair of brackets around the whole text: opening, body, closing."""
    match = re.match(r"\\\{|\\langle|[(\[]", text)
    end = re.search(r"(?:\\\}|\\rangle|[)\]])$", text)
    if not match or not end or end.start() < match.end():
        return None
    body = text[match.end() : end.start()]
    if min(_depths(body), default=0) < 0:
        return None
    return match[0], body.strip(), end[0]
