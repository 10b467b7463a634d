"""From chosen patterns to places: which node and device runs which pattern, which job is where."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program import Placement
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.integer import Selection
from elastico_opt.solvers.pattern.packing import pack_nodes

Task = tuple[int, tuple[int, ...]]


@dataclass
class Seats:
    """Where the chosen items and CPU tasks ended up.

    Attributes
    ----------
    devices : list of (device, items)
        The residents of each device in use.
    cpu : dict
        Nodes of the CPU tasks of each static column, one entry per task.
    tasks : dict
        Tasks per node of a choice and group, where more seats are taken than its gangs need.
    """

    devices: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    cpu: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    tasks: dict[tuple[int, int], Counter[int]] = field(default_factory=dict)


def realise(layout: Layout, chosen: Selection, stage: int, limits: Limits) -> dict[int, Placement]:
    """Give every chosen pattern a device and every job its tasks.

    Returns
    -------
    dict
        Placements of the jobs that could be realised. Where node borders are aggregated away
        these can be fewer than were chosen.
    """
    if not layout.node_coupled:
        return _hand_out(layout, chosen, _seat_anywhere(layout, chosen))
    seats = pack_nodes(layout, chosen, stage, limits)
    return {} if seats is None else _hand_out(layout, chosen, seats)


def _seat_anywhere(layout: Layout, chosen: Selection) -> Seats:
    """Seat patterns when nodes do not matter: any free device of the pool."""
    seats = Seats()
    taken = {int(layout.site_device[s]) for s in chosen.patterns.site if s != ELSEWHERE}
    free = [[g for g in devices if g not in taken][::-1] for devices in layout.pool_devices]
    for pool, site, row, count in zip(
        chosen.patterns.pool,
        chosen.patterns.site,
        chosen.patterns.items,
        chosen.counts,
        strict=True,
    ):
        items = tuple(int(i) for i in row if i >= 0)
        for _ in range(int(count)):
            device = int(layout.site_device[site]) if site != ELSEWHERE else free[pool].pop()
            seats.devices.append((device, items))
    static = layout.static
    for i, count in enumerate(chosen.static):
        if static.kind[i] == "cpu" and count:
            node = (
                int(static.node[i])
                if static.node[i] >= 0
                else layout.pool_nodes[static.node_pool[i]][0]
            )
            seats.cpu[i] = [node] * int(count)
    return seats


def _hand_out(layout: Layout, chosen: Selection, seats: Seats) -> dict[int, Placement]:
    """Hand the seats of each class to its jobs."""
    p, items, static = layout.program, layout.items, layout.static
    waiting = [list(jobs)[::-1] for jobs in layout.class_jobs]
    placements: dict[int, Placement] = {}

    def place(c: int, option: int, tasks: tuple[Task, ...]) -> None:
        if waiting[c]:
            j = waiting[c].pop()
            shift = option - int(p.option_start[layout.class_jobs[c][0]])
            placements[j] = Placement(int(p.option_start[j]) + shift, tasks)

    linked: dict[tuple[int, int], list[int]] = defaultdict(list)
    for device, here in sorted(seats.devices):
        for i in here:
            if items.linked[i]:
                linked[int(layout.link_choice[items.row[i]]), int(items.group[i])].append(device)
            else:
                place(
                    int(items.job_class[i]),
                    int(items.option[i]),
                    ((int(p.device_node[device]), (device,)),),
                )
    cpu: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, nodes in seats.cpu.items():
        if static.places[i]:
            for n in nodes:
                place(int(static.job_class[i]), int(static.option[i]), ((n, ()),))
        else:
            cpu[_cpu_choice(layout)[i], int(static.group[i])] += nodes
    for x, count in enumerate(chosen.static):
        if static.kind[x] == "choice" and count:
            for tasks in _gangs(layout, x, int(count), seats, linked, cpu):
                place(int(static.job_class[x]), int(static.option[x]), tasks)
    return placements


def _cpu_choice(layout: Layout) -> dict[int, int]:
    """Return the choice that each linked CPU column serves."""
    row, column, value = layout.static.entries
    return {
        int(i): int(layout.link_choice[r])
        for r, i, v in zip(row, column, value, strict=True)
        if layout.static.kind[i] == "cpu" and v < 0 and layout.link_choice[r] >= 0
    }


def _gangs(
    layout: Layout,
    x: int,
    count: int,
    seats: Seats,
    linked: dict[tuple[int, int], list[int]],
    cpu: dict[tuple[int, int], list[int]],
) -> list[tuple[Task, ...]]:
    """Split the seats of a choice among the jobs that made it, as far as they make whole gangs."""
    p = layout.program
    shares: list[tuple[int, list[Task]]] = []
    for q in p.groups_of(int(layout.static.option[x])):
        gpus = int(p.group_gpus[q])
        if gpus == 0:
            tasks: list[Task] = [(n, ()) for n in cpu[x, q]]
        else:
            tasks = _node_tasks(layout, linked[x, q], gpus)
        shares.append((int(p.group_count[q]), _planned(tasks, seats.tasks.get((x, q)))))
    whole = []
    for i in range(min(count, *(len(tasks) // each for each, tasks in shares))):
        parts = [tasks[i * each : (i + 1) * each] for each, tasks in shares]
        held = [g for part in parts for _, gpus in part for g in gpus]
        if len(set(held)) == len(held):
            whole.append(tuple(task for part in parts for task in part))
    return whole


def _planned(tasks: list[Task], planned: Counter[int] | None) -> list[Task]:
    """Keep as many tasks on each node as its host resources were planned for."""
    if planned is None:
        return tasks
    left = planned.copy()
    kept = []
    for task in tasks:
        if left[task[0]] > 0:
            left[task[0]] -= 1
            kept.append(task)
    return kept


def _node_tasks(layout: Layout, devices: list[int], gpus: int) -> list[Task]:
    """Form tasks of several devices within each node."""
    by_node: dict[int, list[int]] = defaultdict(list)
    for g in devices:
        by_node[int(layout.program.device_node[g])].append(g)
    tasks: list[Task] = []
    for n, here in sorted(by_node.items()):
        many = len(here) // gpus
        tasks += [(n, tuple(here[i : many * gpus : many])) for i in range(many)]
    return tasks
