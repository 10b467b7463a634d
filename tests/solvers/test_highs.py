"""HiGHS made exact: what only its tolerances admit is cut off, and bounds stay bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from small import snapshot

from elastico_opt.formulations.matrix import MatrixForm, lower
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits, Stop
from elastico_opt.solvers.exactness import broken_rows, cover, rounded
from elastico_opt.solvers.highs import HighsEngine, HighsSolver, power_of_two
from elastico_opt.verification import evaluate, verify

LARGE = 2**45


def knapsack(uppers: tuple[int, ...], room: int, amounts: tuple[int, ...]) -> MatrixForm:
    """Amounts so large that one unit too much is lost in the tolerances of any float solver."""
    m = pyo.ConcreteModel()
    m.v = pyo.Var(range(len(uppers)), domain=pyo.Integers, bounds=lambda _, i: (0, uppers[i]))
    m.room = pyo.Constraint(expr=sum(a * m.v[i] for i, a in enumerate(amounts)) <= room)
    m.value = pyo.Objective(expr=sum((3 - i) * m.v[i] for i in m.v), sense=pyo.maximize)
    return lower(m)


def solve(form: MatrixForm) -> Any:
    engine = HighsEngine(form, Limits())
    return engine, engine.solve(0, (), None, lambda objective, bound: None)


def test_binaries_that_exceed_a_capacity_by_one_unit() -> None:
    form = knapsack((1, 1, 1), 2 * LARGE + 3, (LARGE + 1, LARGE + 3, 1))
    engine, answer = solve(form)
    assert answer.stop is Stop.PROVED
    assert answer.vector.tolist() == [1.0, 0.0, 1.0]
    assert answer.bound == pytest.approx(4.0, abs=1e-6)
    assert len(engine.covers) >= 1, "the case no longer needs a cut: make it harder"


def test_counts_that_exceed_a_capacity_by_one_unit() -> None:
    """Integers above 1 need a binary each in the cut: (3, 0) must stay possible."""
    form = knapsack((3, 3), 4 * LARGE + 3, (LARGE + 1, LARGE + 3))
    engine, answer = solve(form)
    assert answer.stop is Stop.PROVED
    assert not broken_rows(form, answer.vector)
    exact = max(
        3 * a + 2 * b
        for a in range(4)
        for b in range(4)
        if a * (LARGE + 1) + b * (LARGE + 3) <= 4 * LARGE + 3
    )
    assert form.value(0, answer.vector) == exact
    assert answer.bound == pytest.approx(exact, abs=1e-6)
    assert len(engine.covers) >= 1, "the case no longer needs a cut: make it harder"


def test_cuts_are_kept_for_the_next_tier() -> None:
    form = knapsack((1, 1, 1), 2 * LARGE + 3, (LARGE + 1, LARGE + 3, 1))
    engine = HighsEngine(form, Limits())
    engine.solve(0, (), None, lambda objective, bound: None)
    cuts = len(engine.covers)
    again = engine.solve(0, ((0, 4.0),), None, lambda objective, bound: None)
    assert again.stop is Stop.PROVED
    assert len(engine.covers) == cuts
    impossible = engine.solve(0, ((0, 4.5),), None, lambda objective, bound: None)
    assert impossible.stop is Stop.INFEASIBLE


def test_a_cover_names_the_columns_that_are_too_much() -> None:
    form = knapsack((1, 1, 1), 3, (2, 2, 1))
    found = cover(form, 0, np.array([1.0, 1.0, 0.0]))
    assert found is not None
    assert found.columns.tolist() == [0, 1]
    assert found.levels.tolist() == [1, 1]


def test_points_are_checked_in_integers() -> None:
    form = knapsack((1, 1), 2 * LARGE + 3, (LARGE + 1, LARGE + 3))
    both = np.array([1.0, 1.0])
    assert broken_rows(form, both) == [0]
    assert broken_rows(form, np.array([1.0, 0.0])) == []
    assert rounded(form, np.array([0.9999999, 1e-9])).tolist() == [1.0, 0.0]


def test_a_whole_snapshot_that_tolerances_would_overfill() -> None:
    """Two jobs of about 32 Ti each exceed the GPU by one byte; a small job fits beside either."""
    given = snapshot(
        {"n": 1},
        {
            "a": {"weight": 3, "gpu": {"memory": LARGE + 1}},
            "b": {"weight": 2, "gpu": {"memory": LARGE + 3}},
            "c": {"weight": 1, "gpu": {"memory": 1}},
        },
        types={"A": {"capacity": {"memory": 2 * LARGE + 3}, "max_residents": 2}},
    )
    outcome = HighsSolver().solve(compile_program(given), Limits())
    assert outcome.plan is not None
    verify(given, outcome.plan)
    assert evaluate(given, outcome.plan).objective == 4.0
    assert outcome.bound == pytest.approx(4.0, abs=1e-6)


@pytest.mark.parametrize("scale", ["0.000001", "1", "1000000"])
def test_the_scale_of_the_values_does_not_matter(scale: str) -> None:
    """The best and the second best differ by 1e-5 of their value."""
    given = snapshot(
        {"n": 1},
        {
            name: {"weight": scale, "throughput": rate, "gpu": {"memory": 10}}
            for name, rate in (("a", 1.00001), ("b", 1), ("c", 0.99999))
        },
        policy={"objective": "throughput"},
    )
    outcome = HighsSolver().solve(compile_program(given), Limits())
    assert outcome.plan is not None
    assert list(outcome.plan) == ["a"]
    assert outcome.bound == pytest.approx(1.00001 * float(scale), rel=1e-7)


def test_the_power_of_two_of_an_objective() -> None:
    assert power_of_two(np.array([0.0, -6.0, 3.0])) == 0.25
    assert power_of_two(np.array([0.0])) == 1.0
    assert power_of_two(np.zeros(0)) == 1.0


def test_an_unfinished_tier_leaves_a_bound_for_the_others() -> None:
    """Tiers that were not reached keep what their jobs would be worth alone."""
    jobs = {f"h{i}": {"priority": 1, "gpu": {"memory": 4 + i % 3}} for i in range(6)}
    jobs |= {f"l{i}": {"weight": 2, "gpu": {"memory": 5}} for i in range(4)}
    given = snapshot({"n": 3}, jobs, interference={"default": 1.5})
    limits = Limits(deadline=math.inf)
    limits.cancelled.set()
    outcome = HighsSolver().solve(compile_program(given), limits)
    assert outcome.tier_bounds == [None, None]
    full = HighsSolver().solve(compile_program(given), Limits())
    assert full.stop is Stop.PROVED
    assert all(bound is not None for bound in full.tier_bounds)
