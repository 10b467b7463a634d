"""Column generation for one stage: the restricted master and the pricer, round by round."""

from __future__ import annotations

import math
from collections.abc import Callable

from elastico_opt.formulations.layout import Layout
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.columns import Patterns
from elastico_opt.solvers.pattern.master import Master, Stage, lagrangian_bound
from elastico_opt.solvers.pattern.pricing import Duals, Pricer

#: Relative distance of bound and LP value at which the LP counts as solved.
CONVERGED = 1e-9
#: Patterns kept per job class and round, in bins drawn anew each round.
BINS = 16


class Generation:
    """Solves the LP relaxation of a stage by column generation.

    Attributes
    ----------
    bound : float
        Best Lagrangian bound so far: valid whether or not the LP has converged.
    duals : Duals or None
        The duals that proved it.
    converged : bool
        Whether the LP over *all* patterns is solved.
    """

    def __init__(self, layout: Layout, pricer: Pricer, stage: Stage, limits: Limits) -> None:
        self.layout, self.pricer, self.stage, self.limits = layout, pricer, stage, limits
        self.master = Master(layout, stage, limits)
        self.bound, self.converged, self.rounds = math.inf, False, 0
        self.duals: Duals | None = None

    def run(self, start: Patterns, on_round: Callable[[], None]) -> None:
        """Generate columns until the LP is solved or a limit is reached."""
        self.master.add(start)
        self.master.add(self.pricer.singletons())
        while not self.limits.reached():
            solved = self.master.solve(self.limits)
            if solved is None:
                return
            value, duals = solved
            priced = self.pricer.price(duals, self.limits, BINS, self.rounds)
            self.rounds += 1
            if priced is None:
                return
            bound = lagrangian_bound(self.layout, self.stage, duals, priced.excess)
            if bound < self.bound:
                self.bound, self.duals = bound, duals
            on_round()
            if self.bound - value <= CONVERGED * max(1.0, abs(value)):
                self.converged = True
                return
            if self.master.add(priced.patterns) == 0:
                return

    def columns(self, slack: float, most: int) -> Patterns | None:
        """Return every pattern that a solution within `slack` of the bound can use.

        A solution that uses a pattern of reduced cost below ``-slack`` (at the duals that proved
        the bound) is worth less than ``bound - slack``.
        """
        if self.duals is None:
            return None
        return self.pricer.enumerate(self.duals, slack, self.limits, most)
