"""The pattern program of one pool as a matching with at most G edges: exact, with a certificate.

Where single-device jobs share the devices of one pool, two to a device at most, a pattern of two
residents is an edge between jobs and a pattern of one a loop. The matching polytope stays integral
when a row that counts edges cuts it, so at the right price π of a device the best matching, each
edge paying π, is worth the optimum less G π. At that price the best matchings of different size
are tied. Two of them, one too small and one too large, differ in alternating paths and cycles that
change the size by one at most; moving along them one by one meets size G.

The **certificate** of a bound is a price π, a dual u_j per job and a dual z_B >= 0 per odd set B of
jobs. No choice of at most G patterns is worth more than

    Σ u_j + Σ z_B ⌊|B|/2⌋ + G (π + largest excess),

where the excess of a pattern is what its value exceeds π, the u of its residents and the z of the
sets that hold two of them by. `Certificate.bound` computes this from the duals alone, whatever made
them. Values are rounded up to whole multiples of a power of two first, so it is exact arithmetic.

Sources: J. Edmonds, Maximum matching and a polyhedron with 0,1-vertices (1965); A. Schrijver,
Combinatorial Optimization (2003), section 18.5f, on matchings of given size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from elastico_opt.program.arrays import Bools, Floats, Ints

#: Bits of the largest weight: duals grow beyond it, far from 64.
BITS = 50
#: Growth of the steps in which a price is searched; and how many times more the size of the
#: matching changes than the price, both as shares, when the first step after a tie is taken.
GROWTH, STEADY = 4, 4
#: Most prices tried.
PRICES = 60


@dataclass(frozen=True)
class Graph:
    """Vertices, edges and loops with whole weights; parallel edges are allowed.

    Attributes
    ----------
    n, most : int
        Vertices; edges and loops that may be chosen.
    one, two : (m,)
        Ends of each edge.
    weight : (m,)
    loop : (n,)
        Weight of each vertex alone, 0 where that is worth nothing.
    grain : int
        All weights are multiples of ``2**grain``. With ``2**grain > n`` prices between multiples
        of it tell apart what is tied at these, and the best choice is found exactly.
    """

    n: int
    most: int
    one: Ints
    two: Ints
    weight: Ints
    loop: Ints
    grain: int = 0

    def sparse(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return each edge in both directions by source: where sources begin, ends, number."""
        source, number = np.concatenate([self.one, self.two]), np.arange(2 * len(self.one))
        order = np.argsort(source, kind="stable")
        target = np.concatenate([self.two, self.one])[order]
        first = np.searchsorted(source[order], np.arange(self.n + 1)).astype(np.int64)
        return first, source[order], target, number[order] % max(1, len(self.one))


@dataclass(frozen=True)
class Certificate:
    """Duals that bound every choice of at most G edges and loops; all in half units.

    Attributes
    ----------
    price : int
    vertex : (n,)
    nest : (n, depth)
        The sets that hold each vertex, outermost first, padded with -1.
    odd : (sets,)
        Their duals.
    """

    price: int
    vertex: Ints
    nest: Ints
    odd: Ints

    def excess(self, graph: Graph) -> int:
        """Return the largest excess of any edge or loop, or 0."""
        vertex, price = np.maximum(self.vertex, 0), max(0, self.price)
        over = 2 * graph.weight - vertex[graph.one] - vertex[graph.two] - price
        loops = int((2 * graph.loop - vertex).max(initial=0)) - price
        # Few edges exceed the vertex duals; only these need the sets.
        some = np.flatnonzero(over > 0)
        held = np.zeros(len(some), dtype=np.int64)
        odd = np.append(np.maximum(self.odd, 0), 0)
        for level in self.nest.T:
            mine, theirs = level[graph.one[some]], level[graph.two[some]]
            held += np.where(mine == theirs, odd[mine], 0)
        return max(0, loops, int((over[some] - held).max(initial=0)))

    def bound(self, graph: Graph) -> int:
        """Return twice a weight that no choice can exceed, by weak duality alone."""
        size = np.bincount(self.nest[self.nest >= 0], minlength=len(self.odd))
        total = sum(map(int, np.maximum(self.vertex, 0)))
        total += sum(int(z) * int(b // 2) for z, b in zip(self.odd, size, strict=True) if z > 0)
        return total + graph.most * (max(0, self.price) + self.excess(graph))


@dataclass(frozen=True)
class Matching:
    """A best matching at a price of devices.

    Attributes
    ----------
    mate : (n,)
        -1 for none.
    alone : (n,) bool
        Whether the vertex's loop is used.
    value, size : int
        Weight of edges and loops, and their number.
    certificate : Certificate
        The duals; `bound` is theirs, in half units.
    """

    mate: Ints
    alone: Bools
    value: int
    size: int
    certificate: Certificate
    bound: int


class Matcher:
    """Best matchings of one graph at different prices."""

    def __init__(
        self, graph: Graph, vertex: Ints, price: int, stop: Bools, mate: Ints | None = None
    ) -> None:
        """Start near vertex duals in half units and mates that were good at a price (any will do).

        `stop` is set from outside to end a search early.
        """
        self.graph, self.vertex, self.price, self.stop = graph, vertex, price, stop
        self.mate = np.full(graph.n, -1) if mate is None else mate
        self.first, self.source, self.target, self.number = graph.sparse()

    def at(self, price: int) -> Matching | None:
        """Return a best matching when each edge and loop pays a price; None when stopped."""
        from elastico_opt.solvers.pattern.edmonds import match

        graph = self.graph
        # What a vertex earns alone is its own; an edge counts with what it earns beyond that.
        alone = np.maximum(graph.loop - price, 0)
        double = 2 * (graph.weight - price - alone[graph.one] - alone[graph.two])
        # Both ends of an edge share what its price changes by.
        start = self.vertex + (self.price - price) - 2 * alone
        state, finished = match(
            self.first, self.source, self.target, double[self.number], start, self.mate, self.stop
        )
        return self._read(state, price, alone) if finished else None

    def _read(self, state: Ints, price: int, alone: Ints) -> Matching:
        from elastico_opt.solvers.pattern.edmonds import DUAL, MATE, PARENT

        graph, n = self.graph, self.graph.n
        dual, mate, parent = state[DUAL], state[MATE, :n].copy(), state[PARENT]
        levels, at = [], parent[:n]
        while (at >= 0).any():
            levels.append(np.where(at >= 0, at - n, -1))
            at = np.where(at >= 0, parent[at], -1)
        nest = _outermost_first(np.array(levels, dtype=np.int64).reshape(-1, n).T)
        odd = dual[n:].copy()
        certificate = Certificate(2 * price, dual[:n] + 2 * alone, nest, odd)
        # The next price starts from these duals with the sets dissolved: still feasible.
        self.vertex = certificate.vertex + np.append(odd, 0)[nest].sum(axis=1)
        self.price, self.mate = price, mate
        single = (mate < 0) & (alone > 0)
        value, size = self._worth(mate, single)
        return Matching(mate, single, value, size, certificate, certificate.bound(graph))

    def _worth(self, mate: Ints, alone: Bools) -> tuple[int, int]:
        used = self.edges(mate)
        value = sum(map(int, self.graph.weight[used])) + sum(map(int, self.graph.loop[alone]))
        return value, len(used) + int(alone.sum())

    def edges(self, mate: Ints) -> Ints:
        """Return the edges of a matching, of parallel ones the best."""
        graph = self.graph
        inside = np.flatnonzero(mate[graph.one] == graph.two)
        order = inside[np.argsort(-graph.weight[inside], kind="stable")]
        _, best = np.unique(np.minimum(graph.one, graph.two)[order], return_index=True)
        edges: Ints = order[best]
        return edges

    def between(self, small: Matching, large: Matching) -> tuple[Ints, Bools]:
        """Move from a matching of at most G edges and loops towards one of at least G; stop at G.

        Returns mates and the loops in use. Where both are best at one price, so is every step.
        """
        mate, alone = small.mate.copy(), small.alone.copy()
        size, seen = small.size, np.zeros(self.graph.n, dtype=bool)
        for v in range(self.graph.n):
            if seen[v] or (mate[v] == large.mate[v] and alone[v] == large.alone[v]):
                continue
            if size == self.graph.most:
                break
            part = _component(v, small.mate, large.mate)
            seen[part] = True
            change = _share(part, large) - _share(part, small)
            if size + change // 2 <= self.graph.most:
                mate[part], alone[part] = large.mate[part], large.alone[part]
                size += change // 2
        return mate, alone


def _component(v: int, one: Ints, two: Ints) -> list[int]:
    part, todo = {v}, [v]
    while todo:
        at = todo.pop()
        for other in (int(one[at]), int(two[at])):
            if other >= 0 and other not in part:
                part.add(other)
                todo.append(other)
    return sorted(part)


def _share(part: list[int], matching: Matching) -> int:
    """Return twice the number of edges and loops on some vertices."""
    return int((matching.mate[part] >= 0).sum() + 2 * matching.alone[part].sum())


def _outermost_first(nest: Ints) -> Ints:
    """Turn chains of sets, innermost first, around."""
    depth = (nest >= 0).sum(axis=1)
    column = depth[:, None] - 1 - np.arange(nest.shape[1])[None, :]
    turned: Ints = np.where(
        column >= 0, np.take_along_axis(nest, np.maximum(column, 0), axis=1), -1
    )
    return turned if nest.shape[1] else nest


@dataclass(frozen=True)
class Best:
    """A choice of at most G edges and loops, and the bound that a certificate proves."""

    edges: Ints
    alone: Ints
    value: int
    certificate: Certificate
    bound: int  # in half units


def best_choice(matcher: Matcher, price: int, slack: int = 0) -> Best | None:
    """Return the best choice of at most G edges and loops; None when stopped.

    The price is searched from a guess: by growing steps until one matching is too small and one
    too large, then where the lines of their values cross. With a `slack` (in half units) the
    choice is only surely so near the bound.
    """
    most, small, large, lowest = matcher.graph.most, None, None, None
    # Half a grain above or below, ties break for the small or the large.
    step, price = max(1, 2**matcher.graph.grain // 2), max(0, price)
    for _ in range(PRICES):
        found = matcher.at(price)
        if found is None:
            return None
        lowest = found if lowest is None or found.bound < lowest.bound else lowest
        if found.size == most or (found.size < most and price == 0):
            return _chosen(matcher, found.mate, found.alone, lowest)
        small, large = (found, large) if found.size < most else (small, found)
        if small is None or large is None:
            price += step if small is None else -min(step, (price + 1) // 2)
            step = max(GROWTH * step, price * abs(found.size - most) // (STEADY * (most + 1)))
            continue
        price = (large.value - small.value) // (large.size - small.size)
        if lowest.bound <= 2 * (small.value + (most - small.size) * price) + slack:
            break
        if 2 * price in (small.certificate.price, large.certificate.price):
            break
    if small is None or large is None or lowest is None:
        return None
    return _chosen(matcher, *matcher.between(small, large), lowest)


def _chosen(matcher: Matcher, mate: Ints, alone: Bools, lowest: Matching) -> Best:
    edges, loops = matcher.edges(mate), np.flatnonzero(alone)
    graph = matcher.graph
    value = sum(map(int, graph.weight[edges])) + sum(map(int, graph.loop[loops]))
    return Best(edges, loops, value, lowest.certificate, lowest.bound)


def grain(n: int) -> int:
    """Return the grain that weights of a graph of n vertices should have."""
    return n.bit_length()


def whole(values: Floats, largest: float, grain: int) -> tuple[Ints, int]:
    """Round values up to whole weights; return them and the binary exponent of their unit.

    A weight times ``2**-exponent`` is at least the value and exceeds it by less than a grain.
    """
    exponent = BITS - math.frexp(max(largest, 1e-30))[1]
    weights = np.ceil(np.ldexp(values, exponent - grain)).astype(np.int64) << grain
    return weights, exponent
