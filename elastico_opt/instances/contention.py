"""Pair slowdowns of generated workloads, shaped like those measured for training jobs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from elastico_opt.instances.draws import Draws

#: Excess slowdowns by rank, in thousandths: of Lucid's measured pairs 32 % do not slow down,
#: half stay below 1.05, 95 % below 1.45, and none exceeds 2.25.
_QUANTILES = ((0, 0), (320, 0), (500, 50), (800, 190), (950, 450), (1000, 1250))

#: Excess of the first and of the second workload, in thousandths; None = never together.
Excess = tuple[int, int] | None
Contention = dict[tuple[str, str], Excess]


def pair_slowdowns(
    pressure: Mapping[str, tuple[int, int]],
    density: Fraction,
    severity: int,
    never: int,
    draws: Draws,
) -> Contention:
    """Return the excess slowdowns of all pairs that interfere, names in order.

    Parameters
    ----------
    pressure : mapping of str to (int, int)
        By workload: how much it suffers from others, and how much it uses.
    density : Fraction
        Share of the pairs that interfere.
    severity, never : int
        In percent: size of the excess slowdowns, share of the interfering pairs never together.
    """
    names = sorted(pressure)
    directed = []
    for v, victim in enumerate(names):
        for o, other in enumerate(names):
            # The noise keeps the product from saying everything, as in measurements.
            force = pressure[victim][0] * pressure[other][1] + draws.below(300_000)
            directed.append((force, v, o))
    ranked = sorted(directed)
    scale = max(1, len(ranked) - 1)
    middle = len(ranked) == 1
    excess = {
        (v, o): _at(500 if middle else 1000 * rank // scale) * severity // 100
        for rank, (_, v, o) in enumerate(ranked)
    }
    pairs: Contention = {}
    for v, one in enumerate(names):
        for o in range(v, len(names)):
            interferes, apart = draws.chance(density), draws.chance(Fraction(never, 100))
            if interferes and apart:
                pairs[one, names[o]] = None
            elif interferes and (excess[v, o] or excess[o, v]):
                pairs[one, names[o]] = excess[v, o], excess[o, v]
    return pairs


def _at(rank: int) -> int:
    """Interpolate the quantiles, rounding down."""
    for (left, low), (right, high) in pairwise(_QUANTILES):
        if rank <= right:
            return low + (high - low) * (rank - left) // (right - left)
    return _QUANTILES[-1][1]


def contention_json(pairs: Contention) -> dict[str, Any]:
    """Write the pairs as snapshot data; any other pair does not interfere."""
    return {
        "table": [
            {
                "a": a,
                "b": b,
                "slowdown": [None, None]
                if both is None
                else [1 + Fraction(excess, 1000) for excess in both],
            }
            for (a, b), both in pairs.items()
        ],
        "default": 1,
    }
