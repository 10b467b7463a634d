"""What placing one more job would bring, exactly, where it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastico_opt.plan import Plan
from elastico_opt.verification import evaluate

if TYPE_CHECKING:
    from elastico_opt.plan import Assignment
    from elastico_opt.reasons.cluster import Cluster
    from elastico_opt.snapshot import Job

#: A gain below this is rounding.
_ZERO = 1e-9


def describe_gain(
    cluster: Cluster, plan: Plan, job: Job, assignment: Assignment
) -> tuple[str, str, dict[str, Any]]:
    """Return code, message and details of a job that fits, from what placing it would change."""
    gains = _gains(cluster, plan, job, assignment)
    where = assignment.tasks[0].node
    details = {
        "profile": assignment.profile, "nearest_node": where, "gain": gains[job.priority],
    }  # fmt: skip
    for priority in sorted(gains, reverse=True):
        if abs(gains[priority]) <= _ZERO:
            continue
        if gains[priority] > 0:
            message = f"it fits, for example on node '{where}', and would add {gains[priority]:.6g}"
            return "not_tried", message, details
        if priority > job.priority:
            message = f"it fits, but would cost jobs of priority {priority} {-gains[priority]:.6g}"
        else:
            message = f"it fits, but would cost {-gains[priority]:.6g} more than it brings"
        return "outbid", message, details
    return "outbid", "it fits, but would add nothing to the objective", details


def _gains(cluster: Cluster, plan: Plan, job: Job, assignment: Assignment) -> dict[int, float]:
    """Return the change of each priority's value when the job is placed so."""
    beside = {n for g in assignment.devices() for n in cluster.names_on(g)}
    affected = {name: plan[name] for name in beside}
    near = {n for a in affected.values() for g in a.devices() for n in cluster.names_on(g)}
    around = Plan({name: plan[name] for name in near | beside})
    names = {*around, job.name}
    used = {t.node for a in (*around.values(), assignment) for t in a.tasks}
    small = cluster.snapshot.model_copy(update={
        "jobs": tuple(cluster.jobs[name] for name in sorted(names)),
        "nodes": tuple(cluster.nodes[cluster.node_index[name]] for name in sorted(used)),
    })  # fmt: skip
    before = evaluate(small, around).tiers
    after = evaluate(small, Plan({**around, job.name: assignment})).tiers
    return {priority: after[priority] - before[priority] for priority in after}
