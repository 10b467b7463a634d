"""Dominance: items and patterns that another one beats in every respect are never needed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from elastico_opt.formulations.columns import Patterns, item_host_matrix, pattern_values
from elastico_opt.formulations.layout import Layout
from elastico_opt.program.arrays import NEVER, Bools, Floats, Ints


def undominated_items(layout: Layout) -> Bools:
    """Mark items that no other profile of the same job beats in every respect.

    Item b beats a on one device pool when it brings no less, alone and slowed, demands no more of
    any resource (host included), is exclusive only if a is, and neither suffers nor causes more
    slowdown beside anyone.
    """
    p, items = layout.program, layout.items
    useful = np.ones(len(items), dtype=bool)
    excess = np.where(p.excess == NEVER, np.int64(2**62), p.excess)
    order = np.lexsort((np.arange(len(items)), items.site, items.pool, items.row))
    if not len(order):
        return useful
    alike = np.column_stack([items.row, items.pool, items.site])[order]
    borders = np.r_[True, (alike[1:] != alike[:-1]).any(axis=1), True]
    starts: list[int] = np.flatnonzero(borders).tolist()
    for begin, end in pairwise(starts):
        family = order[begin:end]
        if len(family) < 2 or items.linked[family[0]]:
            continue
        groups = items.group[family]
        demand = np.column_stack([p.group_demand[groups], p.group_host[groups]])
        value, work, alone = items.value[family], items.workload[family], items.exclusive[family]
        # what is left at the largest loss (throughput coupling); between the two it is linear
        least = value - items.loss_weight[family]
        causes, suffers = excess[:, work].T, excess[work]
        for a in range(len(family)):
            beats = (
                (value >= value[a])
                & (least >= least[a])
                & (demand <= demand[a]).all(axis=1)
                & (alone <= alone[a])
                & (causes <= causes[a]).all(axis=1)
                & (suffers <= suffers[a]).all(axis=1)
            )
            equal = (
                (value == value[a])
                & (least == least[a])
                & (demand == demand[a]).all(axis=1)
                & (alone == alone[a])
                & (causes == causes[a]).all(axis=1)
                & (suffers == suffers[a]).all(axis=1)
            )
            beats &= ~equal | (np.arange(len(family)) < a)
            useful[family[a]] = not beats.any()
    return useful


def undominated_patterns(layout: Layout, patterns: Patterns, weight: Floats) -> Patterns:
    """Of patterns with equal coefficients in every row keep the most valuable one.

    Earlier stages have floors, so one that is worth more to any of them is kept as well. All are
    kept that slow a gang down: the integer program charges it the largest loss, not the mean that
    is in the value. `weight` is what each stage's value weighs.
    """
    if len(patterns) == 0:
        return patterns
    stage = int(np.flatnonzero(weight).max())
    value = pattern_values(layout, patterns)[:, : stage + 1]
    kind = np.where(patterns.items >= 0, _kinds(layout)[patterns.items], -1)
    kind.sort(axis=1)
    order = np.lexsort((*-value.T, *kind.T, patterns.site, patterns.pool))
    key, value = np.column_stack([patterns.pool, patterns.site, kind])[order], value[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (key[1:] != key[:-1]).any(axis=1)
    best = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    keep = first | (value > value[best]).any(axis=1) | _slowing(layout, patterns)[order]
    return patterns.select(np.sort(order[keep]))


def _slowing(layout: Layout, patterns: Patterns) -> Bools:
    """Mark patterns in which a gang's worker has company, where company may slow down."""
    if not layout.program.excess.any():
        return np.zeros(len(patterns), dtype=bool)
    here = patterns.items >= 0
    gang = (here & layout.items.linked[patterns.items]).any(axis=1)
    marked: Bools = gang & (here.sum(axis=1) > 1)
    return marked


def _kinds(layout: Layout) -> Ints:
    """Return a number per item, the same for items with the same coefficients in every row."""
    items = layout.items
    host = item_host_matrix(layout).toarray()
    table = np.column_stack([items.row, items.row2, items.linked, host])
    kinds: Ints = np.unique(table, axis=0, return_inverse=True)[1]
    return kinds
