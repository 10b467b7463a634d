"""From a linear Pyomo model to immutable sparse arrays, and from solver vectors back to names.

`MatrixForm` is the only door to HiGHS, CP-SAT and file export; `lower` alone knows Pyomo's
compiler. Every tier is maximised.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elastico_opt.program.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import pyomo.environ as pyo
    from scipy.sparse import csr_array

#: Component and index of a variable or constraint.
Name = tuple[str, Hashable]


@dataclass(frozen=True)
class MatrixForm:
    """``max objectives[t] @ v + offsets[t]`` with ``row_lower <= rows @ v <= row_upper``.

    Attributes
    ----------
    rows : scipy.sparse.csr_array, shape (M, N)
    row_lower, row_upper : ndarray, shape (M,)
    column_lower, column_upper : ndarray, shape (N,)
        Infinite where there is no bound.
    integer : ndarray of bool, shape (N,)
    objectives : ndarray, shape (T, N)
        One per priority tier, highest first; to be maximised.
    offsets : ndarray, shape (T,)
    columns, row_names : tuple of (str, index)
        Component and index in the model.
    constants : mapping
        Values of the variables that have no column: fixed ones, and those in no row and no
        objective.
    """

    rows: csr_array
    row_lower: Floats
    row_upper: Floats
    column_lower: Floats
    column_upper: Floats
    integer: Bools
    objectives: Floats
    offsets: Floats
    columns: tuple[Name, ...]
    row_names: tuple[Name, ...]
    constants: Mapping[Name, float]

    def __post_init__(self) -> None:
        for array in (self.rows.data, self.rows.indices, self.rows.indptr, *self._vectors()):
            array.flags.writeable = False

    def _vectors(self) -> tuple[Any, ...]:
        return (
            self.row_lower, self.row_upper, self.column_lower, self.column_upper, self.integer,
            self.objectives, self.offsets,
        )  # fmt: skip

    @property
    def n_rows(self) -> int:
        """Return M."""
        return len(self.row_lower)

    @property
    def n_columns(self) -> int:
        """Return N."""
        return len(self.column_lower)

    @property
    def n_tiers(self) -> int:
        """Return T."""
        return len(self.offsets)

    @cached_property
    def groups(self) -> dict[str, Ints]:
        """Row numbers by the name of their Pyomo component."""
        found: dict[str, list[int]] = {}
        for number, (component, _) in enumerate(self.row_names):
            found.setdefault(component, []).append(number)
        return {name: np.array(numbers, dtype=np.int64) for name, numbers in found.items()}

    @cached_property
    def whole_rows(self) -> Ints:
        """Rows with whole coefficients on integer columns only: they can be checked exactly."""
        broken = (self.rows.data != np.floor(self.rows.data)) | ~self.integer[self.rows.indices]
        marked = np.zeros(self.n_rows, dtype=bool)
        marked[np.repeat(np.arange(self.n_rows), np.diff(self.rows.indptr))[broken]] = True
        return np.flatnonzero(~marked)

    def value(self, tier: int, vector: Floats) -> float:
        """Return the objective of a tier at a point."""
        return float(self.objectives[tier] @ vector + self.offsets[tier])

    def vector(self, values: Mapping[str, Mapping[Hashable, float]]) -> Floats:
        """Return the point whose named variables have the given values, the others 0."""
        found = (values.get(name, {}).get(index, 0.0) for name, index in self.columns)
        return np.fromiter(found, dtype=float, count=self.n_columns)


def lower(model: pyo.ConcreteModel) -> MatrixForm:
    """Compile a linear Pyomo model.

    Each objective is one tier, in order, active or not. A minimised objective changes its sign.
    A constraint without any variable is dropped when it holds.

    Raises
    ------
    InfeasibleConstraintException
        Pyomo's, for a constraint without any variable that does not hold.
    """
    import pyomo.environ as pyo

    objectives = list(model.component_data_objects(pyo.Objective, active=None))
    resting = [objective for objective in objectives if not objective.active]
    for objective in resting:
        objective.activate()
    try:
        compiled = _compile(model)
    finally:
        for objective in resting:
            objective.deactivate()
    names, row_lower, row_upper, keep = _ranges(compiled.rows, compiled.rhs)
    costs = compiled.c.toarray() if compiled.c is not None else np.zeros((0, 0))
    signs = np.array([1.0 if o.sense == pyo.maximize else -1.0 for o in objectives])
    bounds = np.array([var.bounds for var in compiled.columns], dtype=float).reshape(-1, 2)
    bounds[:, 0] = np.where(np.isnan(bounds[:, 0]), -np.inf, bounds[:, 0])
    bounds[:, 1] = np.where(np.isnan(bounds[:, 1]), np.inf, bounds[:, 1])
    columns = tuple(_name(var) for var in compiled.columns)
    return MatrixForm(
        rows=compiled.a[keep],
        row_lower=row_lower,
        row_upper=row_upper,
        column_lower=bounds[:, 0].copy(),
        column_upper=bounds[:, 1].copy(),
        integer=np.array([not var.is_continuous() for var in compiled.columns], dtype=bool),
        objectives=costs * signs[:, None],
        offsets=np.asarray(compiled.offsets, dtype=float) * signs,
        columns=columns,
        row_names=tuple(names),
        constants=_constants(model, {id(var) for var in compiled.columns}),
    )


@dataclass(frozen=True, slots=True)
class _Compiled:
    a: Any
    rows: Any
    rhs: Any
    c: Any
    offsets: Any
    columns: Any


def _compile(model: pyo.ConcreteModel) -> _Compiled:
    """Call the compiler, which refuses a model without variables in any row or objective."""
    import pyomo.environ as pyo
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
    from scipy.sparse import csr_array

    # an extra objective with a variable of its own: the compiler needs one column and one cost
    model.compiled_ = pyo.Block()
    model.compiled_.anchor = pyo.Var()
    model.compiled_.cost = pyo.Objective(expr=model.compiled_.anchor)
    try:
        found = LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=None)
        anchor = next(i for i, v in enumerate(found.columns) if v is model.compiled_.anchor)
        own = next(i for i, o in enumerate(found.objectives) if o is model.compiled_.cost)
    finally:
        model.del_component(model.compiled_)
    columns = [v for i, v in enumerate(found.columns) if i != anchor]
    here = np.array([i for i in range(len(found.columns)) if i != anchor], dtype=np.int64)
    tiers = [i for i in range(len(found.objectives)) if i != own]
    return _Compiled(
        a=csr_array(found.A)[:, here],
        rows=found.rows,
        rhs=np.asarray(found.rhs, dtype=float),
        c=found.c[:, here][tiers],
        offsets=np.asarray(found.c_offset, dtype=float)[tiers],
        columns=columns,
    )


def _ranges(entries: Any, rhs: Floats) -> tuple[list[Name], Floats, Floats, Ints]:
    """Merge the two rows that the compiler makes of a range, and read the bounds."""
    names: list[Name] = []
    lowers: list[float] = []
    uppers: list[float] = []
    keep: list[int] = []
    last = None
    for number, (entry, bound) in enumerate(zip(entries, rhs.tolist(), strict=True)):
        if entry.constraint is last:
            lowers[-1] = bound  # the second half of a range is its lower bound
            continue
        last = entry.constraint
        names.append(_name(last))
        keep.append(number)
        lowers.append(bound if entry.bound_type <= 0 else -np.inf)
        uppers.append(bound if entry.bound_type >= 0 else np.inf)
    bounds = np.array([lowers, uppers], dtype=float)
    return names, bounds[0].copy(), bounds[1].copy(), np.array(keep, dtype=np.int64)


def _name(data: Any) -> Name:
    return data.parent_component().local_name, data.index()


def _constants(model: pyo.ConcreteModel, columns: set[int]) -> dict[Name, float]:
    import pyomo.environ as pyo

    return {
        _name(var): float(var.value) if var.fixed else _nearest_zero(*var.bounds)
        for var in model.component_data_objects(pyo.Var)
        if id(var) not in columns
    }


def _nearest_zero(lower: float | None, upper: float | None) -> float:
    free = 0.0 if lower is None else max(0.0, float(lower))
    return free if upper is None else min(free, float(upper))


def lift(form: MatrixForm, vector: Floats) -> dict[str, dict[Hashable, float]]:
    """Return the values of all variables at a point, by component and index."""
    values: dict[str, dict[Hashable, float]] = {}
    for (component, index), value in zip(form.columns, vector.tolist(), strict=True):
        values.setdefault(component, {})[index] = value
    for (component, index), value in form.constants.items():
        values.setdefault(component, {})[index] = value
    return values
