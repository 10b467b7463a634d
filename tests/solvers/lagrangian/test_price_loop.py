"""The loop as array code: batches, libraries, warm starts; and prices in the user's units."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.errors import InputError
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.lagrangian.aggregate_lp import solve_aggregate
from elastico_opt.solvers.lagrangian.loop import choices_at, price_loop, used
from elastico_opt.solvers.lagrangian.prices import reported_prices, start_prices, tidied
from elastico_opt.solvers.lagrangian.problem import Problem, stack
from elastico_opt.solvers.lagrangian.relaxation import Relaxation
from elastico_opt.solvers.lagrangian.steps import Polyak, SquareRoot, StepRule, Volume

RULES: list[StepRule] = [Polyak(), SquareRoot(), Volume()]


def clusters() -> list[Relaxation]:
    """Three instances of unlike sizes, choices and rows."""
    drawn = [("mixed", 40, 16), ("gangs", 30, 12), ("lucidlike", 50, 16)]
    return [
        Relaxation.build(compile_program(generate(family, jobs, gpus, seed=seed)))
        for seed, (family, jobs, gpus) in enumerate(drawn)
    ]


# ---- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_of_instances_is_its_parts(rule: StepRule) -> None:
    """Padding changes nothing: each instance goes the way it goes alone."""
    parts = [Problem.of(relaxation) for relaxation in clusters()]
    together = price_loop(stack(parts), rule, iterations=80, tolerance=0)
    for b, part in enumerate(parts):
        alone = price_loop(part, rule, iterations=80, tolerance=0)
        rows, (jobs, choices) = part.n_rows, part.shape
        assert together.bound[b] == pytest.approx(alone.bound[0], rel=1e-9)
        assert together.shares[b, :rows] == pytest.approx(alone.shares[0], rel=1e-6, abs=1e-9)
        assert (together.shares[b, rows:] == 0).all()
        assert together.history[:, b] == pytest.approx(alone.history[:, 0], rel=1e-9)
        assert together.average[b, :jobs, :choices] == pytest.approx(alone.average[0])


def test_a_batch_of_one_is_a_single_run() -> None:
    """To the last bit."""
    part = Problem.of(clusters()[0])
    one, same = price_loop(part), price_loop(stack([part]))
    assert (one.bound == same.bound).all()
    assert (one.shares == same.shares).all()
    assert (one.choice == same.choice).all()


def test_a_batch_of_settings_shares_one_instance() -> None:
    """A study of η0, of targets and of starts: each as if run alone."""
    part = Problem.of(clusters()[0])
    first = np.array([0.01, 0.1, 1.0])
    together = price_loop(part, SquareRoot(first), iterations=60, tolerance=0)
    for b, eta0 in enumerate(first):
        alone = price_loop(part, SquareRoot(float(eta0)), iterations=60, tolerance=0)
        assert together.bound[b] == pytest.approx(alone.bound[0], rel=1e-9)
    starts = np.random.default_rng(0).random((4, part.n_rows))
    found = price_loop(part, Polyak(distance=np.full(4, 0.1)), start=starts)
    assert found.bound.shape == (4,)
    with pytest.raises(InputError, match="batch"):
        price_loop(part, SquareRoot(first), start=starts)


def test_a_batch_of_scores_and_gammas() -> None:
    """The same prices for all; choices differ by score, and a high Γ keeps jobs off a choice."""
    relaxation = clusters()[0]
    gamma = np.zeros(relaxation.value.shape)
    gamma[:, 1] = 50.0
    scored = [Problem.of(relaxation, "eq6"), Problem.of(relaxation, "eq7-weighted", gamma)]
    found = price_loop(stack(scored), iterations=50)
    assert found.bound[0] == found.bound[1]
    assert (found.choice[0] == 1).any()
    assert not (found.choice[1] == 1)[relaxation.value[:, 0] > -1e9].any()


# ---- libraries ---------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("rule", RULES)
def test_torch_and_numpy_agree(rule: StepRule) -> None:
    """The same operations, so the same prices but for the last digits."""
    pytest.importorskip("torch")
    problem = stack([Problem.of(relaxation) for relaxation in clusters()])
    one = price_loop(problem, rule, iterations=60, tolerance=0)
    other = price_loop(problem, rule, iterations=60, tolerance=0, arrays="torch")
    assert other.bound == pytest.approx(one.bound, rel=1e-9)
    assert other.shares == pytest.approx(one.shares, rel=1e-6, abs=1e-7)
    assert other.average == pytest.approx(one.average, abs=1e-6)


@pytest.mark.torch
@settings(max_examples=40)
@given(snapshots(), st.integers(0, 2**32))
def test_torch_and_numpy_agree_in_one_pass(given: Snapshot, seed: int) -> None:
    """On any feature, from the same random prices: the same value and choice."""
    pytest.importorskip("torch")
    relaxation = Relaxation.build(compile_program(given))
    problem = Problem.of(relaxation, "eq7-weighted", np.ones(relaxation.value.shape))
    start = np.random.default_rng(seed).random(problem.n_rows)
    one = price_loop(problem, iterations=1, start=start)
    other = price_loop(problem, iterations=1, start=start, arrays="torch:cpu")
    assert other.history == pytest.approx(one.history, rel=1e-12, abs=1e-12)
    assert (other.average == one.average).all()
    assert (other.bound == one.bound).all()


def test_torch_is_not_imported_unless_chosen() -> None:
    """It takes seconds to import."""
    code = (
        "import sys, elastico_opt, elastico_opt.solvers.lagrangian.loop as loop; "
        "import elastico_opt.solvers.lagrangian.aggregate_lp; "
        "loop.array_library('numpy'); print('torch' in sys.modules, 'highspy' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "False"]


def test_an_unknown_library_is_named() -> None:
    """The message says what to choose."""
    with pytest.raises(InputError, match="numpy, torch"):
        price_loop(Problem.of(clusters()[1]), arrays="cupy")


# ---- runs --------------------------------------------------------------------------------------


def test_the_same_call_gives_the_same_prices() -> None:
    """Nothing is drawn at random."""
    problem = Problem.of(clusters()[0])
    one, other = price_loop(problem), price_loop(problem)
    assert (one.shares == other.shares).all()
    assert (one.bound == other.bound).all()


def test_a_warm_start_needs_few_iterations() -> None:
    """From the prices of nearly the same instance: as good within 30 as cold within 150."""
    given = generate("mixed", 200, 64, seed=3)
    fewer = given.model_copy(update={"jobs": given.jobs[:190]})
    before = Relaxation.build(compile_program(fewer))
    now = Relaxation.build(compile_program(given))
    known = reported_prices(before, price_loop(Problem.of(before)).shares[0])
    warm = price_loop(Problem.of(now), start=start_prices(now, known), iterations=30)
    cold = price_loop(Problem.of(now))
    assert warm.bound[0] <= cold.bound[0] * 1.003
    assert warm.history[0, 0] <= cold.bound[0] * 1.1


def test_the_averaged_choice_nearly_fits() -> None:
    """Each job's fractions sum to 1, and all rows are kept but for a small share."""
    relaxation = clusters()[0]
    problem = Problem.of(relaxation)
    found = price_loop(problem, iterations=300, tolerance=0)
    assert found.average.sum(axis=2) == pytest.approx(1.0)
    assert found.left == pytest.approx(1.0 - used(problem, found.average))
    assert found.left.min() >= -0.05
    assert (choices_at(problem, found.shares) == found.choice).all()


def test_a_deadline_ends_the_loop() -> None:
    """After one iteration there is a bound, however late it is."""
    problem = Problem.of(clusters()[0])
    assert price_loop(problem, limits=Limits(deadline=0.0)).iterations == 1


def test_nothing_to_decide() -> None:
    """No jobs, no rows: the bound is what there is."""
    empty = Relaxation.build(compile_program(snapshot({"n": 1}, {})))
    assert price_loop(Problem.of(empty)).bound[0] == pytest.approx(0.0)
    alone = Relaxation.build(compile_program(snapshot({"n": 1}, {"j": {"weight": 3}})))
    assert price_loop(Problem.of(alone)).bound[0] == pytest.approx(3.0)


# ---- reported prices ---------------------------------------------------------------------------


@settings(max_examples=60)
@given(snapshots())
def test_prices_are_not_negative_and_zero_where_never_short(given: Snapshot) -> None:
    """One price per pool and resource; the bound they prove is that of the rows' prices."""
    relaxation = Relaxation.build(compile_program(given))
    problem = Problem.of(relaxation)
    shares = tidied(problem, price_loop(problem, iterations=60).shares[0])
    prices = reported_prices(relaxation, shares)
    assert len(prices) == len(relaxation.rows) + len(relaxation.idle)
    assert len({(p.pool, p.resource) for p in prices}) == len(prices)
    assert all(p.price >= 0 for p in prices)
    idle = {(row.pool, row.resource) for row in relaxation.idle}
    assert all(p.price == 0 for p in prices if (p.pool, p.resource) in idle)
    assert start_prices(relaxation, prices) == pytest.approx(shares, rel=1e-9, abs=1e-12)


def test_tidying_never_raises_the_bound() -> None:
    """Small prices go only where the bound without them is no higher."""
    for relaxation in clusters():
        problem = Problem.of(relaxation)
        found = price_loop(problem, iterations=40)
        tidy = tidied(problem, found.shares[0])
        assert problem.bounds(tidy)[0] <= found.bound[0]


def test_a_price_is_per_unit_of_the_snapshot() -> None:
    """Two of three equal jobs fit: a GiB is worth a job's reward over its GiB, a core nothing."""
    types = {"A": {"capacity": {"memory": "80Gi"}}}
    jobs = {f"j{i}": {"gpu": {"memory": "40Gi"}, "host": {"cpu": 2}, "weight": 3} for i in range(3)}
    nodes = {"n": {"gpus": 1, "host": {"cpu": 64}}}
    relaxation = Relaxation.build(compile_program(snapshot(nodes, jobs, types=types)))
    found = price_loop(Problem.of(relaxation), iterations=300, tolerance=0)
    prices = {p.resource: p for p in reported_prices(relaxation, found.shares[0])}
    assert prices["memory"].unit == "1 GiB"
    assert prices["memory"].pool == "A"
    assert prices["memory"].price == pytest.approx(3 / 40, rel=1e-2)
    assert (prices["cpu"].price, prices["cpu"].unit) == (0.0, "1")


@pytest.mark.parametrize("family", ["lucidlike", "identical", "gangs", "mixed"])
def test_prices_are_comparable_with_the_duals_of_the_linear_relaxation(family: str) -> None:
    """The same value within 0.1 %; prices within 10 % where the duals are unique, as here.

    Prices count by what their rows cost: a tenth of the largest row for all.
    """
    relaxation = Relaxation.build(compile_program(generate(family, 200, 64, seed=2)))
    problem = Problem.of(relaxation)
    solved = solve_aggregate(relaxation)
    assert solved is not None
    found = price_loop(problem, iterations=300, tolerance=0)
    shares = tidied(problem, found.shares[0])
    assert problem.bounds(shares)[0] == pytest.approx(solved.value, rel=1e-3)
    assert np.abs(shares - solved.shares).max() <= 0.1 * solved.shares.max()
    slack = 1.0 - used(problem, solved.fractions[None])[0]
    assert (shares[slack > 0.2] == 0).all()
