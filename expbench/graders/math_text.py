"""LaTeX and plain-text values: typesetting removed, plain numbers read exactly.

Pure functions, linear in the length of the text, which callers bound (`MAX_LENGTH`).
"""

import re
from fractions import Fraction

MAX_LENGTH = 1000
"""Longest text that is taken for a mathematical answer; a reference is far shorter."""

_UNICODE = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ",
        "÷": "/", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
        "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "±": r"\pm ", "°": r"^\circ", "√": r"\sqrt ",
        "²": "^2", "³": "^3", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
        "，": ",", "（": "(", "）": ")", "％": "%", "\u00a0": " ", "\u2009": " ", "\u202f": " ",
    }
)  # fmt: skip
_SPACING = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|quad|qquad|boxed|fbox)(?![A-Za-z])"
    r"|(?<!\\)\\[,;:!() ]|(?<!\\)\\\[|(?<!\\)\\\](?!\s*[A-Za-z0-9])|~"
)
_STYLED = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|operatorname\*?)\s*"
    r"\{([^{}]*)\}"
)
_FUNCTIONS = "sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|exp|ln|log"
_BARE_COMMAND = re.compile(rf"(?<![A-Za-z\\])(?:pi|infty|infinity|{_FUNCTIONS})(?![A-Za-z])")
_CALL = re.compile(r"\\?\bsqrt\s*\(|\^\s*\(")

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_CURRENCY = r"(?:[€£¥₹]|(?:USD|EUR|GBP|Rs\.?|INR)\s)"
_VALUE = re.compile(
    rf"(?P<sign>[-+]?)\s*{_CURRENCY}?\s*(?P<sign2>[-+]?)\s*(?:"
    rf"(?P<whole>\d+)?\s*\\frac\s*(?:\{{(?P<top>-?{_DIGITS})\}}|(?P<top1>\d))\s*"
    rf"(?:\{{(?P<low>-?{_DIGITS})\}}|(?P<low1>\d))"
    rf"|(?:(?P<whole2>\d+)[ ]+)?(?P<top2>{_DIGITS})\s?/\s?(?P<low2>{_DIGITS})"
    rf"|(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[-+]?\d{{1,3}}))?"
    rf")(?![\d.]*\d)"
)
_MAGNITUDE = {
    "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9,
    "trillion": 10**12,
}  # fmt: skip
_UNIT_TOKEN = re.compile(r"\\[a-zA-Z]+|[^\W\d_]+|\^\s*\{?\s*(?:-?\d|\\circ)\s*\}?|\S")
_SHORT_UNITS = frozenset(
    "m g s h L l cm mm km kg mg ml mL ft in yd mi lb oz hr min sec ms mph kph rpm lbs hrs mins "
    "am pm pt kW kWh Hz cents F C K".split()
)
_NO_UNIT = frozenset(
    f"{_FUNCTIONS}|pi|sqrt|infinity|mod|or|and|to|not|if|than|over|plus|minus|times|divided|base|"
    "remainder|choose|factorial|root|roots|percentile|squared|cubed|degree".split("|")
) - {"degree"}
_UNIT_SIGNS = frozenset("%°/.·-€£¥₹()'\"")

_TOWER = re.compile(r"\d+(?:\s?\^\s?[{(]?\s?\d+)+")


def normalise(text: str) -> str:
    r"""Remove typesetting that does not change a value, and write plain functions as LaTeX.

    >>> normalise(r"$\left[2,\, 9\right)$"), normalise("exp(3) - pi/2")
    ('[2, 9 )', '\\exp(3) - \\pi/2')
    """
    text = text.translate(_UNICODE).replace("{,}", ",").replace(r"\%", "%")
    text = re.sub(r",\\[!, ]\s*(?=\d{3})", ",", text)
    text = re.sub(r"(?<=\d)(?:\\[!, ]|~)(?=\d{3}(?!\d))", "", text)
    for _ in range(3):
        text = _STYLED.sub(r" \1 ", text)
    text = re.sub(r"(?:\b(?:US|CA|AU))?\\?\$", " ", text).replace("**", "^")
    text = _SPACING.sub(" ", text)
    text = re.sub(r"\\[dtc]frac", r"\\frac", text)
    text = re.sub(r"\\(?:degree|deg)(?![A-Za-z])", r"^\\circ", text)
    text = _BARE_COMMAND.sub(lambda m: "\\" + m[0].replace("infinity", "infty"), text)
    text = text.replace("<=", r"\le ").replace(">=", r"\ge ").replace("!=", r"\ne ")
    text = re.sub(r"\\(l|g|n)eq(?![A-Za-z])", r"\\\1e", text)
    return re.sub(r"\s+", " ", _brace_calls(text)).strip(" .,;*`")


def _brace_calls(text: str) -> str:
    r"""Write `sqrt(...)` and `^(...)` with braces, the way LaTeX groups."""
    if not _CALL.search(text):
        return text
    closing, stack = {}, []
    for i, char in enumerate(text):
        if char == "(":
            stack.append(i)
        elif char == ")" and stack:
            closing[stack.pop()] = i
    changed: dict[int, str] = {}
    for call in _CALL.finditer(text):
        opened = call.end() - 1
        if opened in closing:
            changed[opened], changed[closing[opened]] = "{", "}"
    braced = "".join(changed.get(i, char) for i, char in enumerate(text))
    return re.sub(r"(?<!\\)\bsqrt\s*\{", r"\\sqrt{", braced)


def plain_number(text: str) -> Fraction | None:
    r"""Read a normalised text that is one number, with or without currency, unit or percent sign.

    Returns:
        The exact value; percent signs and units are dropped, "3 million" is multiplied out. None
        for anything else: lists, formulas, `5k`, `64_7`.

    >>> plain_number("€1,234.50"), plain_number("35%"), plain_number(r"\frac{3}{8} cups")
    (Fraction(2469, 2), Fraction(35, 1), Fraction(3, 8))
    >>> plain_number("1,2,3"), plain_number("5k"), plain_number("12 apples and 3 pears")
    (None, None, None)
    """
    text = text.strip()
    while len(text) > 1 and text[0] in "([{" and text[-1] in ")]}" and "," not in text:
        text = text[1:-1].strip()
    match = _VALUE.match(text)
    if not match or len(text) > MAX_LENGTH:
        return None
    scale = _unit_scale(text[match.end() :])
    value = _value(match)
    return None if scale is None or value is None else value * scale


def _value(match: re.Match[str]) -> Fraction | None:
    """Turn a match of `_VALUE` into its value; None for two signs or a zero denominator."""
    part = {name: (text or "").replace(",", "") for name, text in match.groupdict().items()}
    if part["sign"] and part["sign2"]:
        return None
    if part["decimal"]:
        value = Fraction(part["decimal"].rstrip(".")) * Fraction(10) ** int(part["exponent"] or 0)
    else:
        low = int(part["low"] or part["low1"] or part["low2"])
        if low == 0:
            return None
        top = int(part["top"] or part["top1"] or part["top2"])
        value = int(part["whole"] or part["whole2"] or 0) + Fraction(top, low)
    return -value if "-" in (part["sign"], part["sign2"]) else value


def _unit_scale(rest: str) -> int | None:
    """Read what follows a number: 1 for nothing or a unit, a power for "million", else None."""
    scale = 1
    attached = not rest.startswith((" ", "%"))
    for i, token in enumerate(_UNIT_TOKEN.findall(rest)):
        if token.lower() in _MAGNITUDE and i == 0:
            scale = _MAGNITUDE[token.lower()]
        elif not _is_unit(token, attached=attached and i == 0):
            return None
    return scale


def _is_unit(token: str, *, attached: bool) -> bool:
    """Tell whether a token behind a number may be dropped: `5 cm` yes, `5k` and `5 x` no."""
    if token[0] == "^" or token in _UNIT_SIGNS:
        return "circ" in token or token[0] != "^" or not attached
    if token in _SHORT_UNITS:
        return True
    if token.lower() in _NO_UNIT or token[0] == "\\":
        return False
    return (token.isalpha() and len(token) >= 3 and not attached) or not token.isascii()


def is_huge(expression: str) -> bool:
    """Refuse what cannot be computed: factorials of large or computed numbers, power towers.

    What slips through is stopped by the worker's limits; this only saves the time.
    """
    if re.search(r"\d{5}\s*!|!\s*[)}]*\s*!", expression):
        return True
    if re.search(r"[)}]\s*!", expression) and re.search(r"\^|\d{5}", expression):
        return True
    return any(_tower_is_huge(tower) for tower in _TOWER.findall(expression))


def _tower_is_huge(tower: str) -> bool:
    """Tell whether a tower of integers, such as 2^{2^{16}}, has more than about a million bits."""
    *bases, value = (int(number[:20]) for number in re.findall(r"\d+", tower))
    for base in reversed(bases):
        if base > 1 and value * base.bit_length() > 2**20:
            return True
        value = base**value
    return False
