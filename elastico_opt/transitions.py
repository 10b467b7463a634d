"""What has to happen to get from what runs now to a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from elastico_opt.plan import Assignment, Plan, current_assignment

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Policy, Snapshot


class Change(StrEnum):
    """What happens to a job."""

    START = "start"
    SWITCH = "switch"  # another profile on the same devices
    MOVE = "move"  # other devices, perhaps with another profile as well
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Transition:
    """One job that does not go on as it is.

    Attributes
    ----------
    job : str
    change : Change
    before, after : Assignment or None
        What it holds now, and what the plan gives it.
    cost : float
        What the policy charges for it, in the unit of the objective.
    """

    job: str
    change: Change
    before: Assignment | None
    after: Assignment | None
    cost: float


def transitions(snapshot: Snapshot, plan: Plan) -> tuple[Transition, ...]:
    """Return who stops, moves, switches and starts under a plan.

    They come in an order that frees before it takes: stops, then moves and switches, then starts,
    each in the order of the jobs. Moves may still trade places with each other.
    """
    order = list(Change)[::-1]
    found = sorted(_changes(snapshot, plan), key=lambda change: order.index(change.change))
    return tuple(found)


def _changes(snapshot: Snapshot, plan: Plan) -> Iterator[Transition]:
    nodes = {node.name: node for node in snapshot.nodes}
    for job in snapshot.jobs:
        after = plan.get(job.name)
        before = current_assignment(job.current, nodes) if job.current else None
        change = _change(before, after)
        if change is not None:
            cost = _cost(job, snapshot.policy, before, after)
            yield Transition(job.name, change, before, after, cost)


def _change(before: Assignment | None, after: Assignment | None) -> Change | None:
    if before is None:
        return None if after is None else Change.START
    if after is None:
        return Change.STOP
    if before.places() != after.places():
        return Change.MOVE
    return Change.SWITCH if before.profile != after.profile else None


def _cost(job: Job, policy: Policy, before: Assignment | None, after: Assignment | None) -> float:
    if before is None:
        return 0.0
    if after is None:
        return float(job.weight * policy.eviction_cost)
    switch = policy.switch_cost if before.profile != after.profile else 0
    move = policy.migration_cost if before.places() != after.places() else 0
    return float(job.weight * (switch + move))
