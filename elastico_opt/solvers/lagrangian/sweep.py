"""One look at all patterns of a layout: the best reduced cost in which each row takes part.

Pricing (`elastico_opt.solvers.pattern.pricing`) asks for patterns to add to a linear program. The
row loop has none; it asks how far each row's dual is from what the best pattern with that row can
bear. It is the same compiled search, and can be split over threads by the first item of a pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program.arrays import Bools, Floats, Ints
from elastico_opt.solvers.background import run_watched
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.kernel import search
from elastico_opt.solvers.pattern.pricing import Duals, Pricer

#: Most partial patterns that a look takes.
_BUDGET = 20_000_000_000
#: Copies of a gang's worker on one device: its own gang's other workers count as others.
_ANY = 2**30


@dataclass(frozen=True)
class Look:
    """What a look found.

    Attributes
    ----------
    best : (class and link rows, K) floats
        Per row and pool the largest reduced cost of a pattern there with an item of that row;
        at least ``-slack`` (below that nothing was looked for).
    excess : (K,) floats
        Per pool an upper bound on the largest reduced cost of any pattern, at least 0.
    site : (S,) floats
        The same per site, of its own patterns; not raised to 0.
    complete : bool
        Whether everything was looked at; if not, only `excess` and `site` are of use.
    """

    best: Floats
    excess: Floats
    site: Floats
    complete: bool


class Looker:
    """Looks at all patterns of a layout at given duals."""

    def __init__(self, layout: Layout, pricer: Pricer) -> None:
        self.layout, self.pricer = layout, pricer
        copies = np.full(layout.first_pool_row, _ANY, dtype=np.int64)
        copies[: layout.n_classes] = layout.class_size
        self.copies = copies

    @property
    def slots(self) -> int:
        """Return the most residents of any device."""
        return max((place.slots for place in self.pricer.places), default=1)

    def look(self, duals: Duals, slack: float, limits: Limits) -> Look | None:
        """Look at everything; None when the search did not even stop in time."""
        layout = self.layout
        best = np.full((layout.first_pool_row, layout.n_pools), -slack)
        excess = np.zeros(layout.n_pools)
        site = np.full(len(layout.site_device), -slack)
        stop = np.zeros(1, dtype=bool)
        lefts = [-np.inf]
        base = self.pricer.bases(duals)

        def work() -> None:
            for place in self.pricer.places:
                rent, top, found, left = self._place(
                    place, base, duals, slack, limits.threads, stop
                )
                here = best[:, place.pool]
                np.maximum(here, top - rent, out=here)
                most = max(found, left) - rent
                if place.site != ELSEWHERE:
                    site[place.site] = max(site[place.site], most)
                else:
                    excess[place.pool] = max(excess[place.pool], most)
                lefts.append(left)

        if not run_watched(work, lambda: stop.fill(True), limits):
            return None
        return Look(best, excess, site, max(lefts) == -np.inf)

    def beside(self, duals: Duals, active: Bools, limits: Limits) -> Floats | None:
        """Return (rows,): the best reduced cost of one inactive item alone or beside active ones.

        -inf for rows of active classes and rows without items; None when out of time.
        """
        layout, fields = self.layout, self.layout.items
        base = self.pricer.bases(duals)
        found = np.full(layout.first_pool_row, -np.inf)
        stop = np.zeros(1, dtype=bool)

        def work() -> None:
            for place in self.pricer.places:
                items = place.items
                there = active[fields.job_class[items]]
                ends = np.arange(len(items)) < (
                    place.n_tied if place.site != ELSEWHERE else len(items)
                )
                roots, others = items[~there & ends], items[there]
                if not len(roots):
                    continue
                parts = [part[np.argsort(-base[part], kind="stable")] for part in (roots, others)]
                rent = self.pricer.rent_of(place, duals)
                cut = (len(roots), len(roots), min(2, place.slots), -1e29)
                top, _, _ = self._search(place, np.concatenate(parts), base, duals, cut, stop)
                mine = np.unique(fields.row[roots])
                found[mine] = np.maximum(found[mine], top[mine] - rent)

        return found if run_watched(work, lambda: stop.fill(True), limits) else None

    def _place(
        self, place: Any, base: Floats, duals: Duals, slack: float, threads: int, stop: Bools
    ) -> tuple[float, Floats, float, float]:
        """Return rent, best value per row, best value, and a bound on what was left out."""
        rent = self.pricer.rent_of(place, duals)
        tops = np.full(self.layout.first_pool_row, -np.inf)
        if not len(place.items) or (place.site != ELSEWHERE and not place.n_tied):
            return rent, tops, -np.inf, -np.inf
        items, shadow, slot_price = self.pricer.order(place, base)
        roots = place.n_tied if place.site != ELSEWHERE else len(items)

        def part(first: int, end: int) -> tuple[Floats, float, float]:
            cut = (end, 0, place.slots, rent - slack)
            return self._search(
                place, items, base, duals, cut, stop, first, shadow, slot_price
            )  # fmt: skip

        best, left = -np.inf, -np.inf
        for top, found, missed in _in_threads(part, _ranges(roots, threads), threads):
            tops = np.maximum(tops, top)
            best, left = max(best, found), max(left, missed)
        return rent, tops, best, left

    def _search(
        self,
        place: Any,
        items: Ints,
        base: Floats,
        duals: Duals,
        cut: tuple[int, int, int, float],
        stop: Bools,
        first: int = 0,
        shadow: Floats | None = None,
        slot_price: float = 0.0,
    ) -> tuple[Floats, float, float]:
        """Search the patterns whose first item is from `first` on; see `kernel.search`."""
        layout, p, fields = self.layout, self.layout.program, self.layout.items
        roots, partners, slots, cutoff = cut
        weight = duals.stage[layout.class_stage[fields.job_class[items]]]
        top_value = np.full((layout.first_pool_row, 1), -np.inf)
        top_items = np.full((layout.first_pool_row, 1, slots), -1, dtype=np.int64)
        owner = fields.row[items]
        best, _, left, _ = search(
            base[items], weight * fields.loss_weight[items],
            p.group_demand[fields.group[items]],
            fields.workload[items], fields.limit[items], fields.exclusive[items],
            owner, np.zeros(len(items), dtype=np.int64), self.copies,
            place.capacity, np.zeros(len(place.capacity)) if shadow is None else shadow,
            slot_price, p.excess, p.excess_unit, p.throughput_coupling,
            first, roots, partners, slots, cutoff, False,
            top_value, top_items, np.empty(0), np.empty((0, slots), dtype=np.int64),
            _BUDGET, False, stop,
        )  # fmt: skip
        return top_value[:, 0], best, left


def _ranges(n: int, threads: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into parts of like work: the first items have the most partners."""
    if threads < 2 or n < 1_000:
        return [(0, n)]
    parts = 4 * threads
    ends = [round(n * (1 - (1 - i / parts) ** 0.5)) for i in range(parts + 1)]
    return list(pairwise(ends))


def _in_threads(
    part: Callable[[int, int], tuple[Floats, float, float]],
    ranges: list[tuple[int, int]],
    threads: int,
) -> list[tuple[Floats, float, float]]:
    if len(ranges) == 1:
        return [part(*ranges[0])]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda ends: part(*ends), ranges))
