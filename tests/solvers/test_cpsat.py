"""CP-SAT in whole numbers: rounding never hides a better plan, and never passes 62 bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import HealthCheck, given, settings
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.errors import UnsupportedError
from elastico_opt.formulations.joint import build
from elastico_opt.formulations.matrix import MatrixForm, lower
from elastico_opt.formulations.places import Places
from elastico_opt.formulations.solution import values
from elastico_opt.formulations.symmetry import canonical
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits, Stop
from elastico_opt.solvers.cpsat import CpsatSolver
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.integers import HEADROOM, whole_form
from elastico_opt.verification import evaluate, verify


def lowered(given: Snapshot) -> tuple[Places, MatrixForm]:
    places = Places(compile_program(given))
    return places, lower(build(places.program, places))


def test_integer_rows_are_taken_as_they_are() -> None:
    _, form = lowered(generate("mixed", 8, 6, interference=0))
    whole = whole_form(form)
    for r, (columns, amounts, lower_, upper) in enumerate(whole.rows):
        first, last = form.rows.indptr[r], form.rows.indptr[r + 1]
        assert columns == form.rows.indices[first:last].tolist()
        assert amounts == form.rows.data[first:last].tolist()
        assert form.row_lower[r] == (lower_ if lower_ > -HEADROOM else -np.inf)
        assert form.row_upper[r] == (upper if upper < HEADROOM else np.inf)


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_every_plan_stays_feasible_and_is_worth_at_least_its_value(given: Snapshot) -> None:
    """Rounded objective / K + offset >= value, exactly; rounded rows admit every plan."""
    program = compile_program(given)
    plan = first_fit(program)
    if plan is None:
        return
    try:
        places, form = lowered(given)
    except UnsupportedError:
        return
    whole = whole_form(form)
    vector = form.vector(values(places, canonical(places, plan)))
    point = whole.hint(vector)
    assert all(0 <= v <= upper for v, upper in zip(point, whole.upper, strict=True))
    for columns, amounts, lower_, upper in whole.rows:
        total = sum(a * point[i] for i, a in zip(columns, amounts, strict=True))
        assert lower_ <= total <= upper
    for tier, (columns, amounts) in enumerate(whole.objectives):
        total = sum(a * point[i] for i, a in zip(columns, amounts, strict=True))
        exact = sum(
            (Fraction(c) * Fraction(v) for c, v in zip(form.objectives[tier], vector, strict=True)),
            Fraction(0),
        )
        # the hint rounds losses up by less than one step each
        assert total + program.n_jobs >= exact * whole.steps[tier]


def test_rounding_is_finer_than_the_tolerance() -> None:
    given = generate("lucidlike", 8, 3, profiles=5)
    outcome = CpsatSolver().solve(compile_program(given), Limits())
    assert outcome.plan is not None and outcome.bound is not None
    verify(given, outcome.plan)
    value = evaluate(given, outcome.plan).objective
    assert outcome.stop is Stop.PROVED
    assert value <= outcome.bound <= value + 1e-7


def test_values_too_close_for_a_coarse_rounding() -> None:
    """CP-SAT rounds float objectives silently and was seen 6e-5 away from the optimum."""
    rates = {"a": "1.0000002", "b": "1.0000001", "c": 1}
    given = snapshot(
        {"n": 1}, {j: {"throughput": t, "gpu": {"memory": 10}} for j, t in rates.items()},
        policy={"objective": "throughput"},
    )  # fmt: skip
    outcome = CpsatSolver().solve(compile_program(given), Limits())
    assert outcome.plan is not None
    assert list(outcome.plan) == ["a"]


def test_values_that_span_too_many_bits_are_not_called_proved() -> None:
    """The bound stays a bound; what the rounding hides is said."""
    rates = {"a": 1e18, "b": 1, "c": 0.5}
    given = snapshot(
        {"n": 2}, {j: {"throughput": t, "gpu": {"memory": 10}} for j, t in rates.items()},
        policy={"objective": "throughput"},
    )  # fmt: skip
    outcome = CpsatSolver().solve(compile_program(given), Limits())
    assert outcome.plan is not None and outcome.bound is not None
    assert "a" in outcome.plan
    assert outcome.bound >= 1e18
    assert outcome.stop is Stop.PROVED  # 1 in 1e18 is within the tolerance


def test_a_row_that_needs_too_many_bits_is_named() -> None:
    digits = 2**52 + 1
    given = snapshot(
        {"node 3": 1},
        {f"j{i}": {"gpu": {"memory": digits + 2 * i}} for i in range(1100)},
        types={"A": {"capacity": {"memory": 3 * digits}}},
    )
    with pytest.raises(UnsupportedError, match=r"device_capacity.*62 bits.*--solver highs"):
        CpsatSolver().solve(compile_program(given), Limits())


def test_forms_that_cannot_be_rounded_safely_are_refused_by_name() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.Binary)
    m.gain = pyo.Var(bounds=(0, 1))
    m.value = pyo.Objective(expr=m.x + m.gain, sense=pyo.maximize)
    with pytest.raises(UnsupportedError, match=r"gain.* is not a loss"):
        whole_form(lower(m))
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.Binary)
    m.half = pyo.Constraint(expr=0.5 * m.x <= 0.25)
    m.value = pyo.Objective(expr=m.x, sense=pyo.maximize)
    with pytest.raises(UnsupportedError, match=r"row half.* is not whole"):
        whole_form(lower(m))
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.Integers, bounds=(-1, 1))
    m.value = pyo.Objective(expr=m.x, sense=pyo.maximize)
    with pytest.raises(UnsupportedError, match=r"x.* whole bounds from 0"):
        whole_form(lower(m))
