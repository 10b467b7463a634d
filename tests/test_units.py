"""Quantities are read exactly: no demand is ever rounded, no strange text slips through."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from elastico_opt.units import common_quantum, parse_count, parse_quantity, plain_number

EXACT = [
    ("0", 0),
    ("24Gi", 24 * 2**30),
    ("15864Ki", 16_244_736),
    ("123Mi", 128_974_848),
    ("128974848000m", 128_974_848),
    ("2254857830400m", Fraction(22548578304, 10)),  # what the API server makes of 2.1Gi
    ("2.1Gi", Fraction(22548578304, 10)),
    ("500m", Fraction(1, 2)),
    ("3000m", 3),
    ("1u", Fraction(1, 10**6)),
    ("7n", Fraction(7, 10**9)),
    ("1k", 1000),
    ("1M", 10**6),
    ("1G", 10**9),
    ("1T", 10**12),
    ("1P", 10**15),
    ("1E", 10**18),
    ("1e3", 1000),
    ("1E3", 1000),
    ("1E-3", Fraction(1, 1000)),
    ("1e+2", 100),
    ("1Ti", 2**40),
    ("1Pi", 2**50),
    ("1Ei", 2**60),
    ("+5", 5),
    (".5", Fraction(1, 2)),
    ("5.", 5),
    (" 5 ", 5),
    ("1Ki\n", 1024),
    ("0.1", Fraction(1, 10)),
    ("-0", 0),
    (0.1, Fraction(1, 10)),
    (1e-7, Fraction(1, 10**7)),
    (1e22, 10**22),
    (7, 7),
    (Decimal("0.30"), Fraction(3, 10)),
    (Decimal("1E+3"), 1000),
    (Fraction(3, 8), Fraction(3, 8)),
    (np.int64(5), 5),
    (np.uint8(200), 200),
    (np.float64(0.1), Fraction(1, 10)),
    (np.float32(0.1), Fraction(1, 10)),
    (10**24, 10**24),
    ("1e-24", Fraction(1, 10**24)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "number"), EXACT, ids=lambda value: repr(value)[:30])
def test_quantities_are_exact(text: Any, number: Any) -> None:
    """The whole Kubernetes grammar, JSON numbers and numpy scalars, to the last digit."""
    assert parse_quantity(text) == number
    assert isinstance(parse_quantity(text), Fraction)


BAD: list[Any] = [
    True, False, None, [], {}, (), b"1", pytest.param(object(), id="an object"), 1j,
    math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity"), Decimal("sNaN"),
    np.float64("nan"), np.float32("inf"), np.bool_(True), np.array([1, 2]), np.array(["x"]),
    "NaN", "inf", "Infinity", "-inf", "nan",
    -1, -0.5, "-1", "-1Gi", Decimal("-0.1"), Fraction(-1, 2),
    "1e400", "1e25", 10**25, "1e-25", Decimal("1e400"), Decimal("1e-400"), "9" * 401, "1e99999",
    "1K", "1 Gi", "1GI", "Gi", "", " ", "1.2.3", "0x10", "1_000", "1,5", "one", "1e", "1e3Gi",
    "1mi", "٣x", "1e1.5", "--1", "+-1", "1\n2", "\x00",
    Fraction(1, 3),
]  # fmt: skip


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:30])
def test_what_is_no_quantity_is_refused(value: Any) -> None:
    """NaN, infinities, negatives, booleans and loose text end in a ValueError, never a number."""
    with pytest.raises(ValueError):
        parse_quantity(value)


def test_the_common_slip_gets_a_hint() -> None:
    """`1K` is the usual wrong way to write 1000; the message says so."""
    with pytest.raises(ValueError, match="small 'k'"):
        parse_quantity("1K")


@pytest.mark.parametrize("value", [0, 3, "2k", 2.0, "3000m", Decimal("4.0"), np.int32(3)])
def test_counts_are_whole(value: Any) -> None:
    """Whole numbers count in every notation."""
    assert parse_count(value) == parse_quantity(value)
    assert isinstance(parse_count(value), int)


@pytest.mark.parametrize("value", [0.5, "500m", True, -1, "2.1Gi", None])
def test_parts_are_no_count(value: Any) -> None:
    """Half a GPU is not a count."""
    with pytest.raises(ValueError):
        parse_count(value)


NUMBERS = st.builds(
    lambda digits, exponent: Fraction(digits) * Fraction(10) ** exponent,
    st.integers(0, 10**15),
    st.integers(-9, 9),
)


@given(NUMBERS)
def test_plain_numbers_read_back(number: Fraction) -> None:
    """What is written to JSON (int, float or decimal text) reads back as the same number."""
    plain = plain_number(number)
    assert parse_quantity(plain) == number
    if isinstance(plain, float):
        assert parse_quantity(repr(plain)) == number


@given(st.text("0123456789.+-eEnumkMGTPEKi \n", max_size=12) | st.text(max_size=8))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    """Random text gives a number of at least 0 or a ValueError, nothing else."""
    try:
        number = parse_quantity(text)
    except ValueError:
        return
    assert number >= 0


@given(st.floats())
def test_floats_mean_their_shortest_decimal(value: float) -> None:
    """A float reads as the decimal that Python prints for it, if it is one we accept."""
    try:
        number = parse_quantity(value)
    except ValueError:
        assert not (value == 0 or 1e-24 <= value <= 1e24)
        return
    assert number == Fraction(Decimal(repr(value)))


@given(st.lists(NUMBERS, max_size=6))
def test_the_quantum_divides_all_and_is_the_largest(numbers: list[Fraction]) -> None:
    """Every quantity is a whole multiple of the quantum; the multiples have no common factor."""
    quantum = common_quantum(numbers)
    multiples = [number / quantum for number in numbers]
    assert quantum > 0
    assert all(multiple.denominator == 1 for multiple in multiples)
    assert math.gcd(*(int(multiple) for multiple in multiples)) in (0, 1)


def test_the_quantum_of_nothing_is_one() -> None:
    """No demand at all: any unit will do, but there must be one."""
    assert common_quantum([]) == 1
    assert common_quantum([Fraction(0)]) == 1
