"""Values as tagged JSON: what the checker and the candidate say to each other.

A JSON scalar or array stands for itself; every other value is an object with exactly one key, the
tag: `{"t": [1, 2]}` is the tuple `(1, 2)`. Decoding can build nothing but the types listed here, so
whatever the candidate writes, the checker holds plain values afterwards. The C halves of the
`json` module are used without the module itself, whose import would cost more than the rest of the
start.

>>> loads(dumps({(1, 2): [b"x", {3}]}))
{(1, 2): [b'x', {3}]}
"""

from _json import encode_basestring_ascii, make_encoder, make_scanner
from itertools import chain
from posix import read, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_MESSAGE_BYTES = 192 << 20
"""A longer message is refused; the longest honest one, in MBPP+ 255, has 129 MB."""

_SMALL = 1 << 63
_ATOMS = frozenset((str, float, bool, type(None)))
_NUMBERS = frozenset((int, float, bool))
_ROWS = ({list}, {tuple})
_MANY_ROWS = 1 << 16
_CELLS = bytes(code for code in range(35, 127) if code != ord("\\"))
"""Characters that JSON writes as they are."""
_NAMED: "dict[str, Callable[[Any], list[Any]]]" = {
    "collections.deque": lambda v: [list(v), v.maxlen],
    "collections.Counter": lambda v: [dict(v)],
    "collections.OrderedDict": lambda v: [dict(v)],
    "fractions.Fraction": lambda v: [v.numerator, v.denominator],
    "decimal.Decimal": lambda v: [str(v)],
    "datetime.date": lambda v: [v.year, v.month, v.day],
    "datetime.time": lambda v: [v.hour, v.minute, v.second, v.microsecond],
    "datetime.timedelta": lambda v: [v.days, v.seconds, v.microseconds],
    "datetime.datetime": lambda v: [
        v.year,
        v.month,
        v.day,
        v.hour,
        v.minute,
        v.second,
        v.microsecond,
    ],
    "array.array": lambda v: [v.typecode, v.tolist()],
}
"""Standard-library value types by name: how to take one apart into constructor arguments."""


class WireError(Exception):
    """A message that no honest peer sends, or a value that cannot be sent."""


def _flat(kinds: "set[type]", values: "Callable[[], Any]") -> bool:
    """Whether values of these kinds stand for themselves; `values()` iterates over them."""
    if kinds <= _ATOMS:
        return True
    # With NaN in front both comparisons are false, which is the careful way.
    return kinds <= _NUMBERS and -_SMALL < min(values()) and max(values()) < _SMALL


def _tree_list(values: "list[Any]", handle: "Callable[[Any], Any]") -> "Any":
    kinds = set(map(type, values))
    if _flat(kinds, lambda: values):
        return values
    if kinds in _ROWS:
        table = _tree_table(values) if len(values) > _MANY_ROWS else None
        if table:
            return table
        inner = set(map(type, chain.from_iterable(values)))
        if not inner or _flat(inner, lambda: chain.from_iterable(values)):
            # The C encoder writes a tuple as an array.
            return {"tt": values} if kinds == {tuple} else values
    return [to_tree(value, handle) for value in values]


def _tree_table(rows: "list[Any]") -> "Any":
    """Write many equally long rows of few different texts with one character a cell."""
    widths, texts = set(map(len, rows)), list(set(rows[0]).union(rows[-1]))
    if set(map(type, texts)) != {str} or len(widths) > 1:
        return None
    texts = list(set(chain.from_iterable(rows)))
    if len(texts) > len(_CELLS) or set(map(type, texts)) != {str}:
        return None
    code = dict(zip(texts, _CELLS, strict=False))
    cells = bytes(map(code.__getitem__, chain.from_iterable(rows))).decode("ascii")
    return {"q": [type(rows[0]) is tuple, *widths, texts, cells]}


def _table(content: "list[Any]") -> "list[Any]":
    is_tuple, width, texts, cells = content
    text = dict(zip(map(chr, _CELLS), texts, strict=False)).__getitem__
    starts = range(0, len(cells), width)
    if is_tuple:
        return [tuple(map(text, cells[start : start + width])) for start in starts]
    return [list(map(text, cells[start : start + width])) for start in starts]


def _tree_named(value: "Any", handle: "Callable[[Any], Any]") -> "Any":
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in _NAMED and getattr(value, "tzinfo", None) is None:
        return {"x": [name, _tree_list(_NAMED[name](value), handle)]}
    if name == "collections.defaultdict":
        return to_tree(dict(value), handle)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(kind, "item"):
        item = value.item()
        if type(item) in _TREES:
            return to_tree(item, handle)
    return {"h": handle(value)}


_TYPES = {
    kind.__name__: kind
    for kind in (int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset)
}


def _tree_type(value: "Any", handle: "Callable[[Any], Any]") -> "Any":
    name = value.__name__
    return {"T": name} if _TYPES.get(name) is value else {"h": handle(value)}


_TREES: "dict[type, Callable[[Any, Any], Any]]" = {
    str: lambda v, h: v,
    float: lambda v, h: v,
    bool: lambda v, h: v,
    type(None): lambda v, h: v,
    int: lambda v, h: v if -_SMALL < v < _SMALL else {"i": hex(v)},
    list: _tree_list,
    tuple: lambda v, h: {"t": _tree_list(list(v), h)},
    set: lambda v, h: {"s": _tree_list(list(v), h)},
    frozenset: lambda v, h: {"f": _tree_list(list(v), h)},
    dict: lambda v, h: {"d": [_tree_list(list(v), h), _tree_list(list(v.values()), h)]},
    bytes: lambda v, h: {"b": v.hex()},
    bytearray: lambda v, h: {"B": v.hex()},
    complex: lambda v, h: {"c": [v.real, v.imag]},
    type: _tree_type,
    range: lambda v, h: {"r": _tree_list([v.start, v.stop, v.step], h)},
}


def to_tree(value: "Any", handle: "Callable[[Any], Any]") -> "Any":
    """Turn a value into JSON types; `handle` names what is not a plain value (exact types only)."""
    make = _TREES.get(type(value))
    return make(value, handle) if make else _tree_named(value, handle)


def _named(items: "Any") -> "Any":
    name, args = items
    if name not in _NAMED:
        raise WireError("unknown value type")
    module, _, attribute = name.rpartition(".")
    return getattr(__import__(module), attribute)(*args)


def _refuse(handle: "Any") -> "Any":
    raise WireError("not a plain value")


_BUILDERS: "dict[str, Callable[[Any], Any]]" = {
    "i": lambda v: int(v, 16),
    "t": tuple,
    "s": set,
    "f": frozenset,
    "d": lambda v: dict(zip(v[0], v[1], strict=True)),
    "b": bytes.fromhex,
    "B": bytearray.fromhex,
    "c": lambda v: complex(v[0], v[1]),
    "r": lambda v: range(*v),
    "tt": lambda v: list(map(tuple, v)),
    "q": _table,
    "T": _TYPES.__getitem__,
    "x": _named,
}


class _Scan:
    """The settings that the C scanner reads from its context object."""

    strict = True
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = {
        "NaN": float("nan"),
        "Infinity": float("inf"),
        "-Infinity": float("-inf"),
    }.__getitem__
    memo: "dict[str, str]" = {}  # noqa: RUF012

    def __init__(self, handle: "Callable[[Any], Any]") -> None:
        builders = {**_BUILDERS, "h": handle}

        def build(tagged: "dict[str, Any]") -> "Any":
            ((tag, content),) = tagged.items()
            return builders[tag](content)

        self.object_hook = build


def dumps(value: "Any", handle: "Callable[[Any], Any]" = _refuse) -> bytes:
    """Encode a value; numbers of any length, in time linear in their length.

    Raises:
        WireError: the value is nested too deeply, holds itself, or `handle` refused a part of it.
    """
    try:
        chunks = _encode(to_tree(value, handle), 0)
        return "".join(chunks).encode("ascii")
    except (RecursionError, ValueError) as error:
        raise WireError(f"cannot be sent: {error}") from None


def loads(data: bytes, handle: "Callable[[Any], Any]" = _refuse) -> "Any":
    """Decode a value; `handle` turns a handle's content into an object.

    Raises:
        WireError: the data is not what `dumps` writes.
    """
    text = data.decode("ascii", "replace")
    try:
        value, end = make_scanner(_Scan(handle))(text, 0)  # type: ignore[arg-type]
    except (StopIteration, ValueError, TypeError, KeyError, IndexError, ArithmeticError) as error:
        raise WireError(f"malformed message: {type(error).__name__}") from None
    except RecursionError:
        raise WireError("value is nested too deeply") from None
    if end != len(text):
        raise WireError("malformed message: trailing data")
    return value


def _default(value: object) -> object:
    raise ValueError(f"type {type(value).__name__}")


_encode = make_encoder(None, _default, encode_basestring_ascii, None, ":", ",", False, False, True)


def send(channel: int, *frames: bytes) -> None:
    """Write frames, each behind its length in eight bytes."""
    data = memoryview(b"".join(len(f).to_bytes(8, "big") + f for f in frames))
    while data:
        data = data[write(channel, data) :]


def receive(channel: int) -> bytes:
    """Read one frame.

    Raises:
        EOFError: the other side is gone.
        WireError: the frame is longer than `MAX_MESSAGE_BYTES`.
    """
    size = int.from_bytes(_read_exactly(channel, 8), "big")
    if size > MAX_MESSAGE_BYTES:
        raise WireError(f"message of {size} bytes; {MAX_MESSAGE_BYTES} are allowed")
    return _read_exactly(channel, size)


def _read_exactly(channel: int, size: int) -> bytes:
    parts = []
    while size:
        try:
            part = read(channel, min(size, 1 << 20))
        except ConnectionError:
            part = b""
        if not part:
            raise EOFError("the other side has ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
