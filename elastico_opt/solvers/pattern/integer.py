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

    It is `elastico_opt.formulations.pattern.build` as arrays, without the constants for evictions,
    and with the losses of gangs as continuous columns behind the patterns: see `gang_losses`.
    """
    columns = pattern_matrix(layout, patterns)
    most = most_copies(layout, columns)
    losses = gang_losses(layout, patterns, most)
    n_static, n_losses = len(layout.static), len(losses.choice)
    plain = sparse.hstack([static_matrix(layout), columns], format="csr")
    rows = sparse.csr_array(sparse.block_array([
        [plain, sparse.csr_array((layout.n_rows, n_losses))],
        [
            sparse.hstack([sparse.csr_array((len(losses.loss), n_static)), losses.patterns]),
            sparse.csr_array(
                (np.full(len(losses.loss), -1.0), (np.arange(len(losses.loss)), losses.loss)),
                shape=(len(losses.loss), n_losses),
            ),
        ],
    ], format="csr"))  # fmt: skip
    gangs = layout.class_stage[layout.static.job_class[losses.choice]]
    charged = np.zeros((n_losses, layout.n_stages))
    charged[np.arange(n_losses), gangs] = -1.0
    worth = pattern_values(layout, patterns) + losses.relief
    values = np.vstack([static_values(layout), worth, charged])
    upper = np.concatenate([static_upper(layout), most, np.full(n_losses, np.inf)])
    names = (*column_names(layout, len(patterns)), *(("loss", int(x)) for x in losses.choice))
    return MatrixForm(
        rows=rows,
        row_lower=np.full(rows.shape[0], -np.inf),
        row_upper=np.concatenate([layout.row_upper, np.zeros(len(losses.loss))]),
        column_lower=np.zeros(len(upper)),
        column_upper=upper,
        integer=np.arange(len(upper)) < len(upper) - n_losses,
        objectives=values.T.copy(),
        offsets=np.zeros(layout.n_stages),
        columns=names,
        row_names=(*row_names(layout), *(("gang_loss", r) for r in range(len(losses.loss)))),
        constants={},
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
