"""The pattern form where devices hold two residents at most: matchings as the restricted master.

Like column generation, with the linear program replaced by its integer program: a best matching
over the patterns known so far comes with exact duals (see `matching`), pricing looks for patterns
worth more than these, and when there are none, the matching is the optimum over all patterns. No
cuts and no branching are left to do.

Pricing sees the duals of jobs and of the device, but not those of odd sets, which are >= 0 and
only make patterns dearer: what it misses cannot be missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from elastico_opt.formulations.columns import Patterns, join, pattern_values
from elastico_opt.formulations.layout import Layout
from elastico_opt.program.arrays import Ints
from elastico_opt.solvers.background import run_watched
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.integer import Selection
from elastico_opt.solvers.pattern.master import Stage
from elastico_opt.solvers.pattern.matching import Best, Graph, Matcher, best_choice, grain, whole
from elastico_opt.solvers.pattern.pricing import EPSILON, Duals, Pricer

#: Patterns per job class and round: most, least, and how many a round aims at.
BINS, FEWEST, PER_ROUND = 64, 16, 90_000
#: Share of the gap that a round's matching may leave: the duals of early rounds are rough anyway.
SLACK = 0.05
#: Most edges between jobs, each job of a class counted, for which matchings are tried.
MOST_EDGES = 1_000_000


def pairs_only(layout: Layout, pricer: Pricer, stage: Stage) -> bool:
    """Whether a stage is a matching: one pool, single devices, two residents, no other rows."""
    return (
        layout.n_pools == 1
        and layout.n_rows == layout.n_classes + 1
        and not len(layout.static)
        and not layout.node_coupled
        and not stage.floors
        and all(place.slots <= 2 for place in pricer.places)
    )


class Pairing:
    """Solves a stage by matchings over a growing set of patterns.

    Attributes
    ----------
    bound : float
        Best bound on every plan so far.
    value : float
        What `choice` is worth, up to rounding.
    proved : float
        The bound of the last matching over the patterns known.
    choice : Selection or None
        The best choice among the patterns known.
    patterns : Patterns
    rounds : int
    """

    def __init__(self, layout: Layout, pricer: Pricer, stage: Stage, limits: Limits) -> None:
        self.layout, self.pricer, self.stage, self.limits = layout, pricer, stage, limits
        self.bound, self.proved, self.value, self.rounds = math.inf, math.inf, -math.inf, 0
        self.choice: Selection | None = None
        none = np.zeros(0, dtype=np.int64)
        self.patterns = Patterns(none, none, np.zeros((0, 2), dtype=np.int64))
        self.devices = int(layout.pool_size[0])
        # More than two jobs of a class per device cannot be placed.
        self.copies = np.minimum(layout.class_size, 2 * self.devices)
        self._grain = grain(int(self.copies.sum()))
        worth = layout.by_stage(layout.items.job_class, layout.items.value, ~layout.items.linked)
        self._largest = 2.0 * float(np.abs(worth[:, stage.index]).max(initial=0.0))
        self._exponent = whole(np.zeros(0), self._largest, self._grain)[1]
        self._weight = np.zeros(0, dtype=np.int64)
        self._known = np.zeros(0, dtype=np.int64)
        self._vertex = np.zeros(0, dtype=np.int64)
        self._mate: Ints | None = None
        self._price = self._slack = 0
        self._listed = False

    def run(self, start: Patterns, duals: Duals, on_round: Callable[[], bool]) -> bool:
        """Solve the stage, starting with some patterns near some duals, until told to end.

        `on_round` looks at what a round found and says whether to go on.

        Returns
        -------
        bool
            False when ended early, or when so many jobs are alike that the graph is too large.
        """
        self._add(start)
        row, n = np.clip(duals.row, 0.0, self._largest), len(self.copies)
        row = np.rint(np.ldexp(row, self._exponent)).astype(np.int64)
        # Half units: an edge is worth what its two ends and the device cost.
        self._vertex = np.repeat(2 * row[:n], self.copies)
        self._price = int(row[n]) >> self._grain << self._grain
        while not self.limits.reached():
            graph = self._graph()
            best = None if graph is None else self._match(graph)
            if graph is None or best is None:
                return False
            self._take(graph, best)
            more = self._price_out(best)
            if more == 0 and self._slack == 0:
                on_round()
                return True
            if not on_round() or more is None:
                return False
            self._slack = 0 if self._listed else self._scaled(SLACK * (self.bound - self.proved))
        return False

    # ---- columns -----------------------------------------------------------------------

    def _add(self, patterns: Patterns) -> int:
        """Add the patterns that are new and worth something; return how many."""
        items = np.pad(patterns.items[:, :2], ((0, 0), (0, max(0, 2 - patterns.items.shape[1]))),
                       constant_values=-1)  # fmt: skip
        patterns = Patterns(patterns.pool, patterns.site, items)
        value = pattern_values(self.layout, patterns)[:, self.stage.index]
        key = items[:, 0] * (len(self.layout.items) + 1) + items[:, 1] + 1
        _, first = np.unique(key, return_index=True)
        new = first[(value[first] > 0) & ~np.isin(key[first], self._known)]
        if len(new):
            self.patterns = join([self.patterns, patterns.select(new)])
        weight, _ = whole(value[new], self._largest, self._grain)
        self._weight = np.concatenate([self._weight, weight])
        self._known = np.concatenate([self._known, key[new]])
        return len(new)

    def _price_out(self, best: Best) -> int | None:
        """Bound all plans by the duals of a matching and add what is worth more than these."""
        duals = self._duals(best)
        bins = max(FEWEST, min(BINS, PER_ROUND // self.layout.n_classes))
        self.proved = proved = self._value(best.bound, halves=1)
        priced = self.pricer.price(duals, self.limits, bins, self.rounds)
        self.rounds += 1
        if priced is None:
            return None
        self.bound = min(self.bound, proved + self.devices * max(0.0, float(priced.excess.max())))
        added = self._add(priced.patterns)
        if added < self.layout.n_classes:  # known ones within odd sets may hide others: list all
            self._listed = True
            listed = self.pricer.enumerate(duals, EPSILON, self.limits, MOST_EDGES)
            if listed is None:
                return None
            added += self._add(listed)
            graph = self._graph()
            if graph is not None and best.certificate.excess(graph) == 0:
                self.bound, added = min(self.bound, proved), 0
        return added

    def _duals(self, best: Best) -> Duals:
        """Return the row duals of a certificate: of a class, the least of its jobs."""
        least = np.minimum.reduceat(best.certificate.vertex, self._begin())
        row = np.append(least, best.certificate.price)
        weight = np.zeros(self.layout.n_stages)
        weight[self.stage.index] = 1.0
        return Duals(np.ldexp(np.maximum(row, 0).astype(float), -self._exponent - 1), weight)

    # ---- the matching ------------------------------------------------------------------

    def _begin(self) -> Ints:
        """Return (C,) the first vertex of each class."""
        return np.cumsum(self.copies) - self.copies

    def _graph(self) -> Graph | None:
        """Build the graph of the known patterns; None when it is too large.

        Its edges and loops come per pattern; `_pattern` names the pattern of each.
        """
        items, begin = self.patterns.items, self._begin()
        owner = self.layout.items.job_class[items]
        alone = items[:, 1] < 0
        loop, self._alone = _best_loop(owner[alone, 0], self._weight[alone], len(begin))
        self._alone = np.flatnonzero(alone)[self._alone] if alone.any() else self._alone
        pair = np.flatnonzero(~alone)
        a, b = owner[pair, 0], owner[pair, 1]
        count = self.copies[a] * self.copies[b]
        if count.sum() > MOST_EDGES:
            return None
        which = np.repeat(np.arange(len(pair)), count)
        place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        one = begin[a[which]] + place // self.copies[b[which]]
        two = begin[b[which]] + place % self.copies[b[which]]
        keep = (a != b)[which] | (one < two)
        self._pattern = pair[which[keep]]
        return Graph(
            n=int(self.copies.sum()),
            most=self.devices,
            one=one[keep],
            two=two[keep],
            weight=self._weight[self._pattern],
            loop=np.repeat(loop, self.copies),
            grain=self._grain,
        )

    def _match(self, graph: Graph) -> Best | None:
        stop = np.zeros(1, dtype=bool)
        matcher = Matcher(graph, self._vertex, self._price, stop, self._mate)
        found: list[Best | None] = []

        def work() -> None:
            found.append(best_choice(matcher, self._price, self._slack))

        if not run_watched(work, lambda: stop.fill(True), self.limits) or found[0] is None:
            return None
        self._vertex, self._price, self._mate = matcher.vertex, matcher.price, matcher.mate
        return found[0]

    def _scaled(self, value: float) -> int:
        """Return a value in half units."""
        return int(value * 2.0 ** (self._exponent + 1))

    def _take(self, graph: Graph, best: Best) -> None:
        """Read the choice back as patterns and counts."""
        owner = np.repeat(np.arange(len(self.copies)), self.copies)
        used = np.concatenate([self._pattern[best.edges], self._alone[owner[best.alone]]])
        which, counts = np.unique(used, return_counts=True)
        static = np.zeros(0, dtype=np.int64)
        self.choice = Selection(static, self.patterns.select(which), counts.astype(np.int64))
        self.value = self._value(best.value, halves=0)

    def _value(self, weight: int, halves: int) -> float:
        """Return a scaled weight (in half units, if `halves`) as a value, rounded up."""
        return math.nextafter(float(weight / Fraction(2) ** (self._exponent + halves)), math.inf)


def _best_loop(owner: Ints, weight: Ints, n: int) -> tuple[Ints, Ints]:
    """Return the largest weight per vertex, 0 where there is none, and where it is."""
    loop, at = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    order = np.argsort(weight, kind="stable")
    loop[owner[order]], at[owner[order]] = weight[order], order
    return loop, at
