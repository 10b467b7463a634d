"""Neighbourhood search: sub-clusters are re-solved, and the plan as a whole only gets better."""

from __future__ import annotations

import pytest
from brute_force import brute_force
from hypothesis import given, settings, strategies as st
from random_plans import free_to_choose, random_plan
from strategies import snapshots

from elastico_opt import Snapshot, evaluate, solve, verify
from elastico_opt.instances.generate import generate
from elastico_opt.program import Placement, compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.pattern import neighbourhood
from elastico_opt.solvers.pattern.neighbourhood import NodeSearch
from elastico_opt.solvers.pattern.solver import _solve_part


def improved(given: Snapshot, start: dict[int, Placement], seconds: float) -> dict[int, Placement]:
    program = compile_program(given)
    search = NodeSearch(program, _solve_part, Limits())
    values: list[tuple[float, ...]] = [tiers(given, start)]

    def gained(better: dict[int, Placement]) -> bool:
        values.append(tiers(given, better))
        return True

    best = search.run(start, seconds, gained)
    assert values == sorted(values), "each plan told is better than the one before"
    assert values[-1] == tiers(given, best)
    return best


def tiers(given: Snapshot, placements: dict[int, Placement]) -> tuple[float, ...]:
    plan = compile_program(given).to_plan(placements)
    verify(free_to_choose(given), plan)
    return tuple(evaluate(given, plan).tiers.values())


@settings(max_examples=40)
@given(snapshots(max_jobs=4, max_nodes=3), st.integers(0, 2**32))
def test_any_plan_stays_a_plan_and_loses_nothing(given: Snapshot, seed: int) -> None:
    """Jobs that reach out of the sub-cluster keep their nodes out of it; homes stay homes."""
    program = compile_program(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbourhood, "DEVICES", 1)
        patch.setattr(neighbourhood, "FAILURES", 2)
        improved(given, random_plan(program, seed), 2.0)


@pytest.mark.parametrize("family", ["lucidlike", "gangs"])
def test_first_fit_is_improved(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty GPUs in five nodes, two at a time."""
    monkeypatch.setattr(neighbourhood, "DEVICES", 16)
    given = generate(family, 60, 40, tiers=1)
    start = first_fit(compile_program(given))
    assert start is not None
    assert tiers(given, improved(given, start, 3.0)) > tiers(given, start)


def test_a_cluster_is_no_sub_cluster_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small clusters are solved to proof anyway: no search, however far the plan is off."""
    monkeypatch.setattr(neighbourhood, "compile_program", lambda _: pytest.fail("searched"))
    given = generate("gangs", 12, 8, tiers=1)
    assert improved(given, {}, 5.0) == {}


@settings(max_examples=30)
@given(snapshots(max_jobs=4, max_nodes=3))
def test_the_search_changes_no_optimum(given: Snapshot) -> None:
    """With sub-clusters of a single GPU it runs on the smallest snapshots too."""
    answer = brute_force(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbourhood, "DEVICES", 1)
        result = solve(given, solver="pattern")
    uneven = any(p.workers() > 1 for job in given.jobs for p in job.profiles)
    if result.status == "feasible":
        assert uneven
        assert given.interference is not None
        return
    assert result.status == answer.status
    if answer.objective is not None:
        assert result.objective == pytest.approx(float(answer.objective), rel=1e-6, abs=1e-6)
