"""The aggregated program: every job picks one choice, pools of resources are shared by all.

::

    max  Σ_j Σ_c v_jc x_jc    s.t.  Σ_c x_jc = 1  (each j),   Σ_jc R_jcm x_jc <= A_m  (each row m)

It forgets device and node borders and interference, so its optimum bounds every plan, and so does
its Lagrangian relaxation (`elastico_opt.solvers.lagrangian.loop`). For that each number errs on the
safe side:

* **Choices** of a job are to stay out (column 0, worth ``-e·w``; barred for jobs that must be
  placed) and its options. ``v`` is the reward less the costs that *every* placement of the option
  pays: the switch, and the move where the option cannot stay at home. Losses count as 0. Options
  that fit nowhere, and those that another choice beats in value and in every row, are left out.
* **Rows** are the device resources of each GPU type, its places for residents where these are
  limited, and the host resources: of all nodes, and of the nodes that hold the type. ``A`` counts
  every device that some job may use: schedulable ones, and homes of running jobs. An exclusive
  worker uses up its device, so at least the smallest one it fits. Rows that are never short, even
  if all jobs took what they can, are left out: their price is 0.

Demands are whole quanta held as floats; `margin` covers what rounding could do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elastico_opt.program import Program
from elastico_opt.program.arrays import Bools, Floats, Ints
from elastico_opt.solvers.lagrangian.candidates import option_fits, option_values
from elastico_opt.solvers.lagrangian.pools import Row, device_rows, host_rows, usable

#: Value of a choice that does not exist. Finite, so that nothing becomes NaN.
BARRED = -1e200
#: Jobs whose choices are compared in one go.
_CHUNK = 4096


@dataclass(frozen=True)
class Relaxation:
    """The aggregated program in padded arrays; see the module.

    Attributes
    ----------
    option : (J, C) ints
        Option of a choice; -1 in column 0 (stay out) and where a job has fewer choices.
    value : (J, C) floats
        What the choice adds to the objective at most; `BARRED` where there is no choice.
    usage : (J, C, M) floats
        Quanta taken of each row.
    capacity : (M,) floats
        Quanta there are.
    rows : tuple of Row
        Pool and resource of each row.
    idle : tuple of Row
        Rows left out because they can never be short; their price is 0.
    """

    program: Program
    option: Ints
    value: Floats
    usage: Floats
    capacity: Floats
    rows: tuple[Row, ...]
    idle: tuple[Row, ...]

    @classmethod
    def build(cls, program: Program, prune: bool = True) -> Relaxation:
        """Aggregate a program; with `prune`, without dominated options.

        A dominated option changes no bound, but may suffer less from its neighbours: keep it
        where the choice is made with interference in mind.
        """
        devices, nodes = usable(program)
        device = device_rows(program, devices)
        host = host_rows(program, devices, nodes)
        demand = np.concatenate([device.demand, host.demand], axis=1)
        capacity = np.concatenate([device.capacity, host.capacity])
        values, possible = option_values(program)
        keep = possible & option_fits(program, devices, nodes) & (demand <= capacity).all(axis=1)
        option = _choices(program, keep)
        busy = _padded(demand, option).max(axis=1, initial=0.0).sum(axis=0) > capacity
        if prune:
            part = _with_out(program, option, values), _padded(demand[:, busy], option)
            keep[option[_dominated(*part)]] = False
            option = _choices(program, keep)
        rows = (*device.rows, *host.rows)
        return cls(
            program, option, _with_out(program, option, values), _padded(demand[:, busy], option),
            capacity[busy],
            tuple(row for row, on in zip(rows, busy, strict=True) if on),
            tuple(row for row, on in zip(rows, busy, strict=True) if not on),
        )  # fmt: skip

    def values_of(self, tier: int) -> Floats:
        """Return `value` with the jobs of one tier only.

        Jobs of other tiers are worth nothing and stay out, unless they must be placed: then they
        take up what their least demanding choices need. The bound holds whatever the other tiers
        reach.
        """
        other = self.program.job_tier != tier
        value = self.value.copy()
        value[other] = np.where(value[other] > BARRED, 0.0, BARRED)
        free = other & ~self.program.job_must
        value[free, 1:] = BARRED
        return value

    @cached_property
    def unweighted(self) -> Floats:
        """(J, C): `value` in shares of the job's weight (0 for weight 0)."""
        weight = self.program.job_weight
        shares = self.value / np.where(weight > 0, weight, 1.0)[:, None]
        return np.where(self.value > BARRED, shares, BARRED)


def _choices(program: Program, keep: Bools) -> Ints:
    """Return (J, C): kept options of each job from column 1 on, -1 elsewhere."""
    kept = np.flatnonzero(keep)
    job = program.option_job[kept]
    count = np.bincount(job, minlength=program.n_jobs)
    rank = np.arange(len(kept)) - (np.cumsum(count) - count)[job]
    option = np.full((program.n_jobs, 1 + int(count.max(initial=0))), -1, dtype=np.int64)
    option[job, 1 + rank] = kept
    return option


def _padded(demand: Floats, option: Ints) -> Floats:
    """Return (J, C, M): what choices take; nothing where there is no option."""
    padded = np.concatenate([demand, np.zeros((1, demand.shape[1]))])  # option -1
    usage: Floats = padded[option]
    return usage


def _with_out(program: Program, option: Ints, values: Floats) -> Floats:
    """Return (J, C) values: of options, of staying out, and BARRED."""
    padded = np.append(values, BARRED)  # option -1
    value: Floats = padded[option]
    running = np.array([home is not None for home in program.homes], dtype=bool)
    out = np.where(running, -program.eviction_cost * program.job_weight, 0.0)
    stuck = program.job_must & (option >= 0).any(axis=1)
    value[:, 0] = np.where(stuck, BARRED, out)
    return value


def _dominated(value: Floats, usage: Floats) -> Bools:
    """Return (J, C): options beaten by another choice; of equal ones the first is kept."""
    n_jobs, n_choices = value.shape
    beaten = np.zeros(value.shape, dtype=bool)
    first = np.tri(n_choices, k=-1, dtype=bool)  # [a, b]: b comes before a
    for start in range(0, n_jobs, _CHUNK):
        v, u = value[start : start + _CHUNK], usage[start : start + _CHUNK]
        no_worse = v[:, None, :] >= v[:, :, None]  # [j, a, b]: b against a
        for m in range(u.shape[2]):
            no_worse &= u[:, None, :, m] <= u[:, :, None, m]
        better = no_worse & (first | ~no_worse.transpose(0, 2, 1))
        beaten[start : start + _CHUNK] = better.any(axis=2)
    beaten[:, 0] = False
    return beaten & (value > BARRED)
