"""Column generation for one stage: the restricted master and the pricer, round by round."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.master import Master, Stage, lagrangian_bound
from elastico_opt.solvers.pattern.pricing import EPSILON, Duals, Priced, Pricer

#: Relative distance of bound and LP value at which the LP counts as solved.
CONVERGED = 1e-9
#: Patterns kept per job class and round, in bins drawn anew each round: most, least, and the
#: number of patterns a round aims at.
BINS, FEWEST, PER_ROUND = 16, 4, 30_000
#: The same for the first round after a warm start.
FIRST_BINS, FIRST_FEWEST, FIRST_ROUND = 64, 16, 90_000
#: Weight of the best known duals in pricing after a warm start, and the relative distance of bound
#: and LP value below which the master's duals are trusted alone.
INERTIA, NEAR = 0.9, 1e-5
#: Classes in the sample that duals are first guessed from.
SAMPLE = 300
#: Patterns of the first round: reduced cost down to this share of the highest device price.
WARM_SLACK = 0.02


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
        self.bins = max(FEWEST, min(BINS, PER_ROUND // max(1, layout.n_classes)))

    def run(self, start: Patterns, on_round: Callable[[], None], rounds: float = math.inf) -> None:
        """Generate columns until the LP is solved or a limit (of rounds, too) is reached."""
        self.master.add(start)
        self.master.add(self.pricer.singletons())
        inertia = INERTIA if self.rounds == 0 and self._warm_up(start) else 0.0
        while self.rounds < rounds and not self.limits.reached():
            solved = self.master.solve(self.limits)
            if solved is None:
                return
            value, duals = solved
            if self.bound - value <= NEAR * abs(value):
                inertia = 0.0
            priced = self._price(self._between(duals, inertia))
            if priced is None:
                return
            on_round()
            if self.bound - value <= CONVERGED * max(1.0, abs(value)):
                self.converged = True
                return
            if self.master.add(priced.patterns) == 0:
                if inertia == 0.0:
                    return
                inertia = 0.0

    def _between(self, duals: Duals, inertia: float) -> Duals:
        """Return duals between the master's and the best known (Wentges, 1997)."""
        if inertia == 0.0 or self.duals is None:
            return duals
        return Duals(
            inertia * self.duals.row + (1 - inertia) * duals.row,
            inertia * self.duals.stage + (1 - inertia) * duals.stage,
        )

    def _price(
        self, duals: Duals, slack: float = -EPSILON, bins: int | None = None
    ) -> Priced | None:
        priced = self.pricer.price(duals, self.limits, bins or self.bins, self.rounds, slack=slack)
        self.rounds += 1
        if priced is not None:
            bound = lagrangian_bound(self.layout, self.stage, duals, priced.excess)
            if bound < self.bound:
                self.bound, self.duals = bound, duals
        return priced

    def _warm_up(self, start: Patterns) -> bool:
        """Guess the duals of many classes from the LP over a sample of them.

        Prices of devices settle on a sample long before every class has met its best partners;
        the other classes' duals then follow from what they bring beside the sample.
        """
        layout = self.layout
        if layout.n_classes < 2 * SAMPLE or self.stage.floors:
            return False
        active = np.zeros(layout.n_classes, dtype=bool)
        order = np.random.default_rng(self.limits.seed).permutation(layout.n_classes)
        active[order[:SAMPLE]] = True
        sample = Master(layout, self.stage, self.limits, active)
        singletons = self.pricer.singletons()
        sample.add(
            singletons.select(
                np.flatnonzero(active[layout.items.job_class[singletons.items[:, 0]]])
            )
        )
        duals = None
        while not self.limits.reached():
            solved = sample.solve(self.limits)
            if solved is None:
                break
            duals = solved[1]
            priced = self.pricer.price(duals, self.limits, BINS, self.rounds, active=active)
            if priced is None or sample.add(priced.patterns) == 0:
                break
        if duals is None or self.limits.reached():
            return False
        first = max(FIRST_FEWEST, min(FIRST_BINS, FIRST_ROUND // layout.n_classes))
        priced = self._price(
            self.pricer.extend(duals, active), WARM_SLACK * self._device_worth(duals), first
        )
        if priced is not None:
            self.master.add(priced.patterns)
        return priced is not None

    def _device_worth(self, duals: Duals) -> float:
        layout = self.layout
        return float(duals.row[layout.first_pool_row : layout.first_site_row].max(initial=0.0))

    def columns(self, slack: float, most: int) -> Patterns | None:
        """Return every pattern that a solution within `slack` of the bound can use.

        A solution that uses a pattern of reduced cost below ``-slack`` (at the duals that proved
        the bound) is worth less than ``bound - slack``.
        """
        if self.duals is None:
            return None
        return self.pricer.enumerate(self.duals, slack, self.limits, most)
