"""What is free: devices and nodes as exact integer arrays, under a plan and empty.

Index sets: devices g (D), nodes n (N), device resources r (R), host resources h (H). Every amount
is a whole number of one quantum per resource, which divides all demands and all capacities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from elastico_opt.reasons.slowdowns import Slowdowns
from elastico_opt.units import common_quantum

if TYPE_CHECKING:
    from elastico_opt.plan import Plan
    from elastico_opt.snapshot import Job, Profile, Snapshot, Task

#: Sums of integers below this stay within 64 bits.
_SAFE = 2**62


@dataclass(frozen=True, slots=True)
class State:
    """What is free and who is there.

    Attributes
    ----------
    free : (D, R) integers
        Free amount per device and resource.
    host : (N, H) integers
    residents : (D,) integers
        Jobs on each device.
    locked : (D,) bool
        Devices that an exclusive task holds.
    taken : (D,) bool
        Devices that tasks of the job in question hold already.
    """

    free: Any
    host: Any
    residents: Any
    locked: Any
    taken: Any

    def with_tasks(self, devices: Sequence[int], count: Any, host: Any) -> State:
        """Return the state after a job's own tasks took devices, and host amounts.

        Parameters
        ----------
        count : (N,) integers
            Tasks on each node, each taking `host`, (H,).
        """
        taken = self.taken.copy()
        taken[list(devices)] = True
        nodes = np.flatnonzero(count)
        left = self.host.copy()
        left[nodes] -= count[nodes, None] * host[None, :]
        return replace(self, taken=taken, host=left)


class Cluster:
    """The snapshot's devices and nodes, with two states: `now` (under the plan) and `empty`."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.nodes = snapshot.nodes
        self.jobs = {job.name: job for job in snapshot.jobs}
        self._tasks = {id(p): p.task_list() for job in snapshot.jobs for p in job.profiles}
        tasks = [task for listed in self._tasks.values() for task in listed]
        self.device_resources = _Resources(
            (task.gpu for task in tasks if task.gpus), _capacities(snapshot).values()
        )
        self.host_resources = _Resources(
            (task.host for task in tasks), (node.host for node in snapshot.nodes)
        )
        self._read_devices()
        self._read_plan(plan)
        self.slowdowns = Slowdowns(snapshot, self._placed, self.n_devices)

    @property
    def n_devices(self) -> int:
        """Return D."""
        return len(self.device_node)

    @property
    def n_nodes(self) -> int:
        """Return N."""
        return len(self.nodes)

    def tasks(self, profile: Profile) -> tuple[Task, ...]:
        """Return a profile's tasks; the profile builds them anew on each call."""
        return self._tasks[id(profile)]

    def _read_devices(self) -> None:
        snapshot, types = self.snapshot, list(self.snapshot.gpu_types)
        self.types = types
        names, node_of, type_of, rows, slots = [], [], [], [], []
        by_key: dict[Any, list[int]] = {}
        for n, node in enumerate(self.nodes):
            for gpu in node.devices():
                name = gpu.type or node.gpu_type or ""
                gpu_type = snapshot.gpu_types[name]
                key = (name, id(gpu.capacity) if gpu.capacity else None)
                if key not in by_key:
                    capacity = {**gpu_type.capacity, **(gpu.capacity or {})}
                    by_key[key] = self.device_resources.row(capacity)
                names.append(gpu.id)
                node_of.append(n)
                type_of.append(types.index(name))
                rows.append(by_key[key])
                limit = gpu_type.max_residents
                slots.append(_SAFE if limit is None else limit)
        self.device_id = names
        self.device_node = np.array(node_of, dtype=np.int64)
        self.device_type = np.array(type_of, dtype=np.int64)
        self.node_start = np.searchsorted(self.device_node, np.arange(len(self.nodes) + 1))
        self.slots = np.array(slots, dtype=np.int64)
        empty = self.device_resources.table(rows)
        host = self.host_resources.table([self.host_resources.row(n.host) for n in self.nodes])
        free, zero = np.zeros(len(names), dtype=bool), np.zeros(len(names), dtype=np.int64)
        self.empty = State(empty, host, zero, free, free)
        self.index = {
            (self.nodes[n].name, gpu): g
            for g, (n, gpu) in enumerate(zip(node_of, names, strict=True))
        }
        self.node_index = {node.name: n for n, node in enumerate(self.nodes)}

    def _read_plan(self, plan: Plan) -> None:
        free, host = self.empty.free.copy(), self.empty.host.copy()
        residents, locked = self.empty.residents.copy(), self.empty.locked.copy()
        self._placed: list[tuple[int, Job, Profile]] = []
        self._names: dict[int, list[str]] = {}
        self.holders: dict[int, list[str]] = {}
        for job in self.snapshot.jobs:
            assignment = plan.get(job.name)
            if assignment is None:
                continue
            profile = next(p for p in job.profiles if p.name == assignment.profile)
            tasks = [task for task in self.tasks(profile) for _ in range(task.count)]
            for task, place in zip(tasks, assignment.tasks, strict=True):
                n = self.node_index[place.node]
                host[n] -= np.array(self.host_resources.row(task.host), dtype=host.dtype)
                self.holders.setdefault(n, []).append(job.name)
                row = np.array(self.device_resources.row(task.gpu), dtype=free.dtype)
                for gpu in place.gpus:
                    g = self.index[place.node, gpu]
                    free[g] -= row
                    residents[g] += 1
                    locked[g] |= task.exclusive
                    self._placed.append((g, job, profile))
                    self._names.setdefault(g, []).append(job.name)
        self.now = State(free, host, residents, locked, self.empty.taken)

    def names_on(self, device: tuple[str, str]) -> list[str]:
        """Return the names of the jobs on a device, given by node and id."""
        return self._names.get(self.index[device], [])


class _Resources:
    """The resources that some task demands, each with its quantum, and rows in quanta."""

    def __init__(
        self,
        demands: Iterable[Mapping[str, Fraction]],
        capacities: Iterable[Mapping[str, Fraction]],
    ) -> None:
        found: dict[str, set[Fraction]] = {}
        for amounts in demands:
            for resource, amount in amounts.items():
                if amount:
                    found.setdefault(resource, set()).add(amount)
        largest = Fraction(1)
        for amounts in capacities:
            for resource, amount in amounts.items():
                if resource in found:
                    found[resource].add(amount)
        self.names = tuple(sorted(found))
        self.quantum = [common_quantum(found[name]) for name in self.names]
        for name, quantum in zip(self.names, self.quantum, strict=True):
            largest = max(largest, max(found[name]) / quantum)
        #: 64-bit integers where no sum can overflow, Python's own otherwise.
        self.dtype: Any = np.int64 if largest < 2**44 else object

    def row(self, amounts: Mapping[str, Fraction]) -> list[int]:
        return [
            int(amounts.get(name, 0) / quantum)
            for name, quantum in zip(self.names, self.quantum, strict=True)
        ]

    def table(self, rows: Sequence[Sequence[int]]) -> Any:
        return np.array(rows, dtype=self.dtype).reshape(len(rows), len(self.names))

    def amount(self, resource: int, quanta: Any) -> Fraction:
        """Return a number of quanta as a quantity."""
        return int(quanta) * self.quantum[resource]


def _capacities(snapshot: Snapshot) -> dict[Any, Mapping[str, Fraction]]:
    found: dict[Any, Mapping[str, Fraction]] = {
        name: gpu_type.capacity for name, gpu_type in snapshot.gpu_types.items()
    }
    for node in snapshot.nodes:
        if not isinstance(node.gpus, int):
            for gpu in node.gpus:
                if gpu.capacity:
                    found[id(gpu.capacity)] = gpu.capacity
    return found
