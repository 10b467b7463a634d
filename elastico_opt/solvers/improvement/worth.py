"""What a plan given as placements is worth, tier by tier."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from elastico_opt.program import Placement, Program

#: Values are compared up to this, relative.
_EQUAL = 1e-9


def tier_values(program: Program, placements: Mapping[int, Placement]) -> list[float]:
    """Return the objective of each tier, highest priority first."""
    p = program
    residents: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for j, placement in placements.items():
        load = int(p.option_workload[placement.option])
        for _, devices in placement.tasks:
            for g in devices:
                residents[g].append((j, load))
    worst: dict[int, int] = {}
    for here in residents.values():
        if len(here) > 1:
            for j, load in here:
                suffers = sum(int(p.excess[load, other]) for i, other in here if i != j)
                worst[j] = max(worst.get(j, 0), suffers)
    values: list[list[float]] = [[] for _ in p.priorities]
    for j, placement in placements.items():
        o = placement.option
        value = float(p.option_reward[o])
        if worst.get(j):
            value -= p.loss(o, worst[j])
        if p.homes[j] is not None:
            switch, move, _ = p.change_costs(j)
            value -= (switch if p.switches(o) else 0.0) + (0.0 if p.stays(j, placement) else move)
        values[int(p.job_tier[j])].append(value)
    for j, home in enumerate(p.homes):
        if home is not None and j not in placements:
            values[int(p.job_tier[j])].append(-p.change_costs(j)[2])
    return [math.fsum(tier) for tier in values]


def rank(program: Program, placements: Mapping[int, Placement]) -> tuple[float, ...]:
    """Return what plans are compared by: must-place jobs placed, then the tiers' values."""
    placed = sum(bool(program.job_must[j]) for j in placements)
    return (float(placed), *tier_values(program, placements))


def better(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one rank is above another one, beyond rounding."""
    for mine, theirs in zip(one, other, strict=True):
        if abs(mine - theirs) > _EQUAL * max(1.0, abs(theirs)):
            return mine > theirs
    return False
