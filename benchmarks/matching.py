"""The value of every pair of jobs on one GPU, from the program's arrays alone.

For single-GPU jobs, identical GPUs, two residents and a GPU for every pair of jobs, the best plan
is a maximum-weight matching: a pair is worth its best profiles together, or the better of the two
alone, since a GPU that one job has for itself could as well be said to leave another one out.
"""

from __future__ import annotations

import numpy as np

from elastico_opt.program import NEVER, Program
from elastico_opt.program.arrays import Floats


def pair_values(p: Program) -> Floats:
    """Return the best value of each pair of jobs on one GPU, shape (J, J).

    Raises
    ------
    ValueError
        When the program is not such a matching.
    """
    _check(p)
    demand = p.group_demand[p.group_start[:-1]]
    capacity = p.class_capacity[0]
    fits = (demand <= capacity).all(axis=1)
    alone = np.full(p.n_jobs, 0.0)
    np.maximum.at(alone, p.option_job[fits], p.option_reward[fits])
    values = np.maximum(alone[:, None], alone[None, :])
    starts = p.option_start[:-1]
    load, limit = p.option_workload, p.job_limit[p.option_job]
    for o in np.flatnonzero(fits):
        suffers, causes = p.excess[load[o], load], p.excess[load, load[o]]
        together = (suffers != NEVER) & (causes != NEVER)
        together &= (suffers <= limit[o]) & (causes <= limit)
        together &= (demand[o] + demand <= capacity).all(axis=1)
        worth = p.option_reward[o] + p.option_reward - _losses(p, int(o), suffers, causes)
        best = np.maximum.reduceat(np.where(together, worth, -np.inf), starts)
        j = int(p.option_job[o])
        values[j] = np.maximum(values[j], best)
    both: Floats = np.maximum(values, values.T)
    np.fill_diagonal(both, 0.0)
    return both


def _losses(p: Program, o: int, suffers: Floats, causes: Floats) -> Floats:
    mine, theirs = suffers * p.excess_unit, causes * p.excess_unit
    lost: Floats
    if p.throughput_coupling:
        lost = p.option_reward[o] * mine / (1 + mine) + p.option_reward * theirs / (1 + theirs)
        return lost
    weight = p.job_weight[p.option_job]
    lost = p.penalty * (weight[o] * mine + weight * theirs)
    return lost


def _check(p: Program) -> None:
    single = (p.option_workers == 1).all() and len(p.group_start) == len(p.group_count) + 1
    plain = len(p.class_type) == 1 and p.class_residents[0] == 2 and not p.group_host.any()
    free = not any(p.homes) and p.eligibility.all() and len(p.priorities) == 1
    enough = 2 * p.n_devices >= p.n_jobs and (np.diff(p.option_start) > 0).all()
    if not (single and plain and free and enough):
        raise ValueError("not a matching: needs single-GPU jobs, identical GPUs, two residents")
