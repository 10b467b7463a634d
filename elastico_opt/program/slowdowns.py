"""Slowdowns as integers, and which pairs of workloads nobody measured.

Written apart from `elastico_opt.verification` on purpose: the check must not share a mistake with
what it checks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.program.arrays import NEVER, UNLIMITED
from elastico_opt.snapshot import Job, Profile, Snapshot
from elastico_opt.units import common_quantum

#: Integers up to here are exact in the floating-point arithmetic of linear solvers.
_EXACT = 2**53

Pairs = dict[tuple[str, str], Fraction | None]


def slowdown_arrays(snapshot: Snapshot, chosen: Sequence[tuple[Job, Profile]]) -> dict[str, Any]:
    """Return excess slowdowns in quanta; workloads without any row share the last index.

    Parameters
    ----------
    snapshot : Snapshot
    chosen : sequence of (Job, Profile)
        Per option of the program.
    """
    keys = [_key(job, profile) for job, profile in chosen]
    pairs, default = _pairs(snapshot, frozenset(keys))
    index = {key: v for v, key in enumerate(sorted({key for pair in pairs for key in pair}))}
    other = len(index)
    known = [*pairs.values(), default]
    quantum = common_quantum(s - 1 for s in known if s is not None and s > 1)
    excess = np.full((other + 1, other + 1), _excess(default, quantum), dtype=np.int64)
    for (victim, beside), slowdown in pairs.items():
        excess[index[victim], index[beside]] = _excess(slowdown, quantum)
    return {
        "option_workload": np.array([index.get(key, other) for key in keys], dtype=np.int64),
        "excess": excess,
        "excess_unit": float(quantum),
        "job_limit": np.array([_limit(snapshot, job, quantum) for job in snapshot.jobs], np.int64),
        "missing_pairs": 0 if snapshot.interference is None else _missing(chosen, pairs),
    }


def _key(job: Job, profile: Profile) -> str:
    return f"{job.name}/{profile.name}" if profile.workload is None else profile.workload


def _pairs(snapshot: Snapshot, used: frozenset[str]) -> tuple[Pairs, Fraction | None]:
    """Return the listed slowdowns of used workloads, (victim, beside), and that of any other."""
    if snapshot.interference is None:
        return {}, Fraction(1)
    pairs: Pairs = {}
    for row in snapshot.interference.table:
        if row.a in used and row.b in used:
            pairs[row.a, row.b] = row.slowdown[0]
            pairs[row.b, row.a] = row.slowdown[1]
    return pairs, snapshot.interference.default


def _limit(snapshot: Snapshot, job: Job, quantum: Fraction) -> int:
    """Return the largest excess a job tolerates, rounded down to quanta (which loses nothing)."""
    limits = [s for s in (job.max_slowdown, snapshot.policy.max_slowdown) if s is not None]
    return min((int((min(limits) - 1) // quantum)) if limits else int(UNLIMITED), int(UNLIMITED))


def _excess(slowdown: Fraction | None, quantum: Fraction) -> int:
    if slowdown is None:
        return NEVER
    whole = (slowdown - 1) / quantum
    if whole > _EXACT:
        raise InputError(
            "interference: slowdowns need more than 53 bits: write them with fewer digits"
        )
    return int(whole)


def _missing(chosen: Iterable[tuple[Job, Profile]], pairs: Pairs) -> int:
    """Count pairs of workloads that two different jobs could bring together and no row names."""
    holders: dict[str, set[str]] = defaultdict(set)
    for job, profile in chosen:
        holders[_key(job, profile)].add(job.name)
    alone: dict[str, int] = defaultdict(int)  # per job, the workloads that only it has
    for jobs in holders.values():
        if len(jobs) == 1:
            alone[next(iter(jobs))] += 1
    n = len(holders)
    possible = n * (n - 1) // 2 - sum(k * (k - 1) // 2 for k in alone.values())
    possible += sum(len(jobs) > 1 for jobs in holders.values())
    listed = sum(a <= b and len(holders[a] | holders[b]) > 1 for a, b in pairs)
    return possible - listed
