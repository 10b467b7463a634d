"""Which devices a job could share without breaking anyone's slowdown limit."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from elastico_opt.units import common_quantum
from elastico_opt.verification import SlowdownTable, slowdown_limit, workload_key

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Profile, Snapshot

_NEVER = 2**60
_ANY = 2**55


class Slowdowns:
    """Excess slowdowns (S − 1) in whole quanta, and what each resident can still bear.

    Workloads without a row in the table share one index, the last.
    """

    def __init__(
        self, snapshot: Snapshot, placed: Sequence[tuple[int, Job, Profile]], devices: int
    ) -> None:
        self.known = snapshot.interference is not None
        self._snapshot = snapshot
        self._devices = devices
        if not self.known:
            return
        self._read_table(snapshot)
        self._device = np.array([g for g, _, _ in placed], dtype=np.int64)
        self._workload = np.array(
            [self.workload(job, profile) for _, job, profile in placed], dtype=np.int64
        )
        limits = np.array([self.limit(job) for _, job, _ in placed], dtype=np.int64)
        self.weight = np.array([float(job.weight) for _, job, _ in placed])
        self._slack = limits - self._suffered()

    def _read_table(self, snapshot: Snapshot) -> None:
        table = SlowdownTable(snapshot)
        rows = snapshot.interference.table if snapshot.interference else ()
        default = snapshot.interference.default if snapshot.interference else None
        names = sorted({name for row in rows for name in (row.a, row.b)})
        self._index = {name: v for v, name in enumerate(names)}
        given = [default, *(s for row in rows for s in row.slowdown)]
        self._quantum = common_quantum(s - 1 for s in given if s is not None and s > 1)
        self._excess = np.full((len(names) + 1,) * 2, self._quanta(default), dtype=np.int64)
        for row in rows:
            a, b = self._index[row.a], self._index[row.b]
            self._excess[a, b] = self._quanta(table.lookup(row.a, row.b))
            self._excess[b, a] = self._quanta(table.lookup(row.b, row.a))

    def _quanta(self, slowdown: Fraction | None) -> int:
        return _NEVER if slowdown is None else int((slowdown - 1) / self._quantum)

    def _suffered(self) -> Any:
        """Return the excess that each resident suffers from the others of its device."""
        total = np.zeros(len(self._device), dtype=np.int64)
        order = np.argsort(self._device, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(self._device[order])) + 1):
            if len(here) > 1:
                pairs = self._excess[np.ix_(self._workload[here], self._workload[here])]
                total[here] = pairs.sum(axis=1) - np.diagonal(pairs)
        return total

    def workload(self, job: Job, profile: Profile) -> int:
        """Return the row of a profile in the table."""
        return self._index.get(workload_key(job, profile), len(self._index))

    def limit(self, job: Job) -> int:
        """Return the excess a job tolerates, in quanta."""
        limit = slowdown_limit(self._snapshot, job)
        return _ANY if limit is None else min(int((limit - 1) // self._quantum), _ANY)

    def refused(self, job: Job, profile: Profile) -> Any:
        """Return the (D,) devices where the job, or someone there, would be slowed too much."""
        refused = np.zeros(self._devices, dtype=bool)
        if not self.known or not len(self._device):
            return refused
        me = self.workload(job, profile)
        suffered = self._excess[me, self._workload]
        caused = self._excess[self._workload, me]
        mine = np.zeros(self._devices, dtype=np.int64)
        np.add.at(mine, self._device, np.minimum(suffered, _ANY))
        refused |= mine > self.limit(job)
        refused[self._device[(caused > self._slack) | (suffered == _NEVER)]] = True
        return refused

    def harm(self, job: Job, profile: Profile) -> Any:
        """Return per device how much the job and those there would slow each other, weighted."""
        harm = np.zeros(self._devices)
        if not self.known or not len(self._device):
            return harm
        me = self.workload(job, profile)
        mine = self._excess[me, self._workload] * float(job.weight)
        theirs = self._excess[self._workload, me] * self.weight
        np.add.at(harm, self._device, mine + theirs)
        return harm
