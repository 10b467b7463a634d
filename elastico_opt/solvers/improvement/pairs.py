"""Pair values: what any two classes of jobs are worth together on one device, kept for reuse.

Jobs with equal profiles, weight and limits are one class. On a device class only the best two
profiles of a pair matter, since all rows but the host's are the same; dominated profiles are
dropped first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from elastico_opt.program import NEVER, Program
from elastico_opt.program.arrays import Bools, Floats, Ints
from elastico_opt.solvers.improvement.exchange import (
    ALONE,
    CLASS,
    FIRST_DEMAND,
    LOAD,
    NET,
    RATE,
    REWARD,
    Pairs,
    fill_table,
    undominated,
)
from elastico_opt.solvers.occupancy import NO_LIMIT, TOO_MUCH

#: Most values of pairs that are kept (8 bytes each); beyond that they are computed when asked.
MOST_VALUES = 25_000_000
#: What a tier is worth against the next one; plans are compared exactly afterwards.
TIER_SCALE = 1e5


@dataclass(frozen=True)
class PairValues:
    """The classes of single-device jobs and the values of their pairs.

    Attributes
    ----------
    pairs : Pairs
        The arrays that `exchange` works on.
    job_class : (J,) ints
        Class of each job, -1 for jobs that have no single-device option.
    option : (P,) ints
        The program's option behind each class option, for the class's first job; relative to the
        job's first option, so that it holds for all jobs of the class.
    keys : dict
        Class by what distinguishes it.
    types : (K,) ints
        GPU type of each device class.
    computed : int
        Classes whose values had to be computed.
    """

    pairs: Pairs
    job_class: Ints
    option: Ints
    keys: dict[bytes, int]
    types: Ints
    computed: int

    @classmethod
    def build(cls, program: Program, before: PairValues | None = None) -> PairValues:
        """Compute the values, taking over from `before` what has not changed."""
        p = program
        single = single_options(p)
        picked = np.flatnonzero(single)
        rows = _rows(p, picked)
        job_class, keys, first = _classes(p, picked, rows)
        chosen = np.isin(p.option_job[picked], first)
        order = np.flatnonzero(chosen)
        owner = job_class[p.option_job[picked[order]]]
        option, gain, start, relative = _by_device_class(p, picked[order], rows[order], owner)
        keep = np.ones(len(option), dtype=bool)
        excess = np.where(p.excess == NEVER, TOO_MUCH, p.excess)
        undominated(start, option, gain, excess, keep)
        kept = np.concatenate([[0], np.cumsum(keep)])
        n, types = len(keys), len(p.class_type)
        dense = n if n * n * max(types, 1) <= MOST_VALUES else 0
        pairs = Pairs(
            start=kept[start],
            option=option[keep],
            gain=gain[keep],
            limit=np.minimum(p.job_limit[first], NO_LIMIT),
            capacity=p.class_capacity,
            seats=p.class_residents,
            excess=excess,
            shape=np.array(
                [
                    types,
                    p.group_demand.shape[1],
                    p.group_host.shape[1] if p.group_host.any() else 0,
                    p.throughput_coupling,
                    dense,
                ],
                dtype=np.int64,
            ),
            unit=p.excess_unit,
            table=np.full((types, dense, dense), -np.inf),
            single=np.full((types, n), -np.inf),
        )
        changed = _take_over(pairs, keys, p.class_type, before)
        fill_table(pairs, changed)
        return cls(pairs, job_class, relative[keep], keys, p.class_type, len(changed))


def single_options(p: Program) -> Bools:
    """Mark options of one task on one device."""
    groups = np.diff(p.group_start)
    first = np.minimum(p.group_start[:-1], max(len(p.group_option) - 1, 0))
    if not len(p.group_option):
        return np.zeros(p.n_options, dtype=bool)
    single: Bools = (groups == 1) & (p.group_count[first] == 1) & (p.group_gpus[first] == 1)
    return single


def _rows(p: Program, picked: Ints) -> Floats:
    """Return all that tells single-device options apart: net gain first, then reward, rate, ..."""
    jobs, groups = p.option_job[picked], p.group_start[picked]
    costs = {j: p.change_costs(j) for j, home in enumerate(p.homes) if home is not None}
    net = p.option_reward[picked].copy()
    for at in np.flatnonzero(np.isin(jobs, list(costs))).tolist():
        switch, _, evict = costs[int(jobs[at])]
        net[at] += evict - (switch if p.switches(int(picked[at])) else 0.0)
    top = float(np.abs(net).max(initial=0.0))
    must = 8.0 * 2.0 ** np.ceil(np.log2(top)) if top > 0 else 1.0
    reward, rate = p.option_reward[picked], p.job_weight[jobs] * p.penalty * p.excess_unit
    scale = TIER_SCALE ** (p.job_tier.max(initial=0) - p.job_tier[jobs])
    host = p.group_host[groups] if p.group_host.any() else np.zeros((len(groups), 0))
    return np.column_stack([
        (net + np.where(p.job_must[jobs], must, 0.0)) * scale, reward * scale, rate * scale,
        p.option_workload[picked], p.group_exclusive[groups], p.group_demand[groups], host,
        p.option_type[picked], np.minimum(p.job_limit[jobs], NO_LIMIT),
        picked - p.option_start[jobs],
    ])  # fmt: skip


def _classes(p: Program, picked: Ints, rows: Floats) -> tuple[Ints, dict[bytes, int], Ints]:
    """Return each job's class, the classes by key, and the first job of each."""
    job_class = np.full(p.n_jobs, -1, dtype=np.int64)
    keys: dict[bytes, int] = {}
    first: list[int] = []
    bounds = np.searchsorted(p.option_job[picked], np.arange(p.n_jobs + 1)).tolist()
    table = np.ascontiguousarray(rows)
    for j in range(p.n_jobs):
        if bounds[j] == bounds[j + 1]:
            continue
        key = table[bounds[j] : bounds[j + 1]].tobytes()
        found = keys.setdefault(key, len(keys))
        if found == len(first):
            first.append(j)
        job_class[j] = found
    return job_class, keys, np.array(first, dtype=np.int64)


def _by_device_class(
    p: Program, picked: Ints, rows: Floats, owner: Ints
) -> tuple[Ints, Floats, Ints, Ints]:
    """List each class's options on each device class where one worker fits."""
    n_demands = p.group_demand.shape[1]
    n_host = p.group_host.shape[1] if p.group_host.any() else 0
    demand = rows[:, 5 : 5 + n_demands].astype(np.int64)
    types, parts, sorts = len(p.class_type), [], []
    for k in range(types):
        fits = (demand <= p.class_capacity[k]).all(axis=1) & bool(p.class_residents[k] >= 1)
        here = np.flatnonzero(fits & (p.option_type[picked] == p.class_type[k]))
        parts.append(here)
        sorts.append(np.full(len(here), k))
    at = np.concatenate([*parts, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    sort = np.concatenate([*sorts, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    place = owner[at] * types + sort
    order = np.lexsort((-rows[at, 0], place))
    at, place = at[order], place[order]
    n_classes = int(owner.max(initial=-1)) + 1
    option = np.zeros((len(at), FIRST_DEMAND + n_demands + n_host), dtype=np.int64)
    option[:, CLASS], option[:, LOAD], option[:, ALONE] = owner[at], rows[at, 3], rows[at, 4]
    option[:, FIRST_DEMAND:] = rows[at, 5 : 5 + n_demands + n_host]
    gain = np.zeros((len(at), 3))
    gain[:, NET], gain[:, REWARD], gain[:, RATE] = rows[at, 0], rows[at, 1], rows[at, 2]
    start = np.searchsorted(place, np.arange(n_classes * types + 1))
    return option, gain, start, rows[at, -1].astype(np.int64)


def _take_over(
    pairs: Pairs, keys: dict[bytes, int], types: Ints, before: PairValues | None
) -> Ints:
    """Copy the values of classes that were known before; return the others."""
    everyone = np.arange(len(keys))
    if before is None or not pairs.shape[4] or not before.pairs.shape[4]:
        return everyone
    if not np.array_equal(types, before.types):
        return everyone
    for name in ("shape", "capacity", "seats", "excess", "unit"):
        mine: Any = getattr(pairs, name)
        theirs: Any = getattr(before.pairs, name)
        if name == "shape":
            mine, theirs = mine[:4], theirs[:4]
        if not np.array_equal(mine, theirs):
            return everyone
    known = [(new, before.keys[key]) for key, new in keys.items() if key in before.keys]
    new, old = np.array(known, dtype=np.int64).reshape(-1, 2).T
    for k in range(len(pairs.table)):
        pairs.table[k][np.ix_(new, new)] = before.pairs.table[k][np.ix_(old, old)]
    pairs.single[:, new] = before.pairs.single[:, old]
    return np.setdiff1d(everyone, new)
