"""The tighter price loop: prices of jobs and devices in the pattern form, without its program.

For any duals of the right sign, class rows μ, link rows y, pools π, sites σ and host rows,

    B = Σ rows b·dual + Σ_k G_k · max(0, best reduced cost in pool k)

bounds every plan (`lagrangian_bound`). The best B is the value of the pattern form's linear
relaxation: the price bound with device borders and interference. Plain subgradients are of no use
here, since one pool has one best pattern. Instead:

1. **Sample.** The linear program over a sample of job classes gives the prices of devices.
2. **Extend.** Every other class is worth what it brings beside the sample.
3. **Look** at all patterns (`sweep`): this certifies a bound, and gives each row's largest reduced
   cost ρ.
4. **Share.** With at most s residents, ``μ_k = μ + ρ_k/s`` satisfies the patterns of pool k (of
   link rows, ``y − ρ_k/s``). For two residents it is the mean of μ and the least price that each
   job could ask for if the others kept theirs: then all pairs are satisfied, whatever μ was.
   Violations vanish, and slack is handed out.
5. **Balance.** Lowering π_k by δ raises what each resident there must ask by δ/s, lowering a host
   price by what it takes of that; the new μ is the largest over the pools. The sum of all prices
   is convex in these prices and needs no look at patterns: it is minimised by scaling them, all
   together and one by one.

Steps 3 to 5 repeat. Each look is a bound of its own; the best one counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from elastico_opt.formulations.layout import Layout
from elastico_opt.program.arrays import Bools, Floats
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.lagrangian.balancing import Balancing
from elastico_opt.solvers.lagrangian.sweep import Look, Looker
from elastico_opt.solvers.pattern.generation import BINS, SAMPLE
from elastico_opt.solvers.pattern.master import Master, Stage, lagrangian_bound
from elastico_opt.solvers.pattern.pricing import Duals, Pricer

#: Rounds of looking, sharing and balancing.
ROUNDS = 3
#: Reduced costs are told apart down to this share of the highest device price, below 0: with one
#: pool, where looks are long, and with several, whose prices are to be balanced.
SLACK, WIDE_SLACK = 0.05, 0.2
#: Share of the time left that the sample may take.
SAMPLE_SHARE = 0.25
#: Relative gain in the sum of prices below which another look is not worth it.
STALL = 1e-5


@dataclass(frozen=True, slots=True)
class RowRound:
    """One look: its stage, the seconds since the start, its bound, and the best so far."""

    stage: int
    seconds: float
    bound: float
    best: float


@dataclass(frozen=True)
class RowBound:
    """What the row loop proved.

    Attributes
    ----------
    tiers : tuple of float or None
        Per priority, highest first, the most that any plan is worth there, whatever the other
        tiers reach; None where time ran out before the first look ended.
    duals : tuple of Duals or None
        What proves them; they start the next call.
    log : tuple of RowRound
    """

    tiers: tuple[float | None, ...]
    duals: tuple[Duals | None, ...]
    log: tuple[RowRound, ...]


def row_price_bound(
    layout: Layout,
    limits: Limits | None = None,
    rounds: int = ROUNDS,
    start: tuple[Duals | None, ...] = (),
    sample: int = SAMPLE,
    pricer: Pricer | None = None,
) -> RowBound:
    """Bound every tier by prices of the pattern form's rows.

    Parameters
    ----------
    layout : Layout
    limits : Limits, optional
        Its threads share each look; its seed draws the sample.
    rounds : int
        Looks per tier, at most.
    start : tuple of Duals or None
        Duals per tier to start from instead of a sample (of the same layout).
    sample : int
        Classes in the sample; with no more classes than that it is the whole linear program.
    pricer : Pricer, optional
        Of the layout, if there is one already.

    Returns
    -------
    RowBound
    """
    limits = limits or Limits()
    pricer = pricer or Pricer(layout)
    began = time.monotonic()
    tiers: list[float | None] = []
    duals: list[Duals | None] = []
    log: list[RowRound] = []
    for tier, offset in enumerate(layout.offset.tolist()):
        stage = Stage(tier + int(layout.n_must > 0))
        known = start[tier] if tier < len(start) else None
        run = _StageRun(layout, pricer, stage, limits)
        run.go(known or run.first_duals(sample), rounds, began)
        tiers.append(None if run.best == np.inf else run.best + offset)
        duals.append(run.duals)
        log += run.log
    return RowBound(tuple(tiers), tuple(duals), tuple(log))


class _StageRun:
    """The row loop for one tier; the best bound and its duals."""

    def __init__(self, layout: Layout, pricer: Pricer, stage: Stage, limits: Limits) -> None:
        self.layout, self.pricer, self.stage, self.limits = layout, pricer, stage, limits
        self.looker = Looker(layout, pricer)
        self.best = np.inf
        self.duals: Duals | None = None
        self.log: list[RowRound] = []
        self.weight = np.zeros(layout.n_stages)
        self.weight[stage.index] = 1.0
        self.closing = Balancing(layout, self.weight)

    def go(self, duals: Duals | None, rounds: int, began: float) -> None:
        """Look, share, balance, until nothing is gained or a limit is reached."""
        pools = self._pools
        for _ in range(rounds):
            if duals is None or self.limits.reached():
                return
            share = SLACK if self.layout.n_pools == 1 else WIDE_SLACK
            slack = share * max(float(duals.row[pools].max(initial=0.0)), 1e-12)
            look = self.looker.look(duals, slack, self.limits)
            if look is None:
                return
            self._certify(duals, look, began)
            if not look.complete:
                return
            duals = self._improved(duals, look)
            if duals.row @ self.layout.row_upper >= self.best - STALL * abs(self.best):
                return

    @property
    def _pools(self) -> slice:
        return slice(self.layout.first_pool_row, self.layout.first_site_row)

    def _certify(self, duals: Duals, look: Look, began: float) -> None:
        """Raise site duals to what their own patterns ask, and take the bound."""
        layout, row = self.layout, duals.row.copy()
        sites = slice(layout.first_site_row, layout.first_host_row)
        row[sites] += np.maximum(look.site, 0.0)
        proved = Duals(row, duals.stage)
        rounding = 1e-12 * float(row @ layout.row_upper)
        bound = float(lagrangian_bound(layout, self.stage, proved, look.excess)) + rounding
        if bound < self.best:
            self.best, self.duals = bound, proved
        seconds = time.monotonic() - began
        self.log.append(RowRound(self.stage.index, seconds, bound, self.best))

    def _improved(self, duals: Duals, look: Look) -> Duals:
        """Share out each row's best reduced cost, then balance the prices of devices."""
        layout, row = self.layout, duals.row.copy()
        n, last = layout.n_classes, layout.first_pool_row
        ask = np.concatenate([row[:n], -row[n:last]])[:, None] + look.best / self.looker.slots
        sites = slice(layout.first_site_row, layout.first_host_row)
        row[sites] = np.maximum(0.0, row[sites] + np.minimum(look.site, 0.0) / 2)
        return Duals(self.closing.balanced(row, ask, self.looker.slots), duals.stage)

    # ---- where to start ------------------------------------------------------------------

    def first_duals(self, size: int) -> Duals | None:
        """Return duals from the linear program over a sample, extended to all classes."""
        layout, limits = self.layout, self.limits
        active = np.zeros(layout.n_classes, dtype=bool)
        order = np.random.default_rng(limits.seed).permutation(layout.n_classes)
        active[order[:size]] = True
        if limits.remaining() < np.inf:
            share = time.monotonic() + SAMPLE_SHARE * limits.remaining()
            limits = replace(limits, deadline=share)
        duals = self._sampled(active, limits)
        if duals is None or active.all():
            return duals
        row = duals.row.copy()
        n, last = layout.n_classes, layout.first_pool_row
        found = self.looker.beside(self._without(row, active), active, self.limits)
        if found is None:
            return None
        new = np.flatnonzero(found > -np.inf)
        row[new] = np.maximum(0.0, np.where(new < n, found[new], -found[new]))
        inactive = np.zeros(last, dtype=bool)
        inactive[:n] = ~active
        row[: len(inactive)][inactive & (found == -np.inf)] = 0.0
        return Duals(self.closing.closed(row), self.weight)

    def _without(self, row: Floats, active: Bools) -> Duals:
        """Return duals in which inactive classes ask for nothing, and their workers neither."""
        layout = self.layout
        bare = row.copy()
        bare[: layout.n_classes][~active] = 0.0
        items = layout.items
        bare[items.row[~active[items.job_class]]] = 0.0
        return Duals(bare, self.weight)

    def _sampled(self, active: Bools, limits: Limits) -> Duals | None:
        """Solve the linear program over the active classes, as far as time allows."""
        layout = self.layout
        sample = Master(layout, self.stage, limits, active)
        singles = self.pricer.singletons()
        mine = active[layout.items.job_class[singles.items[:, 0]]]
        sample.add(singles.select(np.flatnonzero(mine)))
        duals, rounds = None, 0
        while not limits.reached():
            solved = sample.solve(limits)
            if solved is None:
                break
            duals, rounds = solved[1], rounds + 1
            priced = self.pricer.price(duals, limits, BINS, rounds, active=active)
            if priced is None or sample.add(priced.patterns) == 0:
                break
        return duals
