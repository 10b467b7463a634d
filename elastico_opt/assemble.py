"""From a certificate to the result: rows for people, reasons, prices, and the gap by its causes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from elastico_opt.plan import Plan, device_label
from elastico_opt.result import (
    GapSplit,
    Infeasibility,
    JobPlacement,
    ResourcePrice,
    Result,
    TaskPlace,
    Unplaced,
)
from elastico_opt.solvers.base import TOLERANCE, Outcome

if TYPE_CHECKING:
    from elastico_opt.certify import Certificate
    from elastico_opt.snapshot import Snapshot
    from elastico_opt.verification import Evaluation


def assemble(
    snapshot: Snapshot,
    certificate: Certificate,
    solver: str,
    formulation: str,
    outcome: Outcome | None = None,
    conflict: Infeasibility | None = None,
) -> Result:
    """Return the result of a certificate, without provenance and timing."""
    plan, evaluation = certificate.plan, certificate.evaluation
    placements, unplaced = _rows(snapshot, plan, evaluation)
    return Result(
        status=certificate.status,
        stop=str(certificate.stop),
        objective=certificate.objective,
        bound=certificate.bound,
        gap=certificate.gap,
        tolerance=TOLERANCE,
        solver=solver,
        formulation=formulation,
        placements=placements,
        unplaced=unplaced,
        terms=dict(evaluation.terms) if evaluation else {},
        tiers=tuple(certificate.tiers),
        prices=_prices(outcome),
        gap_split=split_gap(certificate.objective, outcome.relaxations if outcome else {}),
        warnings=certificate.warnings,
        infeasibility=conflict,
    )


def split_gap(objective: float | None, bounds: Mapping[str, float]) -> GapSplit | None:
    """Split the gap of a plan by the bounds of its relaxations; None where there are none.

    Parameters
    ----------
    objective : float or None
        Value of the plan.
    bounds : dict
        As `elastico_opt.solvers.base.Outcome.relaxations`.
    """
    price, aggregate, pattern = (bounds.get(name) for name in ("price", "aggregate", "pattern"))
    if price is None and aggregate is None and pattern is None:
        return None
    return GapSplit(
        price_bound=price,
        aggregate_bound=aggregate,
        pattern_bound=pattern,
        price_gap=_less(price, aggregate),
        relaxation_gap=_less(aggregate, pattern),
        plan_gap=_less(pattern, objective),
    )


def _less(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or lower is None else upper - lower


def _rows(
    snapshot: Snapshot, plan: Plan | None, evaluation: Evaluation | None
) -> tuple[tuple[JobPlacement, ...], tuple[Unplaced, ...]]:
    if plan is None or evaluation is None:
        return (), ()
    from elastico_opt.reasons import explain_unplaced

    nodes = {node.name: node for node in snapshot.nodes}
    placements = []
    for job in snapshot.jobs:
        if job.name in plan:
            assignment, worth = plan[job.name], evaluation.jobs[job.name]
            tasks = tuple(
                TaskPlace(t.node, tuple(device_label(nodes[t.node], gpu) for gpu in t.gpus))
                for t in assignment.tasks
            )
            placements.append(JobPlacement(
                job.name, assignment.profile, tasks, worth.throughput, worth.slowdown, worth.value
            ))  # fmt: skip
    return tuple(placements), tuple(explain_unplaced(snapshot, plan))


def _prices(outcome: Outcome | None) -> tuple[ResourcePrice, ...]:
    return tuple(
        ResourcePrice(p.pool, p.resource, float(p.price) + 0.0, p.unit, p.origin)
        for p in (outcome.prices if outcome else ()) if math.isfinite(p.price)
    )  # fmt: skip
