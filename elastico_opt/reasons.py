"""Why a job is not placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastico_opt.plan import Plan, eligible
from elastico_opt.result import Unplaced

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Snapshot


def explain_unplaced(snapshot: Snapshot, plan: Plan) -> list[Unplaced]:
    """Return one row per job that the plan does not place, in the snapshot's order."""
    return [_explain(snapshot, job) for job in snapshot.jobs if job.name not in plan]


def _explain(snapshot: Snapshot, job: Job) -> Unplaced:
    if not snapshot.nodes:
        return Unplaced(job.name, "no_nodes", "the snapshot has no nodes")
    nodes = [node for node in snapshot.nodes if eligible(job, node)]
    if not nodes:
        return Unplaced(job.name, "ineligible", "no node matches the job's selector or node list")
    if not any(node.schedulable for node in nodes):
        return Unplaced(job.name, "cordoned", "every node the job may use is cordoned")
    return Unplaced(job.name, "not_placed", "not in the plan")
