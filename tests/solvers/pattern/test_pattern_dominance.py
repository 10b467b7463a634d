"""Leaving out dominated profiles and patterns never changes an optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import brute_force
from hypothesis import given, settings, strategies as st
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot, solve
from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.enumeration import all_patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.highs import HighsEngine
from elastico_opt.solvers.pattern.integer import matrix_form
from elastico_opt.solvers.pattern.pricing import Duals, Pricer

LIMITS = Limits()


def filtered(layout: Layout, stage: int) -> Patterns:
    """All patterns that the solver would list for a stage: at no duals, with boundless slack."""
    weight = np.zeros(layout.n_stages)
    weight[stage] = 1.0
    found = Pricer(layout).enumerate(Duals(np.zeros(layout.n_rows), weight), 1e30, LIMITS, 10**6)
    assert found is not None
    return found


def optimum(layout: Layout, patterns: Patterns, stage: int, floors: list[float]) -> float | None:
    form = matrix_form(layout, patterns)
    answer = HighsEngine(form, LIMITS).solve(stage, tuple(enumerate(floors)), None, lambda *_: None)
    return None if answer.vector is None else form.value(stage, answer.vector)


@settings(max_examples=120)
@given(snapshots(), st.booleans())
def test_the_optimum_is_the_same_with_and_without(given: Snapshot, split: bool) -> None:
    """Stage by stage, earlier ones kept: a pattern may be worth less now but more before."""
    program = compile_program(given)
    layout = Layout.build(program, range(program.n_nodes) if split else ())
    every = all_patterns(layout)
    floors: list[float] = []
    for stage in range(layout.n_stages):
        full = optimum(layout, every, stage, floors)
        less = optimum(layout, filtered(layout, stage), stage, floors)
        assert full is not None
        assert less == pytest.approx(full, rel=1e-7, abs=1e-7)
        floors.append(full - 1e-9 * max(1.0, abs(full)))


@settings(max_examples=100)
@given(
    snapshots(
        gangs=False, host=False, eligibility=False, tiers=False, must_place=False, max_jobs=3,
        max_devices=2, max_residents=(2, 3), coupling="throughput",
    )
)  # fmt: skip
def test_switch_costs_under_throughput_coupling(given: Snapshot) -> None:
    """A reward shrinks when slowed, a cost does not: `more alone` is not `more beside others`."""
    layout = Layout.build(compile_program(given))
    full = optimum(layout, all_patterns(layout), 0, [])
    less = optimum(layout, filtered(layout, 0), 0, [])
    assert full is not None
    assert less == pytest.approx(full, rel=1e-7, abs=1e-7)


def test_a_better_profile_that_costs_a_switch_may_lose_when_slowed() -> None:
    """Alone: 1.3 − 0.25 > 1. Beside the other job: 0.65 − 0.25 < 0.5. Once called optimal: 1.4."""
    found = snapshot(
        {"n": 1},
        {
            "a": {
                "current": {"profile": "slow", "tasks": [{"node": "n", "gpus": [0]}]},
                "profiles": [
                    {"name": "slow", "workload": "w", "throughput": 1},
                    {"name": "fast", "workload": "w", "throughput": 1.3},
                ],
            },
            "b": {"workload": "x", "throughput": 1},
        },
        interference={"table": [{"a": "w", "b": "x", "slowdown": [2, 1]}]},
        policy={"coupling": "throughput", "switch_cost": 0.25, "objective": "throughput"},
    )
    assert float(brute_force(found).objective or 0) == 1.5
    result = solve(found, solver="pattern")
    assert (result.status, result.objective) == ("optimal", 1.5)


def test_a_pattern_worth_less_now_may_be_needed_for_a_higher_tier() -> None:
    """The soft profile leaves the low job more, but costs the high job what its tier must keep."""
    found = snapshot(
        {"n": 1},
        {
            "h": {"priority": 1, "profiles": [
                {"name": "loud", "workload": "loud", "throughput": 1},
                {"name": "soft", "workload": "soft", "throughput": 0.9}]},
            "l": {"workload": "x"},
        },
        interference={"table": [{"a": "loud", "b": "x", "slowdown": [1, 1.5]}], "default": 1},
    )  # fmt: skip
    layout = Layout.build(compile_program(found))
    assert optimum(layout, filtered(layout, 0), 0, []) == 1
    assert optimum(layout, filtered(layout, 1), 1, [1.0]) == pytest.approx(0.5)


CASES: dict[str, Any] = {
    "less of everything": ([{"gpu": {"memory": 6}}, {"gpu": {"memory": 4}, "throughput": 2}], 1),
    "equal twice": ([{}, {}], 1),
    "more for more": ([{"gpu": {"memory": 4}}, {"gpu": {"memory": 6}, "throughput": 2}], 2),
    "exclusive": ([{"exclusive": True, "throughput": 2}, {}], 2),
    "exclusive for less": ([{"exclusive": True}, {"throughput": 2}], 1),
    "hurts others more": ([{"workload": "loud", "throughput": 2}, {"workload": "soft"}], 2),
    "hurts others less": ([{"workload": "loud"}, {"workload": "soft", "throughput": 2}], 1),
    "more host": ([{"host": {"cpu": 2}, "throughput": 2}, {"host": {"cpu": 1}}], 2),
    "less host": ([{"host": {"cpu": 2}}, {"host": {"cpu": 1}, "throughput": 2}], 1),
}


@pytest.mark.parametrize("case", CASES)
def test_which_profiles_are_left_out(case: str) -> None:
    """The filter does filter: only what no other profile beats in every respect stays."""
    profiles, left = CASES[case]
    named = [{"throughput": 1, **one, "name": f"p{i}"} for i, one in enumerate(profiles)]
    found = snapshot(
        {"n": {"gpus": 1, "host": {"cpu": 9}}}, {"a": {"profiles": named}, "b": {"workload": "b"}},
        interference={"table": [{"a": "loud", "b": "b", "slowdown": [1, 2]}], "default": 1},
    )  # fmt: skip
    layout = Layout.build(compile_program(found))
    alone = filtered(layout, 0).items
    mine = layout.items.job_class[alone[(alone >= 0).sum(axis=1) == 1, 0]] == 0
    singles = Pricer(layout).singletons().items[:, 0]
    assert (layout.items.job_class[singles] == 0).sum() == left
    assert mine.sum() <= left
