"""Exact checks of integer points, and cuts against points that only a tolerance admits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastico_opt.formulations.matrix import MatrixForm
from elastico_opt.program.arrays import Floats, Ints

#: Slack granted to rows with real coefficients, whose plans are valued elsewhere.
SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Cover:
    """``columns`` must not all be at least ``levels`` at once."""

    columns: Ints
    levels: Ints


def rounded(form: MatrixForm, vector: Floats) -> Floats:
    """Return the point with its integer columns made whole."""
    return np.where(form.integer, np.rint(vector), vector)


def broken_rows(form: MatrixForm, vector: Floats) -> list[int]:
    """Return the whole rows that a point breaks, in integer arithmetic without rounding."""
    loose = form.rows @ vector
    margin = 1e-9 * (np.abs(form.rows) @ np.abs(vector)) + 0.5
    suspect = (loose > form.row_upper - margin) | (loose < form.row_lower + margin)
    suspects = form.whole_rows[suspect[form.whole_rows]]
    return [int(row) for row in suspects if not _holds(form, int(row), vector)]


def _holds(form: MatrixForm, row: int, vector: Floats) -> bool:
    first, last = form.rows.indptr[row], form.rows.indptr[row + 1]
    total = sum(
        int(c) * int(vector[i])
        for c, i in zip(form.rows.data[first:last], form.rows.indices[first:last], strict=True)
    )
    lower, upper = form.row_lower[row], form.row_upper[row]
    return bool(lower <= total <= upper)  # Python compares an int with a float exactly


def feasible(form: MatrixForm, vector: Floats) -> bool:
    """Whether a point satisfies every row and bound: whole rows exactly, others within SLACK."""
    within = (vector >= form.column_lower - SLACK) & (vector <= form.column_upper + SLACK)
    whole = np.abs(vector - np.rint(vector)) <= SLACK
    if not (within & (whole | ~form.integer)).all():
        return False
    loose = form.rows @ vector
    slack = SLACK * np.maximum(1.0, np.abs(loose))
    if not ((loose <= form.row_upper + slack) & (loose >= form.row_lower - slack)).all():
        return False
    return not broken_rows(form, rounded(form, vector))


def cover(form: MatrixForm, row: int, vector: Floats) -> Cover | None:
    """Return why a point breaks a capacity row: columns that are too much together.

    None when the row is no capacity row (it has negative coefficients or a lower bound).
    """
    first, last = form.rows.indptr[row], form.rows.indptr[row + 1]
    columns, amounts = form.rows.indices[first:last], form.rows.data[first:last]
    if (amounts < 0).any() or np.isfinite(form.row_lower[row]):
        return None
    used = np.rint(vector[columns]) > 0
    return Cover(
        columns=columns[used].astype(np.int64),
        levels=np.rint(vector[columns[used]]).astype(np.int64),
    )
