"""From a snapshot to the arrays of the program, each coefficient derived once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from elastico_opt.collector import paused_collector
from elastico_opt.errors import UnsupportedError
from elastico_opt.plan import eligible
from elastico_opt.program.arrays import UNLIMITED, Home, Program
from elastico_opt.program.homes import Map, home_of
from elastico_opt.program.options import JobOptions, job_options
from elastico_opt.program.quanta import Quanta, Quantities, demanded, refuse_inexact
from elastico_opt.program.slowdowns import Slowdowns, slowdown_limit
from elastico_opt.snapshot import GpuType, Job, Node, Snapshot


def compile_program(snapshot: Snapshot) -> Program:
    """Compile a snapshot into integer demands, capacities, rewards and slowdowns.

    Raises
    ------
    InputError
        When the quantities of one resource, or the slowdowns, span more than 53 bits.
    UnsupportedError
        When the snapshot names an interference model that is not resolved to a table.
    """
    return Compiler().compile(snapshot)


class Compiler:
    """Compiles one snapshot after the other and keeps what did not change.

    A part counts as unchanged when it is the same object: the profiles of a job, a `Node`, the
    `Interference`. They are immutable, so a scheduler that passes on the jobs it has not touched
    pays for the others only.
    """

    def __init__(self) -> None:
        self._demands: dict[int, tuple[Job, tuple[Quantities, Quantities]]] = {}
        self._options: dict[Hashable, tuple[Job, JobOptions]] = {}
        self._known_homes: dict[int, tuple[Job, tuple[Home, list[str]]]] = {}
        self._nodes: tuple[Node, ...] = ()
        self._map = Map.of(())
        self._quanta = Quanta(())
        self._devices: dict[str, Any] = {}
        self._gpu_types: dict[str, GpuType] = {}
        self._normalised = True
        self._slowdowns: Slowdowns | None = None

    def compile(self, snapshot: Snapshot) -> Program:
        """Compile a snapshot; see `compile_program`."""
        if snapshot.interference is not None and snapshot.interference.model is not None:
            raise UnsupportedError("interference.model: resolve it to a table first")
        with paused_collector():
            return self._compile(snapshot)

    def _compile(self, snapshot: Snapshot) -> Program:
        self._look(snapshot)
        homes, warnings = self._homes(snapshot)
        parts = self._job_options(snapshot, homes)
        slowdowns = self._slowdown_table(snapshot, parts)
        policy = snapshot.policy
        quantum = slowdowns.quantum
        return Program(
            snapshot=snapshot,
            device_resources=self._quanta.device_names,
            host_resources=self._quanta.host_names,
            warnings=tuple(warnings),
            missing_pairs=slowdowns.missing([part.keys for part in parts]),
            homes=homes,
            **self._devices,
            **_jobs(snapshot),
            **_stacked(parts, self._quanta),
            option_workload=_ints(w for part in parts for w in slowdowns.workloads(part.keys)),
            excess=slowdowns.excess,
            excess_unit=float(quantum),
            job_limit=_ints(slowdown_limit(snapshot, job, quantum) for job in snapshot.jobs),
            penalty=float(policy.interference_penalty),
            throughput_coupling=policy.coupling == "throughput",
            switch_cost=float(policy.switch_cost),
            migration_cost=float(policy.migration_cost),
            eviction_cost=float(policy.eviction_cost),
        )

    def _look(self, snapshot: Snapshot) -> None:
        """Find the quanta and the devices; forget what was compiled under others."""
        found = {}
        for job in snapshot.jobs:
            kept = self._demands.get(id(job.profiles))
            tasks = (task for profile in job.profiles for task in profile.task_list())
            found[id(job.profiles)] = kept or (job, demanded(tasks))
        self._demands = found
        quanta = Quanta([demands for _, demands in found.values()])
        normalised = snapshot.policy.objective == "normalised"
        same_nodes = _same(snapshot.nodes, self._nodes)
        same_types = quanta == self._quanta and snapshot.gpu_types == self._gpu_types
        places = self._map if same_nodes else Map.of(snapshot.nodes)
        devices = self._devices
        if not (same_nodes and same_types and devices):
            devices = _devices(snapshot, quanta)
        # All or nothing: an interrupt in between must leave what belongs together.
        if not (same_nodes and same_types and normalised == self._normalised):
            self._options = {}
        if not same_nodes:
            self._known_homes = {}
        self._nodes, self._map, self._devices = snapshot.nodes, places, devices
        self._quanta, self._gpu_types = quanta, dict(snapshot.gpu_types)
        self._normalised = normalised

    def _homes(self, snapshot: Snapshot) -> tuple[tuple[Home | None, ...], list[str]]:
        homes: list[Home | None] = []
        warnings: list[str] = []
        found: dict[int, tuple[Job, tuple[Home, list[str]]]] = {}
        for job in snapshot.jobs:
            if job.current is None:
                homes.append(None)
                continue
            found[id(job)] = self._known_homes.get(id(job)) or (
                job, home_of(job, job.current, self._map)
            )  # fmt: skip
            home, notes = found[id(job)][1]
            homes.append(home)
            warnings += notes
        self._known_homes = found
        return tuple(homes), warnings

    def _job_options(self, snapshot: Snapshot, homes: Sequence[Home | None]) -> list[JobOptions]:
        types = self._devices["gpu_types"]
        found: dict[Hashable, tuple[Job, JobOptions]] = {}
        parts = []
        for job, home in zip(snapshot.jobs, homes, strict=True):
            key = _options_key(job)
            kept = self._options.get(key)
            found[key] = kept or (
                job, job_options(job, self._quanta, types, self._normalised, home)
            )  # fmt: skip
            parts.append(found[key][1])
        self._options = found
        return parts

    def _slowdown_table(self, snapshot: Snapshot, parts: Sequence[JobOptions]) -> Slowdowns:
        used = {key for part in parts for key in part.keys}
        if self._slowdowns is None or not self._slowdowns.covers(snapshot.interference, used):
            self._slowdowns = Slowdowns(snapshot.interference, used)
        return self._slowdowns


def _options_key(job: Job) -> Hashable:
    """Return what a job's options depend on; whoever keeps it must keep the job as well."""
    held = None if job.movable else id(job.current)
    return job.name, id(job.profiles), job.weight, job.min_throughput, held


def _same(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _devices(snapshot: Snapshot, quanta: Quanta) -> dict[str, Any]:
    devices = [
        (n, node.gpu_type, gpu) for n, node in enumerate(snapshot.nodes) for gpu in node.devices()
    ]
    used = {gpu.type or node_type for _, node_type, gpu in devices}
    gpu_types = tuple(name for name in snapshot.gpu_types if name in used)
    type_index = {name: k for k, name in enumerate(gpu_types)}
    classes: dict[tuple[int, tuple[int, ...], int], int] = {}
    plain: dict[str, int] = {}  # class of the devices that have nothing of their own
    device_class = []
    for _, node_type, gpu in devices:
        name = gpu.type or node_type or ""
        if gpu.capacity is None and name in plain:
            device_class.append(plain[name])
            continue
        gpu_type = snapshot.gpu_types[name]
        limit = gpu_type.max_residents
        key = (
            type_index[name],
            tuple(quanta.device_row({**gpu_type.capacity, **(gpu.capacity or {})})),
            int(UNLIMITED) if limit is None else limit,
        )
        device_class.append(classes.setdefault(key, len(classes)))
        if gpu.capacity is None:
            plain[name] = device_class[-1]
    return {
        "gpu_types": gpu_types,
        "device_node": _ints(n for n, _, _ in devices),
        "device_class": _ints(device_class),
        "class_type": _ints(key[0] for key in classes),
        "class_capacity": _table([key[1] for key in classes], len(quanta.device)),
        "class_residents": _ints(key[2] for key in classes),
        "node_host": _table([quanta.host_row(n.host) for n in snapshot.nodes], len(quanta.host)),
        "node_schedulable": np.array([node.schedulable for node in snapshot.nodes], dtype=bool),
    }


def _jobs(snapshot: Snapshot) -> dict[str, Any]:
    priorities = tuple(sorted({job.priority for job in snapshot.jobs}, reverse=True))
    tier = {priority: t for t, priority in enumerate(priorities)}
    rows: dict[Any, int] = {}
    eligibility: list[list[bool]] = []
    job_eligibility = []
    for job in snapshot.jobs:
        key = (frozenset(job.node_selector.items()), job.eligible_nodes)
        if key not in rows:
            rows[key] = len(rows)
            eligibility.append([eligible(job, node) for node in snapshot.nodes])
        job_eligibility.append(rows[key])
    return {
        "job_weight": np.array([float(job.weight) for job in snapshot.jobs], dtype=float),
        "job_tier": _ints(tier[job.priority] for job in snapshot.jobs),
        "job_must": np.array([_must(job) for job in snapshot.jobs], dtype=bool),
        "job_movable": np.array(
            [job.movable or job.current is None for job in snapshot.jobs], dtype=bool
        ),
        "job_eligibility": _ints(job_eligibility),
        "eligibility": np.array(eligibility, dtype=bool).reshape(len(rows), len(snapshot.nodes)),
        "priorities": priorities,
    }


def _must(job: Job) -> bool:
    return job.must_place or (job.current is not None and not job.preemptible)


def _stacked(parts: Sequence[JobOptions], quanta: Quanta) -> dict[str, Any]:
    """Join the options of the jobs, counting options and groups through."""
    options = np.array([len(part.reward) for part in parts], dtype=np.int64)
    groups = np.array([len(part.group) for part in parts], dtype=np.int64)
    option_start = np.concatenate([[0], np.cumsum(options)])
    group_start = np.concatenate([[0], np.cumsum(groups)])[:-1]
    # An empty part in front keeps the shapes and types right where no job has options.
    parts = [_nothing(quanta), *parts]
    table = np.concatenate([part.table for part in parts])
    group = np.concatenate([part.group for part in parts])
    demand = np.concatenate([part.demand for part in parts])
    host = np.concatenate([part.host for part in parts])
    for rows, names in ((demand, quanta.device_names), (host, quanta.host_names)):
        refuse_inexact(rows, names)
    after = np.concatenate([part.groups_after for part in parts])
    return {
        "option_job": np.repeat(np.arange(len(options)), options),
        "option_profile": table[:, 0],
        "option_type": table[:, 1],
        "option_workers": table[:, 2],
        "option_reward": np.concatenate([part.reward for part in parts]),
        "option_start": option_start,
        "group_option": group[:, 0] + np.repeat(option_start[:-1], groups),
        "group_count": group[:, 1],
        "group_gpus": group[:, 2],
        "group_demand": demand,
        "group_host": host,
        "group_exclusive": np.concatenate([part.exclusive for part in parts]),
        "group_start": np.concatenate([[0], after + np.repeat(group_start, options)]),
    }


def _nothing(quanta: Quanta) -> JobOptions:
    return JobOptions(
        table=np.zeros((0, 3), np.int64), reward=np.zeros(0), keys=(),
        group=np.zeros((0, 3), np.int64), exclusive=np.zeros(0, bool),
        demand=np.zeros((0, len(quanta.device)), np.int64),
        host=np.zeros((0, len(quanta.host)), np.int64),
        groups_after=np.zeros(0, np.int64),
    )  # fmt: skip


def _ints(values: Iterable[Any]) -> Any:
    return np.array(list(values), dtype=np.int64)


def _table(rows: Sequence[Sequence[int]], width: int) -> Any:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
