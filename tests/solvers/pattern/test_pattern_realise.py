"""From chosen patterns to places: plans that hold, and finer pools where aggregation lied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from brute_force import brute_force
from hypothesis import assume, given, settings, strategies as st
from random_plans import free_to_choose, random_plan
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot, evaluate, solve, verify
from elastico_opt.formulations.enumeration import all_patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.instances.generate import generate
from elastico_opt.program import Placement, compile_program
from elastico_opt.solvers.base import Limits, Stop
from elastico_opt.solvers.highs import HighsEngine
from elastico_opt.solvers.pattern import PatternSolver, solver as solver_module
from elastico_opt.solvers.pattern.encode import Encoder
from elastico_opt.solvers.pattern.integer import Selection, matrix_form, selection
from elastico_opt.solvers.pattern.realise import realise

LIMITS = Limits()


def layouts(given: Snapshot) -> list[Layout]:
    program = compile_program(given)
    return [Layout.build(program), Layout.build(program, split=range(program.n_nodes))]


def random_point(layout: Layout, seed: int) -> Selection:
    """An integer point of the program over all patterns, best for random costs."""
    patterns = all_patterns(layout, 3000)
    form = matrix_form(layout, patterns)
    rng = np.random.default_rng(seed)
    costs = rng.random((1, form.n_columns)) * (rng.random((1, form.n_columns)) < 0.5)
    noisy = replace(form, objectives=costs, offsets=np.zeros(1))
    vector = HighsEngine(noisy, LIMITS).solve(0, (), None, lambda *_: None).vector
    assert vector is not None
    return selection(layout, patterns, vector)


def worth(layout: Layout, chosen: Selection) -> list[float]:
    form = matrix_form(layout, chosen.patterns)
    point = np.concatenate([chosen.static, chosen.counts]).astype(float)
    return [form.value(t, point) for t in range(form.n_tiers)]


def check(layout: Layout, placements: dict[int, Placement]) -> list[float]:
    """The plan holds (but for jobs left out); return its value per tier, without the offset."""
    program = layout.program
    plan = program.to_plan(placements)
    verify(free_to_choose(program.snapshot), plan)
    tiers = evaluate(program.snapshot, plan).tiers.values()
    return [value - float(layout.offset[t]) for t, value in enumerate(tiers)]


@settings(max_examples=100)
@given(snapshots(), st.integers(0, 2**32))
def test_every_placement_holds(given: Snapshot, seed: int) -> None:
    """Whatever integer point is realised, pooled or split, no rule is broken."""
    for layout in layouts(given):
        chosen = random_point(layout, seed)
        check(layout, realise(layout, chosen, 0, LIMITS))


@settings(max_examples=100)
@given(snapshots(tiers=False, must_place=False), st.integers(0, 2**32))
def test_a_choice_on_split_nodes_is_realised_whole(given: Snapshot, seed: int) -> None:
    """Where nothing is aggregated the program's value is a plan's, but for uneven gangs."""
    layout = layouts(given)[1]
    chosen = random_point(layout, seed)
    p = layout.program
    assume(not (p.option_workers > 1).any() or not p.excess.any())
    (value,) = check(layout, realise(layout, chosen, 0, LIMITS))
    # moving onto one's own home by chance costs less than the choice says
    assert value >= worth(layout, chosen)[-1] - 1e-9


@settings(max_examples=150)
@given(snapshots(tiers=False), st.integers(0, 2**32))
def test_the_point_of_a_plan_comes_back_as_a_plan_of_its_value(given: Snapshot, seed: int) -> None:
    """Encoding and realising are inverse up to equal devices, nodes and jobs."""
    program = compile_program(given)
    plan = random_plan(program, seed)
    assume(not any(program.option_workers[one.option] > 1 for one in plan.values())
           or not program.excess.any())  # fmt: skip
    for layout in layouts(given):
        stage = layout.n_stages - 1
        back = realise(layout, Encoder(layout).selection(plan), stage, LIMITS)
        # packing may leave out what is worth less than nothing
        assert check(layout, back)[0] >= check(layout, plan)[0] - 1e-9


# ---- where aggregation lies ------------------------------------------------------------------

#: Two nodes of five CPUs hold one job each; together they seem to hold all three.
LIE = snapshot(
    {f"n{i}": {"gpus": 2, "host": {"cpu": 5}} for i in range(2)},
    {f"j{i}": {"host": {"cpu": cpu}, "weight": 1 + i} for i, cpu in enumerate([3, 3, 4])},
)
#: Three tasks of two GPUs on two nodes of three: six GPUs in the pool, one task a node in truth.
TORN = snapshot(
    {f"n{i}": 3 for i in range(2)}, {f"j{i}": {"gpus": 2, "weight": 1 + i} for i in range(3)},
    types={"A": {"max_residents": 1}},
)  # fmt: skip


@pytest.mark.parametrize("given", [LIE, TORN], ids=["host rows", "tasks"])
def test_pools_are_split_when_the_choice_fits_no_nodes(given: Snapshot) -> None:
    """The aggregated optimum has all three jobs; the proof needs a pool per node."""
    outcome = PatternSolver().solve(compile_program(given), LIMITS)
    assert outcome.stop is Stop.PROVED
    assert outcome.statistics["splits"] == 1
    assert outcome.bound == pytest.approx(5)
    assert float(brute_force(given).objective or 0) == 5


@pytest.mark.parametrize("given", [LIE, TORN], ids=["host rows", "tasks"])
def test_without_a_split_the_bound_stays_a_bound(
    given: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many nodes to split: the plan keeps what fits, and is not called optimal."""
    monkeypatch.setattr(solver_module, "MOST_SPLIT", 1)
    result = solve(given, solver="pattern")
    assert result.status == "feasible"
    assert result.stop == "converged"
    assert result.objective == 5
    assert result.bound == pytest.approx(6)


@pytest.mark.parametrize("given", [LIE, TORN], ids=["host rows", "tasks"])
def test_packing_keeps_the_most_valuable_part_of_a_choice(given: Snapshot) -> None:
    """Three jobs are chosen, two fit: the cheapest is left out."""
    layout = Layout.build(compile_program(given))
    patterns = all_patterns(layout)
    form = matrix_form(layout, patterns)
    answer = HighsEngine(form, LIMITS).solve(0, (), None, lambda *_: None)
    assert answer.vector is not None
    assert form.value(0, answer.vector) == pytest.approx(6)
    kept = realise(layout, selection(layout, patterns, answer.vector), 0, LIMITS)
    assert check(layout, kept) == [5]
    assert sorted(kept) == [1, 2]


def test_no_split_where_nodes_do_not_matter() -> None:
    """Single GPUs without host demands: pools are exact, whatever the nodes."""
    outcome = PatternSolver().solve(compile_program(generate("lucidlike", 12, 8)), LIMITS)
    assert outcome.stop is Stop.PROVED
    assert outcome.statistics["splits"] == 0


def test_gangs_on_nodes_with_hosts_are_packed_exactly() -> None:
    """Tasks of 2, 4 and 8 GPUs with CPU and memory on 8-GPU nodes, some running."""
    given = generate("mixed", 16, 24, running=0.4, host=True, tiers=1, seed=2)
    result = solve(given, solver="pattern", time_limit=60)
    verify(given, result)
    assert result.status == "optimal"


def test_gangs_that_lose_some_seats_still_form_whole_gangs() -> None:
    """Three gangs of two tasks are chosen, hosts hold four tasks: two gangs, not 2-1-1 tasks."""
    gang = {"tasks": [{"count": 2, "host": {"cpu": 3}}]}
    given = snapshot(
        {f"n{i}": {"gpus": 2, "host": {"cpu": 5}} for i in range(4)},
        {f"g{i}": gang for i in range(3)} | {"h": {"gpus": 0, "host": {"cpu": 2}, "weight": 0}},
        types={"A": {"max_residents": 1}},
    )  # fmt: skip
    layout = Layout.build(compile_program(given))
    assert layout.n_classes == 2
    patterns = all_patterns(layout)
    form = matrix_form(layout, patterns)
    answer = HighsEngine(form, LIMITS).solve(0, (), None, lambda *_: None)
    assert answer.vector is not None
    assert form.value(0, answer.vector) == pytest.approx(3)
    assert check(
        layout, realise(layout, selection(layout, patterns, answer.vector), 0, LIMITS)
    ) == [2]


def test_superfluous_workers_do_not_overload_a_node() -> None:
    """Link rows read `at least`: a choice may seat more workers than its gang has tasks.

    Four GPUs run a worker of the gang beside a single job; each node has CPUs for one task.
    """
    gang: dict[str, Any] = {"tasks": [{"count": 2, "host": {"cpu": 2}}]}
    given = snapshot(
        {f"n{i}": {"gpus": 2, "host": {"cpu": 2}} for i in range(2)},
        {"gang": gang, **{f"j{i}": {} for i in range(4)}},
    )
    layout = Layout.build(compile_program(given))
    every = all_patterns(layout)
    linked = layout.items.linked[every.items] & (every.items >= 0)
    mixed = np.flatnonzero(linked.any(axis=1) & ((every.items >= 0).sum(axis=1) == 2))
    chosen = Selection(np.ones(1, dtype=np.int64), every.select(mixed), np.full(1, 4))
    placed = realise(layout, chosen, 0, LIMITS)
    assert sorted(placed) == [0, 1, 2, 3, 4]
    assert check(layout, placed) == [5]
