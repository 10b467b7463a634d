"""The load dial: what the jobs' middle profiles demand, over what the cluster has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from elastico_opt.errors import InputError
from elastico_opt.instances.cluster import Machine
from elastico_opt.instances.workload import Draft, Shape
from elastico_opt.snapshot import Snapshot

_UNIT = 10**6


def load_of(snapshot: Snapshot) -> Fraction:
    """Return the load: total demand of the middle profiles over total capacity.

    The middle profile is ``profiles[len(profiles) // 2]``. Of the device resources, the one with
    the largest ratio counts; 0 without capacity or demand.
    """
    demand: Counter[str] = Counter()
    capacity: Counter[str] = Counter()
    for job in snapshot.jobs:
        for task in job.profiles[len(job.profiles) // 2].task_list():
            for resource, amount in task.gpu.items():
                demand[resource] += amount * task.count * task.gpus  # type: ignore[assignment]
    for node in snapshot.nodes:
        for gpu in node.devices():
            kind = snapshot.gpu_types[gpu.type or node.gpu_type or ""]
            for resource, amount in {**kind.capacity, **(gpu.capacity or {})}.items():
                capacity[resource] += amount  # type: ignore[assignment]
    return max(
        (Fraction(demand[r]) / capacity[r] for r in capacity if capacity[r]), default=Fraction(0)
    )


def scale_to_load(jobs: Sequence[Draft], machines: Sequence[Machine], load: Fraction) -> None:
    """Multiply all device demands by one factor, so that the load is as asked.

    No demand grows beyond what the largest GPU has.

    Raises
    ------
    InputError
        When the jobs are too few to cause this load.
    """
    capacity: Counter[str] = Counter()
    most: dict[str, int] = {}
    for machine in machines:
        for resource, amount in machine.kind.capacity().items():
            capacity[resource] += amount * machine.gpus
            # SM and bandwidth shares beyond 1 exist for several residents, not for one.
            most[resource] = max(most.get(resource, 0), amount if resource == "memory" else 1000)
    middle = [job.shapes[len(job.shapes) // 2] for job in jobs]

    def at(factor: int) -> Fraction:
        return max(
            Fraction(
                sum(_grown(s, r, factor, most) * s.workers() for s in middle if s.gpus), capacity[r]
            )
            for r in capacity
        )

    low, high = 0, 1000 * _UNIT
    if not capacity or at(high) < load:
        reached = float(at(high)) if capacity else 0.0
        raise InputError(
            f"load {float(load):g}: {len(jobs)} jobs on these GPUs reach {reached:.3g} at most: "
            "ask for more jobs, fewer GPUs or less load"
        )
    while high - low > 1:
        factor = (low + high) // 2
        low, high = (low, factor) if at(factor) >= load else (factor, high)
    for job in jobs:
        job.shapes = [
            replace(s, demand={r: _grown(s, r, high, most) for r in s.demand}) for s in job.shapes
        ]


def _grown(shape: Shape, resource: str, factor: int, most: dict[str, int]) -> int:
    return min(most[resource], max(1, shape.demand[resource] * factor // _UNIT))
