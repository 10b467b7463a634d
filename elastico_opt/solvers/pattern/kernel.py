"""Compiled search over the patterns of one device: the pricing problem, for any number of residents.

Depth first over items sorted by base value, each partial pattern bounded by what the free slots
and the free capacity could still bring. Adding a resident never undoes a conflict and never
lowers a loss, so both the feasibility cuts and the bound are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

NEVER = -1


@njit(cache=True, nogil=True)
def search(
    base: Any,  # (n,) value of the item less what its rows cost at the duals
    loss: Any,  # (n,) scale of its loss (per slowdown quantum, or the reward)
    demand: Any,  # (n, R)
    workload: Any,
    limit: Any,
    exclusive: Any,
    owner: Any,  # (n,) job class
    lot: Any,  # (n,) random numbers that spread a class's columns over its bins
    copies: Any,  # (classes,) jobs in a class
    capacity: Any,  # (R,)
    excess: Any,  # (V, V)
    unit: float,  # one slowdown quantum
    throughput: bool,  # coupling
    first_root: int,
    roots: int,  # patterns start at items first_root <= i < roots
    partners: int,  # further residents are items i >= partners
    slots: int,  # most residents
    cutoff: float,  # patterns worth no more are of no interest
    focus: bool,  # also cut what could not enter the root's list of best
    top_value: Any,  # (classes, K) best per class and bin, -inf filled; K = 0: list all in `out`
    top_items: Any,  # (classes, K, slots) items, -1 filled
    out_value: Any,  # (M,)
    out_items: Any,  # (M, slots)
    budget: int,  # most partial patterns to look at
) -> tuple[float, int, float, int]:
    """Return (best value, patterns listed, bound on what was left out, nodes looked at).

    The bound is -inf when the search was complete; patterns listed is -1 when `out` is full.
    """
    n, n_resources = demand.shape
    keep = top_value.shape[1]
    n_listed = 0
    best = -np.inf
    nodes = 0
    best_after = np.empty(n + 1)
    best_after[n] = -np.inf
    density_after = np.zeros((n + 1, n_resources))
    for i in range(n - 1, -1, -1):
        best_after[i] = max(best_after[i + 1], base[i])
        for r in range(n_resources):
            dense = density_after[i + 1, r]
            if base[i] > 0.0:
                dense = max(dense, base[i] / demand[i, r] if demand[i, r] > 0 else np.inf)
            density_after[i, r] = dense
    member = np.empty(slots + 1, np.int64)
    position = np.empty(slots + 1, np.int64)
    value = np.zeros(slots + 1)
    bases = np.zeros(slots + 1)
    room = np.empty((slots + 1, n_resources), np.int64)
    suffered = np.zeros((slots + 1, slots + 1), np.int64)
    for r in range(n_resources):
        room[0, r] = capacity[r]
    depth = 0
    position[0] = first_root
    while depth >= 0:
        i = position[depth]
        if depth >= slots or i >= (roots if depth == 0 else n):
            depth -= 1
            continue
        # Any extension adds an item from i on: at most this much.
        reach = best_after[i]
        if reach > 0.0:
            reach *= slots - depth
            for r in range(n_resources):
                if density_after[i, r] < np.inf:
                    reach = min(reach, room[depth, r] * density_after[i, r])
        bar = cutoff
        if focus and depth > 0 and keep > 0:
            bar = max(bar, top_value[owner[member[0]]].min())
        if value[depth] + reach <= bar:
            depth -= 1
            continue
        nodes += 1
        if nodes > budget:
            left = -np.inf
            for d in range(depth + 1):
                at = position[d]
                if at < n:
                    left = max(left, value[d] + (slots - d) * max(0.0, best_after[at]))
            return best, n_listed, left, nodes
        position[depth] = i + 1
        # ---- may item i join? ----
        if depth > 0 and (exclusive[i] or exclusive[member[0]]):
            continue
        fits = True
        for r in range(n_resources):
            if demand[i, r] > room[depth, r]:
                fits = False
                break
        if not fits:
            continue
        same = 0
        for d in range(depth):
            if owner[member[d]] == owner[i]:
                same += 1
        if same >= copies[owner[i]]:
            continue
        mine = 0
        for d in range(depth):
            m = member[d]
            hurt = excess[workload[i], workload[m]]
            hurts = excess[workload[m], workload[i]]
            if hurt == NEVER or hurts == NEVER:
                fits = False
                break
            mine += hurt
            suffered[depth + 1, d] = suffered[depth, d] + hurts
            if suffered[depth + 1, d] > limit[m]:
                fits = False
                break
        if not fits or mine > limit[i]:
            continue
        suffered[depth + 1, depth] = mine
        member[depth] = i
        bases[depth + 1] = bases[depth] + base[i]
        worth = bases[depth + 1]
        for d in range(depth + 1):
            slowdown = suffered[depth + 1, d] * unit
            if slowdown > 0.0:
                worth -= loss[member[d]] * (slowdown / (1.0 + slowdown) if throughput else slowdown)
        value[depth + 1] = worth
        for r in range(n_resources):
            room[depth + 1, r] = room[depth, r] - demand[i, r]
        best = max(best, worth)
        if worth > cutoff:
            if keep == 0:
                if n_listed >= len(out_value):
                    return best, -1, np.inf, nodes
                out_value[n_listed] = worth
                for d in range(depth + 1):
                    out_items[n_listed, d] = member[d]
                for d in range(depth + 1, slots):
                    out_items[n_listed, d] = -1
                n_listed += 1
            else:
                total = 0
                for d in range(depth + 1):
                    total += lot[member[d]]
                for d in range(depth + 1):
                    c = owner[member[d]]
                    at = (total - lot[member[d]]) % keep
                    if worth > top_value[c, at]:
                        top_value[c, at] = worth
                        for e in range(slots):
                            top_items[c, at, e] = member[e] if e <= depth else -1
        if depth + 1 < slots:
            depth += 1
            position[depth] = max(partners, i if copies[owner[i]] > 1 else i + 1)
    return best, n_listed, -np.inf, nodes
