"""Price bounds: whatever prices, whatever step, never below the optimum that brute force finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import Answer, brute_force
from hypothesis import assume, given, settings, strategies as st
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.errors import InputError
from elastico_opt.instances.generate import generate
from elastico_opt.program import Program, compile_program
from elastico_opt.solvers.lagrangian.aggregate_lp import solve_aggregate
from elastico_opt.solvers.lagrangian.loop import price_loop
from elastico_opt.solvers.lagrangian.problem import Problem
from elastico_opt.solvers.lagrangian.relaxation import BARRED, Relaxation
from elastico_opt.solvers.lagrangian.steps import Polyak, SquareRoot, StepRule, Volume

RULES: list[StepRule] = [Polyak(), Polyak(deflection=1.0), SquareRoot(), SquareRoot(5.0), Volume()]
ANY = st.one_of(
    snapshots(),
    snapshots(max_jobs=3, tiers=False),
    snapshots(gangs=False, host=False, running=False, max_devices=2, max_residents=(3, None)),
)


def tier_values(answer: Answer) -> list[float]:
    return [float(value) for value in answer.tiers.values()]


def holds(bound: float, value: float, scale: float) -> bool:
    """Within what certifying allows; the bound itself errs upwards."""
    return bound >= value - 1e-9 * max(1.0, scale)


def scale_of(relaxation: Relaxation) -> float:
    """The objective is computed from exact fractions, coefficients are rounded once each."""
    return float(np.abs(np.where(relaxation.value > BARRED, relaxation.value, 0)).sum())


@settings(max_examples=100)
@given(ANY, st.booleans(), st.integers(0, 2**32))
def test_random_prices_bound_every_tier_and_the_total(
    given: Snapshot, prune: bool, seed: int
) -> None:
    """Weak duality needs no good prices: of each tier alone, and of all tiers together."""
    answer = brute_force(given)
    assume(answer.status == "optimal")
    relaxation = Relaxation.build(compile_program(given), prune=prune)
    rng, rows, scale = np.random.default_rng(seed), len(relaxation.rows), scale_of(relaxation)
    shares = rng.random((8, rows)) * rng.choice([0.0, 0.01, 0.3, 1.0, 4.0], (8, rows)) * scale
    values = tier_values(answer)
    assert all(holds(b, sum(values), scale) for b in Problem.of(relaxation).bounds(shares))
    for tier, value in enumerate(values):
        bounds = Problem.of(relaxation, tier=tier).bounds(shares)
        assert all(holds(bound, value, scale) for bound in bounds)


@settings(max_examples=80)
@given(ANY, st.sampled_from(RULES), st.integers(0, 2**32), st.booleans())
def test_every_step_rule_gives_bounds_that_never_rise(
    given: Snapshot, rule: StepRule, seed: int, follow: bool
) -> None:
    """All iterates, with random Γ steering the choice: the best bound holds and is monotone."""
    answer = brute_force(given)
    assume(answer.status == "optimal")
    relaxation = Relaxation.build(compile_program(given))
    rng, scale = np.random.default_rng(seed), scale_of(relaxation)
    gamma = rng.random(relaxation.value.shape) * rng.choice([0.0, 1.0, 100.0])
    value = sum(tier_values(answer))
    for score in ("eq6", "eq7", "eq7-weighted"):
        problem = Problem.of(relaxation, score, gamma)
        found = price_loop(problem, rule, iterations=30, tolerance=0, follow=follow)
        assert found.history.shape == (30, 1)
        assert (np.diff(found.history, axis=0) <= 0).all()
        assert all(holds(bound, value, scale) for bound in found.history[:, 0])
        assert holds(found.bound[0], value, scale)
        assert found.bound == pytest.approx(found.history[-1], rel=1e-9, abs=1e-9 * scale)


@settings(max_examples=100)
@given(ANY)
def test_gamma_and_score_never_touch_the_bound(given: Snapshot) -> None:
    """Without `follow` the three scores see the same prices; with any prices, the same bounds."""
    relaxation = Relaxation.build(compile_program(given))
    gamma = np.full(relaxation.value.shape, 3.0)
    runs = [
        price_loop(Problem.of(relaxation, score, gamma), iterations=20)
        for score in ("eq6", "eq7", "eq7-weighted")
    ]
    for run in runs[1:]:
        assert run.bound == runs[0].bound
        assert (run.shares == runs[0].shares).all()


@settings(max_examples=100)
@given(ANY)
def test_the_loop_meets_the_linear_relaxation(given: Snapshot) -> None:
    """Weak duality: never below it. Integrality property: it gets there."""
    relaxation = Relaxation.build(compile_program(given), prune=False)
    solved = solve_aggregate(relaxation)
    problem = Problem.of(relaxation)
    found = price_loop(problem, iterations=400, tolerance=0)
    if solved is None:
        return
    scale = scale_of(relaxation)
    assert found.bound[0] >= solved.value - 1e-7 * max(1.0, scale)
    assert found.bound[0] <= solved.value + 2e-2 * max(1e-9, scale)
    assert solved.bound == pytest.approx(solved.value, abs=1e-6 * max(1.0, scale))


@pytest.mark.parametrize("family", ["lucidlike", "identical", "triples", "gangs", "mixed"])
def test_default_steps_converge_on_clusters(family: str) -> None:
    """Two hundred jobs: a tenth of a per cent within 150 steps, and duals of the same worth."""
    relaxation = Relaxation.build(compile_program(generate(family, 200, 64, seed=1)))
    solved = solve_aggregate(relaxation)
    assert solved is not None
    found = price_loop(Problem.of(relaxation))
    assert solved.value - 1e-7 <= found.bound[0] <= solved.value * 1.001
    assert found.iterations <= 150
    warm = price_loop(Problem.of(relaxation), iterations=30, start=1.05 * solved.shares)
    assert warm.bound[0] <= solved.value * 1.005


@settings(max_examples=80)
@given(ANY)
def test_pruning_dominated_options_keeps_the_value(given: Snapshot) -> None:
    """Another option in its place is worth no less and takes no more of anything."""
    program = compile_program(given)
    pruned, full = Relaxation.build(program), Relaxation.build(program, prune=False)
    assert pruned.value.shape[1] <= full.value.shape[1]
    assert pruned.rows == full.rows
    rng = np.random.default_rng(1)
    shares = rng.random((5, len(full.rows))) * scale_of(full)
    mine, theirs = Problem.of(pruned).bounds(shares), Problem.of(full).bounds(shares)
    assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-9)


# ---- what the relaxation is made of ------------------------------------------------------------


def relaxed(**given: Any) -> tuple[Program, Relaxation]:
    program = compile_program(snapshot(**given))
    return program, Relaxation.build(program, prune=False)


def best(relaxation: Relaxation, **more: Any) -> float:
    found = price_loop(Problem.of(relaxation, **more), iterations=300, tolerance=0)
    return float(found.bound[0])


def test_an_exclusive_worker_takes_the_whole_device() -> None:
    """Two exclusive jobs on one GPU: one's worth, though each asks for little memory."""
    jobs = {name: {"gpu": {"memory": 1}, "exclusive": True} for name in "ab"}
    _, relaxation = relaxed(nodes={"n": 1}, jobs=jobs)
    assert best(relaxation) == pytest.approx(1.0, abs=1e-3)
    usage = {row.resource: relaxation.usage[0, 1, m] for m, row in enumerate(relaxation.rows)}
    assert usage == {"memory": 10.0, "residents": 2.0}


def test_unlimited_residents_have_no_row() -> None:
    """Only memory limits them then."""
    types = {"A": {"capacity": {"memory": 10}}}
    jobs = {f"j{i}": {"gpu": {"memory": 4}} for i in range(4)}
    _, relaxation = relaxed(nodes={"n": 1}, jobs=jobs, types=types)
    assert [row.resource for row in (*relaxation.rows, *relaxation.idle)] == ["memory"]
    assert best(relaxation) == pytest.approx(2.0, abs=1e-3)  # whole quanta: two fit


def test_a_cordoned_node_counts_only_the_homes_on_it() -> None:
    """Its other GPU is of no use to anyone."""
    nodes = {"n": {"gpus": 2, "schedulable": False}, "m": 1}
    running = {"profile": "p", "tasks": [{"node": "n", "gpus": [0]}]}
    jobs = {f"j{i}": {"gpu": {"memory": 10}} for i in range(4)}
    jobs["j0"]["current"] = running
    _, relaxation = relaxed(nodes=nodes, jobs=jobs)
    memory = [row.resource for row in relaxation.rows].index("memory")
    assert relaxation.capacity[memory] == 2.0  # in quanta of a whole GPU


def test_change_costs_count_only_where_they_cannot_be_avoided() -> None:
    """The profile the job has may stay for nothing; a wider one must move, and any other switches.

    Staying out is worth the eviction's cost, with a minus.
    """
    profiles = [
        {"name": "one", "throughput": 4, "gpus": 1},
        {"name": "alike", "throughput": 4, "gpus": 1},
        {"name": "two", "throughput": 4, "gpus": 2},
    ]
    running = {"profile": "one", "tasks": [{"node": "n", "gpus": [0]}]}
    jobs = {"j": {"profiles": profiles, "current": running, "weight": 2}}
    policy = {"switch_cost": 0.1, "migration_cost": 0.25, "eviction_cost": 0.5}
    _, relaxation = relaxed(nodes={"n": 2}, jobs=jobs, policy=policy)
    assert relaxation.value[0] == pytest.approx([-1.0, 2.0, 1.8, 1.3])


def test_a_job_that_must_be_placed_cannot_stay_out() -> None:
    """It takes the place of a worthier job, in its own tier's bound and in the other's."""
    jobs: dict[str, Any] = {
        "must": {"gpu": {"memory": 10}, "weight": 1, "must_place": True, "priority": 0},
        "high": {"gpu": {"memory": 10}, "weight": 5, "priority": 1},
    }
    _, relaxation = relaxed(nodes={"n": 1}, jobs=jobs)
    assert relaxation.value[0, 0] == BARRED
    assert best(relaxation) == pytest.approx(1.0, abs=1e-2)
    assert best(relaxation, tier=0) == pytest.approx(0.0, abs=1e-2)  # the higher priority
    assert best(relaxation, tier=1) == pytest.approx(1.0, abs=1e-2)


def test_options_that_fit_nowhere_are_left_out() -> None:
    """Too much memory for any GPU, too many GPUs for any node, more cores than any node has."""
    jobs = {
        "fits": {"gpu": {"memory": 1}},
        "memory": {"gpu": {"memory": 11}},
        "gpus": {"gpus": 3},
        "cores": {"host": {"cpu": 9}},
    }
    nodes = {"n": {"gpus": 2, "host": {"cpu": 8}}, "m": {"gpus": 2, "host": {"cpu": 8}}}
    program, relaxation = relaxed(nodes=nodes, jobs=jobs)
    assert sorted(relaxation.option[relaxation.option >= 0].tolist()) == [0]
    assert program.n_options == 4


def test_capacities_beyond_64_bits_are_summed_exactly() -> None:
    """Eight devices of 2^61 quanta: the sum does not wrap around."""
    types = {"A": {"capacity": {"memory": 2**61}}}
    jobs = {f"j{i}": {"gpu": {"memory": 1 + i}} for i in range(2)}
    _, relaxation = relaxed(nodes={"n": 8}, jobs=jobs, types=types)
    assert not relaxation.rows  # never short
    assert best(relaxation) == pytest.approx(2.0)


def test_prices_that_bound_nothing_are_refused() -> None:
    """A negative price, or NaN, would make a wrong bound."""
    jobs = {f"j{i}": {"gpu": {"memory": 10}} for i in range(2)}
    _, relaxation = relaxed(nodes={"n": 1}, jobs=jobs)
    problem = Problem.of(relaxation)
    for wrong in (-1e-9, np.nan, np.inf):
        with pytest.raises(InputError, match="prices"):
            problem.bounds(np.full(problem.n_rows, wrong))
        with pytest.raises(InputError, match="prices"):
            price_loop(problem, start=np.full(problem.n_rows, wrong))
