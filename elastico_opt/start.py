"""Start plans: what of one can still be used, and that a valid one is never lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from elastico_opt.certify import Certificate, certify
from elastico_opt.errors import VerificationError
from elastico_opt.plan import Plan
from elastico_opt.result import Result, Status
from elastico_opt.verification import evaluate, verify

if TYPE_CHECKING:
    from elastico_opt.snapshot import Snapshot
    from elastico_opt.solvers.base import Outcome


def usable_start(
    snapshot: Snapshot, start: Plan | Result | None, warnings: list[str]
) -> Plan | None:
    """Return the usable part of a start plan, naming what was left out."""
    plan = start if isinstance(start, Plan) else getattr(start, "plan", None)
    if plan is None and not (start is None or hasattr(start, "plan")):
        raise TypeError(f"start is a Plan or a Result, got {type(start).__name__}")
    if plan is None:
        return None
    nodes = {node.name: {gpu.id for gpu in node.devices()} for node in snapshot.nodes}
    jobs = {job.name: {profile.name for profile in job.profiles} for job in snapshot.jobs}
    kept, dropped = {}, []
    for name, assignment in plan.items():
        gone = _gone(name, assignment, nodes, jobs)
        if gone:
            dropped.append(f"job '{name}' ({gone})")
        else:
            kept[name] = assignment
    if dropped:
        more = f" and {len(dropped) - 3} more" if len(dropped) > 3 else ""
        warnings.append(f"start plan: left out {', '.join(dropped[:3])}{more}")
    return Plan(kept)


def keep_start(
    snapshot: Snapshot, certificate: Certificate, outcome: Outcome, start: Plan | None, solver: str
) -> Certificate:
    """Hold on to a valid start plan when the solver has found nothing better.

    With several priorities, bounds of lower ones hold for the solver's own plan only, so they
    are dropped, and a plan of the solver is never exchanged.
    """
    tiers = len(certificate.tiers)
    if start is None or certificate.status in (Status.OPTIMAL, Status.ERROR):
        return certificate
    if certificate.plan is not None and tiers > 1:
        return certificate
    try:
        verify(snapshot, start)
    except VerificationError:
        return certificate
    objective = certificate.objective
    if objective is not None and evaluate(snapshot, start).objective <= objective:
        return certificate
    bounds = [*outcome.tier_bounds[:1], *[None] * (tiers - 1)] if outcome.tier_bounds else []
    return certify(snapshot, replace(outcome, plan=start, tier_bounds=bounds), solver)


def _gone(
    name: str, assignment: Any, nodes: dict[str, set[str]], jobs: dict[str, set[str]]
) -> str | None:
    if name not in jobs:
        return "no such job"
    if assignment.profile not in jobs[name]:
        return f"no profile '{assignment.profile}'"
    for task in assignment.tasks:
        if task.node not in nodes:
            return f"no node '{task.node}'"
        if missing := [gpu for gpu in task.gpus if gpu not in nodes[task.node]]:
            return f"node '{task.node}' has no GPU '{missing[0]}'"
    return None
