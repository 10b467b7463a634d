"""From a solver's word to what may be claimed.

The plan is verified and valued from the snapshot; the status follows from that value and the
bound. A solver that contradicts the check is a bug, and is raised instead of reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastico_opt.errors import VerificationError
from elastico_opt.plan import Plan
from elastico_opt.result import Status, Tier
from elastico_opt.solvers.base import TOLERANCE, Outcome, Stop, relative_gap
from elastico_opt.verification import Evaluation, check

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Snapshot


@dataclass(frozen=True, slots=True)
class Certificate:
    """What holds after the check.

    Attributes
    ----------
    plan, evaluation : Plan and Evaluation, or None
        The verified plan and its value.
    bound : float or None
        Never below the objective: within the tolerance it is lifted to it.
    tiers : tuple of Tier
        The same by priority, highest first.
    """

    status: Status
    stop: Stop
    plan: Plan | None
    evaluation: Evaluation | None
    bound: float | None
    gap: float | None
    tiers: tuple[Tier, ...]
    warnings: tuple[str, ...] = ()

    @property
    def objective(self) -> float | None:
        """The value of the plan."""
        return self.evaluation.objective if self.evaluation else None


def certify(snapshot: Snapshot, outcome: Outcome, solver: str = "the solver") -> Certificate:
    """Check an outcome and derive status, objective, bound and gap.

    Raises
    ------
    VerificationError
        When the plan breaks a rule, a bound lies below a plan's value, or a claim of
        infeasibility is refuted.
    """
    priorities = sorted({job.priority for job in snapshot.jobs}, reverse=True)
    bounds, warnings = _read_bounds(outcome.tier_bounds, len(priorities), solver)
    if outcome.plan is None:
        return _without_plan(snapshot, outcome, priorities, bounds, warnings, solver)
    if outcome.stop is Stop.INFEASIBLE:
        raise VerificationError([f"{solver} claims infeasibility and returns a plan"])
    evaluation = _check(snapshot, outcome.plan, solver)
    objective = evaluation.objective
    margin = tolerance_of(objective)
    tiers = []
    for priority, bound in zip(priorities, bounds, strict=True):
        value = evaluation.tiers[priority]
        if bound is not None and bound < value - margin:
            raise VerificationError([
                f"{solver} claims that no plan is worth more than {bound!r} in priority "
                f"{priority}, but its own plan is worth {value!r} there"
            ])  # fmt: skip
        tiers.append(Tier(priority, value, None if bound is None else max(bound, value)))
    bound = _total([tier.bound for tier in tiers])
    if bound is not None:
        bound = max(bound, objective)
    proved = bound is not None and bound - objective <= margin
    if outcome.stop is Stop.PROVED and not proved:
        shown = "no bound" if bound is None else f"bound − objective = {bound - objective:.3g}"
        warnings.append(f"{solver} calls its plan proved; {shown}, so it is not called optimal")
    return Certificate(
        status=Status.OPTIMAL if proved else Status.FEASIBLE,
        stop=outcome.stop, plan=outcome.plan, evaluation=evaluation,
        bound=bound, gap=relative_gap(objective, bound), tiers=tuple(tiers),
        warnings=tuple(warnings),
    )  # fmt: skip


def tolerance_of(objective: float) -> float:
    """Return how far the bound of an optimal plan may lie above its objective."""
    return TOLERANCE * max(1.0, abs(objective))


def must_stay(job: Job) -> bool:
    """Whether a plan without the job is no plan."""
    return job.must_place or (job.current is not None and not job.preemptible)


def _check(snapshot: Snapshot, plan: Plan, solver: str) -> Evaluation:
    try:
        return check(snapshot, plan)
    except VerificationError as error:
        lines = [f"the plan of {solver} breaks a rule: {line}" for line in error.violations]
        raise VerificationError(lines) from None


def _read_bounds(
    bounds: Sequence[float | None], tiers: int, solver: str
) -> tuple[list[float | None], list[str]]:
    """Return one bound per tier, what is not a finite number counting as none."""
    if not bounds:
        return [None] * tiers, []
    if len(bounds) != tiers:
        raise VerificationError([f"{solver} returns {len(bounds)} bounds for {tiers} priorities"])
    read: list[float | None] = []
    warnings = []
    for bound in bounds:
        finite = bound is not None and math.isfinite(bound)
        read.append(float(bound) if bound is not None and finite else None)
        if bound is not None and not finite and bound != math.inf:
            warnings.append(f"{solver} returns the bound {bound}, which is left out")
    return read, warnings


def _without_plan(
    snapshot: Snapshot, outcome: Outcome, priorities: Sequence[int],
    bounds: Sequence[float | None], warnings: list[str], solver: str,
) -> Certificate:  # fmt: skip
    status = Status.NO_SOLUTION
    if outcome.stop is Stop.INFEASIBLE:
        if not any(must_stay(job) for job in snapshot.jobs):
            raise VerificationError([
                f"{solver} claims infeasibility, but no job must be placed: "
                "the plan that places nothing is feasible"
            ])  # fmt: skip
        status = Status.INFEASIBLE
    elif outcome.stop is Stop.ERROR:
        status = Status.ERROR
    if status is not Status.NO_SOLUTION:
        bounds = [None] * len(priorities)
    return Certificate(
        status=status, stop=outcome.stop, plan=None, evaluation=None,
        bound=_total(bounds), gap=None,
        tiers=tuple(Tier(p, None, b) for p, b in zip(priorities, bounds, strict=True)),
        warnings=tuple(warnings),
    )  # fmt: skip


def _total(bounds: Sequence[float | None]) -> float | None:
    known = [bound for bound in bounds if bound is not None]
    return math.fsum(known) if len(known) == len(bounds) else None
