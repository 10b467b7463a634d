"""Lowering a Pyomo model: the traps of its compiler, and the way back."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest

from elastico_opt.formulations.matrix import lift, lower


def small() -> pyo.ConcreteModel:
    """One of each: integer, free, fixed and unused variables; all senses; a range; two tiers."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var([1, 2], domain=pyo.Binary)
    m.y = pyo.Var(bounds=(None, 4.5))
    m.z = pyo.Var(domain=pyo.Integers, bounds=(-2, None))
    m.unused = pyo.Var(bounds=(3, 9))
    m.free = pyo.Var()
    m.fixed = pyo.Var(domain=pyo.Binary)
    m.fixed.fix(1)
    m.at_most = pyo.Constraint(expr=m.x[1] + 2 * m.x[2] + 3 * m.fixed <= 5)
    m.between = pyo.Constraint(expr=(1, m.y + m.z + 1, 8))
    m.equal = pyo.Constraint(expr=m.y == m.z)
    m.at_least = pyo.Constraint([1, 2], rule=lambda m, i: m.x[i] + m.y >= i)
    m.holds = pyo.Constraint(expr=m.fixed <= 1)
    m.objective = pyo.Objective(
        [0, 1], rule=lambda m, t: m.x[t + 1] + t + m.fixed, sense=pyo.maximize
    )
    m.objective[1].deactivate()
    return m


def test_everything_is_there_once() -> None:
    form = lower(small())
    assert dict(zip(form.columns, form.integer.tolist(), strict=True)) == {
        ("x", 1): True, ("x", 2): True, ("y", None): False, ("z", None): True,
    }  # fmt: skip
    at = {name: i for i, name in enumerate(form.columns)}
    assert form.column_lower[at["y", None]] == -np.inf
    assert form.column_upper[at["y", None]] == 4.5
    assert form.column_lower[at["z", None]] == -2
    assert form.column_upper[at["z", None]] == np.inf
    assert form.constants == {("unused", None): 3.0, ("free", None): 0.0, ("fixed", None): 1.0}


def test_rows_have_their_bounds_and_ranges_are_one_row() -> None:
    form = lower(small())
    bounds = {
        name: (lo, up)
        for name, lo, up in zip(form.row_names, form.row_lower, form.row_upper, strict=True)
    }
    assert bounds == {
        ("at_most", None): (-np.inf, 2.0),
        ("between", None): (0.0, 7.0),
        ("equal", None): (0.0, 0.0),
        ("at_least", 1): (1.0, np.inf),
        ("at_least", 2): (2.0, np.inf),
    }
    assert form.groups["at_least"].tolist() == [
        i for i, name in enumerate(form.row_names) if name[0] == "at_least"
    ]
    row = form.rows[[form.row_names.index(("at_most", None))]].toarray()[0]
    assert dict(zip(form.columns, row, strict=True))["x", 2] == 2.0


def test_each_tier_is_compiled_active_or_not_and_the_model_is_left_as_it_was() -> None:
    model = small()
    form = lower(model)
    assert form.offsets.tolist() == [1.0, 2.0]
    at = {name: i for i, name in enumerate(form.columns)}
    assert form.objectives[0, at["x", 1]] == 1.0
    assert form.objectives[1, at["x", 2]] == 1.0
    assert model.objective[0].active
    assert not model.objective[1].active
    assert sum(1 for _ in model.component_objects(pyo.Block, descend_into=False)) == 0
    assert lower(model).columns == form.columns


def test_a_minimum_changes_its_sign() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(0, 1))
    m.cost = pyo.Objective(expr=3 * m.x + 2, sense=pyo.minimize)
    form = lower(m)
    assert form.objectives.tolist() == [[-3.0]]
    assert form.offsets.tolist() == [-2.0]


@pytest.mark.parametrize("objective", [True, False])
def test_an_empty_model(objective: bool) -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(2, 3))
    if objective:
        m.value = pyo.Objective(expr=7.0, sense=pyo.maximize)
    form = lower(m)
    assert (form.n_rows, form.n_columns) == (0, 0)
    assert form.offsets.tolist() == ([7.0] if objective else [])
    assert lift(form, np.zeros(0)) == {"x": {None: 2.0}}


def test_two_equal_rows_in_a_row_stay_two() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(0, 1))
    m.c = pyo.Constraint([1, 2], rule=lambda m, _: m.x <= 1)
    form = lower(m)
    assert form.row_names == (("c", 1), ("c", 2))


def test_a_constraint_without_variables_that_fails_is_an_error() -> None:
    model = small()
    model.fails = pyo.Constraint(expr=model.fixed <= 0)
    with pytest.raises(Exception, match=r"infeasible.*fails"):
        lower(model)


def test_the_arrays_cannot_be_changed() -> None:
    form = lower(small())
    with pytest.raises(ValueError, match="read-only"):
        form.row_upper[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        form.rows.data[0] = 3


def test_a_vector_by_name_and_back() -> None:
    form = lower(small())
    values = {"x": {1: 1.0}, "y": {None: 2.5}, "z": {None: 3.0}}
    lifted = lift(form, form.vector(values))
    assert lifted["x"] == {1: 1.0, 2: 0.0}
    assert lifted["y"] == {None: 2.5}
    assert lifted["fixed"] == {None: 1.0}
    assert form.value(0, form.vector(values)) == 2.0


def test_rows_that_can_be_checked_exactly_are_known() -> None:
    form = lower(small())
    whole = {form.row_names[row][0] for row in form.whole_rows}
    assert whole == {"at_most"}
