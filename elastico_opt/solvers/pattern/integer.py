"""The integer program over a set of patterns, as a matrix form for the exact engines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from elastico_opt.formulations.columns import (
    Patterns,
    column_names,
    most_copies,
    pattern_matrix,
    pattern_values,
    row_names,
    static_matrix,
    static_upper,
    static_values,
)
from elastico_opt.formulations.layout import Layout
from elastico_opt.formulations.matrix import MatrixForm
from elastico_opt.program.arrays import Floats, Ints

#: LP values this close below a whole number count as whole.
_WHOLE = 1e-6


@dataclass(frozen=True)
class Selection:
    """An integer point: how often each static column and each pattern is used."""

    static: Ints
    patterns: Patterns
    counts: Ints


def matrix_form(layout: Layout, patterns: Patterns) -> MatrixForm:
    """Return the pattern program over given patterns; one tier per stage of the layout.

    It is `elastico_opt.formulations.pattern.build` as arrays, without the constants for evictions.
    """
    columns = pattern_matrix(layout, patterns)
    rows = sparse.csr_array(sparse.hstack([static_matrix(layout), columns], format="csr"))
    values = np.vstack([static_values(layout), pattern_values(layout, patterns)])
    upper = np.concatenate([static_upper(layout), most_copies(layout, columns)])
    return MatrixForm(
        rows=rows,
        row_lower=np.full(layout.n_rows, -np.inf),
        row_upper=layout.row_upper.copy(),
        column_lower=np.zeros(len(upper)),
        column_upper=upper,
        integer=np.ones(len(upper), dtype=bool),
        objectives=values.T.copy(),
        offsets=np.zeros(layout.n_stages),
        columns=column_names(layout, len(patterns)),
        row_names=row_names(layout),
        constants={},
    )


def selection(layout: Layout, patterns: Patterns, vector: Floats) -> Selection:
    """Read an integer point of `matrix_form` back."""
    whole = np.rint(vector).astype(np.int64)
    n = len(layout.static)
    used = np.flatnonzero(whole[n:])
    return Selection(whole[:n], patterns.select(used), whole[n:][used])


def rounding_form(
    form: MatrixForm, point: Floats, reduced: Floats, most: int
) -> tuple[MatrixForm, Floats, Ints]:
    """Fix what is whole in an LP point and leave the rest to a small integer program.

    Parameters
    ----------
    form : MatrixForm
    point : (N,) floats
    reduced : (N,) floats
        Reduced costs; where more than `most` columns fit, those nearest to zero are kept.

    Returns
    -------
    residual : MatrixForm
        The program over the columns that still fit.
    fixed : (N,) floats
        The whole part of the point.
    columns : ints
        Columns of the residual program.
    """
    fixed = np.floor(point + _WHOLE)
    left = form.row_upper - form.rows @ fixed
    # A column fits if no row it uses is spent; rows it feeds do not matter.
    spent = (left < 1).astype(float)
    using = form.rows.copy()
    using.data = np.maximum(using.data, 0.0)
    columns = np.flatnonzero((using.T @ spent == 0) & (form.column_upper > fixed))
    if len(columns) > most:
        # Ties are many: drawing lots among them keeps every row served.
        lots = np.random.default_rng(0).random(len(columns))
        order = np.lexsort((lots, -np.round(reduced[columns], 7)))
        columns = np.sort(columns[order[:most]])
    residual = MatrixForm(
        rows=form.rows[:, columns],
        row_lower=form.row_lower.copy(),
        row_upper=left,
        column_lower=np.zeros(len(columns)),
        column_upper=(form.column_upper - fixed)[columns],
        integer=np.ones(len(columns), dtype=bool),
        objectives=form.objectives[:, columns].copy(),
        offsets=form.objectives @ fixed,
        columns=tuple(form.columns[i] for i in columns),
        row_names=form.row_names,
        constants={},
    )
    return residual, fixed, columns
