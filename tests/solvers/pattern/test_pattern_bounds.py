"""Bounds: whatever duals, whatever round, whatever cut, never below a known optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import Answer, brute_force
from hypothesis import assume, given, settings, strategies as st
from random_plans import random_plan
from scipy import sparse
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.formulations.columns import (
    Patterns,
    empty_patterns,
    pattern_matrix,
    static_matrix,
)
from elastico_opt.formulations.enumeration import all_patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern import generation as generation_module
from elastico_opt.solvers.pattern.blossom import cut_row, odd_sets
from elastico_opt.solvers.pattern.encode import Encoder
from elastico_opt.solvers.pattern.generation import Generation
from elastico_opt.solvers.pattern.integer import matrix_form
from elastico_opt.solvers.pattern.master import Master, Stage, lagrangian_bound
from elastico_opt.solvers.pattern.pricing import Duals, Pricer
from elastico_opt.solvers.pattern.tighten import Tightening

LIMITS = Limits()
FAMILIES = [
    snapshots(),
    snapshots(max_jobs=3, tiers=False),  # running gangs
    snapshots(gangs=False, host=False, running=False, max_devices=2, max_residents=(3, None)),
]
ANY = st.one_of(FAMILIES)


def split(draw: st.DataObject, given: Snapshot) -> Layout:
    program = compile_program(given)
    nodes = range(program.n_nodes) if draw.draw(st.booleans(), label="split") else ()
    return Layout.build(program, nodes)


def stage_values(layout: Layout, answer: Answer) -> list[float]:
    """The lexicographic optimum, per stage of the layout."""
    tiers = [float(value) for value in answer.tiers.values()]
    values = [value - float(layout.offset[t]) for t, value in enumerate(tiers)]
    return [float(layout.n_must), *values] if layout.n_must else values


def holds(bound: float, value: float, scale: float) -> bool:
    return bound >= value - 1e-7 * max(1.0, abs(scale))


# ---- Lagrangian bounds -----------------------------------------------------------------------


@settings(max_examples=150)
@given(ANY, st.data(), st.integers(0, 2**32))
def test_any_duals_give_a_bound(given: Snapshot, draw: st.DataObject, seed: int) -> None:
    """Weak duality needs no optimal duals: random ones of the right sign bound every stage."""
    answer = brute_force(given)
    assume(answer.status == "optimal")
    layout = split(draw, given)
    pricer = Pricer(layout)
    values = stage_values(layout, answer)
    scale = max(1.0, *map(abs, values), float(np.abs(layout.items.value).max(initial=0.0)))
    rng = np.random.default_rng(seed)
    for index, value in enumerate(values):
        row = rng.random(layout.n_rows) * rng.choice([0.0, 0.1, 1.0, 3.0], layout.n_rows) * scale
        weight = np.zeros(layout.n_stages)
        weight[:index] = rng.random(index) * rng.choice([0.0, 1.0, 10.0])
        weight[index] = 1.0
        duals, stage = Duals(row, weight), Stage(index, tuple(values[:index]))
        budget = int(rng.choice([1, 5, 10**6]))
        priced = pricer.price(duals, LIMITS, 4, seed, budget=budget)
        assert priced is not None
        assert holds(lagrangian_bound(layout, stage, duals, priced.excess), value, scale)


@settings(max_examples=120)
@given(ANY, st.data())
def test_every_round_of_the_generation_gives_a_bound(given: Snapshot, draw: st.DataObject) -> None:
    """Recorded as they are computed, with the floors that earlier stages must keep."""
    answer = brute_force(given)
    assume(answer.status == "optimal")
    layout = split(draw, given)
    values = stage_values(layout, answer)
    for index, value in enumerate(values):
        bounds, ran = recorded(layout, Stage(index, tuple(values[:index])))
        assert len(bounds) >= 1
        assert all(holds(bound, value, answer_scale(answer)) for bound in bounds)
        assert ran.bound == min(bounds)


def answer_scale(answer: Answer) -> float:
    return max(map(abs, map(float, answer.tiers.values())), default=1.0)


def recorded(layout: Layout, stage: Stage) -> tuple[list[float], Generation]:
    bounds: list[float] = []

    def record(*args: Any) -> float:
        bounds.append(lagrangian_bound(*args))
        return bounds[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation_module, "lagrangian_bound", record)
        ran = Generation(layout, Pricer(layout), stage, LIMITS)
        ran.run(empty_patterns(), lambda: None)
    return bounds, ran


def test_a_pricing_round_cut_short_never_bounds_below_the_optimum() -> None:
    """Thirty jobs, three on a GPU, and a handful of nodes of the search tree: weak, but valid."""
    given = generate("triples", 30, 8)
    layout = Layout.build(compile_program(given))
    _, full = recorded(layout, Stage(0))
    assert full.converged
    assert full.duals is not None
    for budget in (1, 3, 10, 100, 1000, 10_000):
        priced = Pricer(layout).price(full.duals, LIMITS, 4, 0, budget=budget)
        assert priced is not None
        bound = lagrangian_bound(layout, Stage(0), full.duals, priced.excess)
        assert bound >= full.bound - 1e-9 * abs(full.bound)
        if not priced.complete:
            assert bound > full.bound


@settings(max_examples=80)
@given(ANY, st.data())
def test_a_converged_master_is_the_lp_over_all_patterns(
    given: Snapshot, draw: st.DataObject
) -> None:
    """Bound and LP value meet, and no pattern left out could raise the LP."""
    layout = split(draw, given)
    _, ran = recorded(layout, Stage(0))
    if not ran.converged:
        return
    every = Master(layout, Stage(0), LIMITS)
    every.add(all_patterns(layout))
    solved = every.solve(LIMITS)
    assert solved is not None
    assert ran.bound == pytest.approx(solved[0], rel=1e-6, abs=1e-6)


# ---- reduced-cost enumeration ----------------------------------------------------------------


@settings(max_examples=150)
@given(ANY, st.data(), st.sampled_from([0.0, 0.01, 0.3, 2.0]))
def test_enumeration_lists_all_patterns_that_a_better_plan_can_use(
    given: Snapshot, draw: st.DataObject, slack: float
) -> None:
    """A plan worth more than ``bound - slack`` has a listed substitute for each of its patterns.

    The substitute has the same coefficients in every row and is worth no less: the integer
    program over the list reaches the plan's value.
    """
    layout = split(draw, given)
    _, ran = recorded(layout, Stage(0))
    listed = ran.columns(slack, 10**6)
    if listed is None:
        return
    plan = random_plan(layout.program, 0)
    chosen = Encoder(layout).selection(plan)
    form = matrix_form(layout, chosen.patterns)
    point = np.concatenate([chosen.static, chosen.counts]).astype(float)
    if form.value(0, point) <= ran.bound - slack:
        return
    have = matrix_form(layout, listed)
    n = len(layout.static)
    rows, worth = have.rows.toarray()[:, n:], have.objectives[0, n:]
    for mine, value in zip(form.rows.toarray()[:, n:].T, form.objectives[0, n:], strict=True):
        # a plan's row need not be met exactly: a substitute may also use less
        fits = (rows <= mine[:, None] + 1e-9).all(axis=0)
        assert worth[fits].max(initial=-np.inf) >= value - 1e-9 * max(1.0, abs(value))


# ---- cuts ------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(ANY, st.data())
def test_the_bound_after_cuts_holds(given: Snapshot, draw: st.DataObject) -> None:
    """Cuts tighten the LP over all patterns, never below the integer optimum."""
    answer = brute_force(given)
    assume(answer.status == "optimal")
    layout = split(draw, given)
    values = stage_values(layout, answer)
    for index, value in enumerate(values):
        master = Master(layout, Stage(index, tuple(v - 1e-9 for v in values[:index])), LIMITS)
        master.add(all_patterns(layout))
        relaxed = master.relaxation(LIMITS)
        tightening = Tightening(layout, master, LIMITS)
        while not tightening.exhausted:
            tightening.cut()
        assert holds(tightening.bound, value, answer_scale(answer))
        if relaxed is not None:
            assert tightening.bound <= relaxed[0] + 1e-6 * max(1.0, abs(relaxed[0]))


def cut_rows(layout: Layout, patterns: Patterns) -> tuple[sparse.csc_matrix, Any]:
    """The rows that odd-set cuts are made of, over static columns and patterns."""
    matrix = sparse.hstack([static_matrix(layout), pattern_matrix(layout, patterns)], format="csc")
    sites = np.arange(layout.first_site_row, layout.first_host_row)
    rows = np.concatenate([np.arange(layout.n_classes), sites])
    return matrix[rows], layout.row_upper[rows]


@settings(max_examples=100)
@given(ANY, st.data(), st.integers(0, 2**32))
def test_no_plan_violates_an_odd_set_cut(given: Snapshot, draw: st.DataObject, seed: int) -> None:
    """Of any set of rows, not only of violated ones: the rounding argument holds for all."""
    layout = split(draw, given)
    rng = np.random.default_rng(seed)
    for number in range(3):
        plan = random_plan(layout.program, seed + number)
        chosen = Encoder(layout).selection(plan)
        rows, upper = cut_rows(layout, chosen.patterns)
        point = np.concatenate([chosen.static, chosen.counts])
        for _ in range(10):
            members = tuple(np.flatnonzero(rng.random(len(upper)) < rng.random()).tolist())
            room = np.floor(upper[list(members)].sum() / 2)
            assert cut_row(rows, members) @ point <= room + 1e-9


@settings(max_examples=100)
@given(st.integers(3, 9), st.integers(0, 2**32))
def test_cuts_found_at_random_points_are_violated_there_and_by_no_integer_point(
    jobs: int, seed: int
) -> None:
    """Single GPUs, two residents: found cuts cut the point off, matchings satisfy them."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(jobs) for b in range(a)]
    matrix = np.zeros((jobs, len(pairs)))
    for e, (a, b) in enumerate(pairs):
        matrix[[a, b], e] = 1.0
    rows, upper = sparse.csc_matrix(matrix), np.ones(jobs)
    cycle = rng.permutation(jobs)
    point = np.zeros(len(pairs))
    for a, b in zip(
        cycle, np.roll(cycle, 1), strict=True
    ):  # an odd cycle of halves, if jobs is odd
        point[pairs.index((max(a, b), min(a, b)))] = 0.5
    found = odd_sets(rows, upper, point)
    assert bool(found) == (jobs % 2 == 1)
    for members in found:
        cut, room = cut_row(rows, members), np.floor(upper[list(members)].sum() / 2)
        assert cut @ point > room + 1e-6
        for _ in range(20):
            order = rng.permutation(jobs)
            matching = np.zeros(len(pairs))
            for a, b in zip(order[::2], order[1::2], strict=False):
                matching[pairs.index((max(a, b), min(a, b)))] = 1.0
            assert cut @ matching <= room


def test_cuts_close_the_half_integral_triangle() -> None:
    """Three jobs that pair well, two GPUs: three half pairs in the LP, one pair in truth."""
    jobs = {
        name: {"gpu": {"memory": 5}, "weight": 1 + i / 100, "workload": name}
        for i, name in enumerate("abc")
    }
    table = [{"a": a, "b": b, "slowdown": [1, 1]} for a, b in ("ab", "bc", "ac")]
    given = snapshot({"n": 2}, jobs, interference={"table": table, "default": None})
    layout = Layout.build(compile_program(given))
    every = all_patterns(layout)
    pairs = every.select(np.flatnonzero((every.items >= 0).sum(axis=1) == 2))
    master = Master(layout, Stage(0), LIMITS)
    master.add(pairs)
    relaxed = master.relaxation(LIMITS)
    tightening = Tightening(layout, master, LIMITS)
    tightening.cut()
    assert relaxed is not None
    assert relaxed[0] == pytest.approx(1 + 1.01 + 1.02)
    assert tightening.bound == pytest.approx(1.01 + 1.02)
