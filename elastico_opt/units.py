"""Exact quantities: from the text of a number to integers of one quantum per resource.

Nothing here is a float. A quantity is a `fractions.Fraction`; demand and capacity become
integers of the largest unit that divides them all, so capacity arithmetic is integer arithmetic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

_SUFFIX: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{s: Fraction(10 ** (3 * (i + 1))) for i, s in enumerate("kMGTPE")},
    **{s + "i": Fraction(1024 ** (i + 1)) for i, s in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)

#: No node has more devices, and no job more tasks.
COUNT_LIMIT = 100_000

#: Quantities outside 10^-LIMIT … 10^LIMIT are refused: no cluster holds them, and they
#: would only slip under or over a solver's tolerances.
EXPONENT_LIMIT = 24
_LARGEST: int = 10**EXPONENT_LIMIT

#: Texts and fractions remembered: a snapshot repeats few distinct numbers thousands of times.
_REMEMBERED = 2**14


def parse_quantity(value: Any) -> Fraction:
    """Read a non-negative number or Kubernetes quantity exactly.

    Parameters
    ----------
    value : int, Decimal, Fraction, float, numpy scalar or str
        A float stands for its shortest decimal (``0.1`` is one tenth), as a JSON text would.

    Returns
    -------
    Fraction

    Raises
    ------
    ValueError
        For booleans, NaN, infinities, negative numbers, magnitudes beyond 10^±24, and text
        that is not a quantity.
    """
    number = _read(value)
    if number.numerator < 0:
        raise ValueError(f"must not be negative, got {_show(value)}")
    if number and not _in_range(number.numerator, number.denominator):
        raise ValueError(
            f"{_show(value)} is out of range (10^-{EXPONENT_LIMIT} to 10^{EXPONENT_LIMIT})"
        )
    return number


def _read(value: Any) -> Fraction:
    kind = type(value)  # the four exact types first: they are nearly all there is
    if kind is Decimal:
        return _parse_text(str(value))
    if kind is str:
        return _parse_text(value)
    if kind is int:
        return Fraction(value)
    if isinstance(value, bool):
        raise ValueError(f"expected a number or a quantity such as '24Gi', got {_show(value)}")
    if isinstance(value, (int, Fraction)):
        number = value if isinstance(value, Fraction) else Fraction(value)
        if _decimals(number.denominator) is None:
            raise ValueError(f"{value} has no finite decimal form; round it to a decimal first")
        return number
    if isinstance(value, (str, Decimal)):
        return _parse_text(str(value))
    if isinstance(value, float) or hasattr(value, "dtype"):
        return _parse_text(str(value.item() if _is_integer(value) else value))
    raise ValueError(f"expected a number or a quantity such as '24Gi', got {_show(value)}")


def _in_range(numerator: int, denominator: int) -> bool:
    return denominator <= numerator * _LARGEST and numerator <= denominator * _LARGEST


def parse_count(value: Any) -> int:
    """Read a whole, non-negative number; ``2.0`` and ``"2k"`` count as whole."""
    number = parse_quantity(value)
    if number.denominator != 1:
        raise ValueError(f"must be a whole number, got {_show(value)}")
    if number > COUNT_LIMIT:
        raise ValueError(f"must be at most {COUNT_LIMIT}, got {_show(value)}")
    return int(number)


def _is_integer(value: Any) -> bool:
    return hasattr(value, "dtype") and value.dtype.kind in "iu"


@lru_cache(maxsize=_REMEMBERED)
def _parse_text(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= 400 else None
    if match is None:
        hint = " (the suffix for 1000 is a small 'k')" if text.strip().endswith("K") else ""
        raise ValueError(f"{_show(text)} is not a number or quantity{hint}")
    number = Fraction(match["number"])
    if match["exponent"] is not None:
        exponent = int(match["exponent"])
        if number and abs(exponent) > 400:
            raise ValueError(f"{_show(text)} is out of range")
        return number * Fraction(10) ** exponent if number else number
    return number * _SUFFIX[match["suffix"] or ""]


def _show(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


@lru_cache(maxsize=_REMEMBERED)
def plain_number(number: Fraction) -> int | float | str:
    """Write a quantity as JSON: an int, a float that reads back exactly, or decimal text."""
    if number.denominator == 1:
        return int(number)
    nearest = float(number)
    if Fraction(repr(nearest)) == number:
        return nearest
    digits = _decimals(number.denominator)
    if digits is None:
        raise ValueError(f"{number} has no finite decimal form")
    scaled = str(int(number * 10**digits)).rjust(digits + 1, "0")
    return f"{scaled[:-digits]}.{scaled[-digits:]}"


@lru_cache(maxsize=_REMEMBERED)
def _decimals(denominator: int) -> int | None:
    """Digits after the point that a fraction with this denominator needs; None if endless."""
    powers = []
    for prime in (2, 5):
        power = 0
        while denominator % prime == 0:
            denominator //= prime
            power += 1
        powers.append(power)
    return max(powers) if denominator == 1 else None


def common_quantum(quantities: Iterable[Fraction]) -> Fraction:
    """Return the largest unit of which every quantity is a whole multiple (1 if all are 0)."""
    ratios = {quantity.as_integer_ratio() for quantity in quantities}
    denominator = math.lcm(*(below for _, below in ratios))
    numerator = math.gcd(*(above * (denominator // below) for above, below in ratios))
    return Fraction(numerator or denominator, denominator)
