"""Symmetry removed before anything is solved: equal jobs, interchangeable devices, alike nodes."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from elastico_opt.formulations.layout import node_coupled
from elastico_opt.program import Program
from elastico_opt.program.arrays import Ints


class Grouping:
    """Job classes, node pools, device pools and sites of a program; see `layout`.

    Attributes
    ----------
    class_jobs : tuple of tuple of int
    node_pool : (N,) ints, and pool_nodes
    device_pool : (D,) ints, pool_class, pool_node_pool and pool_devices
    site_device : (S,) ints, and site_of by device
    """

    def __init__(self, program: Program, split: frozenset[int]) -> None:
        """Group everything; nodes in `split` get pools of their own."""
        self.p = program
        self.split = split
        self.class_jobs = self._classes()
        self.node_pool, self.pool_nodes = self._node_pools()
        self._device_pools()
        self._sites()

    def _classes(self) -> tuple[tuple[int, ...], ...]:
        """Group jobs that no rule of the program can tell apart."""
        groups: dict[Any, list[int]] = defaultdict(list)
        for j in range(self.p.n_jobs):
            groups[self._job_signature(j)].append(j)
        return tuple(tuple(jobs) for jobs in groups.values())

    def _job_signature(self, j: int) -> Any:
        p = self.p
        if self._tied(j) or self._shares_with_itself(j):
            return ("alone", j)
        options = slice(p.option_start[j], p.option_start[j + 1])
        groups = slice(p.group_start[p.option_start[j]], p.group_start[p.option_start[j + 1]])
        switches = tuple(p.switches(o) for o in p.options_of(j)) if p.homes[j] else ()
        return (
            p.job_weight[j],
            p.job_tier[j],
            p.job_must[j],
            p.job_limit[j],
            p.job_eligibility[j],
            p.homes[j] is not None,
            switches,
            p.option_type[options].tobytes(),
            p.option_reward[options].tobytes(),
            p.option_workload[options].tobytes(),
            np.diff(p.group_start[p.option_start[j] : p.option_start[j + 1] + 1]).tobytes(),
            p.group_count[groups].tobytes(),
            p.group_gpus[groups].tobytes(),
            p.group_demand[groups].tobytes(),
            p.group_host[groups].tobytes(),
            p.group_exclusive[groups].tobytes(),
        )

    def _tied(self, j: int) -> bool:
        """Whether it matters where job j is now: a move costs, is barred, or a cordon binds."""
        home = self.p.homes[j]
        if home is None:
            return False
        if self.p.change_costs(j)[1] > 0 or not self.p.job_movable[j]:
            return True
        nodes = [*self.p.device_node[list(home.devices)], *home.cpu_nodes]
        return not self.p.node_schedulable[nodes].all()

    def _shares_with_itself(self, j: int) -> bool:
        """Whether two gangs equal to j could meet on one device.

        Such gangs are not grouped: handing the workers of one device to distinct gangs could
        fail, and then the grouped program would only bound.
        """
        p = self.p
        for o in p.options_of(j):
            if p.option_workers[o] < 2 or not p.compatible(o, o):
                continue
            shared = [q for q in p.groups_of(o) if p.group_gpus[q] and not p.group_exclusive[q]]
            for one, other in combinations_with_replacement(shared, 2):
                demand = p.group_demand[one] + p.group_demand[other]
                for k, capacity in enumerate(p.class_capacity):
                    if (
                        p.class_residents[k] >= 2
                        and p.class_type[k] == p.option_type[o]
                        and (demand <= capacity).all()
                    ):
                        return True
        return False

    def _node_pools(self) -> tuple[Ints, tuple[tuple[int, ...], ...]]:
        p = self.p
        coupled = node_coupled(p)
        groups: dict[Any, list[int]] = defaultdict(list)
        for n in range(p.n_nodes):
            key: tuple[Any, ...] = (p.eligibility[:, n].tobytes(), bool(p.node_schedulable[n]))
            if coupled:
                shape = np.sort(p.device_class[p.node_devices[n]]).tobytes()
                key = (*key, p.node_host[n].tobytes(), shape)
            groups[(n,) if n in self.split else key].append(n)
        pool = np.zeros(p.n_nodes, dtype=np.int64)
        for i, nodes in enumerate(groups.values()):
            pool[nodes] = i
        return pool, tuple(tuple(nodes) for nodes in groups.values())

    def _device_pools(self) -> None:
        p = self.p
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for g in range(p.n_devices):
            groups[int(self.node_pool[p.device_node[g]]), int(p.device_class[g])].append(g)
        self.pool_devices = tuple(tuple(devices) for devices in groups.values())
        self.pool_node_pool = np.array([key[0] for key in groups], dtype=np.int64)
        self.pool_class = np.array([key[1] for key in groups], dtype=np.int64)
        self.device_pool = np.zeros(p.n_devices, dtype=np.int64)
        for k, devices in enumerate(self.pool_devices):
            self.device_pool[list(devices)] = k

    def _sites(self) -> None:
        homes = {g for j in range(self.p.n_jobs) if self._tied(j) for g in self.p.homes[j].devices}  # type: ignore[union-attr]
        self.site_device = np.array(sorted(homes), dtype=np.int64)
        self.site_of = {int(g): s for s, g in enumerate(self.site_device)}
