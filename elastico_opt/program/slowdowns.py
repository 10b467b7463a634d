"""Slowdowns as integers, and which pairs of workloads nobody measured.

Written apart from `elastico_opt.verification` on purpose: the check must not share a mistake with
what it checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.program.arrays import NEVER, UNLIMITED
from elastico_opt.program.quanta import EXACT
from elastico_opt.snapshot import Interference, Job, Snapshot
from elastico_opt.units import common_quantum

Pairs = dict[tuple[str, str], Fraction | None]


class Slowdowns:
    """Excess slowdowns in quanta of the workloads that are listed with each other.

    Workloads without any row share the last index.

    Attributes
    ----------
    excess : (V, V)
        What the row's workload suffers beside the column's, or NEVER.
    quantum : Fraction
        One unit of `excess`.
    """

    def __init__(self, interference: Interference | None, used: Iterable[str]) -> None:
        """Look at the rows of used workloads only: a table may list many more."""
        self.interference, self.used = interference, frozenset(used)
        pairs, default = self._pairs()
        self._index = {k: v for v, k in enumerate(sorted({key for pair in pairs for key in pair}))}
        self.other = len(self._index)
        known = [*pairs.values(), default]
        self.quantum = common_quantum({s - 1 for s in known if s is not None and s > 1})
        shape = (self.other + 1, self.other + 1)
        self.excess = np.full(shape, _excess(default, self.quantum), dtype=np.int64)
        for (victim, beside), slowdown in pairs.items():
            row, column = self._index[victim], self._index[beside]
            self.excess[row, column] = _excess(slowdown, self.quantum)
        once = [(self._index[a], self._index[b]) for a, b in pairs if a <= b]
        self._listed = np.array(once, dtype=np.int64).reshape(-1, 2)

    def covers(self, interference: Interference | None, used: Iterable[str]) -> bool:
        """Whether the same table is asked for, and no workload that was left out."""
        return interference is self.interference and self.used.issuperset(used)

    def workloads(self, keys: Iterable[str]) -> list[int]:
        """Return the index of each key."""
        return [self._index.get(key, self.other) for key in keys]

    def _pairs(self) -> tuple[Pairs, Fraction | None]:
        """Return the listed slowdowns, (victim, beside), and that of any other pair."""
        if self.interference is None:
            return {}, Fraction(1)
        pairs: Pairs = {}
        for row in self.interference.table:
            if row.a in self.used and row.b in self.used:
                pairs[row.a, row.b] = row.slowdown[0]
                pairs[row.b, row.a] = row.slowdown[1]
        return pairs, self.interference.default

    def missing(self, keys: Sequence[Sequence[str]]) -> int:
        """Count pairs of workloads that two different jobs could bring together and no row names.

        Parameters
        ----------
        keys : (J,) sequence of sequences
            Workloads of each job.
        """
        if self.interference is None:
            return 0
        holders: dict[str, int] = {}
        holder: dict[str, int] = {}
        for j, mine in enumerate(keys):
            for key in set(mine):
                holders[key] = holders.get(key, 0) + 1
                holder[key] = j
        owners = [holder[key] for key, count in holders.items() if count == 1]
        alone = np.bincount(np.array(owners, dtype=np.int64))
        n = len(holders)
        possible = n * (n - 1) // 2 - int((alone * (alone - 1) // 2).sum())
        possible += sum(count > 1 for count in holders.values())
        return possible - self._named(holders, holder)

    def _named(self, holders: dict[str, int], holder: dict[str, int]) -> int:
        """Count the listed pairs that two different jobs could bring together."""
        counts = np.array([holders.get(key, 0) for key in self._index], dtype=np.int64)
        whose = np.array([holder.get(key, -1) for key in self._index], dtype=np.int64)
        a, b = self._listed[:, 0], self._listed[:, 1]
        both = (counts[a] > 0) & (counts[b] > 0)
        apart = (counts[a] > 1) | (counts[b] > 1) | (whose[a] != whose[b])
        return int((both & apart).sum())


def slowdown_limit(snapshot: Snapshot, job: Job, quantum: Fraction) -> int:
    """Return the largest excess a job tolerates, rounded down to quanta (which loses nothing)."""
    limits = [s for s in (job.max_slowdown, snapshot.policy.max_slowdown) if s is not None]
    return min((int((min(limits) - 1) // quantum)) if limits else int(UNLIMITED), int(UNLIMITED))


def _excess(slowdown: Fraction | None, quantum: Fraction) -> int:
    if slowdown is None:
        return NEVER
    above = (slowdown.numerator - slowdown.denominator) * quantum.denominator
    whole = above // (slowdown.denominator * quantum.numerator)
    if whole > EXACT:
        raise InputError(
            "interference: slowdowns need more than 53 bits: write them with fewer digits"
        )
    return whole
