"""From a snapshot to the arrays of the program, each coefficient derived once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from elastico_opt.collector import paused_collector
from elastico_opt.errors import InputError, UnsupportedError
from elastico_opt.plan import current_assignment, device_ids, eligible
from elastico_opt.program.arrays import UNLIMITED, Home, Program
from elastico_opt.program.slowdowns import slowdown_arrays
from elastico_opt.snapshot import Job, Profile, Snapshot, Task
from elastico_opt.units import common_quantum

#: Integers up to here are exact in the floating-point arithmetic of linear solvers.
_EXACT = 2**53
_ZERO = Fraction(0)

#: Per job and profile.
_Tasks = list[list[tuple[Task, ...]]]


def compile_program(snapshot: Snapshot) -> Program:
    """Compile a snapshot into integer demands, capacities, rewards and slowdowns.

    Raises
    ------
    InputError
        When the quantities of one resource, or the slowdowns, span more than 53 bits.
    UnsupportedError
        When the snapshot names an interference model that is not resolved to a table.
    """
    if snapshot.interference is not None and snapshot.interference.model is not None:
        raise UnsupportedError("interference.model: resolve it to a table first")
    with paused_collector():
        return _compile(snapshot)


def _compile(snapshot: Snapshot) -> Program:
    tasks = [[profile.task_list() for profile in job.profiles] for job in snapshot.jobs]
    demanded = _Quanta(tasks)
    devices = _devices(snapshot, demanded)
    homes, warnings = _homes(snapshot)
    options = _options(snapshot, tasks, demanded, devices["gpu_types"], homes)
    policy = snapshot.policy
    return Program(
        snapshot=snapshot,
        device_resources=demanded.device_names,
        host_resources=demanded.host_names,
        warnings=tuple(warnings),
        homes=homes,
        **devices,
        **_jobs(snapshot),
        **options,
        penalty=float(policy.interference_penalty),
        throughput_coupling=policy.coupling == "throughput",
        switch_cost=float(policy.switch_cost),
        migration_cost=float(policy.migration_cost),
        eviction_cost=float(policy.eviction_cost),
    )


class _Quanta:
    """The resources that some task demands, each with its quantum."""

    def __init__(self, tasks: _Tasks) -> None:
        device: dict[str, list[Fraction]] = {}
        host: dict[str, list[Fraction]] = {}
        for task in chain.from_iterable(chain.from_iterable(tasks)):
            for demands, found in ((task.gpu if task.gpus else {}, device), (task.host, host)):
                for resource, amount in demands.items():
                    if amount:
                        found.setdefault(resource, []).append(amount)
        self.device_names, self.host_names = tuple(sorted(device)), tuple(sorted(host))
        self._device = [(r, common_quantum(device[r])) for r in self.device_names]
        self._host = [(r, common_quantum(host[r])) for r in self.host_names]

    def device_row(self, amounts: Mapping[str, Fraction]) -> list[int]:
        return _row(amounts, self._device)

    def host_row(self, amounts: Mapping[str, Fraction]) -> list[int]:
        return _row(amounts, self._host)

    def check(self, rows: Any, names: Sequence[str]) -> None:
        for name, largest in zip(names, np.max(rows, axis=0, initial=0), strict=True):
            if largest > _EXACT:
                raise InputError(
                    f"resource '{name}': its demands need more than 53 bits in one unit: "
                    "write them with fewer digits"
                )


def _row(amounts: Mapping[str, Fraction], quanta: Sequence[tuple[str, Fraction]]) -> list[int]:
    """Whole quanta per resource; exact for demands, rounded down for capacities."""
    return [min(_whole(amounts.get(r, _ZERO), quantum), 2**62) for r, quantum in quanta]


def _whole(amount: Fraction, quantum: Fraction) -> int:
    """Return ``amount // quantum``, four times as fast as fractions do it."""
    return (amount.numerator * quantum.denominator) // (amount.denominator * quantum.numerator)


def _devices(snapshot: Snapshot, quanta: _Quanta) -> dict[str, Any]:
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
        "class_capacity": _table([key[1] for key in classes], len(quanta.device_names)),
        "class_residents": _ints(key[2] for key in classes),
        "node_host": _table(
            [quanta.host_row(n.host) for n in snapshot.nodes], len(quanta.host_names)
        ),
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


def _options(
    snapshot: Snapshot,
    all_tasks: _Tasks,
    quanta: _Quanta,
    gpu_types: Sequence[str],
    homes: Sequence[Home | None],
) -> dict[str, Any]:
    option_rows: list[tuple[int, int, int, float, int]] = []
    chosen: list[tuple[Job, Profile]] = []
    option_start, group_start = [0], [0]
    groups: list[tuple[int, int, int, bool]] = []
    demand: list[list[int]] = []
    host: list[list[int]] = []
    normalised = snapshot.policy.objective == "normalised"
    for j, job in enumerate(snapshot.jobs):
        top = _top_rate(job) if normalised else Fraction(1)
        for c, profile in enumerate(job.profiles):
            tasks = all_tasks[j][c]
            if not job.movable and not _can_stay(homes[j], tasks):
                continue
            workers = sum(task.count * task.gpus for task in tasks)
            rows = [
                (quanta.device_row(task.gpu if task.gpus else {}), quanta.host_row(task.host))
                for task in tasks
            ]
            for k in range(len(gpu_types)) if workers else (-1,):
                rate = profile.rate(gpu_types[k] if workers else None)
                if rate == 0 or (job.min_throughput is not None and rate < job.min_throughput):
                    continue
                option = len(option_rows)
                option_rows.append((j, c, k, _reward(job.weight, rate, top), workers))
                chosen.append((job, profile))
                for task, (demand_row, host_row) in zip(tasks, rows, strict=True):
                    groups.append((option, task.count, task.gpus, task.exclusive))
                    demand.append(demand_row)
                    host.append(host_row)
                group_start.append(len(groups))
        option_start.append(len(option_rows))
    for table, names in ((demand, quanta.device_names), (host, quanta.host_names)):
        if table and names:
            quanta.check(table, names)
    job, profile_index, gpu_type, reward, workers_column = _columns(option_rows, 5)
    group_option, count, gpus, exclusive = _columns(groups, 4)
    return {
        "option_job": _ints(job),
        "option_profile": _ints(profile_index),
        "option_type": _ints(gpu_type),
        "option_reward": np.array(reward, dtype=float),
        "option_workers": _ints(workers_column),
        "option_start": _ints(option_start),
        "group_option": _ints(group_option),
        "group_count": _ints(count),
        "group_gpus": _ints(gpus),
        "group_exclusive": np.array(exclusive, dtype=bool),
        "group_demand": _table(demand, len(quanta.device_names)),
        "group_host": _table(host, len(quanta.host_names)),
        "group_start": _ints(group_start),
        **slowdown_arrays(snapshot, chosen),
    }


def _reward(weight: Fraction, rate: Fraction, top: Fraction) -> float:
    """Return ``weight · rate / top``, exact until it is rounded once."""
    above = weight.numerator * rate.numerator * top.denominator
    return above / (weight.denominator * rate.denominator * top.numerator)


def _top_rate(job: Job) -> Fraction:
    """Return the job's highest throughput over profiles and GPU types, which counts as 1."""
    rates = [Fraction(0)]
    for profile in job.profiles:
        per_type = profile.throughput
        rates += per_type.values() if isinstance(per_type, dict) else [per_type]
    return max(rates) or Fraction(1)


def _can_stay(home: Home | None, tasks: Sequence[Task]) -> bool:
    """Whether a profile's tasks could sit where an immovable running job is."""
    return home is None or (
        home.intact
        and sum(task.count * task.gpus for task in tasks) == len(home.devices)
        and sum(task.count for task in tasks if not task.gpus) == len(home.cpu_nodes)
    )


def _homes(snapshot: Snapshot) -> tuple[tuple[Home | None, ...], list[str]]:
    nodes = {node.name: node for node in snapshot.nodes}
    node_index = {node.name: n for n, node in enumerate(snapshot.nodes)}
    device_index: dict[tuple[str, str], int] = {}
    for node in snapshot.nodes:
        for gpu in device_ids(node):
            device_index[node.name, gpu] = len(device_index)
    homes: list[Home | None] = []
    warnings = []
    for job in snapshot.jobs:
        if job.current is None:
            homes.append(None)
            continue
        held = current_assignment(job.current, nodes)
        devices, cpu_nodes = held.places()
        gone = [d for d in devices if d not in device_index] + [
            (n, "") for n in cpu_nodes if n not in node_index
        ]
        if gone:
            place = f"GPU '{gone[0][1]}' of " if gone[0][1] else ""
            warnings.append(
                f"job '{job.name}' runs on {place}node '{gone[0][0]}', which is gone: it must move"
            )
        names = [profile.name for profile in job.profiles]
        if held.profile not in names:
            warnings.append(
                f"job '{job.name}' runs profile '{held.profile}', which it no longer has"
            )
        homes.append(
            Home(
                profile=names.index(held.profile) if held.profile in names else -1,
                devices=tuple(sorted(device_index[d] for d in devices if d in device_index)),
                cpu_nodes=tuple(sorted(node_index[n] for n in cpu_nodes if n in node_index)),
                intact=not gone,
            )
        )
    return tuple(homes), warnings


def _ints(values: Iterable[Any]) -> Any:
    return np.array(list(values), dtype=np.int64)


def _table(rows: Sequence[Sequence[int]], width: int) -> Any:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[Any]:
    return (
        [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
    )
