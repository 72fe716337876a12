import math
from collections import Counter, OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expbench.sandbox.inside.wire import WireError, dumps, loads

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary(max_size=8)
    | st.complex_numbers(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.tuples(SCALARS), inner)
        | st.sets(SCALARS, max_size=4)
        | st.frozensets(st.tuples(st.integers(), st.text(max_size=2)), max_size=4)
    ),
    max_leaves=12,
)


def types(value: Any) -> Any:
    """The exact types in a value, all the way down."""
    if isinstance(value, dict):
        return dict, [(types(k), types(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [types(v) for v in value]
    return type(value)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_a_round_trip_gives_an_equal_value_of_the_same_types(value: Any) -> None:
    back = loads(dumps(value))
    assert back == value
    assert types(back) == types(value)


@pytest.mark.parametrize(
    "value",
    [10**5000, -(2**63), 2**63, -0.0, float("inf"), [10**5000, "x"], bytearray(b"x"),
     range(9, 1, -2), [(1, 2.5), (True, 3)], [(), ()], [[1], ["a"]], [(2**70, 1)], Counter("aab"),
     deque([1, 2], 3),
     OrderedDict(a=1), Fraction(1, 3), Decimal("1.50"), [("a", "b")] * 70_000, [["a"]] * 70_000,
     [("a", 1)] * 70_000, [()] * 70_000],
    ids=lambda value: repr(type(value)),
)  # fmt: skip
def test_edge_values_survive(value: Any) -> None:
    back = loads(dumps(value))
    assert back == value and type(back) is type(value)
    assert types(back) == types(value)


def test_nan_stays_nan_and_big_numbers_behind_it_are_kept() -> None:
    first, second = loads(dumps([float("nan"), 10**5000]))
    assert math.isnan(first) and second == 10**5000


@given(
    st.binary(max_size=60) | st.text(st.sampled_from('[]{}",:0123456789tsfdbBcrxhqTi'), max_size=40)
)
def test_garbage_is_refused_or_read_as_a_plain_value(data: bytes | str) -> None:
    try:
        value = loads(data if isinstance(data, bytes) else data.encode())
    except WireError:
        return
    dumps(value)


@pytest.mark.parametrize(
    "text",
    ['{"x":["os.system",["true"]]}', '{"x":["builtins.eval",["1"]]}',
     '{"h":[0,"int"]}', '{"T":"object"}',
     '{"a":1,"b":2}', "{}", '{"s":[[1]]}', '{"d":[[1],[]]}', '{"q":[true,0,["a"],"##"]}', "[1] [2]",
     '{"x":["fractions.Fraction",[1,0]]}', "[" * 100_000, "1" * 5000, '{"i":"zz"}', ""],
)  # fmt: skip
def test_forged_messages_are_refused(text: str) -> None:
    with pytest.raises(WireError):
        loads(text.encode())


def test_what_is_not_plain_is_handed_to_the_caller_by_exact_type() -> None:
    class Int(int):
        pass

    seen: list[Any] = []

    def handle(value: Any) -> list[Any]:
        seen.append(value)
        return [len(seen), "thing"]

    tree = loads(dumps([Int(5), object, 5], handle), lambda content: tuple(content))
    assert tree == [(1, "thing"), (2, "thing"), 5]
    with pytest.raises(WireError, match="not a plain value"):
        dumps(Int(5))


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(WireError, match="cannot be sent"):
        dumps(loop)
