"""The options of one job: its profiles on the GPU types where they run, and their task groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from elastico_opt.program.arrays import Bools, Floats, Home, Ints
from elastico_opt.program.quanta import Quanta
from elastico_opt.snapshot import Job, Profile, Task


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Rows that a job adds to the arrays of the program; options are counted from 0."""

    table: Ints  # (O, 3) profile, type, workers
    reward: Floats  # (O,)
    keys: tuple[str, ...]  # (O,) key in the interference table
    group: Ints  # (Q, 3) option, count, gpus
    exclusive: Bools  # (Q,)
    demand: Ints  # (Q, R)
    host: Ints  # (Q, H)
    groups_after: Ints  # (O,) groups up to and including each option


def job_options(
    job: Job, quanta: Quanta, gpu_types: Sequence[str], normalised: bool, home: Home | None
) -> JobOptions:
    """Return every (profile, GPU type) that can run the job and meets its floor."""
    top = _top_rate(job) if normalised else Fraction(1)
    table: list[tuple[int, int, int]] = []
    reward, keys, groups_after = [], [], []
    group: list[tuple[int, int, int]] = []
    exclusive: list[bool] = []
    demand: list[list[int]] = []
    host: list[list[int]] = []
    for c, profile in enumerate(job.profiles):
        tasks = profile.task_list()
        if not job.movable and not _can_stay(home, tasks):
            continue
        rows = [
            (quanta.device_row(task.gpu if task.gpus else {}), quanta.host_row(task.host))
            for task in tasks
        ]
        workers = profile.workers()
        for k, rate in _rates(job, profile, gpu_types, workers):
            for task, (on_device, on_node) in zip(tasks, rows, strict=True):
                group.append((len(table), task.count, task.gpus))
                exclusive.append(task.exclusive)
                demand.append(on_device)
                host.append(on_node)
            table.append((c, k, workers))
            reward.append(_reward(job.weight, rate, top))
            keys.append(_key(job, profile))
            groups_after.append(len(group))
    return JobOptions(
        table=np.array(table, dtype=np.int64).reshape(-1, 3),
        reward=np.array(reward, dtype=float),
        keys=tuple(keys),
        group=np.array(group, dtype=np.int64).reshape(-1, 3),
        exclusive=np.array(exclusive, dtype=bool),
        demand=np.array(demand, dtype=np.int64).reshape(len(group), len(quanta.device)),
        host=np.array(host, dtype=np.int64).reshape(len(group), len(quanta.host)),
        groups_after=np.array(groups_after, dtype=np.int64),
    )


def _rates(
    job: Job, profile: Profile, gpu_types: Sequence[str], workers: int
) -> Iterator[tuple[int, Fraction]]:
    """Yield the GPU types (-1: none is needed) where a profile runs, with its throughput."""
    for k in range(len(gpu_types)) if workers else (-1,):
        rate = profile.rate(gpu_types[k] if workers else None)
        if rate != 0 and (job.min_throughput is None or rate >= job.min_throughput):
            yield k, rate


def _key(job: Job, profile: Profile) -> str:
    return f"{job.name}/{profile.name}" if profile.workload is None else profile.workload


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
