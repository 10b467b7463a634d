"""A matrix form in whole numbers, for solvers that know nothing else.

Rows over integer columns are whole already. The objective of each tier is rounded up to steps of
1/K with K a power of two, so no plan is worth less than it is and every bound stays a bound; with
rounding errors of at most a few steps per job, K is chosen so that they vanish in the tolerance.
A continuous column (a loss that some objective charges) is counted in steps of that objective;
its rows are rounded towards less loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastico_opt.errors import UnsupportedError
from elastico_opt.formulations.matrix import MatrixForm
from elastico_opt.program.arrays import Floats, Ints

#: Sums of absolute terms stay below this, half of what 64 bits hold.
HEADROOM = 2**62
#: A step of the objective is about this, divided by the number of rows that choose something.
STEP = 1e-8
#: Relative safety for products of floats that are rounded towards the safe side.
_NUDGE = 1e-12

Row = tuple[list[int], list[int], int, int]


@dataclass(frozen=True, slots=True)
class WholeForm:
    """Integer rows and objectives.

    Attributes
    ----------
    upper : list of int
        Columns range from 0 to this.
    rows : list of (columns, coefficients, lower, upper)
    objectives : list of (columns, coefficients)
        Per tier, to be maximised; ``value <= objective / steps + offset`` for every plan.
    steps : list of int
        K per tier.
    scale : ndarray
        What one unit of a column of the matrix form counts here (1 unless continuous).
    """

    upper: list[int]
    rows: list[Row]
    objectives: list[tuple[list[int], list[int]]]
    steps: list[int]
    scale: Floats

    def floor(self, tier: int, least: float, offset: float) -> Row:
        """Return the row that keeps a tier at least at a value, up to rounding."""
        columns, coefficients = self.objectives[tier]
        lower = math.floor((least - offset) * self.steps[tier]) - 1
        return columns, coefficients, lower, HEADROOM

    def hint(self, vector: Floats) -> list[int]:
        """Return a point of the matrix form in whole numbers, losses rounded up."""
        whole = np.ceil(np.rint(vector * self.scale * 1024) / 1024)
        return [int(v) for v in np.minimum(whole, self.upper)]

    def vector(self, solution: Sequence[int]) -> Floats:
        """Return a solution as a point of the matrix form."""
        return np.array(solution, dtype=float) / self.scale


def whole_form(form: MatrixForm) -> WholeForm:
    """Write a matrix form in whole numbers.

    Raises
    ------
    UnsupportedError
        Naming the row or column that cannot be scaled, or whose sums would pass 62 bits.
    """
    steps = [_steps(form, tier) for tier in range(form.n_tiers)]
    scale = _scales(form, steps)
    upper = np.ceil(form.column_upper * scale - np.where(form.integer, 0.0, _NUDGE))
    for i in np.flatnonzero((form.column_lower < 0) | ~(upper < HEADROOM)).tolist():
        name = f"{form.columns[i][0]}[{form.columns[i][1]}]"
        raise UnsupportedError(f"variable {name} needs whole bounds from 0: use --solver highs")
    whole = WholeForm(
        upper=[int(u) for u in upper],
        rows=[_row(form, r, scale) for r in range(form.n_rows)],
        objectives=[_objective(form, tier, k, scale) for tier, k in enumerate(steps)],
        steps=steps,
        scale=scale,
    )
    _check_headroom(form, whole)
    return whole


def _steps(form: MatrixForm, tier: int) -> int:
    """Return K for a tier: fine enough for the tolerance, as far as 62 bits allow."""
    costs = np.abs(form.objectives[tier])
    choices = len(form.groups.get("choose", ())) + len(form.groups.get("must", ()))
    finest = math.ceil(math.log2(max(1, choices) / STEP))
    total = float(costs @ np.where(np.isfinite(form.column_upper), form.column_upper, 1.0))
    most = math.floor(math.log2(HEADROOM / 4 / total)) if total > 0 else finest
    return int(2 ** max(0, min(finest, most)))


def _scales(form: MatrixForm, steps: Sequence[int]) -> Floats:
    """Count each continuous column in steps of the one objective that charges it."""
    scale = np.ones(form.n_columns)
    for i in np.flatnonzero(~form.integer).tolist():
        charged = np.flatnonzero(form.objectives[:, i])
        if len(charged) != 1 or form.objectives[charged[0], i] > 0:
            name = f"{form.columns[i][0]}[{form.columns[i][1]}]"
            raise UnsupportedError(f"variable {name} is not a loss: use --solver highs")
        scale[i] = -form.objectives[charged[0], i] * steps[charged[0]]
    return scale


def _objective(
    form: MatrixForm, tier: int, steps: int, scale: Floats
) -> tuple[list[int], list[int]]:
    costs = form.objectives[tier]
    columns = np.flatnonzero(costs)
    # a power of two times a float is exact; a loss is counted in steps: -1 each
    up = np.where(form.integer[columns], np.ceil(costs[columns] * steps), -1.0)
    return columns.tolist(), [int(c) for c in up]


def _row(form: MatrixForm, r: int, scale: Floats) -> Row:
    first, last = form.rows.indptr[r], form.rows.indptr[r + 1]
    columns, amounts = form.rows.indices[first:last], form.rows.data[first:last]
    lower, upper = float(form.row_lower[r]), float(form.row_upper[r])
    real = np.flatnonzero(~form.integer[columns])
    if not len(real):
        if (amounts != np.floor(amounts)).any():
            raise UnsupportedError(f"row {_name(form, r)} is not whole: use --solver highs")
        return columns.tolist(), [int(a) for a in amounts], _up(lower), _down(upper)
    pivot = amounts[real[0]] if len(real) == 1 else 0.0
    if not (pivot > 0 and math.isinf(upper)):
        raise UnsupportedError(f"row {_name(form, r)} cannot be rounded safely: use --solver highs")
    factor = scale[columns[real[0]]] / pivot
    scaled = amounts * factor
    easier = np.ceil(scaled + _NUDGE * np.abs(scaled))
    easier[scaled < 0] = np.ceil(scaled[scaled < 0] * (1 - _NUDGE))
    easier[real[0]] = 1.0
    least = lower * factor
    return (
        columns.tolist(),
        [int(a) for a in easier],
        math.floor(least - _NUDGE * abs(least)),
        HEADROOM,
    )


def _up(bound: float) -> int:
    return -HEADROOM if bound == -math.inf else math.ceil(bound)


def _down(bound: float) -> int:
    return HEADROOM if bound == math.inf else math.floor(bound)


def _name(form: MatrixForm, r: int) -> str:
    return f"{form.row_names[r][0]}[{form.row_names[r][1]}]"


def _check_headroom(form: MatrixForm, whole: WholeForm) -> None:
    upper: Ints = np.array(whole.upper, dtype=object)
    for columns, amounts in whole.objectives:
        if sum(abs(a) * upper[i] for i, a in zip(columns, amounts, strict=True)) >= HEADROOM:
            raise UnsupportedError(
                "the objective needs more than 62 bits: scale the weights down, or use "
                "--solver highs"
            )
    for r, (columns, amounts, _, _) in enumerate(whole.rows):
        if sum(abs(a) * upper[i] for i, a in zip(columns, amounts, strict=True)) >= HEADROOM:
            raise UnsupportedError(
                f"row {_name(form, r)} needs more than 62 bits: write its quantities with fewer "
                "digits, or use --solver highs"
            )
