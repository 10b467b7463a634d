"""Best fit by value density: a feasible plan in one pass over the jobs, with no bound.

Jobs that must be placed come first, then priority by priority the jobs worth most per share of the
cluster. Each takes the profile and the devices that gain most at that moment and, where several
gain the same, those that leave least over or stranded; it never breaks a rule, and never costs a
job of higher priority anything. A few orders and profile choices are tried and the best plan is
kept. The exact solvers start from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import ClassVar

import numpy as np

from elastico_opt.plan import Plan, running_plan
from elastico_opt.program import NEVER, Placement, Program
from elastico_opt.program.arrays import Bools, Floats, Ints
from elastico_opt.solvers.base import Capability, Event, Limits, Listener, Outcome, Stop
from elastico_opt.solvers.occupancy import Occupancy, make_tables
from elastico_opt.solvers.placing import Tables

#: How strongly a profile's share of a device counts against its value, tried in this order.
_WEIGHTS = (0.5, 1.0, 0.0)
#: Options times devices beyond which only the first is tried.
_LARGE = 20_000_000
#: Jobs that are asked whom they can sit beside, and workloads beyond which none are.
_ASKED, _MOST_WORKLOADS = 256, 4_000


class GreedySolver:
    """Best fit by value density."""

    name: ClassVar[str] = "greedy"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({
        Capability.ANYTIME, Capability.WARM_START, Capability.TIERS, Capability.GANG,
        Capability.HOST, Capability.RUNNING, Capability.THROUGHPUT,
    })  # fmt: skip

    def available(self) -> bool:
        """Return True: what it needs is always installed."""
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
        given = None if start is None else program.from_plan(start)
        plan = first_fit(program, given)
        if plan is None:
            return Outcome(None, bounds, Stop.CONVERGED, "no place found for a job that needs one")
        if on_event is not None:
            on_event(Event(0.0, None, None, "first fit"))
        return Outcome(program.to_plan(plan), bounds, Stop.CONVERGED)


def first_fit(
    program: Program, given: dict[int, Placement] | None = None, once: bool = False
) -> dict[int, Placement] | None:
    """Return a feasible plan, or None when a job that must be placed found no place.

    Parameters
    ----------
    program : Program
    given : dict, optional
        Placements to keep as far as they are feasible together. By default two are tried: none,
        and what runs now.
    once : bool
        Choose profiles in one way only.
    """
    large = once or program.n_options * program.n_devices > _LARGE
    shares = device_shares(program)
    alternatives = _alternatives(program, shares)
    starts = [given] if given is not None else [{}, *_running(program)]
    best: Occupancy | None = None
    worth: tuple[float, ...] = ()
    for weight in _WEIGHTS[:1] if large else _WEIGHTS:
        tables = make_tables(program, shares, weight)
        for taken, kept in product(alternatives, starts):
            density = job_density(program, taken, weight)
            found = _complete_pass(program, tables, density, kept)
            if found is not None:
                value = tuple(round(tier, 9) for tier in found.tier_values())
                if best is None or value > worth:
                    best, worth = found, value
    return None if best is None else best.placements()


def _running(p: Program) -> list[dict[int, Placement]]:
    """Return what runs now as placements, in a list that is empty when nothing does."""
    if not any(home is not None for home in p.homes):
        return []
    return [p.from_plan(running_plan(p.snapshot))]


def _complete_pass(
    program: Program, tables: Tables, density: Floats, given: dict[int, Placement]
) -> Occupancy | None:
    """Retry with the jobs that found no place moved to the front."""
    urgent: list[int] = []
    for _ in range(4):
        occupancy = Occupancy(program, tables)
        failed = occupancy.fill(_order(program, density, urgent), {} if urgent else given)
        if not failed:
            return occupancy
        urgent = failed + [j for j in urgent if j not in failed]
    return None


def _order(p: Program, density: Floats, urgent: Sequence[int]) -> Ints:
    """Return the jobs in the order in which they choose: first those that must be placed."""
    place = np.full(p.n_jobs, len(urgent))
    place[urgent] = np.arange(len(urgent))
    bound = p.job_must & ~p.job_movable
    return np.lexsort((-density, p.job_tier, ~bound, place, ~p.job_must))


def _alternatives(p: Program, shares: Floats) -> list[Floats]:
    """Return what each option takes, in one or two ways.

    The first counts what a job takes; the second adds the rest of the device for a job that
    hardly anyone can sit beside.
    """
    shares = np.maximum(shares, _host_shares(p))
    company = _company(p)
    if company is None:
        return [shares]
    return [shares, np.maximum(shares, 1 - (1 - np.minimum(shares, 1)) * company)]


def job_density(p: Program, shares: Floats, weight: float) -> Floats:
    """Return the best value per share of each job; `shares` is what each option takes."""
    density = np.zeros(p.n_jobs)
    np.maximum.at(density, p.option_job, p.option_reward / shares ** max(weight, 0.5))
    return density


def _company(p: Program) -> Floats | None:
    """Return per option what a job beside it keeps on average, relative to the mean value, 0 to 1.

    None where sharing costs nothing, and where there are too many workloads to look at.
    """
    workloads = len(p.excess)
    if not p.excess.any() or not p.option_reward.any() or workloads > _MOST_WORKLOADS:
        return None
    asked = np.flatnonzero(p.option_job % math.ceil(p.n_jobs / _ASKED) == 0)
    first = np.unique(p.option_job[asked], return_index=True)[1]
    load, reward = p.option_workload[asked], p.option_reward[asked]
    never = p.excess == NEVER
    excess = np.where(never, 0, p.excess) * p.excess_unit
    suffered, caused = excess[load].T, excess[:, load]
    limit = (p.job_limit * p.excess_unit)[p.option_job]
    apart = (never | never.T)[:, load] | (suffered > limit[asked])
    rate = p.job_weight[p.option_job] * p.penalty
    if p.throughput_coupling:  # what is lost is a share of the reward
        rate, suffered, caused = p.option_reward, 1 - 1 / (1 + suffered), 1 - 1 / (1 + caused)
    used = np.maximum(np.bincount(p.option_workload, minlength=workloads), 1)
    means = np.bincount(p.option_workload, weights=rate, minlength=workloads) / used
    kept = reward - rate[asked] * suffered - means[:, None] * caused
    kept[apart | (kept < 0)] = 0.0
    best = np.maximum.reduceat(kept, first, axis=1).mean(axis=1)
    company: Floats = np.minimum(best / max(float(reward.mean()), 1e-30), 1.0)[p.option_workload]
    return company


def _host_shares(p: Program) -> Floats:
    """Return, per option, its largest share of the cluster's host resources, in devices."""
    share = np.zeros(p.n_options)
    total = np.maximum(p.node_host.sum(axis=0), 1)
    part = (p.group_host / total).max(axis=1, initial=0.0) * p.n_devices
    np.add.at(share, p.group_option, part * p.group_count)
    return share


def device_shares(p: Program) -> Floats:
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
