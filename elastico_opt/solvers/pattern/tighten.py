"""Cutting planes over a listed set of patterns: a bound near the integer optimum, few columns left.

The list holds every pattern that a better plan can use (see `generation`), so cuts need no
pricing: they only ever meet these columns.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from elastico_opt.formulations.columns import pattern_matrix, static_matrix, static_upper
from elastico_opt.formulations.layout import Layout
from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.blossom import odd_sets
from elastico_opt.solvers.pattern.master import Master

#: Rounds of cuts between two attempts to round.
ROUNDS = 12
#: Relative distance below which two LP values count as equal.
_SAME = 1e-10


class Tightening:
    """Adds odd-set cuts to a converged master and keeps the best LP value and its reduced costs.

    Attributes
    ----------
    bound : float
        Upper bound on the integer program over static columns and the master's patterns.
    point : (static + patterns,) floats
        The latest LP point.
    reduced : (static + patterns,) floats
        Reduced costs at the best bound: <= 0 up to tolerance, but for static columns at their
        upper bounds.
    exhausted : bool
        Whether the latest LP point violates no cut that can be found.
    """

    def __init__(self, layout: Layout, master: Master, limits: Limits) -> None:
        self.layout, self.master, self.limits = layout, master, limits
        self._matrix = sparse.hstack(
            [static_matrix(layout), pattern_matrix(layout, master.patterns)], format="csc"
        )
        sites = np.arange(layout.first_site_row, layout.first_host_row)
        self._rows = np.concatenate([np.arange(layout.n_classes), sites])
        self._known: set[tuple[int, ...]] = set()
        self.bound, self.exhausted = np.inf, False
        self.point, self.reduced = np.zeros(0), np.zeros(0)

    def cut(self) -> bool:
        """Solve and cut for a while; return whether the bound improved."""
        before = self.bound
        rows, upper = self._matrix[self._rows], self.layout.row_upper[self._rows]
        for _ in range(ROUNDS):
            solved = None if self.limits.reached() else self.master.relaxation(self.limits)
            if solved is None:
                self.exhausted = True
                break
            self._take(*solved)
            found = {
                tuple(int(r) for r in self._rows[list(members)])
                for members in odd_sets(rows, upper, self.point)
            } - self._known
            if not found:
                self.exhausted = True
                break
            self._known |= found
            self.master.add_cuts(sorted(found), self._matrix)
        return self.bound < before - _SAME * max(1.0, abs(before))

    def _take(self, value: float, point: Floats, reduced: Floats) -> None:
        # Reduced costs are <= 0 only up to a tolerance, and > 0 where a static column is at its
        # upper bound: what other points could gain by them is added.
        n = len(self.layout.static)
        gain = np.maximum(reduced, 0.0)
        value += float(gain[:n] @ np.maximum(static_upper(self.layout) - point[:n], 0.0))
        value += float(gain[n:].max(initial=0.0)) * float(self.layout.pool_size.sum())
        self.point = point
        if value < self.bound:
            self.bound, self.reduced = value, reduced

    def near(self, slack: float) -> Ints:
        """Return the patterns whose reduced cost is within `slack` of zero."""
        return np.flatnonzero(self.reduced[len(self.layout.static) :] >= -slack)
