"""Compiled maximum-weight matching in a general graph: Edmonds' primal-dual method, tree by tree.

All numbers are whole. With vertex duals ``u`` (in half units), blossom duals ``z >= 0`` and weights
``w``, an edge's slack is ``u_i + u_j - 2 w`` plus the ``z`` of the blossoms that hold both ends. A
matching is optimal when duals and slacks are >= 0, matched edges have none, blossoms with ``z > 0``
are full, and vertices without a mate have ``u = 0``.

Any feasible vertex duals are a start, such as rounded ones of a linear program. From every vertex
that has no mate and ``u > 0`` an alternating tree grows until it meets another vertex without a
mate, or an outer vertex whose dual is used up; the path to it is flipped. Duals change lazily: a
label counts from the time (the sum of dual steps) at which it was given. Edges that become tight
only after the tree must have ended never enter the heap.

Sources: J. Edmonds, Maximum matching and a polyhedron with 0,1-vertices (1965); Z. Galil, Efficient
algorithms for finding maximum matching in graphs, ACM Computing Surveys 18 (1986).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

#: Rows of the state: one column per vertex and, from column n on, per blossom.
DUAL = 0  # u of a vertex, z of a blossom, at the time SINCE
SINCE = 1
LABEL = 2  # of what is not part of a blossom: OUTER, INNER or 0
TOP = 3  # of a vertex: the outermost blossom (or the vertex itself)
PARENT = 4  # the blossom directly around, or -1
BASE = 5  # the vertex that is matched outwards
FIRST = 6  # of a blossom: the child that holds the base
NEXT = 7  # the next child around the cycle; an edge LINK_A (here) - LINK_B (there) leads to it
BEFORE = 8
LINK_A = 9
LINK_B = 10
FROM = 11  # of what is INNER: the tree edge that reached it, FROM (outside) - TO (inside)
TO = 12
MATE = 13
HEAD = 14  # the vertices of a blossom are a chain from HEAD by AFTER to TAIL
TAIL = 15
AFTER = 16
MARK = 17
QUEUE = 18  # outer vertices whose edges have not been looked at; after a tree, a stack
SPARE = 19  # free blossom columns
BESIDE = 20  # what goes with the stack
META = 21
ROWS = 22

#: Columns of META.
N_QUEUE, N_SPARE, N_HEAP, STAMP, LIMIT, END, N = 0, 1, 2, 3, 4, 5, 6

OUTER, INNER = -1, 1


@njit(cache=True, nogil=True)
def _push(s: Any, heap: Any, time: int, what: int) -> Any:
    if time >= s[META, LIMIT]:
        return heap
    i = s[META, N_HEAP]
    if i == heap.shape[1]:
        longer = np.empty((2, 2 * i), np.int64)
        longer[:, :i] = heap
        heap = longer
    s[META, N_HEAP] = i + 1
    while i > 0 and heap[0, (i - 1) // 2] > time:
        heap[0, i], heap[1, i] = heap[0, (i - 1) // 2], heap[1, (i - 1) // 2]
        i = (i - 1) // 2
    heap[0, i], heap[1, i] = time, what
    return heap


@njit(cache=True, nogil=True)
def _pop(s: Any, heap: Any) -> None:
    """Drop the first entry of the heap."""
    size = s[META, N_HEAP] - 1
    s[META, N_HEAP] = size
    time, what = heap[0, size], heap[1, size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and heap[0, child + 1] < heap[0, child]:
            child += 1
        if heap[0, child] >= time:
            break
        heap[0, i], heap[1, i] = heap[0, child], heap[1, child]
        i = child
    heap[0, i], heap[1, i] = time, what


@njit(cache=True, nogil=True)
def _dual(s: Any, v: int, now: int) -> Any:
    return s[DUAL, v] + s[LABEL, s[TOP, v]] * (now - s[SINCE, v])


@njit(cache=True, nogil=True)
def _relabel(s: Any, b: int, label: int, now: int) -> None:
    """Bring the duals of what is outermost up to date and give it another label."""
    old, v, n = s[LABEL, b], s[HEAD, b], s[META, N]
    while True:
        s[DUAL, v] += old * (now - s[SINCE, v])
        s[SINCE, v] = now
        if label == OUTER and old != OUTER:
            s[QUEUE, s[META, N_QUEUE]] = v
            s[META, N_QUEUE] += 1
        if v == s[TAIL, b]:
            break
        v = s[AFTER, v]
    if b >= n:
        s[DUAL, b] -= 2 * old * (now - s[SINCE, b])
        s[SINCE, b] = now
    s[LABEL, b] = label


@njit(cache=True, nogil=True)
def _scan(s: Any, heap: Any, graph: Any, v: int, now: int) -> Any:
    """Look at the edges of a vertex that became outer, or lost its label in an open blossom."""
    first, _, target, double = graph
    mine, label, dual = s[TOP, v], s[LABEL, s[TOP, v]], _dual(s, v, now)
    if label == OUTER and now + dual < s[META, LIMIT]:
        s[META, LIMIT], s[META, END] = now + dual, -1 - v
    for e in range(first[v], first[v + 1]):
        other = s[TOP, target[e]]
        theirs = s[LABEL, other]
        if other == mine or theirs == INNER or (label == 0 and theirs == 0):
            continue
        slack = dual + _dual(s, target[e], now) - double[e]
        if label == theirs:
            heap = _push(s, heap, now + slack // 2, e)
        elif label == OUTER and s[MATE, s[BASE, other]] < 0:
            if now + slack < s[META, LIMIT]:
                s[META, LIMIT], s[META, END] = now + slack, e
        else:
            heap = _push(s, heap, now + slack, e)
    return heap


@njit(cache=True, nogil=True)
def _inner(s: Any, heap: Any, b: int, outside: int, inside: int, now: int, n_edges: int) -> Any:
    """Make a blossom or vertex an inner one."""
    _relabel(s, b, INNER, now)
    s[FROM, b], s[TO, b] = outside, inside
    if b >= s[META, N]:
        heap = _push(s, heap, now + s[DUAL, b] // 2, n_edges + b)
    return heap


@njit(cache=True, nogil=True)
def _join(s: Any, x: int, y: int, a: int, b: int) -> None:
    """Make y follow x around a cycle, by the edge from a (in x) to b (in y)."""
    s[NEXT, x], s[BEFORE, y], s[LINK_A, x], s[LINK_B, x] = y, x, a, b


@njit(cache=True, nogil=True)
def _shrink(s: Any, i: int, j: int, now: int) -> None:
    """Shrink the odd cycle that a tight edge between outer vertices closes."""
    s[META, STAMP] += 1
    stamp, a, b = s[META, STAMP], s[TOP, i], s[TOP, j]
    while True:  # climb from both ends, turn by turn, to where the ways meet
        if a >= 0:
            if s[MARK, a] == stamp:
                break
            s[MARK, a] = stamp
            mate = s[MATE, s[BASE, a]]
            a = -1 if mate < 0 else s[TOP, s[FROM, s[TOP, mate]]]
        a, b = b, a
    root, x = a, s[TOP, i]
    _join(s, x, s[TOP, j], i, j)
    while x != root:
        base = s[BASE, x]
        inner = s[TOP, s[MATE, base]]
        outer = s[TOP, s[FROM, inner]]
        _join(s, inner, x, s[MATE, base], base)
        _join(s, outer, inner, s[FROM, inner], s[TO, inner])
        x = outer
    x = s[TOP, j]
    while x != root:
        base = s[BASE, x]
        inner = s[TOP, s[MATE, base]]
        outer = s[TOP, s[FROM, inner]]
        _join(s, x, inner, base, s[MATE, base])
        _join(s, inner, outer, s[TO, inner], s[FROM, inner])
        x = outer
    s[META, N_SPARE] -= 1
    new = s[SPARE, s[META, N_SPARE]]
    s[BASE, new], s[FIRST, new], s[PARENT, new] = s[BASE, root], root, -1
    s[DUAL, new], s[SINCE, new], s[LABEL, new] = 0, now, OUTER
    s[HEAD, new], x = s[HEAD, root], root
    while True:
        _relabel(s, x, OUTER, now)  # queues what was inner
        s[PARENT, x], s[LABEL, x], s[TAIL, new] = new, 0, s[TAIL, x]
        v = s[HEAD, x]
        while True:
            s[TOP, v] = new
            if v == s[TAIL, x]:
                break
            v = s[AFTER, v]
        x, last = s[NEXT, x], x
        if x == root:
            break
        s[AFTER, s[TAIL, last]] = s[HEAD, x]


@njit(cache=True, nogil=True)
def _open(s: Any, b: int) -> None:
    """Make the children of an unlabelled outermost blossom outermost."""
    x = s[FIRST, b]
    while True:
        s[PARENT, x], s[LABEL, x] = -1, 0
        v = s[HEAD, x]
        while True:
            s[TOP, v] = x
            if v == s[TAIL, x]:
                break
            v = s[AFTER, v]
        x = s[NEXT, x]
        if x == s[FIRST, b]:
            break
    s[SPARE, s[META, N_SPARE]] = b
    s[META, N_SPARE] += 1


@njit(cache=True, nogil=True)
def _forward(s: Any, b: int, child: int) -> bool:
    """Whether the way of even length from a child to the first one goes forward."""
    x, odd = s[FIRST, b], False
    while x != child:
        x, odd = s[NEXT, x], not odd
    return odd


@njit(cache=True, nogil=True)
def _expand(s: Any, heap: Any, graph: Any, b: int, now: int) -> Any:
    """Open an inner blossom whose dual is used up; the tree goes on through a part of it."""
    n_edges, outside, inside, root = len(graph[2]), s[FROM, b], s[TO, b], s[FIRST, b]
    _relabel(s, b, 0, now)
    _open(s, b)
    entry = s[TOP, inside]
    forward = _forward(s, b, entry)
    x = entry
    heap = _inner(s, heap, x, outside, inside, now, n_edges)
    while x != root:
        outer = s[NEXT, x] if forward else s[BEFORE, x]
        _relabel(s, outer, OUTER, now)
        x = s[NEXT, outer] if forward else s[BEFORE, outer]
        if forward:
            heap = _inner(s, heap, x, s[LINK_A, outer], s[LINK_B, outer], now, n_edges)
        else:
            heap = _inner(s, heap, x, s[LINK_B, x], s[LINK_A, x], now, n_edges)
    x = root
    while True:
        if s[LABEL, x] == 0:
            v = s[HEAD, x]
            while True:
                heap = _scan(s, heap, graph, v, now)
                if v == s[TAIL, x]:
                    break
                v = s[AFTER, v]
        x = s[NEXT, x]
        if x == root:
            return heap


@njit(cache=True, nogil=True)
def _turn(s: Any, b: int, v: int) -> None:
    """Match a blossom within itself so that vertex v is its base."""
    n = s[META, N]
    if b < n:
        return
    s[QUEUE, 0], s[BESIDE, 0], todo = b, v, 1
    while todo > 0:
        todo -= 1
        b, v = s[QUEUE, todo], s[BESIDE, todo]
        child = v
        while s[PARENT, child] != b:
            child = s[PARENT, child]
        forward, x = _forward(s, b, child), child
        if child >= n:
            s[QUEUE, todo], s[BESIDE, todo] = child, v
            todo += 1
        while x != s[FIRST, b]:
            y = s[NEXT, x] if forward else s[BEFORE, x]
            x = s[NEXT, y] if forward else s[BEFORE, y]
            link = y if forward else x
            one, two = s[LINK_A, link], s[LINK_B, link]
            s[MATE, one], s[MATE, two] = two, one
            if not forward:
                one, two = two, one
            if y >= n:
                s[QUEUE, todo], s[BESIDE, todo] = y, one
                todo += 1
            if x >= n:
                s[QUEUE, todo], s[BESIDE, todo] = x, two
                todo += 1
        s[FIRST, b], s[BASE, b] = child, v


@njit(cache=True, nogil=True)
def _flip(s: Any, v: int, mate: int) -> None:
    """Flip the path from the root to outer vertex v, which gets a mate (or none: -1)."""
    while True:
        b = s[TOP, v]
        old = s[MATE, s[BASE, b]]
        _turn(s, b, v)
        s[MATE, v] = mate
        if old < 0:
            return
        inner = s[TOP, old]
        mate, v = s[TO, inner], s[FROM, inner]
        _turn(s, inner, mate)
        s[MATE, mate] = v


@njit(cache=True, nogil=True)
def _grow(s: Any, heap: Any, graph: Any, root: int) -> Any:
    """Grow a tree from a vertex without a mate until the matching or the root improves."""
    _, source, target, double = graph
    n_edges, now = len(target), 0
    s[META, N_QUEUE] = s[META, N_HEAP] = 0
    s[META, LIMIT] = np.int64(2) ** 62
    _relabel(s, s[TOP, root], OUTER, now)
    while True:
        while s[META, N_QUEUE] > 0:
            s[META, N_QUEUE] -= 1
            heap = _scan(s, heap, graph, s[QUEUE, s[META, N_QUEUE]], now)
        if s[META, N_HEAP] == 0 or heap[0, 0] >= s[META, LIMIT]:
            break
        time, e = heap[0, 0], heap[1, 0]
        _pop(s, heap)
        if e >= n_edges:
            b = e - n_edges
            alive = s[PARENT, b] < 0 and s[LABEL, b] == INNER
            if alive and s[DUAL, b] == 2 * (time - s[SINCE, b]):
                now = time
                heap = _expand(s, heap, graph, b, now)
            continue
        i, j = source[e], target[e]
        if s[LABEL, s[TOP, i]] != OUTER:
            i, j = j, i
        b = s[TOP, j]
        if s[TOP, i] == b or s[LABEL, b] == INNER:
            continue
        if _dual(s, i, time) + _dual(s, j, time) > double[e]:
            continue  # seen again since, at another time
        now = time
        if s[LABEL, b] == OUTER:
            _shrink(s, i, j, now)
        else:
            mate = s[MATE, s[BASE, b]]
            heap = _inner(s, heap, b, i, j, now, n_edges)
            _relabel(s, s[TOP, mate], OUTER, now)
    end, now = s[META, END], s[META, LIMIT]
    if end < 0:
        _flip(s, -1 - end, -1)
    else:
        _turn(s, s[TOP, target[end]], target[end])
        s[MATE, target[end]] = source[end]
        _flip(s, source[end], target[end])
    _settle(s, now)
    return heap


@njit(cache=True, nogil=True)
def _settle(s: Any, now: int) -> None:
    """Take all labels away and open outer blossoms without a dual."""
    n = s[META, N]
    for b in range(s.shape[1]):
        if s[LABEL, b] == 0:
            continue
        _relabel(s, b, 0, now)
        s[QUEUE, 0], todo = b, 1
        while todo > 0:
            todo -= 1
            b = s[QUEUE, todo]
            if b < n or s[DUAL, b] > 0:
                continue
            x = s[FIRST, b]
            _open(s, b)
            while True:
                s[QUEUE, todo] = x
                todo += 1
                x = s[NEXT, x]
                if x == s[FIRST, b]:
                    break


@njit(cache=True, nogil=True)
def _start(s: Any, graph: Any, dual: Any, hint: Any) -> None:
    """Make given vertex duals feasible, then as small as they can be, and match what is tight."""
    first, _, target, double = graph
    n = len(dual)
    for v in range(s.shape[1]):
        s[PARENT, v] = s[MATE, v] = -1
        s[TOP, v] = s[BASE, v] = s[HEAD, v] = s[TAIL, v] = v
    for v in range(n):
        s[DUAL, v] = max(0, dual[v])
    for v in range(n):
        for e in range(first[v], first[v + 1]):
            s[DUAL, v] = max(s[DUAL, v], double[e] - s[DUAL, target[e]])
    for v in range(n):
        for e in range(first[v], first[v + 1]):
            w = target[e]
            tight = w == hint[v] and s[DUAL, v] + s[DUAL, w] == double[e]
            if tight and s[MATE, v] < 0 and s[MATE, w] < 0:
                s[MATE, v], s[MATE, w] = w, v
    for v in range(n):
        if s[MATE, v] >= 0:
            continue
        least, partner = 0, -1
        for e in range(first[v], first[v + 1]):
            need = double[e] - s[DUAL, target[e]]
            better = need == least and partner < 0 and need > 0
            if need > least or (need == least and need > 0 and s[MATE, partner] >= 0) or better:
                least, partner = need, target[e]
        s[DUAL, v] = least
        if partner >= 0 and s[MATE, partner] < 0:
            s[MATE, v], s[MATE, partner] = partner, v
    s[META, N], s[META, N_SPARE] = n, s.shape[1] - n
    for k in range(s.shape[1] - n):
        s[SPARE, k] = n + k


@njit(cache=True, nogil=True)
def match(
    first: Any,  # (n + 1,) where the edges of each vertex begin
    source: Any,  # (2 m,) each edge once per direction, by source
    target: Any,
    double: Any,  # (2 m,) twice its weight
    dual: Any,  # (n,) vertex duals to start from, in half units
    hint: Any,  # (n,) mates to start from where the duals allow it, or -1
    stop: Any,  # (1,) set from outside to end after the present tree
) -> tuple[Any, bool]:
    """Return the state (its rows DUAL, MATE, PARENT are the answer) and whether it is optimal."""
    n = len(dual)
    s = np.zeros((ROWS, max(8, n + n // 2 + 1)), np.int64)
    graph = (first, source, target, double)
    _start(s, graph, dual, hint)
    heap = np.empty((2, 1024), np.int64)
    for v in range(n):
        if stop[0]:
            return s, False
        if s[MATE, v] < 0 and s[DUAL, v] > 0:
            heap = _grow(s, heap, graph, v)
    return s, True
