"""The solver as a whole: repetition, order, grouping, and what it reports of itself."""

from __future__ import annotations

import random

import pytest
from brute_force import brute_force
from hypothesis import given, settings, strategies as st
from small import snapshot
from strategies import snapshots, twins

from elastico_opt import Snapshot, solve, verify
from elastico_opt.instances.generate import generate
from elastico_opt.plan import running_plan
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits, Stop
from elastico_opt.solvers.pattern import PatternSolver

INSTANCES = {
    "pairs": generate("lucidlike", 30, 12, seed=1),
    "three on a GPU": generate("triples", 16, 6, seed=1),
    "gangs, hosts, tiers, running": generate("mixed", 16, 12, seed=1),
    "identical": generate("identical", 30, 12, seed=1),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_the_same_seed_gives_the_same_plan(name: str) -> None:
    """Without a time limit nothing depends on the clock, the machine or the run before."""
    one, other = (solve(INSTANCES[name], solver="pattern", seed=3) for _ in range(2))
    assert one.plan == other.plan
    assert (one.objective, one.bound, one.tiers) == (other.objective, other.bound, other.tiers)
    verify(INSTANCES[name], one)


@pytest.mark.parametrize("name", INSTANCES)
def test_seeds_and_the_order_of_jobs_change_no_optimum(name: str) -> None:
    """Which of many equal plans is found may change; what it is worth may not."""
    given = INSTANCES[name]
    jobs = list(given.jobs)
    random.Random(5).shuffle(jobs)
    base = solve(given, solver="pattern")
    for other in (
        solve(given, solver="pattern", seed=11),
        solve(given.replace(jobs=tuple(jobs)), solver="pattern"),
        solve(given.replace(nodes=tuple(reversed(given.nodes))), solver="pattern"),
    ):
        assert other.status == base.status == "optimal"
        assert other.objective == pytest.approx(base.objective, rel=1e-6)


def test_f24_identical_jobs_on_identical_nodes_are_one_column_or_two() -> None:
    """Fifty equal jobs on a thousand equal nodes: asserted by structure, not by time.

    Without grouping there would be 50,000 ways for one job; with it there is a single job, and a
    pair.
    """
    given = snapshot(
        {f"n{i}": 1 for i in range(1000)},
        {f"j{i}": {"gpu": {"memory": 4}, "workload": "w"} for i in range(50)},
        interference={"table": [{"a": "w", "b": "w", "slowdown": [1.5, 1.5]}]},
    )
    outcome = PatternSolver().solve(compile_program(given), Limits())
    assert outcome.stop is Stop.PROVED
    assert outcome.bound == pytest.approx(50)
    assert outcome.statistics["columns"] <= 2
    assert outcome.statistics["enumerated"] <= 2
    assert outcome.plan is not None
    verify(given, outcome.plan)


def test_identical_jobs_that_must_share() -> None:
    """Half as many GPUs as jobs: pairs of equal jobs, one pattern used many times."""
    given = snapshot(
        {f"n{i}": 5 for i in range(20)},
        {f"j{i}": {"gpu": {"memory": 4}, "workload": "w"} for i in range(150)},
        interference={"table": [{"a": "w", "b": "w", "slowdown": [1.25, 1.25]}]},
    )
    outcome = PatternSolver().solve(compile_program(given), Limits())
    assert outcome.stop is Stop.PROVED
    assert outcome.bound == pytest.approx(50 + 100 * 0.75)
    assert outcome.statistics["columns"] <= 2


def test_an_optimal_start_leaves_only_the_proof() -> None:
    """A start is the incumbent from the first event on."""
    given = INSTANCES["pairs"]
    best = solve(given, solver="pattern")
    seen = []
    solve(given, solver="pattern", start=best, on_event=seen.append)
    assert seen[0].objective == pytest.approx(best.objective)


def test_tiers_come_first_and_bounds_come_per_tier() -> None:
    """A low job of great weight waits for a high one of little."""
    given = snapshot(
        {"n": 1}, {"low": {"weight": 100}, "high": {"weight": 0.01, "priority": 1}},
        types={"A": {"max_residents": 1}},
    )  # fmt: skip
    result = solve(given, solver="pattern")
    assert result.status == "optimal"
    assert [(t.priority, t.objective, t.bound) for t in result.tiers] == [
        (1, pytest.approx(0.01), pytest.approx(0.01)), (0, pytest.approx(0), pytest.approx(0)),
    ]  # fmt: skip


def test_must_place_jobs_are_placed_at_a_loss() -> None:
    """The first stage counts them; what they cost others comes after."""
    given = snapshot(
        {"n": 1},
        {
            "must": {"weight": 0.1, "must_place": True, "exclusive": True},
            "rich": {"weight": 100},
        },
    )
    result = solve(given, solver="pattern")
    assert (result.status, result.objective) == ("optimal", pytest.approx(0.1))


@settings(max_examples=40)
@given(snapshots(max_jobs=3, eligibility=True, tiers=False, interference=False))
def test_running_gangs_stay_or_move_exactly(given: Snapshot) -> None:
    """Homes, cordons, CPU tasks and tasks of several GPUs, without interference: always proved."""
    check(given)


@settings(max_examples=50)
@given(
    snapshots(
        gangs=False, host=False, tiers=False, coupling="throughput", max_residents=(3, None),
        max_devices=2,
    )
)  # fmt: skip
def test_throughput_coupling_with_any_number_of_residents(given: Snapshot) -> None:
    """Not linear in the slowdown, so that the joint form must refuse it: here it is exact."""
    check(given)


@pytest.mark.parametrize("gangs", [False, True])
@settings(max_examples=40)
@given(draws=st.data())
def test_equal_jobs_and_nodes(gangs: bool, draws: st.DataObject) -> None:
    """Classes with several jobs and pools of several nodes: same answers as one by one."""
    dials = {"gangs": gangs, "interference": not gangs, "host": gangs, "tiers": False}
    check(draws.draw(twins(max_jobs=2, max_devices=2, max_nodes=2, max_profiles=2, **dials)))


def check(given: Snapshot) -> None:
    answer = brute_force(given)
    result = solve(given, solver="pattern")
    assert result.status == answer.status
    if answer.objective is not None:
        best = float(answer.objective)
        assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert result.bound == pytest.approx(best, rel=1e-5, abs=1e-5)


def test_a_gang_slowed_unevenly_is_proved_by_its_largest_loss() -> None:
    """The relaxation charges the mean and bounds by 1.65; the integer program closes the gap."""
    given = snapshot(
        {"n": 2}, {"gang": {"tasks": [{"count": 2}]}, "other": {"weight": 0.9}},
        interference={"table": [{"a": "gang/p", "b": "other/p", "slowdown": [1.5, 1]}]},
    )  # fmt: skip
    result = solve(given, solver="pattern")
    assert (result.status, result.stop) == ("optimal", "proved")
    assert result.objective == pytest.approx(1.4)
    assert result.bound == pytest.approx(1.4)


def test_the_running_plan_is_kept_where_moving_costs_too_much() -> None:
    """All jobs at home, homes good enough: nothing moves."""
    homes = {f"j{i}": [{"node": "n", "gpus": [i]}] for i in range(3)}
    given = snapshot(
        {"n": 3, "m": 3},
        {name: {"current": {"profile": "p", "tasks": tasks}} for name, tasks in homes.items()},
        policy={"migration_cost": 1.0},
    )
    result = solve(given, solver="pattern")
    assert result.plan == running_plan(given)
