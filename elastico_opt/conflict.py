"""Which jobs that must be placed exclude each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastico_opt.certify import must_stay
from elastico_opt.plan import eligible
from elastico_opt.result import Infeasibility

if TYPE_CHECKING:
    from elastico_opt.snapshot import Snapshot
    from elastico_opt.solvers.base import Limits, Solver


def find_conflict(snapshot: Snapshot, solver: Solver, limits: Limits) -> Infeasibility:
    """Return the jobs that must be placed, not reduced."""
    jobs = [job for job in snapshot.jobs if must_stay(job)]
    nodes = [node.name for node in snapshot.nodes if any(eligible(job, node) for job in jobs)]
    return Infeasibility(
        tuple(job.name for job in jobs), tuple(nodes),
        "these jobs cannot all be placed (not minimal)", minimal=False,
    )  # fmt: skip
