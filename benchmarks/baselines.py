"""What others do, for comparison: first fit decreasing, and one configuration per job by an ILP.

Both decide profiles first and places afterwards, and look at interference only where it forbids
a pair. The second is in the manner of Sia (SOSP 2023): an integer program over pools chooses one
configuration per job, then jobs are placed.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from scipy import optimize, sparse

from elastico_opt.program import UNLIMITED, Placement, Program
from elastico_opt.program.arrays import Floats, Ints


def first_fit_decreasing(p: Program) -> dict[int, Placement]:
    """Give each job its fastest profile, largest job first, on the first devices with room."""
    best = np.full(p.n_jobs, -1)
    for o in np.lexsort((-_sizes(p), p.option_reward)):
        best[p.option_job[o]] = o
    return _place(p, best)


def one_configuration(p: Program, seconds: float) -> dict[int, Placement]:
    """Choose one option per job by an integer program over pools, then place."""
    rows, limits = _pool_rows(p)
    per_job = sparse.csr_array(
        (np.ones(p.n_options), (p.option_job, np.arange(p.n_options))),
        shape=(p.n_jobs, p.n_options),
    )
    found = optimize.milp(
        -p.option_reward,
        integrality=np.ones(p.n_options),
        bounds=optimize.Bounds(0, 1),
        constraints=[
            optimize.LinearConstraint(per_job, -np.inf, 1),
            optimize.LinearConstraint(rows, -np.inf, limits),
        ],
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    chosen = np.full(p.n_jobs, -1)
    if found.x is not None:
        for o in np.flatnonzero(found.x > 0.5):
            chosen[p.option_job[o]] = o
    return _place(p, chosen)


def _pool_rows(p: Program) -> tuple[sparse.csr_array, Floats]:
    """Return demands of options on the sums of each GPU type and of the hosts, and the sums."""
    n_types, n_resources = len(p.gpu_types), len(p.device_resources)
    device_type = p.class_type[p.device_class]
    demand = np.zeros((n_types, n_resources + 1, p.n_options))
    host = np.zeros((len(p.host_resources), p.n_options))
    for q, o in enumerate(p.group_option):
        k, workers = p.option_type[o], p.group_count[q] * p.group_gpus[q]
        if k >= 0:
            demand[k, :-1, o] += workers * p.group_demand[q]
            demand[k, -1, o] += workers
        host[:, o] += p.group_count[q] * p.group_host[q]
    capacity = np.zeros((n_types, n_resources + 1))
    np.add.at(capacity[:, :-1], device_type, p.class_capacity[p.device_class])
    seats = np.where(p.class_residents >= UNLIMITED, p.n_jobs, p.class_residents)
    np.add.at(capacity[:, -1], device_type, seats[p.device_class])
    rows = np.vstack([demand.reshape(-1, p.n_options), host])
    limits = np.concatenate([capacity.ravel(), p.node_host.sum(axis=0)])
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1.0)
    return sparse.csr_array(rows / largest[:, None]), limits / largest


def _sizes(p: Program) -> Floats:
    """Return the share of the roomiest device that each option takes, over its devices."""
    roomiest = np.maximum(p.class_capacity.max(axis=0, initial=0), 1)
    size: Floats = np.zeros(p.n_options)
    share = (p.group_demand / roomiest).max(axis=1, initial=0.0)
    np.add.at(size, p.group_option, share * p.group_count * p.group_gpus)
    return size


def _place(p: Program, chosen: Ints) -> dict[int, Placement]:
    """Place jobs in their chosen options, largest first; those that find no room stay out."""
    cluster = _Cluster(p)
    sizes = _sizes(p)
    jobs = np.flatnonzero(chosen >= 0)
    order = jobs[np.lexsort((-sizes[chosen[jobs]], ~p.job_must[jobs]))]
    found = {}
    for j in order.tolist():
        placement = cluster.take(j, int(chosen[j]))
        if placement is not None:
            found[j] = placement
    return found


class _Cluster:
    """What is left of devices and nodes."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.free = p.class_capacity[p.device_class].copy()
        self.seats = p.class_residents[p.device_class].copy()
        self.host = p.node_host.copy()
        self.residents: dict[int, list[int]] = defaultdict(list)

    def take(self, j: int, o: int) -> Placement | None:
        """Place a job on the first devices with room; None when there are none."""
        allowed = self.p.allowed_devices(j)
        types = self.p.class_type[self.p.device_class[allowed]]
        allowed = allowed[types == self.p.option_type[o]]
        tasks: list[tuple[int, tuple[int, ...]]] = []
        for q in self.p.groups_of(o):
            for _ in range(int(self.p.group_count[q])):
                task = self._task(j, o, q, allowed, tasks)
                if task is None:
                    self._undo(o, tasks)
                    return None
                tasks.append(task)
                self._change(q, task, -1)
        for _, devices in tasks:
            for g in devices:
                self.residents[g].append(o)
        return Placement(o, tuple(tasks))

    def _task(
        self, j: int, o: int, q: int, allowed: Ints, taken: list[tuple[int, tuple[int, ...]]]
    ) -> tuple[int, tuple[int, ...]] | None:
        p, need = self.p, int(self.p.group_gpus[q])
        held = [g for _, devices in taken for g in devices]
        fits = (self.free[allowed] >= p.group_demand[q]).all(axis=1) & (self.seats[allowed] > 0)
        free = [g for g in allowed[fits].tolist() if g not in held and self._agree(o, q, g)]
        nodes = p.allowed_cpu_nodes(j).tolist() if need == 0 else sorted(set(p.device_node[free]))
        for n in nodes:
            here = [g for g in free if p.device_node[g] == n][:need]
            if len(here) == need and (self.host[n] >= p.group_host[q]).all():
                return int(n), tuple(here)
        return None

    def _agree(self, o: int, q: int, g: int) -> bool:
        """Whether a worker may join the residents of a device."""
        p, here = self.p, self.residents[g]
        if here and (p.group_exclusive[q] or any(self._alone(other) for other in here)):
            return False
        if not all(p.compatible(o, other) for other in here):
            return False
        everyone = [o, *here]
        load = p.option_workload
        return all(
            sum(p.excess[load[a], load[b]] for b in everyone if b != a)
            <= p.job_limit[p.option_job[a]]
            for a in everyone
        )

    def _alone(self, o: int) -> bool:
        return any(self.p.group_exclusive[q] for q in self.p.groups_of(o))

    def _change(self, q: int, task: tuple[int, tuple[int, ...]], sign: int) -> None:
        n, devices = task
        self.host[n] += sign * self.p.group_host[q]
        for g in devices:
            self.free[g] += sign * self.p.group_demand[q]
            self.seats[g] += sign

    def _undo(self, o: int, tasks: list[tuple[int, tuple[int, ...]]]) -> None:
        groups = [q for q in self.p.groups_of(o) for _ in range(int(self.p.group_count[q]))]
        for q, task in zip(groups, tasks, strict=False):
            self._change(q, task, +1)
