"""Prices as a user reads them: per pool and resource, in the units of the snapshot.

The loop prices whole rows. What one unit costs is that price over the row's capacity, in quanta,
and over the units of one quantum. Rows that can never be short are reported with price 0, and a
small price that proves nothing (the bound without it is no higher) becomes 0: that is what
complementary slackness asks for where capacity is left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from elastico_opt.program import Program
from elastico_opt.program.arrays import Floats
from elastico_opt.solvers.base import Price
from elastico_opt.solvers.lagrangian.pools import Row
from elastico_opt.solvers.lagrangian.problem import Problem
from elastico_opt.solvers.lagrangian.relaxation import Relaxation

#: Where the prices come from.
LOOP = "price loop"
#: Prices up to this share of the highest are tried at 0.
SMALL = 0.05
_GIB = 2**30


def reported_prices(
    relaxation: Relaxation, shares: Floats, origin: str = LOOP
) -> tuple[Price, ...]:
    """Return a price for every pool and resource, 0 for rows that are never short.

    Parameters
    ----------
    shares : (M,) floats
        Prices of whole rows, from `Loop.shares` or `AggregateLP.shares`.
    """
    units = _Units(relaxation.program)
    found = []
    for row, capacity, share in zip(relaxation.rows, relaxation.capacity, shares, strict=True):
        amount, unit = units.of(row)
        found.append(Price(row.pool, row.resource, float(share) / capacity * amount, unit, origin))
    for row in relaxation.idle:
        found.append(Price(row.pool, row.resource, 0.0, units.of(row)[1], origin))
    return tuple(found)


def start_prices(relaxation: Relaxation, prices: Sequence[Price]) -> Floats:
    """Return (M,) prices of whole rows from reported ones: how the next epoch starts warm.

    Pools and resources without a price start at 0.
    """
    units = _Units(relaxation.program)
    known = {(p.pool, p.resource, p.unit): p.price for p in prices}
    shares = np.zeros(len(relaxation.rows))
    for m, (row, capacity) in enumerate(zip(relaxation.rows, relaxation.capacity, strict=True)):
        amount, unit = units.of(row)
        shares[m] = known.get((row.pool, row.resource, unit), 0.0) * capacity / amount
    return shares


def tidied(problem: Problem, shares: Floats) -> Floats:
    """Return (M,) prices with the small ones at 0 that the bound does not need."""
    best = shares.copy()
    bound = problem.bounds(best)[0]
    high = best.max(initial=0.0)
    for m in np.argsort(best):
        if 0.0 < best[m] <= SMALL * high:
            without = best.copy()
            without[m] = 0.0
            value = problem.bounds(without)[0]
            if value <= bound:
                best, bound = without, value
    return best


class _Units:
    """How many quanta one unit of a resource is, and what the unit is called."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.quantum = {
            ("gpu", r): _quantum(program, i, host=False)
            for i, r in enumerate(program.device_resources)
        } | {
            ("host", r): _quantum(program, i, host=True)
            for i, r in enumerate(program.host_resources)
        }

    def of(self, row: Row) -> tuple[float, str]:
        """Return quanta per unit and the unit's name."""
        if row.kind == "residents":
            return 1.0, "1 resident"
        quantum = self.quantum[row.kind, row.resource]
        if self._largest(row) * quantum >= _GIB:  # in bytes, then
            return float(_GIB / quantum), "1 GiB"
        return float(1 / quantum), "1"

    def _largest(self, row: Row) -> int:
        """Return the most that one device or node has, in quanta."""
        p = self.program
        if row.kind == "host":
            return int(p.node_host[:, p.host_resources.index(row.resource)].max(initial=0))
        return int(p.class_capacity[:, p.device_resources.index(row.resource)].max(initial=0))


def _quantum(program: Program, resource: int, host: bool) -> Fraction:
    """Return the quantum of a resource: what a task asks for over its whole number of quanta."""
    p = program
    table = p.group_host if host else p.group_demand
    asking = np.flatnonzero(table[:, resource] > 0)
    if not len(asking):
        return Fraction(1)  # no option has it, so it is never short
    q = int(asking[0])
    o = int(p.group_option[q])
    job = p.snapshot.jobs[int(p.option_job[o])]
    tasks = job.profiles[int(p.option_profile[o])].task_list()
    task = tasks[q - int(p.group_start[o])]
    name = (p.host_resources if host else p.device_resources)[resource]
    amounts = task.host if host else task.gpu
    return Fraction(amounts[name]) / int(table[q, resource])
