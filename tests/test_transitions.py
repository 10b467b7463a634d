"""From what runs to a plan: who starts, switches, moves and stops, and what it costs."""

from __future__ import annotations

import math

import pytest
from build import job, node, profile, snapshot
from hypothesis import given
from strategies import snapshots

from elastico_opt import Assignment, Plan, Snapshot, TaskPlacement, evaluate
from elastico_opt.plan import running_plan
from elastico_opt.transitions import Change, transitions

_POLICY = {"switch_cost": 0.1, "migration_cost": 0.2, "eviction_cost": 0.5}
_HOME = {"profile": "slow", "tasks": [{"node": "n1", "gpus": [0]}]}


def _at(name: str, gpu: str) -> Assignment:
    return Assignment(name, (TaskPlacement("n1", (gpu,)),))


@pytest.mark.parametrize(
    ("current", "after", "change", "cost"),
    [
        (None, _at("slow", "0"), Change.START, 0.0),
        (None, None, None, 0.0),
        (_HOME, _at("slow", "0"), None, 0.0),
        (_HOME, _at("fast", "0"), Change.SWITCH, 0.2),
        (_HOME, _at("slow", "1"), Change.MOVE, 0.4),
        (_HOME, _at("fast", "1"), Change.MOVE, 0.6),
        (_HOME, None, Change.STOP, 1.0),
    ],
)
def test_each_kind(
    current: object, after: Assignment | None, change: Change | None, cost: float
) -> None:
    """A job of weight 2: a move may come with a switch, and then costs both."""
    mine = job("a", profile("slow"), profile("fast", 2), weight=2)
    if current is not None:
        mine["current"] = current
    found = snapshot([node(gpus=2)], [mine], policy=_POLICY)
    told = transitions(found, Plan({} if after is None else {"a": after}))
    assert [t.change for t in told] == ([] if change is None else [change])
    assert sum(t.cost for t in told) == pytest.approx(cost)


def test_what_frees_comes_before_what_takes() -> None:
    """Stops first, then moves and switches, then starts; within each as the jobs are listed."""
    jobs = [job(name, profile("slow"), profile("fast", 2)) for name in ("start", "stop", "switch")]
    for j, gpu in ((1, 0), (2, 1)):
        jobs[j]["current"] = {"profile": "slow", "tasks": [{"node": "n1", "gpus": [gpu]}]}
    found = snapshot([node(gpus=2)], jobs)
    told = transitions(found, Plan({"start": _at("slow", "0"), "switch": _at("fast", "1")}))
    assert [t.job for t in told] == ["stop", "switch", "start"]


@given(snapshots())
def test_what_runs_already_needs_nothing_and_costs_are_those_of_the_objective(
    found: Snapshot,
) -> None:
    """The plan of the running jobs has no transition; the empty plan pays every eviction."""
    assert transitions(found, running_plan(found)) == ()
    paid = sum(t.cost for t in transitions(found, Plan({})))
    assert math.isclose(paid, -evaluate(found, Plan({})).terms["eviction"], abs_tol=1e-9)
