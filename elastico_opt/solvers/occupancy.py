"""Who sits where while a plan is being built, and what the next job would find.

All tests are array expressions over the devices, in integer arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from elastico_opt.program import NEVER, UNLIMITED, Placement, Program
from elastico_opt.program.arrays import Bools, Floats, Ints

#: Stands for "never together" in the padded table: beyond any slowdown and any limit.
_TOO_MUCH = 2**55
_NO_LIMIT = 2**54


class Occupancy:
    """The state of a partial plan; device arrays have the devices last, which is faster.

    Attributes
    ----------
    free : ndarray, shape (R, D)
        What is left of each device.
    host : ndarray, shape (N, H)
        What is left of each node.
    placements : dict
        By job.
    """

    def __init__(self, program: Program) -> None:
        p = self.p = program
        self.free: Ints = p.class_capacity[p.device_class].T.copy()
        self.capacity: Ints = np.maximum(self.free, 1)
        self.host: Ints = p.node_host.copy()
        self.seats: Ints = p.class_residents[p.device_class].copy()
        self.closed: Bools = np.zeros(p.n_devices, dtype=bool)  # holds an exclusive worker
        self.type: Ints = p.class_type[p.device_class]
        self.count: Ints = np.zeros(p.n_devices, dtype=np.int64)
        # an empty slot holds the last workload and the last option, which nothing disturbs
        table = np.where(p.excess == NEVER, _TOO_MUCH, p.excess)
        self.table: Ints = np.pad(table, ((0, 1), (0, 1)))
        self.load: Ints = np.append(p.option_workload, len(p.excess))
        self.job: Ints = np.append(p.option_job, p.n_jobs)
        self.limit: Ints = np.append(np.minimum(p.job_limit, _NO_LIMIT), 2 * _TOO_MUCH)
        self.tier: Ints = np.append(p.job_tier, len(p.priorities))
        self.rate: Floats = np.append(p.job_weight * p.penalty * p.excess_unit, 0.0)
        self.reward: Floats = np.append(p.option_reward, 0.0)
        self.slots: Ints = np.full((2, p.n_devices), p.n_options, dtype=np.int64)
        self.suffers: Ints = np.zeros((2, p.n_devices), dtype=np.int64)  # excess of each slot
        self.worst: Ints = np.zeros(p.n_jobs + 1, dtype=np.int64)  # excess of each job
        self.placements: dict[int, Placement] = {}

    # ---- questions ---------------------------------------------------------------------

    def usable(self, option: int, devices: Ints) -> tuple[Ints, Floats]:
        """Return the devices where slowdowns admit an option, and what choosing each costs.

        The cost is the value that the option and the residents lose there; a tiny part of it
        prefers devices that are nearly full.
        """
        p = self.p
        workers = [q for q in p.groups_of(option) if p.group_gpus[q]]
        if not workers:
            return devices[:0], np.zeros(0)
        fine = (self.type == p.option_type[option]) & (self.seats > 0) & ~self.closed
        least = p.group_demand[workers].min(axis=0)
        for r in np.flatnonzero(least):
            fine &= self.free[r] >= least[r]
        devices = self._thinned(workers, devices[fine[devices]])
        costs = 1e-12 * (self.free[:, devices] / self.capacity[:, devices]).sum(axis=0)
        shared = np.flatnonzero(self.count[devices])
        if len(shared):
            tolerant, lost = self._beside(option, devices[shared])
            costs[shared] += lost
            keep = np.ones(len(devices), dtype=bool)
            keep[shared[~tolerant]] = False
            devices, costs = devices[keep], costs[keep]
        return devices, costs

    def _thinned(self, workers: list[int], devices: Ints) -> Ints:
        """Keep as many empty devices of each class as could be needed: they are all alike."""
        p = self.p
        if (p.group_gpus[workers] > 1).any() or p.group_host[workers].any():
            return devices  # the node of a device matters
        empty = self.count[devices] == 0
        needed = int(p.group_count[workers].sum())
        keep = ~empty
        for a in np.flatnonzero(p.class_type == p.option_type[p.group_option[workers[0]]]):
            alike = np.flatnonzero(empty & (p.device_class[devices] == a))
            keep[alike[:needed]] = True
        kept: Ints = devices[keep]
        return kept

    def _beside(self, option: int, devices: Ints) -> tuple[Bools, Floats]:
        """Return whether residents and option tolerate each other, and the value lost."""
        p, job, load = self.p, int(self.job[option]), int(self.load[option])
        slots = self.slots[:, devices]
        loads, jobs = self.load[slots], self.job[slots]
        own = self.table[load][loads].sum(axis=0)
        after = self.suffers[:, devices] + self.table[:, load][loads]
        fine: Bools = (own <= self.limit[job]) & (after <= self.limit[jobs]).all(axis=0)
        before = self.worst[jobs]
        more = self._loss(slots, np.maximum(after, before)) - self._loss(slots, before)
        if not p.job_must[job]:
            fine &= ~((more > 0) & (self.tier[jobs] < p.job_tier[job])).any(axis=0)
        return fine, more.sum(axis=0) + self._loss(np.array(option), own)

    def fits(self, group: int, devices: Ints) -> Bools:
        """Whether one worker of a group fits each device."""
        demand = self.p.group_demand[group]
        fits = np.ones(len(devices), dtype=bool)
        for r in np.flatnonzero(demand):
            fits &= self.free[r][devices] >= demand[r]
        if self.p.group_exclusive[group]:
            fits &= self.count[devices] == 0
        return fits

    def gain(self, placement: Placement) -> float:
        """Return what placing a job adds to the objective, compared with leaving it out."""
        p, option = self.p, placement.option
        switch, _, evict = p.change_costs(int(p.option_job[option]))
        value = float(p.option_reward[option]) + evict - (switch if p.switches(option) else 0.0)
        value -= self._move_cost(placement)
        devices = np.array([g for _, gpus in placement.tasks for g in gpus], dtype=np.int64)
        shared = devices[self.count[devices] > 0] if len(devices) else devices
        if len(shared):
            own = self.table[self.load[option]][self.load[self.slots[:, shared]]].sum(axis=0)
            alone = self._loss(np.array(option), own)
            value -= float(alone.max() + (self._beside(option, shared)[1] - alone).sum())
        return value

    def _move_cost(self, placement: Placement) -> float:
        job = int(self.p.option_job[placement.option])
        home = self.p.homes[job]
        if home is None:
            return 0.0
        devices = tuple(sorted(g for _, gpus in placement.tasks for g in gpus))
        nodes = tuple(sorted(n for n, gpus in placement.tasks if not gpus))
        stays = home.intact and devices == home.devices and nodes == home.cpu_nodes
        return 0.0 if stays else self.p.change_costs(job)[1]

    def _loss(self, options: Ints, excess: Ints) -> Floats:
        """Return what options lose to excesses given in quanta."""
        lost: Floats
        if self.p.throughput_coupling:
            slowdown = excess * self.p.excess_unit
            lost = self.reward[options] * slowdown / (1 + slowdown)
        else:
            lost = self.rate[self.job[options]] * excess
        return lost

    # ---- changes -----------------------------------------------------------------------

    def place(self, job: int, placement: Placement) -> None:
        """Add a job; the caller has checked that it fits."""
        p, option = self.p, placement.option
        tasks = iter(placement.tasks)
        for q in p.groups_of(option):
            for n, devices in (next(tasks) for _ in range(int(p.group_count[q]))):
                self.host[n] -= p.group_host[q]
                for g in devices:
                    self.free[:, g] -= p.group_demand[q]
                    self.closed[g] |= p.group_exclusive[q]
                    if self.seats[g] != UNLIMITED:
                        self.seats[g] -= 1
                    self._sit(job, option, g)
        self.placements[job] = placement

    def _sit(self, job: int, option: int, g: int) -> None:
        used, load = int(self.count[g]), self.load[option]
        if used == len(self.slots):
            more = ((0, used), (0, 0))
            self.slots = np.pad(self.slots, more, constant_values=self.p.n_options)
            self.suffers = np.pad(self.suffers, more)
        others = self.slots[:used, g]
        loads = self.load[others]
        self.suffers[:used, g] += self.table[loads, load]
        np.maximum.at(self.worst, self.job[others], self.suffers[:used, g])
        self.slots[used, g] = option
        self.suffers[used, g] = int(self.table[load, loads].sum())
        self.worst[job] = max(self.worst[job], self.suffers[used, g])
        self.count[g] += 1

    def tier_values(self) -> list[float]:
        """Return the objective of each tier."""
        p = self.p
        values: list[list[float]] = [[] for _ in p.priorities]
        for j in range(p.n_jobs):
            switch, _, evict = p.change_costs(j)
            placement = self.placements.get(j)
            value = -evict
            if placement is not None:
                o = placement.option
                lost = float(self._loss(np.array(o), self.worst[j]))
                value = float(p.option_reward[o]) - (switch if p.switches(o) else 0.0) - lost
                value -= self._move_cost(placement)
            values[int(p.job_tier[j])].append(value)
        return [math.fsum(v) for v in values]
