"""The warm epoch: what carries over, what may not, and that each step stands on its own."""

from __future__ import annotations

import random

import pytest
from build import job, node, profile, snapshot
from hypothesis import given, settings, strategies as st
from strategies import snapshots

import elastico_opt as eo
from elastico_opt import InputError, Policy, Scheduler, Snapshot, VerificationError, verify
from elastico_opt.instances.generate import generate
from elastico_opt.transitions import Change


def _few(found: Snapshot, seed: int) -> Snapshot:
    """Take some jobs and nodes away, as if they had ended or failed."""
    draw = random.Random(seed)
    jobs = [j for j in found.jobs if draw.random() < 0.7]
    nodes = [n for n in found.nodes if draw.random() < 0.8]
    return found.replace(jobs=tuple(jobs), nodes=tuple(nodes))


@settings(max_examples=40)
@given(snapshots(), st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_every_step_holds_whatever_comes_and_goes(found: Snapshot, seeds: list[int]) -> None:
    """Jobs and nodes come and go between steps; plans verify, and bounds are not below them."""
    scheduler = Scheduler(adopt=False)
    for seed in seeds:
        now = _few(found, seed)
        step = scheduler.step(now)
        if step.plan is not None:
            verify(now, step.plan)
            assert step.bound is None or step.bound >= (step.objective or 0.0) - 1e-6


def test_the_second_step_on_the_same_snapshot_changes_nothing() -> None:
    """What was placed is adopted as running, and nothing gains by a change that costs."""
    scheduler = Scheduler(policy=Policy(migration_cost="0.05", switch_cost="0.01"))
    found = generate("lucidlike", 30, 8)
    first = scheduler.step(found)
    assert {t.change for t in first.transitions} == {Change.START}
    assert {t.job for t in first.transitions} == set(first.plan or ())
    second = scheduler.step(found)
    assert second.objective is not None
    assert first.objective is not None
    assert second.objective + 1e-9 >= first.objective
    third = scheduler.step(second.snapshot)
    if second.objective - first.objective < 1e-9:
        assert second.transitions == ()
    assert (third.objective or 0.0) + 1e-9 >= second.objective


def test_new_room_is_used_by_jobs_that_waited() -> None:
    """Values of jobs alone carry over like those of pairs: nodes that come are filled at once."""
    one, more = [node("n1", 1)], [node("n1", 1), node("n2", 1), node("n3", 1)]
    jobs = [job(name, profile("p", exclusive=True)) for name in "abc"]
    scheduler = Scheduler()
    assert scheduler.step(snapshot(one, jobs)).objective == 1
    assert scheduler.step(snapshot(more, jobs)).objective == 3


def test_what_runs_is_never_left_for_less() -> None:
    """With a proven optimum running and costs for moves, a first step changes nothing."""
    found = generate("lucidlike", 40, 14).replace(policy=Policy(migration_cost="0.05"))
    best = eo.solve(found, solver="pattern").plan
    assert best is not None
    running = Scheduler()
    running._plan = best
    snap = running.step(found).snapshot
    for solver in ("lagrangian", "greedy", "pattern"):
        result = eo.solve(snap, solver=solver, time_limit=20)
        assert result.objective is not None
        assert result.objective >= eo.evaluate(snap, best).objective - 1e-9
    assert Scheduler().step(snap).transitions == ()


def test_notes_reach_the_result_of_a_step() -> None:
    """Pairs that the table lacks, and running jobs whose node is gone, as `solve` has them."""
    found = generate("gangs", 12, 4, running="0.6")
    found = found.replace(nodes=tuple(
        n.replace(name=n.name + "x") for n in found.nodes
    ))  # fmt: skip
    step, result = Scheduler().step(found), eo.solve(found, solver="greedy")
    assert step.result.missing_pairs == result.missing_pairs
    assert any("which is gone" in line for line in step.result.warnings)


def test_no_move_that_does_not_pay_its_cost() -> None:
    """Another GPU would be 4 % better for the job; a move costs 10 % of its weight."""
    types = {"slow": {}, "fast": {}}
    nodes = [node("n1", 1, gpu_type="slow"), node("n2", 1, gpu_type="fast")]
    one = job("a", profile("p", {"slow": 96, "fast": 100}))
    one["current"] = {"profile": "p", "tasks": [{"node": "n1", "gpus": [0]}]}
    for cost, moves in ((0.1, 0), (0.01, 1)):
        found = snapshot(nodes, [one], types, policy={"migration_cost": cost})
        assert len(Scheduler().step(found).transitions) == moves


def test_adopting_can_be_left_to_the_caller() -> None:
    """With adopt=False a job without `current` starts anew, whatever the last plan was."""
    found = generate("lucidlike", 6, 2)
    for adopt, starts in ((True, 0), (False, 4)):
        scheduler = Scheduler(adopt=adopt)
        scheduler.step(found)
        told = scheduler.step(found).transitions
        assert len([t for t in told if t.change is Change.START]) == starts


def test_the_result_is_that_of_the_step() -> None:
    """The lazy result has the same plan and figures, and a reason for every job left out."""
    step = Scheduler().step(generate("lucidlike", 20, 4))
    result = step.result
    assert result.plan == step.plan
    assert (result.objective, result.bound, result.gap) == (step.objective, step.bound, step.gap)
    assert len(result.placements) + len(result.unplaced) == 20
    assert all(row.reason and row.message for row in result.unplaced)
    assert result.to_json()


def test_a_step_that_fails_leaves_the_scheduler_as_it_was() -> None:
    """After a snapshot that cannot be compiled the next one is planned as if nothing was."""
    scheduler, other = Scheduler(), Scheduler()
    found = generate("lucidlike", 10, 2)
    scheduler.step(found)
    other.step(found)
    broken = found.replace(interference=eo.Interference(model="predictor.json"))
    with pytest.raises(InputError):
        scheduler.step(broken)
    assert scheduler.step(found).plan == other.step(found).plan


@pytest.mark.parametrize("options", [{"time_limit": 0}, {"nonsense": 1}, {"score": "best"}])
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    """At once, not at the first step."""
    with pytest.raises((InputError, TypeError)):
        Scheduler(**options)  # type: ignore[arg-type]


def test_nothing_to_place() -> None:
    """No jobs, no nodes, and a job that must be placed and cannot be."""
    scheduler = Scheduler()
    assert scheduler.step(snapshot([node()], [])).objective == 0
    assert scheduler.step(snapshot([], [job()])).plan == eo.Plan({})
    stuck = scheduler.step(snapshot([node("n", 0)], [job("a", must_place=True)]))
    assert stuck.plan is None
    with pytest.raises(VerificationError):
        verify(stuck.snapshot, stuck.result)
