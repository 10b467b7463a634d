"""The greedy plan: always feasible, and as good as plain sense makes it."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from known_answers import KNOWN, Known
from small import plan, snapshot
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.instances.generate import FAMILIES, generate
from elastico_opt.program import compile_program
from elastico_opt.solvers import occupancy
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.occupancy import Occupancy
from elastico_opt.verification import evaluate, verify


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_the_plan_is_feasible_and_its_value_is_what_it_counted(given: Snapshot) -> None:
    program = compile_program(given)
    found = first_fit(program)
    if found is None:
        assert any(program.job_must)
        return
    result = program.to_plan(found)
    verify(given, result)
    occupancy = Occupancy(program)
    for job, placement in found.items():
        occupancy.place(job, placement)
    expected = list(evaluate(given, result).tiers.values())
    assert occupancy.tier_values() == pytest.approx(expected, abs=1e-9, rel=1e-9)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(snapshots(must_place=False))
def test_no_plan_is_worse_than_placing_nobody(given: Snapshot) -> None:
    """Tier by tier: a lower priority never costs a higher one."""
    program = compile_program(given)
    found = first_fit(program)
    if any(program.job_must):
        return
    assert found is not None
    occupancy = Occupancy(program)
    nothing = occupancy.tier_values()
    for job, placement in found.items():
        occupancy.place(job, placement)
    assert occupancy.tier_values() >= [value - 1e-9 for value in nothing]


SIMPLE = {
    "memory of one GPU is a hard cap", "fractions count GPU by GPU", "a cap on residents",
    "unlike GPUs of one node", "a selector admits one node", "an exclusive task is alone",
    "two GPUs: separate", "three residents exceed a limit that two keep",
    "a lower priority never costs a higher one", "not even by sharing", "a running job stays",
    "a job that cannot move blocks its place", "the home is gone",
    "must be placed, though another is worth more", "CPU work makes room on the GPU node",
}  # fmt: skip


@pytest.mark.parametrize("known", [k for k in KNOWN if k.name in SIMPLE], ids=lambda k: k.name)
def test_simple_cases_are_solved_to_the_optimum(known: Known) -> None:
    program = compile_program(known.snapshot)
    found = first_fit(program)
    assert found is not None and known.tiers is not None
    values = evaluate(known.snapshot, program.to_plan(found)).tiers.values()
    assert list(values) == pytest.approx(known.tiers, abs=1e-9)


def test_the_simple_cases_exist() -> None:
    assert {known.name for known in KNOWN} >= SIMPLE


def test_given_placements_are_kept_and_the_rest_is_added() -> None:
    given = snapshot({"n": 2}, {name: {"gpu": {"memory": 6}} for name in "abc"})
    program = compile_program(given)
    found = first_fit(program, program.from_plan(plan(b=("n", "1"))))
    assert found is not None
    result = program.to_plan(found)
    verify(given, result)
    assert result["b"].tasks[0].gpus == ("1",)
    assert len(result) == 2


def test_given_placements_that_break_a_rule_are_not_kept() -> None:
    given = snapshot(
        {"n": 1, "m": 1},
        {"a": {"gpu": {"memory": 6}}, "b": {"gpu": {"memory": 6}, "eligible_nodes": ["m"]}},
    )
    program = compile_program(given)
    found = first_fit(program, program.from_plan(plan(a=("n", "0"), b=("n", "0"))))
    assert found is not None
    result = program.to_plan(found)
    verify(given, result)
    assert set(result) == {"a", "b"}


def test_a_job_that_must_be_placed_gets_its_place_though_it_comes_late() -> None:
    """The first order fails: the small job takes the only node where the large one fits."""
    given = snapshot(
        {"A": {"host": {"cpu": 53}}, "B": {"host": {"cpu": 31}}},
        {
            "x": {"must_place": True, "weight": 9, "gpus": 0, "host": {"cpu": 30}},
            "y": {"must_place": True, "gpus": 0, "host": {"cpu": 50}},
        },
    )
    found = first_fit(compile_program(given))
    assert found is not None
    assert len(found) == 2


def test_jobs_that_need_little_leave_the_host_resources_to_those_that_need_more() -> None:
    """The light job comes first and could take the only node where the heavy one fits."""
    given = snapshot(
        {"rich": {"gpus": 1, "host": {"cpu": 100}}, "poor": {"gpus": 1, "host": {"cpu": 10}}},
        {
            "light": {"gpu": {"memory": 6}, "host": {"cpu": 5}},
            "heavy": {"gpu": {"memory": 6}, "host": {"cpu": 50}},
        },
    )
    found = first_fit(compile_program(given))
    assert found is not None
    assert len(found) == 2


def test_a_job_that_nobody_can_sit_beside_does_not_keep_two_others_out() -> None:
    given = snapshot(
        {"n": 1},
        {
            "loner": {"weight": 1.1, "workload": "l"},
            "a": {"workload": "a"},
            "b": {"workload": "a"},
        },
        interference={"table": [{"a": "a", "b": "a", "slowdown": [1, 1]}], "default": None},
    )
    found = first_fit(compile_program(given))
    assert found is not None
    assert len(found) == 2


def placed(given: Snapshot, most: int, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(occupancy, "_INTERPRETED", most)
    return first_fit(compile_program(given))


@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_code_does_what_interpreted_code_does(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = generate(family, 24, 8)
    assert placed(given, 0, monkeypatch) == placed(given, 10**9, monkeypatch)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_compiled_code_does_the_same_on_small_snapshots(given: Snapshot) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert placed(given, 0, patch) == placed(given, 10**9, patch)


@pytest.mark.parametrize("family", ["lucidlike", "mixed"])
def test_time_grows_gently(family: str) -> None:
    """No interpreted loop over jobs times devices: 800 jobs on 512 GPUs take a tenth of a second.

    The first run after a change of the code compiles it, which takes longer than that.
    """
    program = compile_program(generate(family, 800, 512))
    began = time.perf_counter()
    assert first_fit(program) is not None
    assert time.perf_counter() - began < 60
