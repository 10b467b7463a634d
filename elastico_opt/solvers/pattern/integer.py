"""The integer program over a set of patterns, as a matrix form for the exact engines."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from elastico_opt.solvers.pattern.gang_losses import gang_losses


@dataclass(frozen=True)
class Selection:
    """An integer point: how often each static column and each pattern is used."""

    static: Ints
    patterns: Patterns
    counts: Ints

    def placed(self, layout: Layout) -> int:
        """Return how many jobs are placed."""
        single = (self.patterns.items >= 0) & ~layout.items.linked[self.patterns.items]
        return int(self.static[layout.static.places].sum() + single.sum(axis=1) @ self.counts)


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


def integer_form(layout: Layout, patterns: Patterns) -> MatrixForm:
    """Return `matrix_form` with gangs charged what they lose at their slowest worker.

    The losses are continuous columns behind the patterns; see `gang_losses`.
    """
    plain = matrix_form(layout, patterns)
    losses = gang_losses(layout, patterns, plain.column_upper[len(layout.static) :])
    n, n_rows = len(losses.choice), len(losses.loss)
    if not n:
        return plain
    charges = sparse.csr_array(
        (np.full(n_rows, -1.0), (np.arange(n_rows), losses.loss)), shape=(n_rows, n)
    )
    beside = sparse.csr_array((n_rows, len(layout.static)))
    rows = sparse.block_array(
        [[plain.rows, None], [sparse.hstack([beside, losses.patterns]), charges]], format="csr"
    )
    objectives = np.hstack([plain.objectives, np.zeros((layout.n_stages, n))])
    objectives[:, len(layout.static) : plain.n_columns] += losses.relief.T
    stage = layout.class_stage[layout.static.job_class[losses.choice]]
    objectives[stage, plain.n_columns + np.arange(n)] = -1.0
    return replace(
        plain,
        rows=sparse.csr_array(rows),
        row_lower=np.full(rows.shape[0], -np.inf),
        row_upper=np.concatenate([plain.row_upper, np.zeros(n_rows)]),
        column_lower=np.zeros(plain.n_columns + n),
        column_upper=np.concatenate([plain.column_upper, np.full(n, np.inf)]),
        integer=np.concatenate([plain.integer, np.zeros(n, dtype=bool)]),
        objectives=objectives,
        columns=(*plain.columns, *(("loss", int(x)) for x in losses.choice)),
        row_names=(*plain.row_names, *(("gang_loss", r) for r in range(n_rows))),
    )


def with_losses(form: MatrixForm, point: Floats) -> Floats:
    """Return a point over static columns and patterns with the losses its gangs suffer."""
    n = len(point)
    full = np.concatenate([point, np.zeros(form.n_columns - n)])
    if form.n_columns > n:
        rows = np.flatnonzero(np.diff(form.rows[:, n:].indptr))
        loss = form.rows[rows][:, n:].indices
        np.maximum.at(full, n + loss, form.rows[rows][:, :n] @ point)
    return full


def selection(layout: Layout, patterns: Patterns, vector: Floats) -> Selection:
    """Read an integer point of `matrix_form` back."""
    n = len(layout.static)
    whole = np.rint(vector[: n + len(patterns)]).astype(np.int64)
    used = np.flatnonzero(whole[n:])
    return Selection(whole[:n], patterns.select(used), whole[n:][used])
