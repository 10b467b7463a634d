"""The joint program: stated once, and equal to the arrays of the Program number by number."""

from __future__ import annotations

from collections import defaultdict
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.errors import UnsupportedError
from elastico_opt.formulations.joint import build
from elastico_opt.formulations.matrix import MatrixForm, lift, lower
from elastico_opt.formulations.places import Places
from elastico_opt.formulations.solution import placements, values
from elastico_opt.formulations.symmetry import canonical, symmetric_devices
from elastico_opt.instances.generate import generate
from elastico_opt.program import Placement, Program, compile_program
from elastico_opt.solvers.exactness import broken_rows, feasible
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.verification import evaluate

RICH = snapshot(
    {
        "n1": {"gpus": 3, "host": {"cpu": 12}},
        "n2": {
            "gpus": [{"id": "x", "capacity": {"memory": 25}}, {"id": "y"}],
            "host": {"cpu": 10},
            "labels": {"zone": "b"},
        },
    },
    {
        "a": {
            "weight": 2,
            "max_slowdown": 1.5,
            "current": {"profile": "p1", "tasks": [{"node": "n1", "gpus": [0]}]},
            "profiles": [
                {"name": "p1", "gpu": {"memory": 4, "sm": 0.5}, "throughput": 3},
                {"name": "p2", "gpu": {"memory": 6, "sm": 0.25}, "throughput": 4},
            ],
        },
        "b": {
            "priority": 1,
            "tasks": [
                {"count": 2, "gpus": 1, "gpu": {"memory": 6}, "host": {"cpu": 4}},
                {"count": 1, "gpus": 0, "host": {"cpu": 2}},
            ],
        },
        "c": {"gpus": 2, "gpu": {"memory": 2}, "must_place": True},
        "d": {"gpu": {"memory": 8}, "exclusive": True, "node_selector": {"zone": "b"}},
        "e": {"gpu": {"memory": 4}},
    },
    types={"A": {"capacity": {"memory": 10, "sm": 1}, "max_residents": 2}},
    interference={
        "table": [
            {"a": "a/p1", "b": "e/p", "slowdown": [1.25, 1.5]},
            {"a": "a/p2", "b": "e/p", "slowdown": [1.75, 1.25]},
            {"a": "a/p1", "b": "b/p", "slowdown": [1, 2]},
        ],
        "default": 1.125,
    },
    policy={
        "interference_penalty": 0.5,
        "switch_cost": 0.125,
        "migration_cost": 0.25,
        "eviction_cost": 0.5,
    },
)


def lowered(given: Snapshot) -> tuple[Program, Places, MatrixForm]:
    program = compile_program(given)
    places = Places(program)
    return program, places, lower(build(program, places))


class Rows:
    """The rows of a form by component and index, each as {column: coefficient}."""

    def __init__(self, form: MatrixForm) -> None:
        self.form = form
        self.found: dict[str, dict[Any, dict[Any, float]]] = defaultdict(dict)
        self.bounds: dict[Any, tuple[float, float]] = {}
        for r, (name, index) in enumerate(form.row_names):
            first, last = form.rows.indptr[r], form.rows.indptr[r + 1]
            self.found[name][index] = {
                form.columns[i]: float(c)
                for i, c in zip(
                    form.rows.indices[first:last], form.rows.data[first:last], strict=True
                )
            }
            self.bounds[name, index] = (float(form.row_lower[r]), float(form.row_upper[r]))

    def __getitem__(self, name: str) -> dict[Any, dict[Any, float]]:
        return self.found[name]


@pytest.fixture(scope="module")
def rich() -> tuple[Program, Places, MatrixForm, Rows]:
    program, places, form = lowered(RICH)
    return program, places, form, Rows(form)


def test_columns_are_the_options_and_the_allowed_places(rich: Any) -> None:
    p, _, form, _ = rich
    names = set(form.columns) | set(form.constants)
    assert {o for name, o in names if name == "x"} == set(range(p.n_options))
    expected = {
        (q, g)
        for q in range(len(p.group_option))
        for g in p.allowed_devices(int(p.option_job[p.group_option[q]])).tolist()
        if p.group_gpus[q]
        and p.fits(q, int(p.device_class[g]))
        and p.option_type[p.group_option[q]] == p.class_type[p.device_class[g]]
    }
    assert {index for name, index in names if name == "u"} == expected
    assert form.integer[
        [name in ("x", "u", "z", "pair", "moved") for name, _ in form.columns]
    ].all()
    assert (form.column_lower == 0).all()


def test_objectives_are_rewards_and_costs(rich: Any) -> None:
    p, _, form, _ = rich
    for tier in range(len(p.priorities)):
        found = dict(zip(form.columns, form.objectives[tier].tolist(), strict=True))
        offset = 0.0
        for j in np.flatnonzero(p.job_tier == tier).tolist():
            switch, move, evict = p.change_costs(j)
            offset -= evict
            for o in p.options_of(j):
                gain = p.option_reward[o] + evict - (switch if p.switches(o) else 0.0)
                assert found.pop(("x", o)) == gain
            if p.homes[j] is not None:
                assert found.pop(("moved", j)) == -move
            if ("excess", j) in found:
                assert found.pop(("excess", j)) == -p.job_weight[j] * p.penalty
        assert set(found.values()) <= {0.0}
        assert form.offsets[tier] == offset


def test_choose_and_must(rich: Any) -> None:
    p, _, _, rows = rich
    for j in range(p.n_jobs):
        name = "must" if p.job_must[j] else "choose"
        assert rows[name][j] == {("x", o): 1.0 for o in p.options_of(j)}
        assert rows.bounds[name, j] == (1.0 if p.job_must[j] else -np.inf, 1.0)


def test_gang_and_task_devices(rich: Any) -> None:
    p, places, _, rows = rich
    for q in range(len(p.group_option)):
        row = dict(rows["gang"][q])
        assert row.pop(("x", int(p.group_option[q]))) == -p.group_count[q]
        kind = "z" if places.on_node[q] else "u"
        assert all(name == kind and coefficient == 1 for (name, _), coefficient in row.items())
        assert rows.bounds["gang", q] == (0.0, 0.0)
    for (q, n), row in rows["task_devices"].items():
        assert row.pop(("z", (q, n))) == -p.group_gpus[q]
        on_node = {g for g in p.node_devices[n].tolist() if places.may_use[q, g]}
        assert row == {("u", (q, g)): 1.0 for g in on_node}


def test_device_capacity_is_the_demand_in_whole_numbers(rich: Any) -> None:
    p, places, _, rows = rich
    seen = set()
    for (g, r), row in rows["device_capacity"].items():
        demand = {q: int(p.group_demand[q, r]) for q in np.flatnonzero(places.may_use[:, g])}
        divisor = gcd(*demand.values())
        assert row == {("u", (q, g)): d // divisor for q, d in demand.items() if d}
        room = int(p.class_capacity[p.device_class[g], r])
        assert (
            rows.bounds["device_capacity", (g, r)][1] == min(room, sum(demand.values())) // divisor
        )
        seen.add((g, r))
    assert seen == {(g, r) for g in range(p.n_devices) for r in range(2)}


def test_host_capacity_is_the_demand_in_whole_numbers(rich: Any) -> None:
    p, places, _, rows = rich
    for (n, r), row in rows["host_capacity"].items():
        demand = {
            q: int(p.group_host[q, r])
            for q, room in places.node_room.items()
            if room[n] and p.group_host[q, r]
        }
        divisor = gcd(*demand.values())
        assert row == {("z", (q, n)): d // divisor for q, d in demand.items()}
        most = sum(d * int(places.node_room[q][n]) for q, d in demand.items())
        room = min(int(p.node_host[n, r]), most)
        assert rows.bounds["host_capacity", (n, r)][1] == room // divisor
    assert len(rows["host_capacity"]) == 2


def test_residents_and_exclusive(rich: Any) -> None:
    p, places, _, rows = rich
    for g, row in rows["residents"].items():
        assert rows.bounds["residents", g][1] == 2
        for (name, (q, device)), coefficient in row.items():
            assert (name, device) == ("u", g)
            assert coefficient == (2.0 if p.group_exclusive[q] else 1.0)
        assert len(row) == places.may_use[:, g].sum()


def test_coupling_is_the_slowdown_table(rich: Any) -> None:
    p, places, _, rows = rich
    kinds = range(len(places.kind_job))
    for j, row in rows["coupling"].items():
        assert row.pop(("excess", j)) == 1.0
        for (name, (a, b, _)), coefficient in row.items():
            assert name == "pair"
            mine, other = (a, b) if places.kind_job[a] == j else (b, a)
            o, d = places.kind_option[mine], places.kind_option[other]
            excess = p.excess[p.option_workload[o], p.option_workload[d]] * p.excess_unit
            assert coefficient == pytest.approx(-excess / p.option_workers[o], abs=0)
    pairs = {index for name, index in rows.form.columns if name == "pair"}
    for a in kinds:
        for b in kinds:
            if any((a, b, g) in pairs for g in range(p.n_devices)):
                assert p.compatible(places.kind_option[a], places.kind_option[b])


def test_moves_of_the_running_job(rich: Any) -> None:
    p, _, _, rows = rich
    ((_, row),) = rows["move"].items()
    options = {("x", o): -1.0 for o in p.options_of(0)}
    at_home = {("u", (q, 0)): 1.0 for o in p.options_of(0) for q in p.groups_of(o)}
    assert row == {("moved", 0): 1.0, **options, **at_home}


def test_two_jobs_of_half_a_device_and_a_byte_do_not_share() -> None:
    """Dividing by the common divisor before rounding keeps them apart exactly."""
    half = 512 * 2**30 + 1
    given = snapshot(
        {"n": 1}, {"a": {"gpu": {"m": half}}, "b": {"gpu": {"m": half}}},
        types={"A": {"capacity": {"m": "1Ti"}}},
    )  # fmt: skip
    _, _, form = lowered(given)
    rows = Rows(form)
    assert set(rows["device_capacity"][0, 0].values()) == {1.0}
    assert rows.bounds["device_capacity", (0, 0)][1] == 1.0


def test_three_residents_with_throughput_coupling_are_refused_with_a_remedy() -> None:
    given = snapshot(
        {"node 7": 1}, {name: {} for name in "abc"}, types={"A": {"max_residents": 3}},
        interference={"default": 1.5}, policy={"coupling": "throughput"},
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"node 'node 7'.*use --solver pattern"):
        build(compile_program(given))


def test_three_residents_are_no_matter_when_capacity_holds_two() -> None:
    given = snapshot(
        {"n": 1}, {name: {"gpu": {"memory": 4}} for name in "abc"},
        types={"A": {"capacity": {"memory": 10}}},
        interference={"default": 1.5}, policy={"coupling": "throughput"},
    )  # fmt: skip
    places = Places(compile_program(given))
    assert [site.residents for site in places.sites] == [2]
    build(places.program, places)


def test_a_must_place_job_without_options_makes_the_model_infeasible_not_invalid() -> None:
    given = snapshot({"n": 1}, {"a": {"must_place": True, "throughput": 0}, "b": {}})
    _, _, form = lowered(given)
    nothing = form.columns.index(("nothing", None))
    assert form.column_upper[nothing] == 0


def test_only_devices_that_nothing_tells_apart_are_interchangeable() -> None:
    home = {"profile": "p", "tasks": [{"node": "n1", "gpus": [1]}]}
    given = snapshot(
        {
            "n1": 3, "n2": 2,
            "m1": {"gpus": 1, "host": {"cpu": 8}}, "m2": {"gpus": 1, "host": {"cpu": 8}},
            "m3": {"gpus": 1, "host": {"cpu": 9}}, "m4": {"gpus": 1, "schedulable": False},
        },
        {"a": {"current": home}, "b": {"host": {"cpu": 1}}, "c": {"gpus": 2}},
    )  # fmt: skip
    places = Places(compile_program(given))
    assert sorted(symmetric_devices(places)) == [[0, 2], [3, 4], [5, 6]]


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_a_plan_becomes_a_feasible_point_of_the_same_value_and_comes_back(given: Snapshot) -> None:
    program = compile_program(given)
    plan = first_fit(program)
    if plan is None:
        return
    places = Places(program)
    try:
        form = lower(build(program, places))
    except UnsupportedError:
        return
    ordered = canonical(places, plan)
    vector = form.vector(values(places, ordered))
    assert feasible(form, vector)
    tiers = evaluate(given, program.to_plan(plan)).tiers.values()
    for tier, value in enumerate(tiers):
        assert form.value(tier, vector) == pytest.approx(value, abs=1e-9, rel=1e-9)
    back = program.to_plan(placements(places, lift(form, vector)))
    assert _as_sets(back) == _as_sets(program.to_plan(ordered))


def _as_sets(plan: Any) -> Any:
    """Which tasks of a group hold which of its devices on a node is left open."""
    return {
        job: (
            assignment.profile,
            sorted((task.node, len(task.gpus)) for task in assignment.tasks),
            assignment.devices(),
        )
        for job, assignment in plan.items()
    }


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_the_order_of_devices_changes_no_value_and_is_reached_in_one_step(given: Snapshot) -> None:
    program = compile_program(given)
    plan = first_fit(program)
    if plan is None:
        return
    places = Places(program)
    once = canonical(places, plan)
    assert canonical(places, once) == once
    assert evaluate(given, program.to_plan(once)) == evaluate(given, program.to_plan(plan))


def test_a_point_that_overfills_a_device_is_found_in_integers() -> None:
    given = snapshot({"n": 1}, {"a": {"gpu": {"memory": 6}}, "b": {"gpu": {"memory": 5}}})
    program, places, form = lowered(given)
    plan = {j: Placement(j, ((0, (0,)),)) for j in range(2)}
    vector = form.vector(values(places, plan))
    broken = {form.row_names[row][0] for row in broken_rows(form, vector)}
    assert "device_capacity" in broken
    assert not feasible(form, vector)
    assert program.n_jobs == 2


@pytest.mark.parametrize("family", ["lucidlike", "gangs", "mixed", "triples"])
def test_the_size_is_known_before_building(family: str) -> None:
    _, places, form = lowered(generate(family, 12, 6))
    assert 0.4 <= form.rows.nnz / places.nonzeros() <= 1.5
