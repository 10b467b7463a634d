"""Maximum-weight matchings and their certificates, against networkx and against enumeration."""

from __future__ import annotations

import random
from functools import cache
from unittest.mock import patch

import networkx
import numpy as np
import pytest
from brute_force import brute_force
from hypothesis import given, settings
from small import snapshot
from strategies import snapshots, twins

from elastico_opt import Snapshot, solve
from elastico_opt.formulations.layout import Layout
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.generation import Generation
from elastico_opt.solvers.pattern.master import Stage
from elastico_opt.solvers.pattern.matching import (
    Best,
    Certificate,
    Graph,
    Matcher,
    best_choice,
    grain,
    whole,
)
from elastico_opt.solvers.pattern.pairs import Pairing, pairs_only
from elastico_opt.solvers.pattern.pricing import Pricer

Edges = list[tuple[int, int, int]]


def graph_of(n: int, edges: Edges, loop: list[int], most: int) -> Graph:
    """Build a graph whose weights have the grain that exact answers need."""
    rows, bits = np.array(edges, dtype=np.int64).reshape(-1, 3), grain(n)
    return Graph(n, most, rows[:, 0], rows[:, 1], rows[:, 2] << bits, np.array(loop) << bits, bits)


def solved(graph: Graph, draw: random.Random) -> Best:
    """Solve from duals, mates and a price drawn at random: any start must do."""
    top = 1 << 10
    vertex = np.array([draw.randint(0, top) for _ in range(graph.n)])
    mate = np.array([draw.randint(-1, graph.n - 1) for _ in range(graph.n)])
    matcher = Matcher(graph, vertex, draw.randint(0, top), np.zeros(1, dtype=bool), mate)
    best = best_choice(matcher, draw.randint(0, top))
    assert best is not None
    ends = [*graph.one[best.edges], *graph.two[best.edges], *best.alone]
    assert len(ends) == len(set(ends))
    assert len(best.edges) + len(best.alone) <= graph.most
    return best


def random_edges(draw: random.Random, n: int) -> Edges:
    """Draw edges of small whole weights, so that ties, odd cycles and nested blossoms abound."""
    share, top = draw.choice([0.15, 0.4, 0.7, 1.0]), draw.choice([1, 2, 5, 40])
    return [
        (i, j, draw.randint(0, top)) for i in range(n) for j in range(i) if draw.random() < share
    ]


@pytest.mark.parametrize("seed", range(40))
def test_equals_networkx(seed: int) -> None:
    """Without a limit on edges the value is networkx's, and the certificate proves it."""
    draw = random.Random(seed)
    for _ in range(10):
        n = draw.randint(1, 24)
        edges = random_edges(draw, n)
        graph = graph_of(n, edges, [0] * n, most=n)
        best = solved(graph, draw)
        other = networkx.Graph()
        other.add_weighted_edges_from(edges)
        optimum = sum(other[i][j]["weight"] for i, j in networkx.max_weight_matching(other))
        assert best.value == optimum << graph.grain
        assert best.bound == 2 * best.value == best.certificate.bound(graph)


def by_enumeration(n: int, edges: Edges, loop: list[int], most: int) -> int:
    """Return the best value of at most `most` edges and loops, vertex by vertex."""
    weight = {(i, j): w for i, j, w in edges}

    @cache
    def best(free: int, left: int) -> int:
        if not free or not left:
            return 0
        v = free.bit_length() - 1
        rest = free & ~(1 << v)
        pairs = [
            weight[v, j] + best(rest & ~(1 << j), left - 1)
            for j in range(v)
            if rest >> j & 1 and (v, j) in weight
        ]
        return max([best(rest, left), loop[v] + best(rest, left - 1), *pairs])

    return best((1 << n) - 1, most)


@pytest.mark.parametrize("seed", range(40))
def test_limited_size_equals_enumeration(seed: int) -> None:
    """With loops and a limit on the size, value and bound are the enumerated optimum."""
    draw = random.Random(1000 + seed)
    for _ in range(10):
        n = draw.randint(1, 10)
        edges = random_edges(draw, n)
        top = max([1, *(w for _, _, w in edges)])
        loop = [draw.choice([0, draw.randint(0, top)]) for _ in range(n)]
        most = draw.randint(0, n)
        graph = graph_of(n, edges, loop, most)
        best = solved(graph, draw)
        assert best.value == by_enumeration(n, edges, loop, most) << graph.grain
        assert best.bound == 2 * best.value


@pytest.mark.parametrize("seed", range(20))
def test_damaged_duals_still_bound(seed: int) -> None:
    """The bound is weak duality, whatever the duals are: damage must only make it weaker."""
    draw = random.Random(2000 + seed)
    for _ in range(10):
        n = draw.randint(2, 9)
        edges = random_edges(draw, n)
        loop = [draw.randint(0, 3) for _ in range(n)]
        graph = graph_of(n, edges, loop, draw.randint(1, n))
        good = solved(graph, draw)
        vertex, nest, odd = (part.copy() for part in (
            good.certificate.vertex, good.certificate.nest, good.certificate.odd))  # fmt: skip
        vertex[draw.randrange(n)] += draw.randint(-40, 40) << graph.grain
        if len(odd):
            odd[draw.randrange(len(odd))] += draw.randint(-40, 40) << graph.grain
        if nest.size:
            nest[draw.randrange(n), draw.randrange(nest.shape[1])] = -1
        price = good.certificate.price + (draw.randint(-20, 20) << graph.grain)
        assert Certificate(price, vertex, nest, odd).bound(graph) >= 2 * good.value


def test_a_stopped_search_has_no_answer() -> None:
    """The stop flag ends the kernel before it is done, and nothing half done is returned."""
    graph = graph_of(3, [(0, 1, 1), (1, 2, 1)], [0, 0, 0], 2)
    matcher = Matcher(graph, np.zeros(3, dtype=np.int64), 0, np.ones(1, dtype=bool))
    assert best_choice(matcher, 0) is None


def test_values_are_rounded_up() -> None:
    """A scaled value is never below the value, however small or large the values are."""
    draw = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e9):
        values = draw.random(100) * scale
        weights, exponent = whole(values, scale, 12)
        assert (weights % 2**12 == 0).all()
        back = np.ldexp(weights.astype(float), -exponent)
        assert (back >= values).all()
        assert (back <= values + np.ldexp(1.0, 12 - exponent)).all()


def jobs_alike(copies: int) -> dict[str, dict[str, object]]:
    """Return jobs of three kinds, several of each, some pairs of which fit on a GPU."""
    kinds = {"a": (1.0, 4), "b": (1.2, 5), "c": (0.9, 6)}
    return {
        f"{kind}{i}": {"weight": weight, "gpu": {"memory": memory}}
        for kind, (weight, memory) in kinds.items()
        for i in range(copies)
    }


@pytest.mark.parametrize(("copies", "gpus"), [(1, 1), (2, 2), (3, 4), (3, 9)])
def test_classes_of_several_jobs(copies: int, gpus: int) -> None:
    """Jobs of a class are vertices of their own: value and bound are those of HiGHS."""
    found = snapshot({"n": gpus}, jobs_alike(copies))
    layout = Layout.build(compile_program(found))
    pricer, stage = Pricer(layout), Stage(0)
    assert layout.class_size.tolist() == [copies] * 3
    assert pairs_only(layout, pricer, stage)
    generation = Generation(layout, pricer, stage, Limits())
    generation.run(pricer.singletons(), lambda: None, rounds=1)
    pairing = Pairing(layout, pricer, stage, Limits())
    assert generation.duals is not None
    assert pairing.run(generation.master.patterns, generation.duals, lambda: True)
    optimum = solve(found, solver="highs").objective
    assert pairing.value == pytest.approx(optimum, abs=1e-9)
    assert pairing.bound == pytest.approx(optimum, abs=1e-9)
    assert pairing.bound >= optimum - 1e-12


_PAIRS = {
    "gangs": False, "host": False, "eligibility": False, "running": False, "tiers": False,
    "must_place": False, "max_nodes": 1, "max_residents": (2,),
}  # fmt: skip


@settings(max_examples=80)
@given(snapshots(max_jobs=5, **_PAIRS) | twins(max_jobs=2, max_devices=2, **_PAIRS))
def test_small_snapshots_by_matchings(found: Snapshot) -> None:
    """The solver leaves matchings to larger snapshots; on small ones brute force judges them."""
    with patch("elastico_opt.solvers.pattern.solver.MANY_JOBS", 0):
        result = solve(found, solver="pattern")
    best = brute_force(found)
    assert best.objective is not None
    assert result.status == "optimal"
    assert result.objective == pytest.approx(float(best.objective), abs=1e-9)


def test_not_a_matching() -> None:
    """Two kinds of devices, a third resident or several workers need the general way."""
    jobs = {"a": {"gpu": {"memory": 3}}, "b": {"gpu": {"memory": 3}},
            "c": {"gpu": {"memory": 3}}}  # fmt: skip
    three = {"A": {"capacity": {"memory": 10}, "max_residents": 3}}
    gang = {**jobs, "d": {"tasks": [{"count": 2, "gpu": {"memory": 3}}]}}
    for snap, expected in (
        (snapshot({"n": 1}, jobs), True),
        (snapshot({"n": 1}, jobs, types=three), False),
        (snapshot({"n": 1, "m": 1}, gang), False),
    ):
        layout = Layout.build(compile_program(snap))
        assert pairs_only(layout, Pricer(layout), Stage(0)) is expected
