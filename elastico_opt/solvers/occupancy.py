"""Who sits where while a plan is being built, and what the next job would find.

All tests are array expressions over the devices, in integer arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from elastico_opt.program import NEVER, UNLIMITED, Placement, Program
from elastico_opt.program.arrays import Bools, Floats, Ints


class Occupancy:
    """The state of a partial plan.

    Attributes
    ----------
    free : ndarray, shape (D, R)
        What is left of each device.
    host : ndarray, shape (N, H)
        What is left of each node.
    placements : dict
        By job.
    """

    def __init__(self, program: Program) -> None:
        p = self.p = program
        self.free: Ints = p.class_capacity[p.device_class].copy()
        self.host: Ints = p.node_host.copy()
        self.seats: Ints = p.class_residents[p.device_class].copy()
        self.closed: Bools = np.zeros(p.n_devices, dtype=bool)  # holds an exclusive worker
        self.count: Ints = np.zeros(p.n_devices, dtype=np.int64)
        self.slots: Ints = np.full((p.n_devices, 2), -1, dtype=np.int64)  # options
        self.suffers: Ints = np.zeros((p.n_devices, 2), dtype=np.int64)  # excess of each slot
        self.worst: Ints = np.zeros(p.n_jobs, dtype=np.int64)  # excess of each job
        self.placements: dict[int, Placement] = {}
        self.rate = p.job_weight * p.penalty * p.excess_unit
        self.capacity = np.maximum(self.free, 1)

    # ---- questions ---------------------------------------------------------------------

    def usable(self, option: int, devices: Ints) -> tuple[Ints, Floats]:
        """Return the devices where slowdowns admit an option, and what choosing each costs.

        The cost is the value that the option and the residents lose there; a tiny part of it
        prefers devices that the option fills well.
        """
        p = self.p
        kind = int(p.option_type[option])
        devices = devices[
            (p.class_type[p.device_class[devices]] == kind)
            & (self.seats[devices] > 0)
            & ~self.closed[devices]
        ]
        costs = 1e-12 * (self.free[devices] / self.capacity[devices]).sum(axis=1)
        shared = np.flatnonzero(self.count[devices])
        if len(shared):
            fine, lost = self._beside(option, devices[shared])
            costs[shared] += lost
            keep = np.ones(len(devices), dtype=bool)
            keep[shared[~fine]] = False
            devices, costs = devices[keep], costs[keep]
        return devices, costs

    def _beside(self, option: int, devices: Ints) -> tuple[Bools, Floats]:
        """Return whether residents and option tolerate each other, and the value lost."""
        p = self.p
        job = int(p.option_job[option])
        slots = self.slots[devices]
        there = slots >= 0
        others = np.where(there, slots, 0)
        load = p.option_workload
        mine = np.where(there, p.excess[load[option], load[others]], 0)
        theirs = np.where(there, p.excess[load[others], load[option]], 0)
        jobs = p.option_job[others]
        after = self.suffers[devices] + theirs
        own = mine.sum(axis=1)
        fine = (mine != NEVER).all(axis=1) & (theirs != NEVER).all(axis=1)
        fine &= own <= p.job_limit[job]
        fine &= ((after <= p.job_limit[jobs]) | ~there).all(axis=1)
        more = self._loss(others, np.maximum(after, self.worst[jobs])) - self._loss(
            others, self.worst[jobs]
        )
        more = np.where(there, more, 0.0)
        above = p.job_tier[jobs] < p.job_tier[job]
        if not p.job_must[job]:
            fine &= ~((more > 0) & above).any(axis=1)
        return fine, more.sum(axis=1) + self._loss(np.full(len(devices), option), own)

    def fits(self, group: int, devices: Ints) -> Bools:
        """Whether one worker of a group fits each device."""
        fits: Bools = (self.free[devices] >= self.p.group_demand[group]).all(axis=1)
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
            own = self._own_excess(option, shared)
            value -= float(self._loss(np.array([option]), own.max(keepdims=True))[0])
            _, lost = self._beside(option, shared)
            value -= float((lost - self._loss(np.full(len(shared), option), own)).sum())
        return value

    def _own_excess(self, option: int, devices: Ints) -> Ints:
        load = self.p.option_workload
        slots = self.slots[devices]
        excess = self.p.excess[load[option], load[np.where(slots >= 0, slots, 0)]]
        total: Ints = np.where(slots >= 0, excess, 0).sum(axis=1)
        return total

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
            lost = self.p.option_reward[options] * slowdown / (1 + slowdown)
        else:
            lost = self.rate[self.p.option_job[options]] * excess
        return lost

    # ---- changes -----------------------------------------------------------------------

    def place(self, job: int, placement: Placement) -> None:
        """Add a job; the caller has checked that it fits."""
        p, option = self.p, placement.option
        load = p.option_workload
        tasks = iter(placement.tasks)
        for q in p.groups_of(option):
            for n, devices in (next(tasks) for _ in range(int(p.group_count[q]))):
                self.host[n] -= p.group_host[q]
                for g in devices:
                    self.free[g] -= p.group_demand[q]
                    self.closed[g] |= p.group_exclusive[q]
                    if self.seats[g] != UNLIMITED:
                        self.seats[g] -= 1
                    self._sit(job, option, int(load[option]), g)
        self.placements[job] = placement

    def _sit(self, job: int, option: int, load: int, g: int) -> None:
        p, used = self.p, int(self.count[g])
        if used == self.slots.shape[1]:
            self.slots = np.pad(self.slots, ((0, 0), (0, used)), constant_values=-1)
            self.suffers = np.pad(self.suffers, ((0, 0), (0, used)))
        others = self.slots[g, :used]
        loads = p.option_workload[others]
        self.suffers[g, :used] += p.excess[loads, load]
        np.maximum.at(self.worst, p.option_job[others], self.suffers[g, :used])
        self.slots[g, used] = option
        self.suffers[g, used] = int(p.excess[load, loads].sum())
        self.worst[job] = max(self.worst[job], self.suffers[g, used])
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
                lost = float(self._loss(np.array([o]), self.worst[j : j + 1])[0])
                value = float(p.option_reward[o]) - (switch if p.switches(o) else 0.0) - lost
                value -= self._move_cost(placement)
            values[int(p.job_tier[j])].append(value)
        return [math.fsum(v) for v in values]
