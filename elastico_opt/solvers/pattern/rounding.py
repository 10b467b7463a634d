"""Integer points near an LP point: small integer programs around what is already whole."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from elastico_opt.formulations.matrix import MatrixForm
from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.highs import HighsEngine
from elastico_opt.solvers.pattern.master import Stage

#: LP values this close below a whole number count as whole.
_WHOLE = 1e-6
#: Most columns of one small integer program, and its seconds.
COLUMNS, SECONDS = 6_000, 3.0
#: Most columns of a form that is solved without fixing any, and the seconds for it.
RESTRICTED, RESTRICTED_SECONDS = 20_000, 8.0


class Rounding:
    """Rounds LP points of one form, or solves it over its best columns alone."""

    def __init__(self, form: MatrixForm, stage: Stage, limits: Limits) -> None:
        self.form, self.stage, self.limits = form, stage, limits
        self._random = np.random.default_rng(limits.seed)
        self._using = form.rows.copy()
        self._using.data = np.maximum(self._using.data, 0.0)
        self._fed = np.zeros(form.rows.shape[0], dtype=bool)
        self._fed[form.rows.tocoo().row[form.rows.data < 0]] = True

    def round(self, point: Floats, reduced: Floats) -> Floats | None:
        """Keep the whole part of an LP point and solve for the rest; None when that fails."""
        whole = np.zeros(self.form.n_columns)
        whole[: len(point)] = np.floor(point + _WHOLE)
        return self._complete(whole, reduced)

    def restricted(self, reduced: Floats, margin: float) -> Floats | None:
        """Solve over the best columns alone, without fixing any, for a limited time.

        `margin` is the share of the host resources to leave free.
        """
        if self.form.n_columns > RESTRICTED:
            return None
        nothing = np.zeros(self.form.n_columns)
        return self._complete(nothing, reduced, RESTRICTED_SECONDS, margin)

    def _columns(self, fixed: Floats, reduced: Floats, most: int = COLUMNS) -> tuple[Ints, Floats]:
        """Return the columns that still fit beside a fixed part, and what the rows have left.

        A column fits if no row it uses is spent, rows that other columns feed set aside. Of too
        many, those of reduced cost nearest to zero are kept. Ties are common: drawing lots among
        them keeps every row served.
        """
        left = self.form.row_upper - self.form.rows @ fixed
        spent = ((left < 1) & ~self._fed).astype(float)
        fits = (self._using.T @ spent == 0) & (self.form.column_upper > fixed)
        columns = np.flatnonzero(fits & self.form.integer)
        if len(columns) > most:
            lots = self._random.random(len(columns))
            order = np.lexsort((lots, -np.round(reduced[columns], 7)))
            columns = np.sort(columns[order[:most]])
        return np.concatenate([columns, np.flatnonzero(~self.form.integer)]), left

    def _complete(
        self, fixed: Floats, reduced: Floats, seconds: float = SECONDS, margin: float = 0.0
    ) -> Floats | None:
        """Solve the integer program over the columns that fit beside a fixed part."""
        most = COLUMNS if fixed.any() else RESTRICTED
        columns, left = self._columns(fixed, reduced, most)
        form = self.form
        host = [r for r, (name, _) in enumerate(form.row_names) if name == "host"]
        left[host] -= margin * form.row_upper[host]
        residual = MatrixForm(
            rows=form.rows[:, columns],
            row_lower=form.row_lower.copy(),
            row_upper=left,
            column_lower=np.zeros(len(columns)),
            column_upper=(form.column_upper - fixed)[columns],
            integer=form.integer[columns],
            objectives=form.objectives[:, columns].copy(),
            offsets=form.objectives @ fixed,
            columns=tuple(form.columns[i] for i in columns),
            row_names=form.row_names,
            constants={},
        )
        ends = min(self.limits.deadline, time.monotonic() + seconds)
        answer = HighsEngine(residual, replace(self.limits, deadline=ends)).solve(
            self.stage.index, self.stage.floor_pairs, None, lambda objective, bound: None
        )
        if answer.vector is None:
            return None
        vector = fixed.copy()
        vector[columns] += answer.vector
        return vector
