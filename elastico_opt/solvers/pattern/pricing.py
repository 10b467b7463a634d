"""Pricing: the best patterns at given duals, the bound they prove, and full enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from elastico_opt.formulations.columns import (
    Patterns,
    empty_patterns,
    item_host_matrix,
    join,
)
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program.arrays import Bools, Floats, Ints
from elastico_opt.solvers.background import run_watched
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.dominance import undominated_items, undominated_patterns
from elastico_opt.solvers.pattern.kernel import search, shadow_prices

#: A reduced cost up to here counts as zero.
EPSILON = 1e-9
#: Slots from which on patterns are bounded by shadow prices, and the steps that find these.
MANY, SHADOW_STEPS = 4, 100
#: Partial patterns looked at before a search for many residents is content with what it found.
GLANCE = 300_000
_FAR = 1e30
#: Most partial patterns a round looks at.
_BUDGET = 200_000_000
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Duals:
    """Row duals (all >= 0), and the weight each stage's value has at present."""

    row: Floats
    stage: Floats


@dataclass(frozen=True)
class Priced:
    """What a pricing round found.

    Attributes
    ----------
    patterns : Patterns
        Promising columns, not yet in the master.
    excess : (K,) floats
        Per pool an upper bound on the largest reduced cost of any pattern, at least 0.
    complete : bool
        Whether `excess` is the exact largest reduced cost.
    """

    patterns: Patterns
    excess: Floats
    complete: bool


@dataclass(frozen=True)
class _Place:
    """One pricing problem: a pool, or a site (whose patterns start from items tied to it)."""

    pool: int
    site: int
    items: Ints  # tied items first
    n_tied: int
    slots: int
    capacity: Ints


class Pricer:
    """Prices the patterns of a layout; holds what does not change between rounds."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        useful = undominated_items(layout)
        free = useful & (layout.items.site == ELSEWHERE)
        pools = [np.flatnonzero(free & (layout.items.pool == k)) for k in range(layout.n_pools)]
        tied = [np.flatnonzero(layout.items.site == s) for s in range(len(layout.site_device))]
        self.places = [self._place(k, ELSEWHERE, _NONE, pools[k]) for k in range(layout.n_pools)]
        self.places += [
            self._place(int(layout.site_pool[s]), s, tied[s], pools[int(layout.site_pool[s])])
            for s in range(len(tied))
        ]
        self.host = _host_by_item(layout)
        self._lots = np.zeros(layout.n_classes, dtype=np.int64)

    def _place(self, pool: int, site: int, tied: Ints, free: Ints) -> _Place:
        layout, p = self.layout, self.layout.program
        items = np.concatenate([tied, free])
        capacity = p.class_capacity[layout.pool_class[pool]]
        slots = int(layout.most_residents[pool])
        demand = p.group_demand[layout.items.group[items]]
        for r in range(demand.shape[1]):
            least = int(demand[:, r].min(initial=2**62))
            if least > 0:
                slots = min(slots, int(capacity[r]) // least)
        return _Place(pool, site, items, len(tied), max(1, slots), capacity)

    # ---- rounds ------------------------------------------------------------------------

    def bases(self, duals: Duals) -> Floats:
        """Return each item's value less what its rows cost at the duals."""
        layout = self.layout
        items = layout.items
        cost = duals.row[items.row]
        second = np.where(items.row2 >= 0, duals.row[items.row2], 0.0)
        worth = layout.by_stage(items.job_class, items.value, ~items.linked) @ duals.stage
        base = worth + np.where(items.linked, cost + second, -cost)
        if self.host is None:
            return base
        priced: Floats = base - self.host @ duals.row[layout.first_host_row :]
        return priced

    def singletons(self) -> Patterns:
        """Return every useful item as a pattern of its own."""
        items = np.unique(np.concatenate([place.items for place in self.places] or [_NONE]))
        fields = self.layout.items
        return Patterns(fields.pool[items], fields.site[items], items[:, None])

    def price(
        self,
        duals: Duals,
        limits: Limits,
        keep: int,
        seed: int,
        *,
        slack: float = -EPSILON,
        active: Bools | None = None,
        budget: int = _BUDGET,
    ) -> Priced | None:
        """Return promising columns and bounds on reduced costs; None when out of time.

        Per job class up to `keep` patterns are returned, the best of each of `keep` random bins
        of partners: were they simply the best, all classes would name the same few partners.
        Patterns count as promising from reduced cost ``-slack`` on; only `active` classes take
        part.
        """
        self._lots = np.random.default_rng(seed).integers(0, 2**30, self.layout.n_classes)
        base = self.bases(duals)
        if active is not None:
            base = np.where(active[self.layout.items.job_class], base, -_FAR)
        if limits.reached():
            return None
        found: list[Patterns] = []
        excess = np.zeros(self.layout.n_pools)
        lefts = [-np.inf]
        stop = np.zeros(1, dtype=bool)

        def work() -> None:
            for place in self.places:
                rent = self.rent_of(place, duals)
                for most, fair in self._budgets(place, 1 if stop[0] else budget):
                    best, left, patterns, _ = self._search(
                        place, base, duals, rent - slack, keep, most, stop, fair=fair
                    )
                    if left == -np.inf or len(patterns):
                        break
                found.append(patterns)
                lefts.append(left)
                excess[place.pool] = max(excess[place.pool], best - rent, left - rent)

        if not run_watched(work, lambda: stop.fill(True), limits):
            return None
        return Priced(join(found), excess, max(lefts) == -np.inf)

    def _budgets(self, place: _Place, budget: int) -> Iterator[tuple[int, bool]]:
        """Yield how far to search, first for some good patterns of every class, then for all."""
        if place.slots >= MANY and budget > GLANCE:
            yield GLANCE, True
        yield budget, False

    def extend(self, duals: Duals, active: Bools) -> Duals:
        """Set the duals of inactive classes to what they bring beside active ones.

        An estimate to start from: the least class dual at which no pattern of one inactive class
        and at most one active class has a positive reduced cost.
        """
        layout, p, fields = self.layout, self.layout.program, self.layout.items
        row = duals.row.copy()
        row[: layout.n_classes][~active] = 0.0
        base = self.bases(Duals(row, duals.stage))
        worth = np.zeros(layout.n_classes)
        for place in self.places:
            if place.site != ELSEWHERE:
                continue
            there = active[fields.job_class[place.items]]
            roots, others = (
                part[np.argsort(-base[part], kind="stable")]
                for part in (place.items[~there], place.items[there])
            )
            items, slots = np.concatenate([roots, others]), min(2, place.slots)
            top_value = np.full((layout.n_classes, 1), -np.inf)
            rent = self.rent_of(place, duals)
            arguments = (
                *self._described(items, base, duals),
                place.capacity, np.zeros(len(place.capacity)), 0.0,
                p.excess, p.excess_unit, p.throughput_coupling,
                0, len(roots), len(roots), slots, rent, False,
                top_value, np.full((layout.n_classes, 1, slots), -1, dtype=np.int64),
                np.empty(0), np.empty((0, slots), dtype=np.int64),
                _BUDGET, False, np.zeros(1, dtype=bool),
            )  # fmt: skip
            search(*arguments)
            worth = np.maximum(worth, top_value[:, 0] - rent)
        row[: layout.n_classes][~active] = worth[~active]
        return Duals(row, duals.stage)

    def enumerate(self, duals: Duals, slack: float, limits: Limits, most: int) -> Patterns | None:
        """Return every pattern with reduced cost >= -slack; None if over `most` or out of time."""
        base = self.bases(duals)
        found: list[Patterns] = []
        stop = np.zeros(1, dtype=bool)

        def work() -> None:
            total = 0
            for place in self.places:
                rent = self.rent_of(place, duals)
                _, left, patterns, listed = self._search(
                    place, base, duals, rent - slack, 0, 2_000_000_000, stop, most - total
                )
                if listed < 0 or left > -np.inf:
                    return
                total += listed
                found.append(patterns)

        if not run_watched(work, lambda: stop.fill(True), limits) or len(found) < len(self.places):
            return None
        return undominated_patterns(self.layout, join(found), duals.stage)

    def rent_of(self, place: _Place, duals: Duals) -> float:
        """Return what the duals ask for the device itself."""
        rent = float(duals.row[self.layout.first_pool_row + place.pool])
        if place.site != ELSEWHERE:
            rent += float(duals.row[self.layout.first_site_row + place.site])
        return rent

    def _search(
        self,
        place: _Place,
        all_base: Floats,
        duals: Duals,
        cutoff: float,
        keep: int,
        budget: int,
        stop: Bools,
        most: int = 0,
        fair: bool = False,
    ) -> tuple[float, float, Patterns, int]:
        layout, p = self.layout, self.layout.program
        if len(place.items) == 0 or (place.site != ELSEWHERE and place.n_tied == 0):
            return -np.inf, -np.inf, empty_patterns(), 0
        items, shadow, slot_price = self.order(place, all_base)
        described = self._described(items, all_base, duals)
        roots = place.n_tied if place.site != ELSEWHERE else len(items)
        top_value = np.full((layout.n_classes, keep), -np.inf)
        top_items = np.full((layout.n_classes, keep, place.slots), -1, dtype=np.int64)
        room = 4096 if keep == 0 else 0
        while True:
            out_value = np.empty(room)
            out_items = np.empty((room, place.slots), dtype=np.int64)
            arguments = (
                *described, place.capacity, shadow, slot_price,
                p.excess, p.excess_unit, p.throughput_coupling,
                0, roots, 0, place.slots, cutoff, place.slots > 3,
                top_value, top_items, out_value, out_items, budget, fair, stop,
            )  # fmt: skip
            best, listed, left, _ = search(*arguments)
            if keep or listed >= 0:
                break
            if room >= most:
                return best, left, empty_patterns(), -1
            room *= 4
        if keep:
            rows = top_items[top_value > -np.inf]
            rows = np.unique(rows, axis=0) if len(rows) else rows
        else:
            rows = out_items[:listed]
        return best, left, self._patterns(place, items, rows), listed

    def _described(self, items: Ints, base: Floats, duals: Duals) -> tuple[Any, ...]:
        """Return what the kernel is told of items: its arguments from `base` to `copies`."""
        layout, fields = self.layout, self.layout.items
        owner = fields.job_class[items]
        weight = duals.stage[layout.class_stage[owner]]
        return (
            base[items], weight * fields.loss_weight[items],
            layout.program.group_demand[fields.group[items]],
            fields.workload[items], fields.limit[items], fields.exclusive[items],
            owner, self._lots[owner], layout.class_size,
        )  # fmt: skip

    def order(self, place: _Place, all_base: Floats) -> tuple[Ints, Floats, float]:
        """Return the items of a place, tied ones first, most promising first, and shadow prices.

        With few slots an item promises its base value; with more, what of it is left when its
        share of the device is paid for.
        """
        layout, fields, items = self.layout, self.layout.items, place.items
        base, demand = all_base[items], layout.program.group_demand[fields.group[items]]
        shadow, slot_price = np.zeros(demand.shape[1]), 0.0
        if place.slots >= MANY:
            shadow, slot_price = shadow_prices(
                base,
                demand,
                fields.job_class[items],
                layout.class_size,
                place.capacity,
                place.slots,
                SHADOW_STEPS,
            )
        promise = base - demand @ shadow
        free = np.arange(len(items)) >= place.n_tied
        return items[np.lexsort((-promise, free))], shadow, slot_price

    def _patterns(self, place: _Place, items: Ints, rows: Ints) -> Patterns:
        named = np.where(rows >= 0, items[rows], np.int64(2**62)) if len(rows) else rows
        named.sort(axis=1)
        named[named == 2**62] = -1
        n = len(named)
        return Patterns(np.full(n, place.pool), np.full(n, place.site), named)


def _host_by_item(layout: Layout) -> Any:
    if not len(layout.item_host[0]):
        return None
    return item_host_matrix(layout)
