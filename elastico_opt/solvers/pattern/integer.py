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
