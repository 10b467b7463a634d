"""Compiled search over the patterns of one device: pricing, for any number of residents.

Depth first over sorted items, each partial pattern bounded by what the free slots and the free
capacity could still bring. Adding a resident never undoes a conflict and never lowers a loss, so
both the feasibility cuts and the bound are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

NEVER = -1


#: Partial patterns between two looks at the stop flag.
POLL = 4096


@njit(cache=True, nogil=True)
def _reach(
    best: float, density: Any, profit: float, room: Any, slots: int, shadow: Any, slot_price: float
) -> float:
    """Bound what further residents add: by free slots, by each resource, and by shadow prices."""
    if best <= 0.0:
        return best
    reach = best * slots
    for r in range(len(room)):
        if density[r] < np.inf:
            reach = min(reach, room[r] * density[r])
    if slots > 1:
        priced = profit + slot_price * slots
        for r in range(len(room)):
            priced += shadow[r] * room[r]
        reach = min(reach, priced)
    return reach


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
    shadow: Any,  # (R,) price of a unit of each resource; with `slot_price` any >= 0 is right
    slot_price: float,
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
    fair: bool,  # give each root its share of the budget, and what earlier roots left of theirs
    stop: Any,  # (1,) set from outside to end the search as if the budget were spent
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
    # Profits beyond the shadow prices, of each class only its best item, as often as it has jobs.
    profit_after = np.zeros(n + 1)
    most = np.zeros(len(copies))
    for i in range(n - 1, -1, -1):
        profit = base[i] - slot_price
        for r in range(n_resources):
            profit -= shadow[r] * demand[i, r]
        more = max(0.0, profit - most[owner[i]])
        most[owner[i]] += more
        profit_after[i] = profit_after[i + 1] + more * copies[owner[i]]
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
    left = -np.inf
    while depth >= 0:
        i = position[depth]
        if depth >= slots or i >= (roots if depth == 0 else n):
            depth -= 1
            continue
        # Any extension adds an item from i on: at most this much.
        reach = _reach(
            best_after[i], density_after[i], profit_after[i], room[depth], slots - depth,
            shadow, slot_price,
        )  # fmt: skip
        bar = cutoff
        if focus and depth > 0 and keep > 0:
            bar = max(bar, top_value[owner[member[0]]].min())
        if value[depth] + reach <= bar:
            depth -= 1
            continue
        nodes += 1
        ended = nodes > budget or (nodes % POLL == 0 and stop[0])
        share = nodes * (roots - first_root) > budget * (position[0] - first_root)
        if ended or (fair and depth > 0 and share):
            # What the open partial patterns, of this root or of all, could still become.
            for d in range(0 if ended else 1, depth + 1):
                at = position[d]
                if at < (roots if d == 0 else n):
                    free = _reach(
                        best_after[at], density_after[at], profit_after[at], room[d], slots - d,
                        shadow, slot_price,
                    )  # fmt: skip
                    left = max(left, value[d] + free)
            if ended:
                break
            depth = 0
            continue
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
    return best, n_listed, left, nodes


@njit(cache=True, nogil=True)
def shadow_prices(
    base: Any, demand: Any, owner: Any, copies: Any, capacity: Any, slots: int, steps: int
) -> tuple[Any, float]:
    """Return prices of resources and slots that bound a device's pattern well, without losses.

    They nearly minimise ``prices · capacity + Σ classes copies · max(0, best profit)``, by
    subgradient steps towards a target below the best value seen.
    """
    n, n_resources = demand.shape
    room = np.empty(n_resources + 1)
    for r in range(n_resources):
        room[r] = max(1, capacity[r])
    room[n_resources] = slots
    price, best_price = np.zeros(n_resources + 1), np.zeros(n_resources + 1)  # of all there is
    best, scale = np.inf, 0.1
    most = np.empty(len(copies))
    pick = np.empty(len(copies), np.int64)
    use = np.empty(n_resources + 1)
    for _ in range(steps):
        most[:] = 0.0
        pick[:] = -1
        for i in range(n):
            profit = base[i] - price[n_resources] / slots
            for r in range(n_resources):
                profit -= price[r] * demand[i, r] / room[r]
            if profit > most[owner[i]]:
                most[owner[i]] = profit
                pick[owner[i]] = i
        total = price.sum()
        use[:] = 0.0
        for c in range(len(copies)):
            if pick[c] >= 0:
                total += copies[c] * most[c]
                for r in range(n_resources):
                    use[r] += copies[c] * demand[pick[c], r] / room[r]
                use[n_resources] += copies[c] / slots
        if total < best * (1.0 - 1e-3):
            best = total
            best_price[:] = price
        elif total < best:
            best = total
            best_price[:] = price
            scale *= 0.9
        else:
            scale *= 0.9
        length = ((use - 1.0) ** 2).sum()
        if length == 0.0 or best <= 0.0:
            break
        stride = (total - best * (1.0 - scale)) / length
        for r in range(n_resources + 1):
            price[r] = max(0.0, price[r] + stride * (use[r] - 1.0))
    unit = np.empty(n_resources)
    for r in range(n_resources):
        unit[r] = best_price[r] / room[r]
    return unit, best_price[n_resources] / slots
