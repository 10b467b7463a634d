"""Who sits where while a plan is being built: the arrays that `placing` works on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from elastico_opt.program import NEVER, Placement, Program
from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.placing import (
    CHOSEN,
    ENTRY,
    FIRST,
    FREE_SEATS,
    HEAD,
    HOME,
    INTACT,
    LIMIT,
    MOVABLE,
    MUST,
    NODE,
    ON,
    OPEN,
    OPTIONS,
    ROW,
    SEATS,
    TASK,
    TIER,
    TYPE,
    WORST,
    State,
    Tables,
    compiled,
    fill,
    loss_of,
    place,
)

#: Stands for "never together": beyond any slowdown and any limit.
TOO_MUCH = 2**55
NO_LIMIT = 2**54
#: Options times devices up to which the interpreter is faster than loading the compiler.
_INTERPRETED = 20_000
#: Nodes from which on a job looks at so many of them only.
_MANY_NODES, _WINDOW = 256, 64


def make_tables(program: Program, share: Floats, *weights: float) -> Tables:
    """Return the constants of a pass, in which an option's gain counts per ``share ** weight``.

    With several weights there are several divisors; options are ranked by the first.
    """
    p = program
    costs = np.array([p.change_costs(j) for j in range(p.n_jobs)], dtype=float).reshape(-1, 3)
    switched = np.array([p.switches(o) for o in range(p.n_options)], dtype=bool)
    net = p.option_reward + costs[p.option_job, 2] - np.where(switched, costs[p.option_job, 0], 0.0)
    divisor = np.maximum(share, 1e-9)[:, None] ** np.array(weights)
    ranked = np.lexsort((-net / divisor[:, 0], p.option_job))
    kinds = np.unique(np.stack([p.class_type[p.device_class], p.device_node]), axis=1)
    span = np.searchsorted(kinds[0], np.arange(len(p.gpu_types) + 1))
    nodes = np.concatenate([kinds[1], np.arange(p.n_nodes)])
    span = np.append(span, len(nodes))
    option = np.stack([p.option_job, p.option_type, p.option_workload, ranked], axis=1)
    return Tables(
        option=np.column_stack([p.group_start, np.vstack([option, np.zeros((1, 4), np.int64)])]),
        worth=np.column_stack([net, p.option_reward, divisor]),
        cost=np.stack([p.job_weight * p.penalty * p.excess_unit, costs[:, 1]], axis=1),
        group=np.stack([p.group_count, p.group_gpus, p.group_exclusive.astype(np.int64)], axis=1),
        demand=p.group_demand,
        need=p.group_host,
        access=p.eligibility.astype(np.int64) * (1 + p.node_schedulable),
        home=_flat(_held(p)),
        seat=_flat(_seats(p)),
        span=span,
        nodes=nodes,
        kind=np.stack([span[:-1], span[1:]], axis=1),
        where=np.append(nodes, nodes),  # room for homes that are listed twice
        capacity=np.maximum(p.class_capacity[p.device_class], 1),
        typical=_typical(p),
        excess=np.where(p.excess == NEVER, TOO_MUCH, p.excess),
        unit=p.excess_unit,
        throughput=p.throughput_coupling,
    )


def _held(p: Program) -> list[Sequence[int]]:
    """Return per job the devices it holds, none when something of its home is gone."""
    return [home.devices if home is not None and home.intact else () for home in p.homes]


def _seats(p: Program) -> list[Sequence[int]]:
    """Return likewise the nodes of its tasks without devices."""
    return [home.cpu_nodes if home is not None and home.intact else () for home in p.homes]


def _typical(p: Program) -> Floats:
    """Return the host demand that goes with one device, on average over the jobs' options."""
    on_device = p.group_gpus > 0
    options = np.diff(p.option_start)[p.option_job[p.group_option[on_device]]]
    tasks = p.group_count[on_device] / options
    devices = float((tasks * p.group_gpus[on_device]).sum())
    host = (p.group_host[on_device] * tasks[:, None]).sum(axis=0)
    typical: Floats = host / devices if devices else np.zeros(p.group_host.shape[1])
    return typical


def _make_state(p: Program) -> State:
    seats = p.class_residents[p.device_class]
    room = np.where(seats > 0, 1.0, 0.0)
    tasks, workers = _most(p)
    job = np.zeros((p.n_jobs + 1, 13), dtype=np.int64)
    job[:, OPTIONS], job[:, CHOSEN] = p.option_start, -1
    starts = {HOME: _sizes(_held(p)), SEATS: _sizes(_seats(p)), ENTRY: workers, TASK: tasks}
    for column, sizes in starts.items():
        job[1:, column] = np.cumsum(sizes)
    job[:-1, MUST], job[:-1, MOVABLE], job[:-1, TIER] = p.job_must, p.job_movable, p.job_tier
    job[:-1, LIMIT], job[:-1, ROW] = np.minimum(p.job_limit, NO_LIMIT), p.job_eligibility
    job[:-1, INTACT] = [home is not None and home.intact for home in p.homes]
    device = np.zeros((p.n_devices, 9), dtype=np.int64)
    device[:, NODE], device[:, TYPE] = p.device_node, p.class_type[p.device_class]
    device[:, FREE_SEATS], device[:, HEAD] = seats, -1
    node = np.zeros((p.n_nodes + 1, 5), dtype=np.int64)
    node[:, FIRST] = np.searchsorted(p.device_node, np.arange(p.n_nodes + 1))
    node[:-1, OPEN] = np.bincount(p.device_node[seats > 0], minlength=p.n_nodes)
    longest = int(max(tasks.max(initial=0), workers.max(initial=0)))
    return State(
        job=job,
        device=device,
        share=np.stack([room, np.zeros(p.n_devices), np.zeros(p.n_devices)], axis=1),
        free=p.class_capacity[p.device_class].copy(),
        node=node,
        room=np.bincount(p.device_node, weights=room, minlength=p.n_nodes).astype(float),
        host=p.node_host.copy(),
        entry=np.zeros((int(workers.sum()), 4), dtype=np.int64),
        task=np.zeros(int(tasks.sum()), dtype=np.int64),
        hand=np.zeros((4, longest), dtype=np.int64),
        failed=np.zeros(p.n_jobs, dtype=np.int64),
        delta=np.zeros(1 + len(p.priorities)),
        cursor=np.zeros(len(p.gpu_types) + 1, dtype=np.int64),
        note=np.array([0, 0, 1], dtype=np.int64),
    )


def _most(p: Program) -> tuple[Ints, Ints]:
    """Return per job the most tasks and workers of its options."""
    tasks = np.zeros(p.n_options, dtype=np.int64)
    np.add.at(tasks, p.group_option, p.group_count)
    job_tasks: Ints = np.zeros(p.n_jobs, dtype=np.int64)
    job_workers: Ints = np.zeros(p.n_jobs, dtype=np.int64)
    np.maximum.at(job_tasks, p.option_job, tasks)
    np.maximum.at(job_workers, p.option_job, p.option_workers)
    return job_tasks, job_workers


def _sizes(rows: list[Sequence[int]]) -> Ints:
    return np.array([len(row) for row in rows], dtype=np.int64)


class Occupancy:
    """A partial plan."""

    def __init__(self, program: Program, tables: Tables | None = None) -> None:
        self.p = program
        self.tables = tables or make_tables(program, np.ones(program.n_options), 0.0)
        self.state = _make_state(program)

    @property
    def window(self) -> int:
        """Nodes of each type that a job looks at; 0 = all."""
        return _WINDOW if self.p.n_nodes > _MANY_NODES else 0

    def fill(self, order: Ints, given: Mapping[int, Placement]) -> list[int]:
        """Place jobs in order; return those that must be placed and found no place."""
        s, p = self.state, self.p
        options = np.full(p.n_jobs, -1, dtype=np.int64)
        for j, placement in given.items():
            options[j] = placement.option
            tasks, workers = _places(placement)
            s.task[s.job[j, TASK] : s.job[j, TASK] + len(tasks)] = tasks
            s.entry[s.job[j, ENTRY] : s.job[j, ENTRY] + len(workers), ON] = workers
        run = fill if p.n_options * p.n_devices <= _INTERPRETED else compiled()
        n_failed = run(self.tables, s, order, options, self.window)
        failed: list[int] = s.failed[:n_failed].tolist()
        return failed

    def place(self, job: int, placement: Placement) -> None:
        """Add a job; the caller has checked that it fits."""
        tasks, workers = _places(placement)
        self.state.hand[0, : len(tasks)] = tasks
        self.state.hand[1, : len(workers)] = workers
        place(self.tables, self.state, job, placement.option, 0)

    def placements(self) -> dict[int, Placement]:
        """Return who sits where, by job."""
        s = self.state
        return read_placements(self.p, s, s.job[:-1, CHOSEN], s.task, s.entry[:, ON])

    def tier_values(self) -> list[float]:
        """Return the objective of each tier."""
        p, t = self.p, self.tables
        values: list[list[float]] = [[] for _ in p.priorities]
        placements = self.placements()
        for j in range(p.n_jobs):
            switch, move, evict = p.change_costs(j)
            value = -evict
            if j in placements:
                o = placements[j].option
                worst = int(self.state.job[j, WORST])
                value = float(p.option_reward[o]) - (switch if p.switches(o) else 0.0)
                value -= loss_of(t.worth, t.cost, t.unit, t.throughput, j, o, worst)
                value -= 0.0 if p.stays(j, placements[j]) else move
            values[int(p.job_tier[j])].append(value)
        return [math.fsum(v) for v in values]


def read_placements(
    p: Program, s: State, options: Ints, nodes: Ints, devices: Ints
) -> dict[int, Placement]:
    """Read placements from arrays that are laid out as those of a state.

    Parameters
    ----------
    options : (J,) ints
        Option of each job, -1 where it is not placed.
    nodes, devices : ints
        Of all tasks and workers; a job's begin where the state has them.
    """
    task_of, worker_of = s.job[:, TASK].tolist(), s.job[:, ENTRY].tolist()
    node, device = nodes.tolist(), devices.tolist()
    found = {}
    for j, o in enumerate(options.tolist()):
        if o < 0:
            continue
        task, worker, tasks = task_of[j], worker_of[j], []
        for q in p.groups_of(o):
            gpus = int(p.group_gpus[q])
            for _ in range(int(p.group_count[q])):
                tasks.append((node[task], tuple(sorted(device[worker : worker + gpus]))))
                task, worker = task + 1, worker + gpus
        found[j] = Placement(o, tuple(tasks))
    return found


def _places(placement: Placement) -> tuple[list[int], list[int]]:
    """Return the node of each task and the device of each worker."""
    return [n for n, _ in placement.tasks], [g for _, gpus in placement.tasks for g in gpus]


def _flat(rows: list[Sequence[int]]) -> Ints:
    return np.array([item for row in rows for item in row], dtype=np.int64)
