"""Γ: what a choice is expected to lose to its neighbours, estimated from a plan.

The paper's Eq. 7 subtracts from each choice an interference and switching term that is fed back
from what is placed. Here: a worker of option o meets, on the average device of its GPU type, a
share of each option that is placed there; Γ is what both lose together, per worker. Unavoidable
switch and move costs are in the value of a choice already. Γ is an estimate: no bound uses it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from elastico_opt.program import NEVER, Placement, Program
from elastico_opt.program.arrays import Floats
from elastico_opt.solvers.lagrangian.relaxation import Relaxation


def interference_term(relaxation: Relaxation, placements: Mapping[int, Placement]) -> Floats:
    """Return (J, C): Γ of each choice beside what a plan has placed; 0 for staying out."""
    per_option = np.append(option_losses(relaxation.program, placements), 0.0)
    found: Floats = per_option[relaxation.option]
    return found


def option_losses(program: Program, placements: Mapping[int, Placement]) -> Floats:
    """Return (O,): what an option and its neighbours lose together, were it placed as well."""
    p = program
    placed = np.array([placement.option for placement in placements.values()], dtype=np.int64)
    lost = np.zeros(p.n_options)
    if not len(placed) or not p.excess.any():
        return lost
    allowed = p.excess != NEVER
    slowdown = np.where(allowed, p.excess, 0) * p.excess_unit
    kept = slowdown / (1 + slowdown) if p.throughput_coupling else slowdown
    rate = p.option_reward if p.throughput_coupling else p.penalty * p.job_weight[p.option_job]
    devices = np.bincount(p.class_type[p.device_class], minlength=len(p.gpu_types))
    for k in range(len(p.gpu_types)):
        here = placed[p.option_type[placed] == k]
        mine = np.flatnonzero(p.option_type == k)
        load = p.option_workload[mine]
        chance = np.zeros((2, len(p.excess)))  # workers per device, and what they have to lose
        workers = p.option_workers[here] / max(1, devices[k])
        np.add.at(chance[0], p.option_workload[here], workers)
        np.add.at(chance[1], p.option_workload[here], workers / p.option_workers[here] * rate[here])
        suffered, caused = kept @ chance[0], chance[1] @ kept
        lost[mine] = rate[mine] * suffered[load] + caused[load] * p.option_workers[mine]
    return lost
