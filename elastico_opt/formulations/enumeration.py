"""Every pattern of a layout, one after the other: for reading, export and tests.

Written for small snapshots and for being plainly right; the solver prices patterns instead
(`elastico_opt.solvers.pattern`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.formulations.columns import Patterns, join
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program import NEVER
from elastico_opt.program.arrays import Ints

#: Most patterns listed by default.
MOST = 100_000


def all_patterns(layout: Layout, most: int = MOST) -> Patterns:
    """Return every set of workers that one device may hold.

    Parameters
    ----------
    layout : Layout
    most : int

    Raises
    ------
    InputError
        When there are more than `most`.
    """
    found: list[Patterns] = []
    left = most
    for pool, site, tied, free in _places(layout):
        rows = []
        for members in _Search(layout, pool, site, tied, free).patterns():
            left -= 1
            if left < 0:
                raise InputError(
                    f"the pattern form has more than {most:,} patterns: use fewer jobs or "
                    "profiles, or the formulation 'joint'"
                )
            rows.append(sorted(members))
        found += [_as_patterns(pool, site, rows)]
    return join(found)


def _places(layout: Layout) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Yield pools, then sites, each with the items tied to it and the free ones."""
    items, none = layout.items, np.zeros(0, dtype=np.int64)
    free = [
        np.flatnonzero((items.pool == k) & (items.site == ELSEWHERE)) for k in range(layout.n_pools)
    ]
    for k in range(layout.n_pools):
        yield k, ELSEWHERE, none, free[k]
    for s, k in enumerate(layout.site_pool.tolist()):
        yield k, s, np.flatnonzero(items.site == s), free[k]


def _as_patterns(pool: int, site: int, rows: list[list[int]]) -> Patterns:
    width = max(map(len, rows), default=1)
    padded = [[*row, *[-1] * (width - len(row))] for row in rows]
    items = np.array(padded, dtype=np.int64).reshape(len(rows), width)
    return Patterns(np.full(len(rows), pool), np.full(len(rows), site), items)


class _Search:
    """Extends patterns item by item, in ascending order; on a site the first one is tied to it."""

    def __init__(self, layout: Layout, pool: int, site: int, tied: Ints, free: Ints) -> None:
        p, items = layout.program, layout.items
        self.numbers = np.concatenate([tied, free])
        self.roots = len(self.numbers) if site == ELSEWHERE else len(tied)
        self.slots = int(layout.most_residents[pool])
        self.capacity = p.class_capacity[layout.pool_class[pool]]
        self.demand = p.group_demand[items.group[self.numbers]]
        self.alone = items.exclusive[self.numbers]
        self.limit = items.limit[self.numbers]
        self.owner = items.job_class[self.numbers]
        self.copies = layout.class_size[self.owner]
        work = items.workload[self.numbers]
        self.excess = p.excess[np.ix_(work, work)]  # suffered by the row beside the column
        self.apart = (self.excess == NEVER) | (self.excess.T == NEVER)

    def patterns(self) -> Iterator[list[int]]:
        for i in range(self.roots):  # items exist only where they fit
            yield from self._extend([i], np.arange(len(self.numbers)))

    def _extend(self, members: list[int], open_: Ints) -> Iterator[list[int]]:
        """Yield a pattern and all its extensions by items that were open before its last one."""
        yield self.numbers[members].tolist()
        if len(members) >= self.slots or self.alone[members].any():
            return
        last = members[-1]
        open_ = open_[(open_ > last) | ((open_ == last) & (self.copies[last] > 1))]
        open_ = open_[~self.alone[open_] & ~self.apart[open_, last]]
        used = (self.owner[open_, None] == self.owner[members]).sum(axis=1)
        open_ = open_[used < self.copies[open_]]
        load = self.demand[members].sum(axis=0)
        open_ = open_[(load + self.demand[open_] <= self.capacity).all(axis=1)]
        suffers = self.excess[open_][:, members].sum(axis=1)
        open_ = open_[suffers <= self.limit[open_]]
        suffer = self.excess[members]
        within = suffer[:, members].sum(axis=1) - self.excess[members, members]
        after = within[:, None] + suffer[:, open_]
        open_ = open_[(after <= self.limit[members][:, None]).all(axis=0)]
        for i in open_.tolist():
            yield from self._extend([*members, i], open_)
