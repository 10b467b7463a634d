"""Patterns as columns: their exact values and their coefficients in the rows of the layout.

The arrays that the solver works on. `elastico_opt.formulations.pattern` states the same program in
Pyomo; a test compares the two number by number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.formulations.matrix import Name
from elastico_opt.program.arrays import Floats, Ints


@dataclass(frozen=True)
class Patterns:
    """A set of patterns: P of them, each on a pool or tied to a site.

    Attributes
    ----------
    pool, site : (P,)
        The pool the pattern runs on; its site, or ELSEWHERE.
    items : (P, M)
        Item indices in ascending order, padded with -1.
    """

    pool: Ints
    site: Ints
    items: Ints

    def __len__(self) -> int:
        return len(self.pool)

    def select(self, which: Ints) -> Patterns:
        """Return the patterns at some positions."""
        return Patterns(self.pool[which], self.site[which], self.items[which])

    def keys(self) -> list[bytes]:
        """Return a hashable name of each pattern."""
        rows = np.column_stack([self.site, self.pool, self.items]) if len(self) else self.items
        return [row[: 2 + np.count_nonzero(row[2:] >= 0)].tobytes() for row in rows]


def empty_patterns() -> Patterns:
    """Return no patterns."""
    none = np.zeros(0, dtype=np.int64)
    return Patterns(none, none, np.zeros((0, 1), dtype=np.int64))


def join(parts: list[Patterns]) -> Patterns:
    """Concatenate pattern sets of unlike width."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return empty_patterns()
    width = max(part.items.shape[1] for part in parts)
    padded = [
        np.pad(part.items, ((0, 0), (0, width - part.items.shape[1])), constant_values=-1)
        for part in parts
    ]
    return Patterns(
        np.concatenate([part.pool for part in parts]),
        np.concatenate([part.site for part in parts]),
        np.concatenate(padded),
    )


def pattern_values(layout: Layout, patterns: Patterns) -> Floats:
    """Return (P, stages): what each pattern adds to each stage's objective.

    The value of a pattern is the reward of its residents less what they lose to each other
    (excess slowdowns add); a gang's worker carries a 1/W share of its gang's loss.
    """
    items = layout.items
    values = np.zeros((len(patterns), layout.n_stages))
    losses = slot_losses(layout, patterns)
    for a in range(patterns.items.shape[1]):
        here = np.flatnonzero(patterns.items[:, a] >= 0)
        mine = patterns.items[here, a]
        worth = items.value[mine] - losses[here, a]
        values[here] += layout.by_stage(items.job_class[mine], worth, ~items.linked[mine])
    return values


def slot_losses(layout: Layout, patterns: Patterns) -> Floats:
    """Return (P, M): what each resident of each pattern loses to the others there."""
    program, items = layout.program, layout.items
    width = patterns.items.shape[1]
    losses = np.zeros(patterns.items.shape)
    for a in range(width):
        here = np.flatnonzero(patterns.items[:, a] >= 0)
        mine = patterns.items[here, a]
        suffered = np.zeros(len(here))
        for b in range(width):
            other = patterns.items[here, b]
            if a == b:
                continue
            beside = other >= 0
            suffered[beside] += program.excess[
                items.workload[mine[beside]], items.workload[other[beside]]
            ]
        slowdown = suffered * program.excess_unit
        if program.throughput_coupling:
            slowdown = slowdown / (1 + slowdown)
        losses[here, a] = items.loss_weight[mine] * slowdown
    return losses


def pattern_matrix(layout: Layout, patterns: Patterns) -> sparse.csc_matrix:
    """Return the (rows, P) coefficients of patterns: what each uses and provides."""
    items = layout.items
    n = len(patterns)
    column, slot = np.nonzero(patterns.items >= 0)
    item = patterns.items[column, slot]
    sign = np.where(items.linked[item], -1.0, 1.0)
    second = items.row2[item] >= 0
    tied = np.flatnonzero(patterns.site != ELSEWHERE)
    rows = [
        items.row[item],
        items.row2[item[second]],
        layout.first_pool_row + patterns.pool,
        layout.first_site_row + patterns.site[tied],
    ]
    columns = [column, column[second], np.arange(n), tied]
    values = [sign, np.full(int(second.sum()), -1.0), np.ones(n), np.ones(len(tied))]
    if len(layout.item_host[0]):
        host = item_host_matrix(layout)[item].tocoo()
        rows.append(layout.first_host_row + host.col)
        columns.append(column[host.row])
        values.append(host.data)
    return sparse.csc_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(layout.n_rows, n),
    )


def item_host_matrix(layout: Layout) -> sparse.csr_matrix:
    """Return (items, host rows): the host units that a worker of each item takes."""
    item, row, amount = layout.item_host
    n_host = layout.n_rows - layout.first_host_row
    return sparse.csr_matrix(
        (amount, (item, row - layout.first_host_row)), shape=(len(layout.items), n_host)
    )


def static_matrix(layout: Layout) -> sparse.csc_matrix:
    """Return the (rows, static columns) coefficients of choices, tasks and CPU tasks."""
    row, column, value = layout.static.entries
    return sparse.csc_matrix((value, (row, column)), shape=(layout.n_rows, len(layout.static)))


def static_values(layout: Layout) -> Floats:
    """Return (static columns, stages): what each adds to each stage."""
    static = layout.static
    return layout.by_stage(static.job_class, static.value, static.places)


def static_upper(layout: Layout) -> Floats:
    """Return finite bounds: a task or CPU column serves at most all jobs of its class."""
    static, p = layout.static, layout.program
    if not len(static):
        return np.zeros(0)
    count = p.group_count[np.maximum(static.group, 0)] * layout.class_size[static.job_class]
    return np.minimum(static.upper, np.where(static.group >= 0, count, np.inf))


def most_copies(layout: Layout, columns: sparse.csc_matrix) -> Floats:
    """Return how often each pattern could be used at most, by its tightest row."""
    entries = columns.tocoo()
    using = entries.data > 0
    most = np.full(columns.shape[1], np.inf)
    np.minimum.at(
        most, entries.col[using], layout.row_upper[entries.row[using]] // entries.data[using]
    )
    return most


def column_names(layout: Layout, n_patterns: int) -> tuple[Name, ...]:
    """Return the names of the static columns and the patterns in the stated program."""
    static = tuple(("x", (kind, i)) for i, kind in enumerate(layout.static.kind))
    return static + tuple(("y", i) for i in range(n_patterns))


def row_names(layout: Layout) -> tuple[Name, ...]:
    """Return the names of the rows in the stated program, in the order of the layout."""
    n_host = len(layout.program.host_resources)
    return (
        *(("job_class", c) for c in range(layout.n_classes)),
        *(("link", i) for i in range(layout.first_pool_row - layout.n_classes)),
        *(("pool", k) for k in range(layout.n_pools)),
        *(("site", s) for s in range(len(layout.site_device))),
        *(("host", (n, h)) for n in range(len(layout.pool_nodes)) for h in range(n_host)),
    )
