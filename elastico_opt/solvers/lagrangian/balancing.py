"""Duals of the pattern form made consistent, and balanced, without a look at any pair.

What a look at all patterns found (`elastico_opt.solvers.lagrangian.sweep`) stays satisfied while
prices of devices and hosts change, as long as each row asks for its share of the change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from elastico_opt.formulations.columns import item_host_matrix, static_matrix, static_values
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program.arrays import Floats, Ints

#: Widest relative change of a device price in one round, and golden-section steps.
_SPAN, _STEPS = 0.3, 12
_GOLDEN = (5**0.5 - 1) / 2
_FAR = 1e30


class Balancing:
    """Makes duals consistent without a look at pairs: static columns and lone items cost nothing.

    Prices may only be raised for it where that is cheap: a class row by what its choices or lone
    items gain; a link row is lowered to what its cheapest provider asks.
    """

    def __init__(self, layout: Layout, weight: Floats) -> None:
        """Gather what does not change; `weight` is what each stage counts."""
        self.layout, self.weight = layout, weight
        items, last = layout.items, layout.first_pool_row
        free = items.site == ELSEWHERE
        self.seated = np.zeros((last, layout.n_pools), dtype=bool)
        self.seated[items.row, items.pool] = True
        self.alone, self.linked = np.flatnonzero(free & ~items.linked), free & items.linked
        self.gangs = np.flatnonzero(self.linked)
        self.worth = layout.by_stage(items.job_class, items.value, ~items.linked) @ weight
        self.host = item_host_matrix(layout) if len(layout.item_host[0]) else None
        self.host_most, self.host_least = self._host_use()
        static = layout.static
        self.matrix = static_matrix(layout)
        self.gain = static_values(layout) @ weight
        rows, columns, values = static.entries
        link = (values < 0) & (rows >= layout.n_classes) & (rows < last)
        self.provided, self.providers = rows[link], columns[link]
        self.placing = np.flatnonzero(static.places)

    def _host_use(self) -> tuple[Floats, Floats]:
        """Return (rows, K, H): the most and the least that an item of a row takes in a pool."""
        items, n_host = self.layout.items, len(self.layout.program.host_resources)
        most = np.zeros((*self.seated.shape, n_host))
        least = np.full(most.shape, np.inf)
        take = np.zeros((len(items), n_host))
        item, row, amount = self.layout.item_host
        take[item, (row - self.layout.first_host_row) % max(1, n_host)] = amount
        np.maximum.at(most, (items.row, items.pool), take)
        np.minimum.at(least, (items.row, items.pool), take)
        return most, np.where(np.isinf(least), 0.0, least)

    def closed(self, row: Floats) -> Floats:
        """Return consistent duals."""
        layout, items = self.layout, self.layout.items
        n, last = layout.n_classes, layout.first_pool_row
        row = row.copy()
        row[n:last] = np.maximum(row[n:last], 0.0)
        rent = row[last : layout.first_site_row][items.pool]
        if self.host is not None:
            rent = rent + self.host @ row[layout.first_host_row :]
        np.minimum.at(row, items.row[self.gangs], rent[self.gangs])
        if len(self.providers):
            row[self.provided] = 0.0
            asks = self.matrix.T @ row
            least = np.full(last, _FAR)
            np.minimum.at(least, self.provided, asks[self.providers])
            row[self.provided] = np.maximum(least[self.provided], 0.0)
        need = np.zeros(n)
        mine = self.alone
        np.maximum.at(need, items.job_class[mine], self.worth[mine] - rent[mine])
        if len(self.placing):
            classless = row.copy()
            classless[:n] = 0.0
            gains = (self.gain - self.matrix.T @ classless)[self.placing]
            np.maximum.at(need, layout.static.job_class[self.placing], gains)
        row[:n] = np.maximum(row[:n], need)
        return row

    def balanced(self, row: Floats, ask: Floats, slots: int) -> Floats:
        """Return consistent duals with prices of devices and hosts that make their sum less.

        `ask` is (class and link rows, K): the least price that satisfies a row's patterns of a
        pool at the present prices; of link rows, which pay, with a minus.
        """
        layout = self.layout
        n, last = layout.n_classes, layout.first_pool_row
        pools = np.arange(last, layout.first_site_row)
        hosts = np.arange(layout.first_host_row, layout.n_rows)

        def at(price: Floats) -> tuple[float, Floats]:
            more = ask + (row[pools] - price[pools]) / slots + self._host_change(row - price)
            least = np.where(self.seated, more, -_FAR).max(axis=1)
            moved = price.copy()
            moved[:n] = least[:n]
            moved[n:last] = np.where(least[n:] > -_FAR, -least[n:], row[n:last])
            moved = self.closed(moved)
            return float(moved @ layout.row_upper), moved

        def scaled(price: Floats, which: Ints, factor: float) -> Floats:
            changed = price.copy()
            changed[which] *= factor
            return changed

        def total(price: Floats, which: Ints, factor: float) -> float:
            return at(scaled(price, which, factor))[0]

        price = row.copy()
        best, found = at(price)
        groups = [hosts, pools, *hosts[:, None], *pools[:, None]]
        for which in [group for group in groups if row[group].any()]:
            low = 0.0 if which[0] >= layout.first_host_row else 1.0 - _SPAN
            factor = _least(partial(total, price, which), low, 1.0 + _SPAN)
            value, moved = at(scaled(price, which, factor))
            if value < best:
                best, found, price = value, moved, scaled(price, which, factor)
        return found

    def _host_change(self, fall: Floats) -> Floats:
        """Return (rows, K): the most that items of a row save by lower host prices in a pool."""
        n_host = len(self.layout.program.host_resources)
        change = np.zeros(self.seated.shape)
        if self.host is None:
            return change
        fallen = fall[self.layout.first_host_row :].reshape(-1, n_host)
        for k, n in enumerate(self.layout.pool_node_pool.tolist()):
            for h in np.flatnonzero(fallen[n]).tolist():
                takes = self.host_most if fallen[n, h] > 0 else self.host_least
                change[:, k] += fallen[n, h] * takes[:, k, h]
        return change


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """Return about where a convex function is least between two numbers, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return left if at_left < at_right else right
