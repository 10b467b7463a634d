"""Plans as values of the joint program's variables, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

from elastico_opt.formulations.places import Places
from elastico_opt.program import NEVER, Placement

Values = Mapping[str, Mapping[Hashable, float]]


def placements(places: Places, values: Values) -> dict[int, Placement]:
    """Read the placed jobs from the values of ``x``, ``u`` and ``z``.

    Parameters
    ----------
    places : Places
    values : mapping
        By component and index; integers may be off by a solver's tolerance.
    """
    p = places.program
    devices: dict[int, list[int]] = defaultdict(list)
    for (q, g), value in _pairs(values, "u"):
        if value > 0.5:
            devices[q].append(g)
    nodes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (q, n), value in _pairs(values, "z"):
        if value > 0.5:
            nodes[q].append((n, round(value)))
    found = {}
    for o in range(p.n_options):
        if values.get("x", {}).get(o, 0.0) > 0.5:
            tasks = [t for q in p.groups_of(o) for t in _tasks(places, q, devices[q], nodes[q])]
            found[int(p.option_job[o])] = Placement(o, tuple(tasks))
    return found


def _pairs(values: Values, name: str) -> list[tuple[tuple[int, int], float]]:
    return sorted(values.get(name, {}).items())  # type: ignore[arg-type]


def _tasks(
    places: Places, group: int, devices: list[int], nodes: list[tuple[int, int]]
) -> list[tuple[int, tuple[int, ...]]]:
    p = places.program
    if not places.on_node[group]:
        return [(int(p.device_node[g]), (g,)) for g in devices]
    gpus = int(p.group_gpus[group])
    tasks: list[tuple[int, tuple[int, ...]]] = []
    for n, count in nodes:
        here = [g for g in devices if p.device_node[g] == n]
        tasks += [(n, tuple(here[i * gpus : (i + 1) * gpus])) for i in range(count)]
    return tasks


def values(places: Places, plan: Mapping[int, Placement]) -> dict[str, dict[Hashable, float]]:
    """Return the values of all variables for a feasible plan; variables left out are 0."""
    p = places.program
    found: dict[str, dict[Hashable, float]] = {
        name: {} for name in ("x", "u", "z", "pair", "excess", "loss", "moved")
    }
    residents: dict[int, list[int]] = defaultdict(list)
    for j, placement in plan.items():
        o = placement.option
        found["x"][o] = 1.0
        tasks = iter(placement.tasks)
        for q in p.groups_of(o):
            for n, devices in (next(tasks) for _ in range(int(p.group_count[q]))):
                for g in devices:
                    found["u"][q, g] = 1.0
                    residents[g].append(int(places.option_kind[o]))
                if places.on_node[q]:
                    found["z"][q, n] = found["z"].get((q, n), 0.0) + 1.0
        found["moved"][j] = float(moves(places, j, placement))
    worst: dict[int, int] = defaultdict(int)
    for g, kinds in residents.items():
        for a in kinds:
            others = [b for b in kinds if b != a]
            found["pair"].update({(min(a, b), max(a, b), g): 1.0 for b in others})
            excess = [e for b in others if (e := places.excess(a, b)) != NEVER]
            worst[int(places.kind_job[a])] = max(worst[int(places.kind_job[a])], sum(excess))
    for j, quanta in worst.items():
        found["excess"][j] = quanta * p.excess_unit
        found["loss"][j] = p.loss(plan[j].option, quanta)
    return found


def moves(places: Places, job: int, placement: Placement) -> bool:
    """Whether a running job changes its devices or the nodes of its CPU tasks."""
    home = places.program.homes[job]
    if home is None:
        return False
    devices = tuple(sorted(g for _, gpus in placement.tasks for g in gpus))
    nodes = tuple(sorted(n for n, gpus in placement.tasks if not gpus))
    return not (home.intact and devices == home.devices and nodes == home.cpu_nodes)
