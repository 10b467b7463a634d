"""The restricted master: the pattern program over the columns found so far, on HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from elastico_opt.formulations.columns import (
    Patterns,
    empty_patterns,
    join,
    pattern_matrix,
    pattern_values,
    static_matrix,
    static_values,
)
from elastico_opt.formulations.layout import Layout
from elastico_opt.program.arrays import Bools, Floats
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.blossom import cut_row
from elastico_opt.solvers.pattern.pricing import Duals

#: HiGHS's numbers for its simplex variants. New columns leave the last point feasible, so the
#: primal simplex goes on from it (many times faster here); new rows leave it dual feasible.
DUAL, PRIMAL = 1, 4


@dataclass(frozen=True)
class Stage:
    """One lexicographic stage: what is maximised, and what the stages before must keep.

    Attributes
    ----------
    index : int
        Stage of the layout.
    floors : tuple of float
        Least value of each earlier stage.
    """

    index: int
    floors: tuple[float, ...] = ()

    @property
    def floor_pairs(self) -> tuple[tuple[int, float], ...]:
        """Return the floors as (stage, least value) pairs."""
        return tuple(enumerate(self.floors))


class Master:
    """The LP over all static columns and a growing set of patterns."""

    def __init__(
        self, layout: Layout, stage: Stage, limits: Limits, active: Bools | None = None
    ) -> None:
        """Start with the static columns; with `active` classes only, shared rows shrink alike."""
        import highspy

        self.layout, self.stage = layout, stage
        self.patterns = empty_patterns()
        self._known: set[bytes] = set()
        self._cuts: list[tuple[int, ...]] = []
        self._highs = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", limits.seed % 2**31),
            ("presolve", "off"),
            ("solver", "simplex"),
            ("simplex_strategy", PRIMAL),
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self._highs.setOptionValue(option, value)
        inf = highspy.kHighsInf
        lower = np.concatenate([np.full(layout.n_rows, -inf), np.array(stage.floors)])
        row_upper, column_upper = layout.row_upper.copy(), layout.static.upper.copy()
        if active is not None:
            share = float(layout.class_size[active].sum() / layout.class_size.sum())
            row_upper[layout.first_pool_row : layout.first_site_row] *= share
            row_upper[layout.first_host_row :] *= share
            column_upper[~active[layout.static.job_class]] = 0.0
        upper = np.concatenate([row_upper, np.full(len(stage.floors), inf)])
        self._highs.addRows(
            len(lower), lower, upper, 0, np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0)
        )
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self._add(static_matrix(layout), static_values(layout), column_upper)

    def _add(self, matrix: sparse.csc_matrix, values: Floats, upper: Floats) -> None:
        rows = [matrix]
        if self.stage.floors:
            rows.append(sparse.csc_matrix(values[:, : len(self.stage.floors)].T))
        if self._cuts:
            cuts = [cut_row(matrix, members) for members in self._cuts]
            rows.append(sparse.csc_matrix(np.array(cuts)))
        matrix = sparse.vstack(rows, format="csc")
        n = matrix.shape[1]
        if n:
            self._highs.addCols(
                n,
                values[:, self.stage.index],
                np.zeros(n),
                upper,
                matrix.nnz,
                matrix.indptr[:-1].astype(np.int32),
                matrix.indices.astype(np.int32),
                matrix.data,
            )

    def add(self, patterns: Patterns) -> int:
        """Add the patterns that are new; return how many."""
        keys = patterns.keys()
        new = [i for i, key in enumerate(keys) if key not in self._known]
        self._known.update(keys[i] for i in new)
        fresh = patterns.select(np.array(new, dtype=np.int64))
        if len(fresh):
            values = pattern_values(self.layout, fresh)
            self._add(pattern_matrix(self.layout, fresh), values, np.full(len(fresh), np.inf))
            self.patterns = join([self.patterns, fresh])
        return len(fresh)

    def solve(self, limits: Limits) -> tuple[float, Duals] | None:
        """Solve the LP; return its value and duals, or None when stopped or infeasible."""
        import highspy

        if limits.remaining() < np.inf:
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + limits.remaining())
        n = self.layout.n_rows
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kModelEmpty:  # no columns: nothing can be placed
            dual = np.zeros(n + len(self.stage.floors))
        elif status == highspy.HighsModelStatus.kOptimal:
            dual = np.array(self._highs.getSolution().row_dual)
        else:
            return None
        weight = np.zeros(self.layout.n_stages)
        weight[self.stage.index] = 1.0
        weight[: len(self.stage.floors)] = np.maximum(-dual[n:], 0.0)
        value = float(self._highs.getInfo().objective_function_value)
        return value, Duals(np.maximum(dual[:n], 0.0), weight)

    def relaxation(self, limits: Limits) -> tuple[float, Floats, Floats] | None:
        """Solve the LP; return its value, its point and reduced costs (<= 0), or None."""
        import highspy

        if limits.remaining() < np.inf:
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + limits.remaining())
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        value = float(self._highs.getInfo().objective_function_value)
        return value, np.array(solution.col_value), np.array(solution.col_dual)

    def add_cuts(self, sets: list[tuple[int, ...]], matrix: sparse.csc_matrix) -> None:
        """Add the odd-set cuts of row sets over all present columns, given by `matrix`."""
        import highspy

        self._highs.setOptionValue("simplex_strategy", DUAL)
        for members in sets:
            coefficients = cut_row(matrix, members)
            used = np.flatnonzero(coefficients).astype(np.int32)
            upper = float(np.floor(self.layout.row_upper[list(members)].sum() / 2))
            self._highs.addRow(-highspy.kHighsInf, upper, len(used), used, coefficients[used])
        self._cuts += sets


def lagrangian_bound(layout: Layout, stage: Stage, duals: Duals, excess: Floats) -> float:
    """Return the bound that duals prove once the largest reduced cost per pool is known.

    ``Σ rows b·dual + Σ pools G·(largest reduced cost) + Σ classes size·(largest of its static
    columns)``: valid for any duals of the right sign, optimal or not.
    """
    bound = float(np.dot(duals.row, layout.row_upper))
    bound += float(np.dot(layout.pool_size, np.maximum(excess, 0.0)))
    bound -= float(np.dot(duals.stage[: len(stage.floors)], stage.floors))
    if len(layout.static):
        cost = static_matrix(layout).T @ duals.row
        bound += _static_excess(layout, static_values(layout) @ duals.stage - cost)
    return bound


def _static_excess(layout: Layout, gain: Floats) -> float:
    """Return an upper bound on what static columns of positive reduced cost could add."""
    static = layout.static
    total = 0.0
    for i in np.flatnonzero(gain > 0):
        most = static.upper[i]
        if not np.isfinite(most):
            count = int(layout.program.group_count[static.group[i]])
            most = float(count * layout.class_size[static.job_class[i]])
        total += float(gain[i]) * most
    return total
