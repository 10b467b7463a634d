"""Reasons are claims too: each is checked against all there is to try.

On random snapshots with their best plan, for every job left out: a code that says "never" must
hold with the cluster to itself, one that says "not now" must hold for every way to add the job to
the plan, and one that says "it fits, but" must be right that it fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest
from brute_force import brute_force
from hypothesis import event, given, note, settings
from strategies import snapshots

from elastico_opt import (
    Assignment,
    Plan,
    Snapshot,
    TaskPlacement,
    VerificationError,
    evaluate,
    snapshot_json,
    verify,
)
from elastico_opt.reasons import STATIC, explain_unplaced
from elastico_opt.snapshot import Job

FITS = ("outbid", "not_tried")


def ways(found: Snapshot, one: Job) -> Iterator[Assignment]:
    """Every assignment of a job that one can write down."""
    held = {n.name: [gpu.id for gpu in n.devices()] for n in found.nodes}
    for choice in one.profiles:
        tasks = [task for task in choice.task_list() for _ in range(task.count)]
        spots = [
            [
                TaskPlacement(n, gpus)
                for n, ids in held.items()
                for gpus in combinations(ids, t.gpus)
            ]
            for t in tasks
        ]
        for tuple_ in product(*spots):
            yield Assignment(choice.name, tuple_)


def holds(found: Snapshot, plan: Plan) -> bool:
    """Whether a plan breaks no rule (jobs that must be placed apart)."""
    try:
        verify(found, plan)
    except VerificationError as error:
        return all("must be placed" in v or "not preemptible" in v for v in error.violations)
    return True


def check_reasons(found: Snapshot) -> None:
    note(snapshot_json(found))
    plan = brute_force(found).plan
    if plan is None:
        return
    value = tuple(evaluate(found, plan).tiers.values())
    rows = {row.job: row for row in explain_unplaced(found, plan)}
    assert list(rows) == [one.name for one in found.jobs if one.name not in plan]
    for one in found.jobs:
        if one.name in plan:
            continue
        row = rows[one.name]
        note(str(row))
        event(row.reason)
        assert row.message
        assert "\n" not in row.message
        grown = [Plan({**plan, one.name: way}) for way in ways(found, one)]
        fitting = [new for new in grown if holds(found, new)]
        alone = any(holds(found, Plan({one.name: way})) for way in ways(found, one))
        if row.reason in STATIC and row.reason != "cordoned":
            assert not alone
        elif row.reason in FITS:
            assert fitting
            better = [
                new for new in fitting if gains(tuple(evaluate(found, new).tiers.values()), value)
            ]
            assert not better, "the plan was not the best"
            assert row.reason == "outbid"
        else:
            assert not fitting


def gains(new: tuple[float, ...], old: tuple[float, ...]) -> bool:
    return tuple(round(v, 8) for v in new) > tuple(round(v, 8) for v in old)


@settings(max_examples=150)
@given(snapshots(must_place=False))
def test_reasons_are_true(found: Snapshot) -> None:
    """No job is said to be short of room that it has, or to fit where it does not."""
    check_reasons(found)


@pytest.mark.slow
@settings(max_examples=3000)
@given(snapshots())
def test_reasons_are_true_at_length(found: Snapshot) -> None:
    """The same, on many more snapshots."""
    check_reasons(found)
