"""The index sets of the joint program: who may sit where, and next to whom.

A **kind** is what the slowdown table tells apart of one job on a device: its options with one
workload and one number of workers (with throughput coupling, one option). A **site** is a set of
devices that the same groups may use: what holds for one of its devices holds for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elastico_opt.program import NEVER, Program
from elastico_opt.program.arrays import Bools, Ints


@dataclass(frozen=True)
class Site:
    """Devices that the same groups may use.

    Attributes
    ----------
    device_class : int
    devices : tuple of int
    groups : tuple of int
        Groups of which one worker may sit on such a device.
    residents : int
        Most residents one device can hold, by rule, by capacity and by number of jobs.
    kinds : dict
        Groups by kind, in the order of the jobs.
    pairs : tuple of (int, int)
        Kinds of two jobs that may share a device; empty when sharing has no consequence here.
    strangers : tuple of (int, int)
        Kinds of two jobs whose slowdowns forbid sharing.
    """

    device_class: int
    devices: tuple[int, ...]
    groups: tuple[int, ...]
    residents: int
    kinds: dict[int, tuple[int, ...]]
    pairs: tuple[tuple[int, int], ...]
    strangers: tuple[tuple[int, int], ...]

    @property
    def coupled(self) -> bool:
        """Whether it matters who shares a device here."""
        return bool(self.pairs or self.strangers)


class Places:
    """The index sets of one program; every attribute is computed once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        p = program
        self.group_job: Ints = p.option_job[p.group_option]
        self.on_node: Bools = (p.group_gpus != 1) | p.group_host.any(axis=1)
        key = np.arange(p.n_options) if p.throughput_coupling else p.option_workload
        rows = np.column_stack([p.option_job, key, p.option_workers])
        kinds, option_kind = np.unique(rows, axis=0, return_inverse=True)
        self.option_kind: Ints = option_kind.reshape(-1)
        self.kind_job: Ints = kinds[:, 0]
        self.kind_workers: Ints = kinds[:, 2]
        first = np.zeros(len(kinds), dtype=np.int64)
        first[self.option_kind[::-1]] = np.arange(p.n_options)[::-1]
        self.kind_option: Ints = first  # its first option stands for a kind

    # ---- where -------------------------------------------------------------------------

    @cached_property
    def may_use(self) -> Bools:
        """(Q, D): whether a worker of the group may sit on the device."""
        p = self.program
        allowed = np.zeros((p.n_jobs, p.n_devices), dtype=bool)
        for j in range(p.n_jobs):
            allowed[j, p.allowed_devices(j)] = True
        fits = (p.group_demand[:, None, :] <= p.class_capacity[None, :, :]).all(axis=2)
        fits &= p.class_residents[None, :] >= 1
        fits &= p.option_type[p.group_option][:, None] == p.class_type[None, :]
        fits &= (p.group_gpus >= 1)[:, None]
        can = fits[:, p.device_class] & allowed[self.group_job]
        for q in np.flatnonzero(self.on_node & (p.group_gpus >= 1)):
            can[q] &= (self._room(int(q), can[q]) > 0)[p.device_node]
        return can

    def _room(self, group: int, can: Bools) -> Ints:
        """Return how many tasks of a group each node could hold were it empty."""
        p = self.program
        gpus = int(p.group_gpus[group])
        if gpus:
            room = np.bincount(p.device_node[can], minlength=p.n_nodes) // gpus
        else:
            room = np.zeros(p.n_nodes, dtype=np.int64)
            room[p.allowed_cpu_nodes(int(self.group_job[group]))] = p.group_count[group]
        for r in np.flatnonzero(p.group_host[group]):
            room = np.minimum(room, p.node_host[:, r] // p.group_host[group, r])
        return np.asarray(np.minimum(room, p.group_count[group]), dtype=np.int64)

    @cached_property
    def node_room(self) -> dict[int, Ints]:
        """Per group that is placed by node: the most tasks each node could hold."""
        return {int(q): self._room(int(q), self.may_use[q]) for q in np.flatnonzero(self.on_node)}

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The devices that somebody may use, alike ones together."""
        alike: dict[tuple[int, bytes], list[int]] = {}
        for g in range(self.program.n_devices):
            key = (int(self.program.device_class[g]), self.may_use[:, g].tobytes())
            alike.setdefault(key, []).append(g)
        return tuple(
            self._site(device_class, devices)
            for (device_class, _), devices in alike.items()
            if self.may_use[:, devices[0]].any()
        )

    def _site(self, device_class: int, devices: list[int]) -> Site:
        groups = np.flatnonzero(self.may_use[:, devices[0]])
        kinds: dict[int, list[int]] = {}
        for q in groups.tolist():
            kinds.setdefault(int(self.option_kind[self.program.group_option[q]]), []).append(q)
        residents = self._most_residents(groups, device_class)
        pairs, strangers = [], []
        if residents >= 2 and self._matters(list(kinds), residents):
            for a, b in self._two_jobs(list(kinds)):
                if not self.compatible(a, b):
                    strangers.append((a, b))
                elif self._fit_together(kinds[a], kinds[b], device_class):
                    pairs.append((a, b))
        return Site(
            device_class=device_class, devices=tuple(devices), groups=tuple(groups.tolist()),
            residents=residents, kinds={a: tuple(kinds[a]) for a in sorted(kinds)},
            pairs=tuple(pairs), strangers=tuple(strangers),
        )  # fmt: skip

    def _most_residents(self, groups: Ints, device_class: int) -> int:
        """Bound the residents of one device: each job's least demand, smallest first."""
        p = self.program
        jobs = np.unique(self.group_job[groups])
        most = min(len(jobs), int(p.class_residents[device_class]))
        for r in range(len(p.device_resources)):
            least = np.full(p.n_jobs, np.iinfo(np.int64).max)
            np.minimum.at(least, self.group_job[groups], p.group_demand[groups, r])
            total, count = 0, 0
            for demand in np.sort(least[jobs]).tolist():
                total += demand
                count += total <= int(p.class_capacity[device_class, r])
            most = min(most, count)
        return most

    def nonzeros(self) -> int:
        """Estimate the nonzeros of the joint form without stating it."""
        p = self.program
        if self.may_use_size() > 10**8:
            return self.may_use_size()
        total = int(sum((room > 0).sum() for room in self.node_room.values())) * 3
        columns, devices = np.unique(
            np.vstack([p.device_class, self.may_use]), axis=1, return_counts=True
        )
        for column, count in zip(columns.T, devices.tolist(), strict=True):
            groups = np.flatnonzero(column[1:])
            jobs = len(np.unique(self.group_job[groups]))
            kinds = np.unique(self.option_kind[p.group_option[groups]])
            each = len(groups) * (len(p.device_resources) + 4 + jobs // 2)
            most = self._most_residents(groups, int(column[0]))
            if most >= 2 and self._matters(kinds.tolist(), most):
                each += len(kinds) ** 2 // 2 * (3 + (0 if most == 2 else 4 + most))
            total += each * count
        return total

    def may_use_size(self) -> int:
        """Return the number of (group, device) combinations."""
        return len(self.group_job) * self.program.n_devices

    # ---- next to whom ------------------------------------------------------------------

    def excess(self, kind: int, other: int) -> int:
        """Return the excess, in slowdown quanta, that a kind suffers beside another."""
        load = self.program.option_workload
        return int(self.program.excess[load[self.kind_option[kind]], load[self.kind_option[other]]])

    def cost(self, kind: int, other: int) -> float:
        """Return the value that a kind loses beside another (never the NEVER of the table)."""
        return self.program.loss(int(self.kind_option[kind]), self.excess(kind, other))

    def limit(self, kind: int) -> int:
        """Return the largest excess, in quanta, that the job of a kind tolerates."""
        return int(self.program.job_limit[self.kind_job[kind]])

    def compatible(self, kind: int, other: int) -> bool:
        """Whether two kinds may share a device as a pair."""
        return self.program.compatible(int(self.kind_option[kind]), int(self.kind_option[other]))

    def _two_jobs(self, kinds: list[int]) -> Iterator[tuple[int, int]]:
        ordered = sorted(kinds)
        for at, a in enumerate(ordered):
            for b in ordered[at + 1 :]:
                if self.kind_job[a] != self.kind_job[b]:
                    yield a, b

    def _matters(self, kinds: list[int], residents: int) -> bool:
        """Whether who shares a device can forbid or cost anything."""
        p = self.program
        options = self.kind_option[sorted(kinds)]
        jobs, load = p.option_job[options], p.option_workload[options]
        table = p.excess[np.ix_(load, load)]
        others = jobs[:, None] != jobs[None, :]
        over = (table == NEVER) | (table > p.job_limit[jobs][:, None])
        priced = p.option_reward > 0
        if not p.throughput_coupling:
            priced = p.penalty * p.job_weight[p.option_job] > 0
        costs = (table > 0) & priced[options][:, None]
        sums = (table > 0) & (table * (residents - 1.0) > p.job_limit[jobs][:, None])
        return bool((others & (over | costs | sums)).any())

    def _fit_together(self, mine: list[int], theirs: list[int], device_class: int) -> bool:
        p = self.program
        capacity = p.class_capacity[device_class]
        return any(
            (p.group_demand[q] + p.group_demand[r] <= capacity).all()
            and not p.group_exclusive[q]
            and not p.group_exclusive[r]
            for q in mine
            for r in theirs
        )
