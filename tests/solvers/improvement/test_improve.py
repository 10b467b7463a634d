"""Improvement of plans: always feasible, never worse than its start, never above the optimum."""

from __future__ import annotations

import time

import pytest
from brute_force import brute_force
from hypothesis import HealthCheck, given, settings, strategies as st
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.instances.generate import generate
from elastico_opt.program import Placement, compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.improvement.search import improve, is_pair_form
from elastico_opt.solvers.improvement.worth import better, rank, tier_values
from elastico_opt.verification import evaluate, verify

QUICK = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
SINGLE = {"gangs": False, "host": False, "tiers": False, "max_residents": (2, 1)}


def check(snapshot: Snapshot, placements: dict[int, Placement] | None, effort: float) -> None:
    """Improve, and hold the result against the check, the start and brute force."""
    program = compile_program(snapshot)
    found = improve(program, placements, effort=effort)
    best = brute_force(snapshot)
    if not found.complete:
        return  # no plan was found; whether there is one is for an exact solver to say
    plan = program.to_plan(found.placements)
    verify(snapshot, plan)
    values = list(evaluate(snapshot, plan).tiers.values())
    assert found.values == pytest.approx(values, abs=1e-9, rel=1e-9)
    start = rank(program, placements or {})
    assert not better(start, rank(program, found.placements))
    optimum = [float(best.tiers[p]) for p in program.priorities]
    assert not better([0.0, *values], [0.0, *optimum])


@QUICK
@given(snapshots(), st.booleans())
def test_plans_of_any_snapshot_are_feasible_and_between_start_and_optimum(
    given: Snapshot, begin: bool
) -> None:
    """With every feature of the contract, from no plan and from the greedy one."""
    start = first_fit(compile_program(given)) if begin else None
    check(given, start, 0.3)


@QUICK
@given(snapshots(**SINGLE), st.booleans())
def test_plans_of_pairs_are_feasible_and_between_start_and_optimum(
    given: Snapshot, begin: bool
) -> None:
    """Where chains do all the work: homes, cordons, selectors and limits included."""
    start = first_fit(compile_program(given)) if begin else None
    check(given, start, 4.0)


@QUICK
@given(snapshots(must_place=False))
def test_values_are_those_of_the_check(given: Snapshot) -> None:
    """The quick evaluation of placements agrees with the exact one."""
    program = compile_program(given)
    placements = first_fit(program)
    if placements is None:
        return
    exact = list(evaluate(given, program.to_plan(placements)).tiers.values())
    assert tier_values(program, placements) == pytest.approx(exact, abs=1e-9, rel=1e-9)


def small(family: str, seed: int) -> Snapshot:
    """Return an instance that brute force can solve."""
    return generate(family, 5, 2, seed=seed, running="0.4", gpus_per_node=2, profiles=2)


@pytest.mark.parametrize("family", ["lucidlike", "gangs", "mixed"])
def test_small_instances_are_mostly_solved_to_the_optimum(family: str) -> None:
    """A search that only accepts what it is given would fail this: 8 of 10 must be optimal."""
    solved = 0
    for seed in range(10):
        snapshot = small(family, seed)
        found = improve(compile_program(snapshot), effort=5.0)
        best = brute_force(snapshot)
        solved += best.objective is not None and sum(found.values) >= float(best.objective) - 1e-9
    assert solved >= 8


@pytest.mark.parametrize("family", ["lucidlike", "mixed"])
def test_the_same_seed_gives_the_same_plan(family: str) -> None:
    """Work is counted in moves, not in seconds."""
    program = compile_program(generate(family, 40, 12, seed=3))
    one, two = (improve(program, seed=5, effort=0.5) for _ in range(2))
    assert one.placements == two.placements
    assert one.statistics == two.statistics


def test_a_deadline_in_the_past_gives_the_start_back() -> None:
    """The clock is looked at before anything is tried."""
    program = compile_program(generate("lucidlike", 40, 12, seed=3))
    start = first_fit(program)
    found = improve(program, start, Limits(deadline=time.monotonic() - 1))
    assert found.placements == start


def test_jobs_of_a_cluster_of_pairs_gain_much_over_the_greedy_plan() -> None:
    """Chains find who gets on with whom; the optimum of this instance, 128.4191, is proved."""
    snapshot = generate("lucidlike", 200, 64, seed=1)
    program = compile_program(snapshot)
    assert is_pair_form(program)
    found = improve(program)
    verify(snapshot, program.to_plan(found.placements))
    assert 128.4191 * 0.999 <= sum(found.values) <= 128.4192
