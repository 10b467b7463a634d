"""Odd-set cuts: what the LP of the pattern form lacks to be integral.

With two residents and one pool the pattern form is a matching with a cardinality row, whose
convex hull needs, besides the rows themselves, only Edmonds' odd-set inequalities. The same
rounding argument holds for any patterns: for a set S of class and site rows whose right-hand
sides sum to an odd number b, every integer point satisfies
``Σ_p floor(½ Σ_{r∈S} a_rp) y_p <= (b - 1)/2`` (a {0, ½} Chvátal-Gomory cut).

Violated sets are minimum odd cuts of the graph whose vertices are rows and whose edges are the
fractional patterns (Padberg and Rao, 1982), found with the flows of Gusfield's tree (1990).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, maximum_flow

from elastico_opt.program.arrays import Bools, Floats, Ints

#: Capacities of the flows are whole multiples of this.
_GRAIN = 1e-6
#: Least violation worth a cut, in terms of the cut weight that must stay below 1.
_VIOLATION = 1e-3
#: Largest component searched exactly.
_LARGEST = 400


def odd_sets(rows: sparse.csc_matrix, upper: Ints, point: Floats) -> list[tuple[int, ...]]:
    """Return row sets whose odd-set cut the point violates.

    Parameters
    ----------
    rows : (M, P) sparse
        Coefficients of the class and site rows, small whole numbers.
    upper : (M,)
        Their right-hand sides.
    point : (P,)
        Fractional values of the patterns.
    """
    odd = rows.copy()
    odd.data = odd.data % 2
    odd.eliminate_zeros()
    slack = np.maximum(upper - rows @ point, 0.0)
    fractional = np.flatnonzero((point > _GRAIN) & (np.abs(point - np.rint(point)) > _GRAIN))
    graph, loose = _graph(odd, point, fractional)
    count, label = connected_components(graph, directed=False)
    sizes = np.bincount(label, minlength=count)
    found: set[tuple[int, ...]] = set()
    for component in np.flatnonzero((sizes >= 3) & (sizes <= _LARGEST)):
        vertices = np.flatnonzero(label == component)
        found.update(_cuts(graph, slack + loose, upper, vertices))
    return sorted(found)


def _graph(
    odd: sparse.csc_matrix, point: Floats, fractional: Ints
) -> tuple[sparse.csr_matrix, Floats]:
    """Return edge weights between rows, and per row the weight that always crosses.

    A pattern that is odd in two rows is an edge; one that is odd in a single row, or in more than
    two, is counted as crossing wherever it touches (which can only hide a violation).
    """
    entries = np.diff(odd.indptr)
    edges = fractional[entries[fractional] == 2]
    a, b = odd.indices[odd.indptr[edges]], odd.indices[odd.indptr[edges] + 1]
    n = odd.shape[0]
    graph = sparse.coo_matrix((point[edges], (a, b)), shape=(n, n)).tocsr()
    graph = graph + graph.T
    others = np.ones(len(point), dtype=bool)
    others[edges] = False
    return graph, odd @ np.where(others, point, 0.0)


def _cuts(
    graph: sparse.csr_matrix, outside: Floats, upper: Ints, vertices: Ints
) -> Iterator[tuple[int, ...]]:
    """Yield violated sets of one component: source sides of the flows of Gusfield's tree."""
    n = len(vertices)
    inner = graph[vertices][:, vertices].tocoo()
    rest = outside[vertices]
    ends = np.arange(n)
    full = sparse.coo_matrix(
        (
            np.concatenate([inner.data, rest, rest]),
            (
                np.concatenate([inner.row, ends, np.full(n, n)]),
                np.concatenate([inner.col, np.full(n, n), ends]),
            ),
        ),
        shape=(n + 1, n + 1),
    ).tocsr()
    weights = full.toarray()
    capacity = full.copy()
    capacity.data = np.rint(full.data / _GRAIN).astype(np.int32)
    capacity.eliminate_zeros()
    parity = upper[vertices].astype(np.int64) % 2
    parent = np.full(n, n)
    for v in range(n):
        side = _source_side(capacity, v, int(parent[v]))
        later = np.arange(v + 1, n)
        parent[later[side[later] & (parent[later] == parent[v])]] = v
        inside = ~side if side[n] else side
        members = np.flatnonzero(inside[:n])
        if len(members) < 3 or parity[members].sum() % 2 == 0:
            continue
        if weights[np.ix_(inside, ~inside)].sum() < 1 - _VIOLATION:
            yield tuple(int(r) for r in vertices[members])


def _source_side(capacity: sparse.csr_matrix, source: int, sink: int) -> Bools:
    flow = maximum_flow(capacity, source, sink).flow
    residual = (capacity - flow).tocsr()
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    side = np.zeros(capacity.shape[0], dtype=bool)
    side[breadth_first_order(residual, source, return_predecessors=False)] = True
    return side


def cut_row(rows: sparse.csc_matrix, members: tuple[int, ...]) -> Floats:
    """Return (P,) coefficients of the cut of a row set over given columns."""
    picked = np.zeros(rows.shape[0])
    picked[list(members)] = 1.0
    coefficients: Floats = np.floor((picked @ rows) / 2)
    return coefficients
