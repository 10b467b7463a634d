"""First fit by value density: a feasible plan in one pass, with no bound.

Jobs that must be placed come first, then priority by priority the jobs worth most per share of a
device. Each takes the profile and the devices that gain most at that moment, never breaking a
rule, and never costing a job of higher priority anything. The exact solvers start from this plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from elastico_opt.plan import Plan
from elastico_opt.program import Placement, Program
from elastico_opt.program.arrays import Bools, Floats, Ints
from elastico_opt.solvers.base import Capability, Event, Limits, Listener, Outcome, Stop
from elastico_opt.solvers.occupancy import Occupancy

#: How strongly a profile's share of a device counts against its value, tried in this order.
_WEIGHTS = (0.5, 0.0, 1.0)
#: Jobs times devices beyond which only the first is tried.
_ONE_PASS = 200_000


class GreedySolver:
    """First fit by value density."""

    name: ClassVar[str] = "greedy"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({
        Capability.ANYTIME, Capability.WARM_START, Capability.TIERS, Capability.GANG,
        Capability.HOST, Capability.RUNNING, Capability.THROUGHPUT,
    })  # fmt: skip

    def available(self) -> bool:
        """Return True: nothing beyond NumPy is needed."""
        return True

    def solve(
        self,
        program: Program,
        limits: Limits,
        start: Plan | None = None,
        on_event: Listener | None = None,
    ) -> Outcome:
        """Build one plan; a start plan is extended by the jobs it leaves out."""
        bounds: list[float | None] = [None] * len(program.priorities)
        if stop := limits.reached():
            return Outcome(None, bounds, stop)
        given = {} if start is None else program.from_plan(start)
        plan = first_fit(program, given)
        if plan is None:
            return Outcome(None, bounds, Stop.CONVERGED, "no place found for a job that needs one")
        if on_event is not None:
            on_event(Event(0.0, None, None, "first fit"))
        return Outcome(program.to_plan(plan), bounds, Stop.CONVERGED)


def first_fit(
    program: Program, given: dict[int, Placement] | None = None
) -> dict[int, Placement] | None:
    """Return a feasible plan, or None when a job that must be placed found no place.

    Parameters
    ----------
    program : Program
    given : dict, optional
        Placements to keep as far as they are feasible together.
    """
    small = program.n_jobs * program.n_devices <= _ONE_PASS
    best: _Pass | None = None
    for weight in _WEIGHTS if small else _WEIGHTS[:1]:
        found = _complete_pass(program, weight, given or {})
        if found is not None and (best is None or found.worth() > best.worth()):
            best = found
    return None if best is None else best.occupancy.placements


def _complete_pass(program: Program, weight: float, given: dict[int, Placement]) -> _Pass | None:
    """Retry with the jobs that found no place moved to the front."""
    urgent: list[int] = []
    for _ in range(4):
        attempt = _Pass(program, weight, urgent)
        attempt.run({} if urgent else given)
        if not attempt.failed:
            return attempt
        urgent = attempt.failed + [j for j in urgent if j not in attempt.failed]
    return None


@dataclass(frozen=True, slots=True)
class _Choice:
    gain: float
    score: float
    placement: Placement


class _Pass:
    """One pass over the jobs."""

    def __init__(self, program: Program, weight: float, urgent: Sequence[int]) -> None:
        self.p, self.weight = program, weight
        self.occupancy = Occupancy(program)
        self.share = _shares(program)
        self.urgent = {j: i for i, j in enumerate(urgent)}
        self.failed: list[int] = []

    def run(self, given: dict[int, Placement]) -> None:
        for j in self._order():
            if j in given and self._keep(j, given[j]):
                continue
            choice = self._best(j)
            if choice is not None and (choice.gain > 0 or self.p.job_must[j]):
                self.occupancy.place(j, choice.placement)
            elif self.p.job_must[j]:
                self.failed.append(j)

    def worth(self) -> tuple[float, ...]:
        """Return the value per tier, rounded so that sums of equal plans compare equal."""
        return tuple(round(value, 9) for value in self.occupancy.tier_values())

    def _order(self) -> list[int]:
        p = self.p
        density = np.zeros(p.n_jobs)
        value = p.option_reward / np.maximum(self.share, 1e-9) ** max(self.weight, 0.5)
        np.maximum.at(density, p.option_job, value)
        rank = [(not p.job_must[j], j not in self.urgent, self.urgent.get(j, 0),
                 bool(p.job_movable[j]), int(p.job_tier[j]), -density[j], j)
                if p.job_must[j] else
                (True, True, 0, True, int(p.job_tier[j]), -density[j], j)
                for j in range(p.n_jobs)]  # fmt: skip
        return [row[-1] for row in sorted(rank)]

    def _keep(self, j: int, placement: Placement) -> bool:
        """Place a job as given, where that is allowed and still free."""
        if not self.p.job_movable[j]:
            return False  # it has one place, which `_best` finds
        given = np.array([g for _, gpus in placement.tasks for g in gpus], dtype=np.int64)
        devices = given[np.isin(given, self.p.allowed_devices(j))]
        allowed = set(self.p.allowed_cpu_nodes(j).tolist())
        nodes = [n for n, gpus in placement.tasks if not gpus and n in allowed]
        tasks = self._assign(placement.option, devices, Counter(nodes))
        if tasks is None:
            return False
        self.occupancy.place(j, Placement(placement.option, tasks))
        return True

    # ---- one job -----------------------------------------------------------------------

    def _best(self, j: int) -> _Choice | None:
        p, best = self.p, None
        devices, cpu_nodes = p.allowed_devices(j), p.allowed_cpu_nodes(j).tolist()
        home = p.homes[j]
        for o in p.options_of(j):
            if home is not None and home.intact:
                at_home = np.array(home.devices, dtype=np.int64)
                at_home = at_home[np.isin(at_home, devices)]
                seats = Counter(n for n in home.cpu_nodes if n in cpu_nodes)
                best = self._better(best, o, at_home, seats)
            if p.job_movable[j]:
                most = int(p.group_count[p.groups_of(o)].sum())
                best = self._better(best, o, devices, dict.fromkeys(cpu_nodes, most))
        return best

    def _better(
        self, best: _Choice | None, option: int, devices: Ints, seats: Mapping[int, int]
    ) -> _Choice | None:
        """Return the better of a choice and the best place for an option; ties keep the first."""
        tasks = self._assign(option, devices, seats)
        if tasks is None:
            return best
        placement = Placement(option, tasks)
        gain = self.occupancy.gain(placement)
        score = gain / max(float(self.share[option]), 1e-9) ** self.weight if gain > 0 else gain
        if best is None or score > best.score + 1e-12 * abs(best.score):
            return _Choice(gain, score, placement)
        return best

    def _assign(
        self, option: int, devices: Ints, seats: Mapping[int, int]
    ) -> tuple[tuple[int, tuple[int, ...]], ...] | None:
        """Find a node and devices for every task of an option, cheapest first."""
        p, occupancy = self.p, self.occupancy
        free, costs = occupancy.usable(option, devices)
        left = dict(seats)
        host = None
        taken: list[int] = []
        tasks: list[tuple[int, tuple[int, ...]]] = []
        for q in p.groups_of(option):
            if p.group_host[q].any() and host is None:
                host = occupancy.host.copy()
            if not p.group_gpus[q]:
                found = _on_nodes(p, q, left, host)
            else:
                fits = occupancy.fits(q, free)
                if taken:
                    fits &= ~np.isin(free, taken)
                found = _on_devices(p, q, free[fits], costs[fits], host)
            if found is None:
                return None
            taken += [g for _, gpus in found for g in gpus]
            tasks += found
        return tuple(tasks)


def _on_nodes(
    p: Program, group: int, seats: dict[int, int], host: Ints | None
) -> list[tuple[int, tuple[int, ...]]] | None:
    """Place CPU tasks, at most `seats` on each node; nodes without devices come first."""
    gpus = np.bincount(p.device_node, minlength=p.n_nodes)
    tasks: list[tuple[int, tuple[int, ...]]] = []
    count, need = int(p.group_count[group]), p.group_host[group]
    for n in sorted(seats, key=lambda n: int(gpus[n])):
        while len(tasks) < count and seats[n] and (host is None or (host[n] >= need).all()):
            if host is not None:
                host[n] -= need
            seats[n] -= 1
            tasks.append((n, ()))
    return tasks if len(tasks) == count else None


def _on_devices(
    p: Program, group: int, devices: Ints, costs: Floats, host: Ints | None
) -> list[tuple[int, tuple[int, ...]]] | None:
    """Place tasks on devices, cheapest first, each task within one node."""
    count, gpus, need = int(p.group_count[group]), int(p.group_gpus[group]), p.group_host[group]
    if len(devices) < count * gpus:
        return None
    if gpus == 1 and host is None:
        if count == 1:
            best = int(devices[np.argmin(costs)])
            return [(int(p.device_node[best]), (best,))]
        chosen = devices[np.argsort(costs, kind="stable")[:count]]
        return [(int(p.device_node[g]), (int(g),)) for g in np.sort(chosen)]
    order = np.lexsort((costs, p.device_node[devices]))
    devices, costs = devices[order], costs[order]
    nodes, first, room = np.unique(p.device_node[devices], return_index=True, return_counts=True)
    price = np.add.reduceat(costs, first) / room if gpus > 1 else costs[first]
    tasks: list[tuple[int, tuple[int, ...]]] = []
    for i in np.lexsort((room, price)).tolist():
        n = int(nodes[i])
        here = devices[first[i] : first[i] + room[i]].tolist()
        while len(here) >= gpus and len(tasks) < count:
            if host is not None and need.any():
                if not (host[n] >= need).all():
                    break
                host[n] -= need
            tasks.append((n, tuple(sorted(here[:gpus]))))
            here = here[gpus:]
        if len(tasks) == count:
            return tasks
    return None


def _shares(p: Program) -> Floats:
    """Return, per option, the devices it fills: its largest share of the roomiest device."""
    share = np.zeros(p.n_options)
    if not p.n_devices or not p.n_options:
        return share + 1.0
    roomiest = np.maximum(p.class_capacity.max(axis=0, initial=0), 1)
    part = (p.group_demand / roomiest).max(axis=1, initial=0.0)
    residents = np.where(p.class_residents < 64, p.class_residents, 64).max()
    alone: Bools = p.group_exclusive
    part = np.where(alone, 1.0, np.maximum(part, 1.0 / np.maximum(residents, 1)))
    np.add.at(share, p.group_option, part * p.group_count * p.group_gpus)
    return np.maximum(share, 1e-3)
