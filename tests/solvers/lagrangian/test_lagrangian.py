"""The priced solver as a whole: plans, bounds, prices, options, and what it keeps."""

from __future__ import annotations

import random

import numpy as np
import pytest
from brute_force import brute_force
from hypothesis import given, settings, strategies as st
from strategies import snapshots

import elastico_opt as eo
from elastico_opt import InputError, Snapshot, verify
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.improvement.pairs import PairValues
from elastico_opt.solvers.lagrangian import LagrangianSolver
from elastico_opt.solvers.lagrangian.gamma import interference_term
from elastico_opt.solvers.lagrangian.relaxation import Relaxation

_OPTIONS = [
    {}, {"step": "paper"}, {"step": "volume"}, {"score": "eq7", "rounds": 3},
    {"score": "eq7-weighted", "rounds": 2}, {"bound": "aggregate"}, {"bound": "pattern"},
    {"effort": 0.0, "iterations": 1},
]  # fmt: skip


@settings(max_examples=80)
@given(snapshots(), st.sampled_from(_OPTIONS), st.integers(0, 3))
def test_plan_and_bound_hold(found: Snapshot, options: dict[str, object], seed: int) -> None:
    """Objective <= optimum <= bound, tier by tier; the plan verifies; no plan only if must-place.

    The bound of a lower tier holds whatever the tiers above it reach.
    """
    best = brute_force(found)
    program = compile_program(found)
    outcome = LagrangianSolver(**options).solve(program, Limits(seed=seed))  # type: ignore[arg-type]
    if outcome.plan is None:
        assert program.job_must.any()
        return
    verify(found, outcome.plan)
    mine = list(eo.evaluate(found, outcome.plan).tiers.values())
    tops = [float(best.tiers[priority]) for priority in sorted(best.tiers, reverse=True)]
    for bound, top in zip(outcome.tier_bounds, tops, strict=True):
        assert bound is not None
        assert bound >= top - 1e-9 * max(1.0, abs(top))
    assert [round(value, 9) for value in mine] <= [round(top, 9) for top in tops]


@settings(max_examples=40)
@given(snapshots(tiers=False, must_place=False))
def test_gap_parts_add_up(found: Snapshot) -> None:
    """Price, relaxation and plan gap together are the distance from price bound to plan."""
    result = eo.solve(found, solver="lagrangian", solver_options={"bound": "pattern"})
    split = result.gap_split
    if split is None or split.pattern_bound is None or split.aggregate_bound is None:
        assert not found.jobs or not found.nodes or result.stop == "proved"
        return
    parts = (split.price_gap, split.relaxation_gap, split.plan_gap)
    assert result.objective is not None
    assert split.price_bound is not None
    total = sum(part for part in parts if part is not None)
    assert total == pytest.approx(split.price_bound - result.objective, abs=1e-6)
    assert split.price_gap >= -1e-6  # type: ignore[operator]
    assert split.plan_gap >= -1e-6  # type: ignore[operator]


@pytest.mark.parametrize(("family", "spread"), [("lucidlike", 0.005), ("gangs", 0.02)])
def test_the_order_of_jobs_matters_little(family: str, spread: float) -> None:
    """Shuffled jobs give another plan, worth the same within the gap that is aimed at."""
    found = generate(family, 60, 20)
    values = []
    for seed in range(4):
        jobs = random.Random(seed).sample(found.jobs, len(found.jobs))
        shuffled = found.replace(jobs=tuple(jobs))
        result = eo.solve(shuffled, solver="lagrangian")
        assert result.objective is not None
        values.append(result.objective)
    assert max(values) - min(values) <= spread * max(values)


def test_a_second_call_starts_from_the_first() -> None:
    """Fewer iterations, and the values of pairs are not computed again."""
    program = compile_program(generate("lucidlike", 60, 20))
    solver = LagrangianSolver()
    first = solver.solve(program, Limits())
    second = solver.solve(program, Limits(), first.plan)
    assert solver._pairs is not None
    assert solver._pairs.computed == 0
    assert second.statistics["iterations"] <= first.statistics["iterations"]
    assert sum(eo.evaluate(program.snapshot, second.plan).tiers.values()) >= sum(
        eo.evaluate(program.snapshot, first.plan).tiers.values()
    )


@settings(max_examples=60)
@given(snapshots(gangs=False), st.randoms(use_true_random=False))
def test_pair_values_taken_over_are_those_computed(found: Snapshot, rng: random.Random) -> None:
    """Whatever jobs and nodes left or changed their order between two programs."""
    before = PairValues.build(compile_program(found))
    jobs = rng.sample(found.jobs, rng.randint(0, len(found.jobs)))
    nodes = rng.sample(found.nodes, rng.randint(0, len(found.nodes)))
    program = compile_program(found.replace(jobs=tuple(jobs), nodes=tuple(nodes)))
    warm, cold = PairValues.build(program, before), PairValues.build(program)
    assert np.array_equal(warm.pairs.table, cold.pairs.table)
    assert np.array_equal(warm.pairs.single, cold.pairs.single)


def test_the_score_orders_the_search() -> None:
    """With Γ or without weights, another plan is found on some instance."""
    program = compile_program(generate("gangs", 60, 20))
    values = {
        score: LagrangianSolver(score=score, rounds=2, effort=0.1).solve(program, Limits()).plan
        for score in ("eq6", "eq7", "eq7-weighted")
    }
    assert len({str(plan) for plan in values.values()}) > 1


def test_the_pattern_bound_is_the_tighter_one() -> None:
    """On a full cluster, pools cannot see that memory of two GPUs is not that of one."""
    found = generate("lucidlike", 60, 20)
    bounds = [
        eo.solve(found, solver="lagrangian", solver_options={"bound": bound}).bound
        for bound in ("price", "pattern")
    ]
    optimum = eo.solve(found, solver="pattern").objective
    assert bounds[0] > bounds[1] + 0.1 >= optimum  # type: ignore[operator]


def test_gamma_is_higher_for_those_who_suffer_and_nothing_without_neighbours() -> None:
    """Two profiles of one job beside the same plan: the one with the worse slowdowns pays more."""
    found = generate("lucidlike", 40, 16)
    program = compile_program(found)
    relaxation = Relaxation.build(program, prune=False)
    assert not interference_term(relaxation, {}).any()
    plan = LagrangianSolver().solve(program, Limits()).plan
    assert plan is not None
    gamma = interference_term(relaxation, program.from_plan(plan))
    assert (gamma >= 0).all()
    assert (gamma[:, 0] == 0).all()
    assert (gamma > 0).any()


@pytest.mark.parametrize(
    "options",
    [
        {"bound": "best"},
        {"step": "newton"},
        {"score": "eq8"},
        {"rounds": 0},
        {"effort": -1},
        {"iterations": 2.5},
        {"rounds": "abc"},
        {"arrays": 5},
        {"arrays": "jax"},
    ],
)
def test_options_that_do_not_exist(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        LagrangianSolver(**options)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        eo.solve(generate("lucidlike", 4, 2), solver="lagrangian", solver_options=options)
