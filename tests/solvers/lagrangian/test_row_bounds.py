"""The row loop: bounds of the pattern form without its linear program, and near it."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from hypothesis import assume, given, settings, strategies as st
from small import snapshot
from strategies import snapshots, twins

from elastico_opt import Snapshot
from elastico_opt.formulations.columns import empty_patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.lagrangian.loop import price_loop
from elastico_opt.solvers.lagrangian.problem import Problem
from elastico_opt.solvers.lagrangian.relaxation import Relaxation
from elastico_opt.solvers.lagrangian.rows import RowBound, row_price_bound
from elastico_opt.solvers.pattern.generation import Generation
from elastico_opt.solvers.pattern.master import Stage
from elastico_opt.solvers.pattern.pricing import Duals, Pricer

ANY = st.one_of(snapshots(), snapshots(max_jobs=3, tiers=False), twins())


def check(given: Snapshot, found: RowBound, layout: Layout) -> None:
    """No bound of the log, and no bound that is returned, lies below the optimum of its tier."""
    answer = brute_force(given)
    assume(answer.status == "optimal")
    shift = int(layout.n_must > 0)
    for tier, value in enumerate(map(float, answer.tiers.values())):
        margin = 1e-7 * max(1.0, float(np.abs(layout.items.value).max(initial=0.0)), abs(value))
        rounds = [r for r in found.log if r.stage == tier + shift]
        bests = [r.best for r in rounds]
        assert bests == sorted(bests, reverse=True)
        assert all(r.bound + float(layout.offset[tier]) >= value - margin for r in rounds)
        bound = found.tiers[tier]
        assert bound is not None
        assert bound >= value - margin


@settings(max_examples=80)
@given(ANY, st.sampled_from([0, 1, 2, 10]), st.booleans(), st.sampled_from([1, 2]))
def test_every_look_bounds_the_tier(
    given: Snapshot, sample: int, split: bool, threads: int
) -> None:
    """From samples of no, few and all classes; nodes aggregated or not."""
    program = compile_program(given)
    layout = Layout.build(program, range(program.n_nodes) if split else ())
    found = row_price_bound(layout, Limits(threads=threads), rounds=4, sample=sample)
    check(given, found, layout)


@settings(max_examples=60)
@given(ANY, st.integers(0, 2**32))
def test_any_start_gives_a_bound(given: Snapshot, seed: int) -> None:
    """Random duals of the right sign, improved by sharing and balancing: valid at each step."""
    layout = Layout.build(compile_program(given))
    rng = np.random.default_rng(seed)
    scale = float(np.abs(layout.items.value).max(initial=1.0))
    start = []
    for tier in range(len(layout.offset)):
        weight = np.zeros(layout.n_stages)
        weight[tier + int(layout.n_must > 0)] = 1.0
        row = rng.random(layout.n_rows) * rng.choice([0.0, 0.1, 1.0], layout.n_rows) * scale
        start.append(Duals(row, weight))
    check(given, row_price_bound(layout, rounds=4, start=tuple(start)), layout)


def test_patterns_at_home_count() -> None:
    """A job that may not move is worth something only at its home, which no pool's look sees."""
    running = {"profile": "p", "tasks": [{"node": "n", "gpus": [0]}]}
    jobs = {
        "stays": {"current": running, "movable": False, "weight": 3},
        "new": {"exclusive": True},
    }
    layout = Layout.build(compile_program(snapshot({"n": 2}, jobs)))
    nothing = Duals(np.zeros(layout.n_rows), np.ones(layout.n_stages))
    found = row_price_bound(layout, rounds=5, start=(nothing,))
    assert found.log[0].bound >= 4.0
    assert found.tiers[0] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("family", "near"), [("lucidlike", 1.01), ("identical", 1.01), ("gangs", 1.03), ("mixed", 1.12)]
)
def test_the_bound_is_near_the_linear_program(family: str, near: float) -> None:
    """From a sample of a quarter of the classes. With few pools, tighter than the price bound."""
    program = compile_program(generate(family, 160, 48, seed=1))
    layout = Layout.build(program)
    pricer = Pricer(layout)
    found = row_price_bound(layout, rounds=5, sample=40, pricer=pricer)
    relaxation = Relaxation.build(program)
    for tier, bound in enumerate(found.tiers):
        exact = Generation(layout, pricer, Stage(tier + int(layout.n_must > 0)), Limits())
        exact.run(empty_patterns(), lambda: None)
        lp = exact.bound + float(layout.offset[tier])
        assert bound is not None
        assert lp - 1e-6 * abs(lp) <= bound <= lp * near
        if family != "mixed":
            assert bound < price_loop(Problem.of(relaxation, tier=tier)).bound[0]


def test_a_deadline_gives_what_there_is() -> None:
    """No time: no bound, and no wrong one. Known duals: the first look is all it takes."""
    layout = Layout.build(compile_program(generate("lucidlike", 100, 32, seed=1)))
    none = row_price_bound(layout, Limits(deadline=0.0))
    assert none.tiers == (None,)
    full = row_price_bound(layout)
    again = row_price_bound(layout, rounds=1, start=full.duals)
    assert again.tiers[0] is not None
    assert full.tiers[0] is not None
    assert again.tiers[0] <= full.tiers[0] * (1 + 1e-9)


def test_threads_and_seeds_do_not_change_what_is_found() -> None:
    """Two threads share a look of a thousand items and more; the duals are the same."""
    layout = Layout.build(compile_program(generate("lucidlike", 300, 100, seed=1)))
    one = row_price_bound(layout, Limits(), rounds=2, sample=60)
    two = row_price_bound(layout, Limits(threads=2), rounds=2, sample=60)
    assert one.tiers == pytest.approx(two.tiers, rel=1e-12)
