"""Who shares a device with whom: pair values, and ejection chains over them, compiled.

For jobs that take one device and devices that hold two of them, a plan is a matching. A chain
opens a job (one that is not placed, or one that leaves its partner), gives it the partner it gains
most with, which opens the partner's partner, and so on; it closes when the open job is left out,
takes an empty device or a single partner, or joins whom the first one left. Replacing a resident is
a chain of one step, swapping partners of two devices as well, a 3-cycle one of two. After S. Lin
and B. W. Kernighan, *An effective heuristic algorithm for the traveling-salesman problem*, Oper.
Res. 21 (1973).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

# Columns of `option`, of `gain`.
CLASS, LOAD, ALONE, FIRST_DEMAND = range(4)
NET, REWARD, RATE = range(3)
# Columns of `job`.
KIND, ROW, HOME, MOVABLE, MUST, AT, QUEUED = range(7)
# Columns of `device`; residents and their options come in twos.
SORT, NODE, ONE, TWO, ONE_OPTION, TWO_OPTION, SAVED = range(7)  # options: rows of `Pairs`
# Entries of `count`.
TRIED, APPLIED, KICKS, RANDOM, HEAD, LENGTH, JOURNAL, PLAIN, WINDOW = range(9)


class Pairs(NamedTuple):
    """What the values of pairs follow from; jobs of a class are alike."""

    start: Any  # (C * K + 1,) options of a class on a device class are option[start:end]
    option: Any  # (P, 3 + R + H) owner class, workload, exclusive, demands, host needs
    gain: Any  # (P, 3) gain over not being placed, reward, loss per quantum of excess
    limit: Any  # (C,)
    capacity: Any  # (K, R)
    seats: Any  # (K,)
    excess: Any  # (V, V)
    shape: Any  # (5,) K, R, H, throughput coupling, rows of `table`
    unit: float
    table: Any  # (K, C, C) values of pairs, or of none
    single: Any  # (K, C)


class Slots(NamedTuple):
    """A plan as residents of devices, and the queue of jobs to look at."""

    job: Any  # (N, 7)
    device: Any  # (D, 7)
    move: Any  # (N,) cost of not being at home
    price: Any  # (N,) what a job is worth elsewhere
    access: Any  # (E, n_nodes)
    host: Any  # (n_nodes, H) left
    queue: Any  # (N,)
    worth: Any  # (D,) value of the residents
    empty: Any  # (K, D + 1) empty devices of a class; their number comes first
    journal: Any  # (D, 5) device and former content
    count: Any  # (9,) PLAIN: every job may go everywhere at no cost; WINDOW: devices seen


@njit(cache=True, nogil=True, error_model="numpy")
def loss_of(p: Any, i: int, excess: int) -> float:
    """Return what an option loses to an excess slowdown."""
    if p.shape[3]:
        slow = excess * p.unit
        return float(p.gain[i, REWARD] * slow / (1.0 + slow))
    return float(p.gain[i, RATE] * excess)


@njit(cache=True, nogil=True, error_model="numpy")
def pair_of(p: Any, a: int, b: int, k: int) -> tuple[float, int, int]:
    """Return the most that classes `a` and `b` are worth together, and the options; b may be -1."""
    best, left, right = -math.inf, -1, -1
    n_types, n_resources = p.shape[0], p.shape[1]
    for i in range(p.start[a * n_types + k], p.start[a * n_types + k + 1]):
        if b < 0:
            if p.gain[i, NET] > best:
                best, left = p.gain[i, NET], i
            continue
        if p.option[i, ALONE] or p.seats[k] < 2:
            continue
        for j in range(p.start[b * n_types + k], p.start[b * n_types + k + 1]):
            value = p.gain[i, NET] + p.gain[j, NET]
            if value <= best:
                break  # options come in descending order of gain
            if p.option[j, ALONE]:
                continue
            mine = p.excess[p.option[i, LOAD], p.option[j, LOAD]]
            theirs = p.excess[p.option[j, LOAD], p.option[i, LOAD]]
            if mine > p.limit[a] or theirs > p.limit[b]:
                continue
            value -= loss_of(p, i, mine) + loss_of(p, j, theirs)
            if value <= best:
                continue
            fits = True
            for r in range(n_resources):
                both = p.option[i, FIRST_DEMAND + r] + p.option[j, FIRST_DEMAND + r]
                fits = fits and both <= p.capacity[k, r]
            if fits:
                best, left, right = value, i, j
    return best, left, right


@njit(cache=True, nogil=True, error_model="numpy")
def fill_table(p: Any, rows: Any) -> None:
    """Compute the values of the given classes, alone and beside every class."""
    for k in range(p.shape[0]):
        done = np.zeros(p.shape[4], np.bool_)
        for a in rows:
            p.single[k, a] = pair_of(p, a, -1, k)[0]
            if p.shape[4]:
                for b in range(p.shape[4]):
                    if done[b]:
                        continue
                    value = pair_of(p, a, b, k)[0]
                    p.table[k, a, b] = value
                    p.table[k, b, a] = value
                done[a] = True


@njit(cache=True, nogil=True, error_model="numpy")
def content(p: Any, s: Any, x: int, y: int, g: int) -> float:
    """Return what two jobs are worth on a device; -1 is nobody."""
    if x < 0 and y < 0:
        return 0.0
    if p.shape[4] == 0 and x >= 0 and y >= 0:
        value = pair_of(p, s.job[x, KIND], s.job[y, KIND], s.device[g, SORT])[0]
        return value - cost_at(s, x, g) - cost_at(s, y, g)
    return tabled(p.table, p.single, s.job, s.device, s.move, s.access, x, y, g)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def tabled(
    table: Any, single: Any, job: Any, device: Any, move: Any, access: Any, x: int, y: int, g: int
) -> float:  # fmt: skip
    """Return the same from the table, for at least one job."""
    k, value = device[g, SORT], -math.inf
    if x < 0:
        x, y = y, -1
    value = single[k, job[x, KIND]] if y < 0 else table[k, job[x, KIND], job[y, KIND]]
    if job[x, HOME] != g:
        if job[x, MOVABLE] == 0 or access[job[x, ROW], device[g, NODE]] != 2:
            return -math.inf
        value -= move[x]
    if y >= 0 and job[y, HOME] != g:
        if job[y, MOVABLE] == 0 or access[job[y, ROW], device[g, NODE]] != 2:
            return -math.inf
        value -= move[y]
    return float(value)


@njit(cache=True, nogil=True, error_model="numpy")
def cost_at(s: Any, j: int, g: int) -> float:
    """Return what it costs a job to be on a device rather than at home; infinite: not allowed."""
    if j < 0 or s.job[j, HOME] == g:
        return 0.0
    if s.job[j, MOVABLE] == 0 or s.access[s.job[j, ROW], s.device[g, NODE]] != 2:
        return math.inf
    return float(s.move[j])


@njit(cache=True, nogil=True, error_model="numpy")
def draw(count: Any, below: int) -> int:
    """Return a random number, 0 <= it < below."""
    count[RANDOM] = count[RANDOM] * 48271 % 2147483647
    return int(count[RANDOM] * below // 2147483647)


@njit(cache=True, nogil=True, error_model="numpy")
def put(p: Any, s: Any, g: int, x: int, y: int, left: int, right: int) -> None:
    """Give a device other residents, with the best options unless these are given.

    Who leaves is nowhere until put elsewhere.
    """
    device = s.device
    k = device[g, SORT]
    if device[g, SAVED] == 0:
        at = s.count[JOURNAL]
        s.journal[at, 0] = g
        for i in range(4):
            s.journal[at, 1 + i] = device[g, ONE + i]
        s.count[JOURNAL] += 1
        device[g, SAVED] = 1
    if x < 0:
        x, y = y, -1
    was_empty = device[g, ONE] < 0
    for i in (ONE, TWO):
        j = device[g, i]
        if j >= 0 and s.job[j, AT] == g:
            s.job[j, AT] = -1
    load_host(p, s, g, 1)
    value = 0.0
    if x >= 0 and left < 0:
        other = -1 if y < 0 else s.job[y, KIND]
        value, left, right = pair_of(p, s.job[x, KIND], other, k)
    elif x >= 0:
        value = p.gain[left, NET]
        if y >= 0:
            one, two = p.option[left, LOAD], p.option[right, LOAD]
            value += p.gain[right, NET]
            value -= loss_of(p, left, p.excess[one, two]) + loss_of(p, right, p.excess[two, one])
    s.worth[g] = value - cost_at(s, x, g) - cost_at(s, y, g)
    device[g, ONE], device[g, TWO] = x, y
    device[g, ONE_OPTION], device[g, TWO_OPTION] = left, right
    load_host(p, s, g, -1)
    for i in (ONE, TWO):
        if device[g, i] >= 0:
            s.job[device[g, i], AT] = g
    if was_empty and x >= 0:
        for i in range(1, s.empty[k, 0] + 1):
            if s.empty[k, i] == g:
                s.empty[k, i] = s.empty[k, s.empty[k, 0]]
                s.empty[k, 0] -= 1
                break
    elif not was_empty and x < 0:
        s.empty[k, 0] += 1
        s.empty[k, s.empty[k, 0]] = g


@njit(cache=True, nogil=True, error_model="numpy")
def load_host(p: Any, s: Any, g: int, sign: int) -> None:
    """Give a node back what the residents of a device take of its host resources, or take it."""
    for i in (ONE, TWO):
        if s.device[g, i] >= 0:
            for h in range(p.shape[2]):
                need = p.option[s.device[g, i + 2], FIRST_DEMAND + p.shape[1] + h]
                s.host[s.device[g, NODE], h] += sign * need


@njit(cache=True, nogil=True, error_model="numpy")
def put_back(p: Any, s: Any, rows: Any, n: int) -> None:
    """Give devices the residents and options of `rows` again."""
    for i in range(n):
        put(p, s, rows[i, 0], -1, -1, -1, -1)
    for i in range(n):
        put(p, s, rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3], rows[i, 4])


@njit(cache=True, nogil=True, error_model="numpy")
def wait(s: Any, j: int) -> None:
    """Queue a job."""
    if j >= 0 and s.job[j, QUEUED] == 0:
        s.job[j, QUEUED] = 1
        n = len(s.queue)
        s.queue[(s.count[HEAD] + s.count[LENGTH]) % n] = j
        s.count[LENGTH] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def close_journal(p: Any, s: Any, keep: bool) -> None:
    """Forget the journal, or take back all that it holds."""
    if not keep:
        put_back(p, s, s.journal, s.count[JOURNAL])
    for i in range(s.count[JOURNAL]):
        s.device[s.journal[i, 0], SAVED] = 0
    s.count[JOURNAL] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def chain(p: Any, s: Any, x0: int, breadth: Any, path: Any, children: Any) -> float:
    """Look for the best chain that opens a job, apply it, and return what it gains."""
    job, device, n = s.job, s.device, len(s.job)
    table, single, move, access, worth = p.table, p.single, s.move, s.access, s.worth
    dense, plain = p.shape[4] > 0, s.count[PLAIN] > 0
    seen = min(len(device), s.count[WINDOW])
    g0 = job[x0, AT]
    hole, base, alone = -1, 0.0, 0.0
    if g0 >= 0:
        hole = device[g0, ONE] if device[g0, TWO] == x0 else device[g0, TWO]
        alone = content(p, s, hole, -1, g0)
        base = alone - s.worth[g0]
        if alone == -math.inf:
            return 0.0
    # who of the jobs left out would fill the place best
    filler, fill = -1, 0.0
    if g0 >= 0:
        near = min(n, 4 * seen)
        shift = draw(s.count, n) if near < n else 0
        for c in range(near):
            u = c + shift if c + shift < n else c + shift - n
            if u != x0 and job[u, AT] < 0:
                if dense or hole < 0:
                    more = tabled(table, single, job, device, move, access, hole, u, g0) - alone
                else:
                    more = content(p, s, hole, u, g0) - alone
                if more > fill:
                    filler, fill = u, more
    best, best_steps, closing, best_x = 1e-9, 0, -1, -1
    # closing: 0 left out, 1 joins the hole, 2 an empty device, 3 nobody is open
    best_empty = -1
    depth = 0
    path[0, 0] = x0
    children[0, 0, 0] = base
    level = np.zeros(len(breadth) + 1, np.int64)
    position = np.zeros(len(breadth) + 1, np.int64)
    opened = True
    while depth >= 0:
        x = path[depth, 0]
        gain = children[depth, 0, 0]
        if opened:  # look at all partners of x; keep the best ways to go on
            opened = False
            level[depth], position[depth] = 0, 0
            if (depth == 0 and g0 >= 0 and not job[x0, MUST]) and base + fill > best:
                best, best_steps, closing, best_x = base + fill, 0, 0, x
            for k in range(p.shape[0]):
                for i in range(1, min(s.empty[k, 0], 3) + 1):
                    total = gain + content(p, s, x, -1, s.empty[k, i]) + fill
                    if total > best:
                        best, best_steps, closing, best_x = total, depth, 2, x
                        best_empty = s.empty[k, i]
                        keep_path(path, depth)
            home, kind, row, free = job[x, HOME], job[x, KIND], job[x, ROW], job[x, MOVABLE]
            shift = draw(s.count, len(device)) if seen < len(device) else 0
            for c in range(-2 if seen < len(device) and home >= 0 else 0, 2 * seen):
                g = home if c < 0 else (c >> 1) + shift
                g = g if g < len(device) else g - len(device)
                y, q = device[g, ONE + (c & 1)], device[g, TWO - (c & 1)]
                if y < 0 or g == g0:
                    continue
                used = False
                for d in range(depth):
                    used = used or path[d, 2] == g
                if used:
                    continue
                if dense:
                    here = table[device[g, SORT], kind, job[y, KIND]]
                    if here == -math.inf:
                        continue
                    if not plain:
                        if g != home:
                            if free == 0 or access[row, device[g, NODE]] != 2:
                                continue
                            here -= move[x]
                        if job[y, HOME] != g:
                            here -= move[y]
                else:
                    here = content(p, s, x, y, g)
                    if here == -math.inf:
                        continue
                total = gain + here - worth[g]
                how, final = -1, -math.inf
                if q < 0:
                    how, final = 3, total + fill
                else:
                    if not job[q, MUST]:
                        how, final = 0, total + fill
                    if g0 >= 0:
                        if dense or hole < 0:
                            joined = tabled(table, single, job, device, move, access, q, hole, g0)
                        else:
                            joined = content(p, s, q, hole, g0)
                        joined += total - alone
                        if joined > final:
                            how, final = 1, joined
                if final > best:
                    best, best_steps, closing, best_x = final, depth + 1, how, q
                    path[depth, 1], path[depth, 2] = y, g
                    keep_path(path, depth + 1)
                if q < 0 or depth >= len(breadth):
                    continue
                hope = total + s.price[q]
                at, most = level[depth], breadth[depth]
                if at == most and hope <= children[depth, most, 1]:
                    continue
                at = min(at, most - 1)
                while at > 0 and children[depth, at, 1] < hope:
                    for i in range(5):
                        children[depth, at + 1, i] = children[depth, at, i]
                    at -= 1
                at += 1
                children[depth, at, 0], children[depth, at, 1] = total, hope
                children[depth, at, 2], children[depth, at, 3] = y, g
                children[depth, at, 4] = q
                level[depth] = min(level[depth] + 1, most)
        if position[depth] >= level[depth]:
            depth -= 1
            continue
        position[depth] += 1
        at = position[depth]
        path[depth, 1], path[depth, 2] = int(children[depth, at, 2]), int(children[depth, at, 3])
        path[depth + 1, 0] = int(children[depth, at, 4])
        children[depth + 1, 0, 0] = children[depth, at, 0]
        depth += 1
        opened = True
    s.count[TRIED] += 1
    if closing < 0:
        return 0.0
    # ---- apply -------------------------------------------------------------------------------
    steps, joins = best_steps, best_x if closing == 1 else filler
    if g0 >= 0:
        path[steps, 3], path[steps, 4], path[steps, 5] = hole, joins, g0
        steps += 1
    if closing == 2:
        path[steps, 3], path[steps, 4], path[steps, 5] = best_x, -1, best_empty
        steps += 1
    prior = np.empty((steps, 5), np.int64)
    for d in range(steps):
        prior[d, 0] = path[d, 5]
        prior[d, 1:] = s.device[path[d, 5], ONE : ONE + 4]
    for d in range(steps):
        put(p, s, path[d, 5], path[d, 3], path[d, 4], -1, -1)
    for d in range(steps):
        for h in range(p.shape[2]):
            if s.host[device[path[d, 5], NODE], h] < 0:
                put_back(p, s, prior, steps)
                return 0.0
    # a job put on a later device of the path, then taken from an earlier one, is where it was put
    s.count[APPLIED] += 1
    wait(s, x0)
    for d in range(steps):
        for i in range(2):
            wait(s, path[d, 3 + i])
            wait(s, prior[d, 1 + i])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def keep_path(path: Any, steps: int) -> None:
    """Copy the chain in hand to where the best one is kept."""
    for d in range(steps):
        for i in range(3):
            path[d, 3 + i] = path[d, i]


@njit(cache=True, nogil=True, error_model="numpy")
def descend(p: Any, s: Any, chains: int, breadth: Any, path: Any, children: Any) -> float:
    """Apply chains until nobody queues or so many were looked at; return the gain."""
    gain, last = 0.0, s.count[TRIED] + chains
    while s.count[LENGTH] > 0 and s.count[TRIED] < last:
        gain += chain(p, s, leave_queue(s), breadth, path, children)
    return gain


@njit(cache=True, nogil=True, error_model="numpy")
def leave_queue(s: Any) -> int:
    """Return the first job of the queue."""
    j = s.queue[s.count[HEAD]]
    s.count[HEAD] = (s.count[HEAD] + 1) % len(s.queue)
    s.count[LENGTH] -= 1
    s.job[j, QUEUED] = 0
    return int(j)


@njit(cache=True, nogil=True, error_model="numpy")
def kick(p: Any, s: Any) -> float:
    """Let three random devices pass a resident on in a circle; return the change of value."""
    n, d = len(s.device), s.device
    a, b, c = draw(s.count, n), draw(s.count, n), draw(s.count, n)
    if a in (b, c) or b == c:
        return -math.inf
    before = s.worth[a] + s.worth[b] + s.worth[c]
    x, y, z = d[a, TWO], d[b, TWO], d[c, TWO]
    after = content(p, s, d[a, ONE], z, a) + content(p, s, d[b, ONE], x, b)
    after += content(p, s, d[c, ONE], y, c)
    if not after > -math.inf:
        return -math.inf
    ones = (d[a, ONE], d[b, ONE], d[c, ONE])
    for g in (a, b, c):
        put(p, s, g, -1, -1, -1, -1)
    put(p, s, a, ones[0], z, -1, -1)
    put(p, s, b, ones[1], x, -1, -1)
    put(p, s, c, ones[2], y, -1, -1)
    for g in (a, b, c):
        wait(s, d[g, ONE])
        wait(s, d[g, TWO])
    for g in (a, b, c):
        for h in range(p.shape[2]):
            if s.host[d[g, NODE], h] < 0:
                return -math.inf
    return float(after - before)


@njit(cache=True, nogil=True, error_model="numpy")
def clear(p: Any, s: Any) -> float:
    """Empty a random device; others may have it before its residents; return the change."""
    g = draw(s.count, len(s.device))
    one, two = s.device[g, ONE], s.device[g, TWO]
    if one < 0 or s.job[one, MUST] or (two >= 0 and s.job[two, MUST]):
        return -math.inf
    before = s.worth[g]
    put(p, s, g, -1, -1, -1, -1)
    for _ in range(8):
        j = draw(s.count, len(s.job))
        if s.job[j, AT] < 0 and j != one and j != two:
            wait(s, j)
    wait(s, one)
    wait(s, two)
    return float(-before)


@njit(cache=True, nogil=True, error_model="numpy")
def search(p: Any, s: Any, chains: int, breadth: Any) -> float:
    """Look at so many chains: descend, then kick and descend again; return the gain.

    Where a job sees some devices only, all jobs look again, elsewhere, instead of kicks.
    """
    path = np.zeros((len(breadth) + 3, 6), np.int64)
    children = np.zeros((len(breadth) + 2, breadth.max() + 2, 5))
    last = s.count[TRIED] + chains
    total = descend(p, s, chains, breadth, path, children)
    close_journal(p, s, True)
    while s.count[TRIED] < last and s.count[LENGTH] == 0 and len(s.device):
        if s.count[WINDOW] < len(s.device):
            stride = 1 + 2 * draw(s.count, 500_000)
            for i in range(len(s.job)):
                wait(s, i * stride % len(s.job))
            for j in range(len(s.job)):
                wait(s, j)
            total += descend(p, s, last - s.count[TRIED], breadth, path, children)
            close_journal(p, s, True)
            continue
        s.count[KICKS] += 1
        s.count[TRIED] += 1
        gain = clear(p, s) if draw(s.count, 2) or len(s.device) < 3 else kick(p, s)
        if gain > -math.inf:
            gain += descend(p, s, last - s.count[TRIED], breadth, path, children)
        close_journal(p, s, gain >= 0.0)
        if gain >= 0.0:
            total += gain
        while s.count[LENGTH] > 0:
            leave_queue(s)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def estimate(p: Any, s: Any, tries: int) -> None:
    """Fill `price`: what a job is worth beside another one, less the other's share of that."""
    n, grand = len(s.job), 0.0
    for j in range(n):
        total, a = 0.0, s.job[j, KIND]
        for _ in range(tries):
            total += best_type(p, a, s.job[draw(s.count, n), KIND])
        s.price[j] = total / tries
        grand += s.price[j]
    for j in range(n):
        s.price[j] -= 0.5 * grand / n


@njit(cache=True, nogil=True, error_model="numpy")
def best_type(p: Any, a: int, b: int) -> float:
    """Return the most that two classes are worth together, or the better one alone."""
    best = 0.0
    for k in range(p.shape[0]):
        value = p.table[k, a, b] if p.shape[4] else pair_of(p, a, b, k)[0]
        best = max(best, value, p.single[k, a], p.single[k, b])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def load(p: Any, s: Any, given: Any) -> None:
    """Take over a plan: rows of device, residents and options; then take better options."""
    for k in range(p.shape[0]):
        s.empty[k, 0] = 0
    for g in range(len(s.device)):
        k = s.device[g, SORT]
        s.empty[k, 0] += 1
        s.empty[k, s.empty[k, 0]] = g
    for i in range(len(given)):
        g = given[i, 0]
        s.device[g, SAVED] = 1
        put(p, s, g, given[i, 1], given[i, 2], given[i, 3], given[i, 4])
        worth = s.worth[g]
        put(p, s, g, given[i, 1], given[i, 2], -1, -1)
        over = s.worth[g] < worth
        for h in range(p.shape[2]):
            over = over or s.host[s.device[g, NODE], h] < 0
        if over:
            put(p, s, g, given[i, 1], given[i, 2], given[i, 3], given[i, 4])
        s.device[g, SAVED] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def undominated(start: Any, option: Any, gain: Any, excess: Any, keep: Any) -> None:
    """Mark, among the options of a class on a device class, those that no other one beats.

    One beats another if it brings no less, alone and slowed, takes no more of anything, and
    neither suffers nor causes more beside anyone.
    """
    for c in range(len(start) - 1):
        for i in range(start[c], start[c + 1]):
            for j in range(start[c], start[c + 1]):
                if i == j or not keep[j] or gain[j, NET] < gain[i, NET]:
                    continue
                if gain[j, NET] - gain[j, REWARD] < gain[i, NET] - gain[i, REWARD] - 1e-12:
                    continue  # what is left at the largest loss, throughput coupling
                beats = gain[j, RATE] <= gain[i, RATE]
                for r in range(ALONE, option.shape[1]):
                    beats = beats and option[j, r] <= option[i, r]
                a, b = option[j, LOAD], option[i, LOAD]
                for w in range(len(excess) if beats and a != b else 0):
                    if excess[a, w] > excess[b, w] or excess[w, a] > excess[w, b]:
                        beats = False
                        break
                if beats:
                    keep[i] = False
                    break
