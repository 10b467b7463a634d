"""Seeded draws that are the same on every platform and for every library version."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """One stream of draws, named by a seed and what it is for.

    Only `random.Random.random` is used, whose sequence for a text seed Python guarantees; every
    draw is an integer. Streams with other names are independent, so that a dial that concerns one
    of them leaves the others as they are.
    """

    def __init__(self, *name: object) -> None:
        self._random = random.Random("/".join(map(str, name)))

    def below(self, count: int) -> int:
        """Return a whole number from 0 to `count` - 1."""
        return int(self._random.random() * count)

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def chance(self, share: Fraction) -> bool:
        """Return True with probability `share`."""
        return self.below(10**6) < share * 10**6

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def order(self, count: int) -> list[int]:
        """Return the numbers 0 … `count` - 1 in random order."""
        numbers = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.below(last + 1)
            numbers[last], numbers[other] = numbers[other], numbers[last]
        return numbers
