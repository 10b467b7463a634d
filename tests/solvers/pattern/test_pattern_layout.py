"""The layout: what is grouped, what is told apart, and that every plan is a point of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from random_plans import random_plan
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot, evaluate
from elastico_opt.formulations.columns import pattern_values, static_values
from elastico_opt.formulations.enumeration import all_patterns
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program import Placement, compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.highs import HighsEngine
from elastico_opt.solvers.pattern.encode import Encoder
from elastico_opt.solvers.pattern.integer import Selection, integer_form, matrix_form, with_losses

HOST = {"gpus": 2, "host": {"cpu": 4}}


def layout_of(nodes: Any, jobs: Any, split: Any = (), **more: Any) -> Layout:
    return Layout.build(compile_program(snapshot(nodes, jobs, **more)), split)


def at(node: str, *gpus: int) -> dict[str, Any]:
    return {"profile": "p", "tasks": [{"node": node, "gpus": list(gpus)}]}


# ---- grouping --------------------------------------------------------------------------------


def test_f24_equal_jobs_are_one_class_and_equal_nodes_one_pool() -> None:
    """Fifty identical jobs on a thousand identical nodes: the program must not grow with either.

    The job's own name must not count, though the workload of a profile is named after it where
    the slowdown table does not list it.
    """
    nodes = {f"n{i}": 1 for i in range(1000)}
    layout = layout_of(nodes, {f"j{i}": {"gpu": {"memory": 4}} for i in range(50)})
    assert (layout.n_classes, layout.n_pools, len(layout.pool_nodes)) == (1, 1, 1)
    assert layout.class_size.tolist() == [50]
    assert layout.pool_size.tolist() == [1000]
    assert len(layout.items) == 1
    assert layout.n_rows == 2
    patterns = all_patterns(layout)
    assert sorted((patterns.items >= 0).sum(axis=1).tolist()) == [1, 2]


APART = {
    "weight": {"weight": 2}, "priority": {"priority": 1}, "must_place": {"must_place": True},
    "slowdown limit": {"max_slowdown": 1.5}, "floor that a profile misses": {"min_throughput": 2},
    "memory": {"gpu": {"memory": 5}}, "exclusive": {"exclusive": True},
    "gang": {"tasks": [{"count": 2, "gpu": {"memory": 4}}]}, "two GPUs": {"gpus": 2},
    "nodes": {"eligible_nodes": ["n1"]}, "host": {"host": {"cpu": 1}},
    "workload in the table": {"workload": "w"},
    "running": {"current": at("n1", 0)},
}  # fmt: skip


@pytest.mark.parametrize("what", APART)
def test_whatever_a_rule_can_see_keeps_jobs_apart(what: str) -> None:
    """A class is only allowed where handing places to its jobs in any order is the same."""
    plain = {"gpu": {"memory": 4}}
    odd = {**(plain if "tasks" not in APART[what] else {}), **APART[what]}
    table = {"table": [{"a": "w", "b": "w", "slowdown": [1.5, 1.5]}], "default": 1}
    layout = layout_of(
        {"n1": HOST, "n2": HOST}, {"a": plain, "b": plain, "odd": odd},
        interference=table, policy={"eviction_cost": 1},
    )  # fmt: skip
    assert layout.class_jobs == ((0, 1), (2,))


def test_equal_jobs_need_not_be_neighbours_in_the_file() -> None:
    """Groups are by what jobs are, not by where they stand."""
    layout = layout_of({"n": 2}, {"a": {}, "b": {"weight": 2}, "c": {}, "d": {"weight": 2}})
    assert layout.class_jobs == ((0, 2), (1, 3))


def test_nodes_that_hosts_or_tasks_tell_apart_have_pools_of_their_own() -> None:
    """Without such coupling only type, eligibility and cordons matter."""
    nodes = {"n1": HOST, "n2": HOST, "n3": {"gpus": 2, "host": {"cpu": 8}}, "n4": 1}
    assert layout_of(nodes, {"a": {}}).n_pools == 1
    assert layout_of(nodes, {"a": {"host": {"cpu": 1}}}).pool_nodes == ((0, 1), (2,), (3,))
    assert layout_of(nodes, {"a": {"gpus": 2}}).pool_nodes == ((0, 1, 2), (3,))
    assert layout_of(nodes, {"a": {"eligible_nodes": ["n2"]}}).pool_nodes == ((0, 2, 3), (1,))


def test_unlike_devices_of_one_node_are_two_pools() -> None:
    """A device with more memory than its type has is not interchangeable with the others."""
    gpus = [{"id": "x", "capacity": {"memory": 20}}, {"id": "y"}, {"id": "z"}]
    layout = layout_of({"n": {"gpus": gpus}}, {"a": {"gpu": {"memory": 12}}, "b": {}})
    assert layout.pool_devices == ((0,), (1, 2))
    fits = {
        (int(k), int(c)) for k, c in zip(layout.items.pool, layout.items.job_class, strict=True)
    }
    assert fits == {(0, 0), (0, 1), (1, 1)}


def test_split_gives_named_nodes_pools_of_their_own() -> None:
    """What aggregation forgot comes back: one host row and one pool row per split node."""
    nodes, jobs = {f"n{i}": HOST for i in range(3)}, {"a": {"host": {"cpu": 1}}}
    assert layout_of(nodes, jobs).pool_nodes == ((0, 1, 2),)
    assert layout_of(nodes, jobs, split=[1]).pool_nodes == ((0, 2), (1,))
    layout = layout_of(nodes, jobs, split=range(3))
    assert layout.pool_nodes == ((0,), (1,), (2,))
    assert layout.row_upper[layout.first_host_row :].tolist() == [4.0] * 3


def test_host_shares_are_whole_numbers() -> None:
    """A worker carries 1/gpus of its task's demand: rows count in a unit that divides them all."""
    layout = layout_of(
        {"n": {"gpus": 6, "host": {"cpu": 10}}},
        {"a": {"gpus": 2, "host": {"cpu": 1}}, "b": {"gpus": 3, "host": {"cpu": 1}}},
    )
    assert layout.host_units == 6
    assert set(layout.item_host[2].tolist()) == {3.0, 2.0}
    assert layout.row_upper[layout.first_host_row] == 60


@pytest.mark.parametrize(
    ("demands", "grouped"),
    [
        ([(6, 6)], True),
        ([(5, 5)], False),
        ([(6, 1), (1, 6)], False),  # not two of a kind, but one of each
        ([(6, 6), (0, 0)], False),
    ],
)
def test_gangs_that_could_meet_themselves_are_not_grouped(demands: Any, grouped: bool) -> None:
    """Workers of two grouped gangs on one device might have to be dealt to one gang."""
    tasks = [{"gpu": {"memory": m, "sm": s}} for m, s in demands]
    tasks[0]["count"] = 2
    layout = layout_of(
        {"n": 4}, {f"g{i}": {"tasks": tasks} for i in range(3)},
        types={"A": {"capacity": {"memory": 10, "sm": 10}}},
    )  # fmt: skip
    assert layout.n_classes == (1 if grouped else 3)


# ---- running jobs ----------------------------------------------------------------------------


def test_a_home_is_a_site_only_where_it_matters() -> None:
    """Free moves on an open node are no reason to tell devices apart."""
    nodes, jobs = {"n": 3, "m": 1}, {"a": {"current": at("n", 1)}, "b": {}}
    assert len(layout_of(nodes, jobs).site_device) == 0
    costly = layout_of(nodes, jobs, policy={"migration_cost": 0.5})
    assert costly.site_device.tolist() == [1]
    items = costly.items
    mine = np.flatnonzero(items.job_class == 0)
    stays = {(int(items.site[i]), bool(items.stays[i]), float(items.value[i])) for i in mine}
    assert stays == {(0, True, 1.0), (ELSEWHERE, False, 0.5)}


def test_a_cordoned_home_is_open_to_its_own_job_only() -> None:
    """Others may not start there; the job may stay, or leave and not come back for free."""
    nodes = {"n": {"gpus": 2, "schedulable": False}, "m": 1}
    layout = layout_of(nodes, {"a": {"current": at("n", 0)}, "b": {}})
    assert layout.site_device.tolist() == [0]
    cordoned = int(layout.device_pool[0])
    assert set(layout.items.job_class[layout.items.pool == cordoned]) == {0}
    assert set(layout.items.site[layout.items.pool == cordoned]) == {0}


def test_an_immovable_job_has_no_place_but_its_home() -> None:
    """Not even another device of the same node."""
    layout = layout_of({"n": 3}, {"a": {"current": at("n", 2), "movable": False}, "b": {}})
    mine = layout.items.job_class == 0
    assert layout.items.site[mine].tolist() == [0]
    assert layout.items.stays[mine].all()


def test_a_gang_that_stays_needs_each_of_its_devices() -> None:
    """One link row per home device: two workers on one of them would not be staying."""
    gang = {"tasks": [{"count": 2}]}
    home = {"profile": "p", "tasks": [{"node": "n", "gpus": [0]}, {"node": "n", "gpus": [2]}]}
    layout = layout_of({"n": 4}, {"a": {**gang, "current": home}}, policy={"migration_cost": 1})
    staying = layout.items.stays
    assert layout.items.site[staying].tolist() == [0, 1]
    assert len(set(layout.items.row[staying].tolist())) == 2


@pytest.mark.parametrize("home", [[("n", 0, 1)], [("n", 0), ("m", 0)]])
def test_a_task_of_two_gpus_cannot_stay_on_two_nodes(home: Any) -> None:
    """A home of the right size but the wrong shape is no place to stay: one more move."""
    tasks = [{"node": node, "gpus": list(gpus)} for node, *gpus in home]
    layout = layout_of(
        {"n": 2, "m": 2}, {"a": {"gpus": 2, "current": {"profile": "p", "tasks": tasks}}},
        policy={"migration_cost": 0.25},
    )  # fmt: skip
    form = matrix_form(layout, all_patterns(layout))
    answer = HighsEngine(form, Limits()).solve(0, (), None, lambda *_: None)
    assert answer.bound == pytest.approx(1.0 if len(home) == 1 else 0.75)


# ---- plans as points -------------------------------------------------------------------------


def point_of(layout: Layout, chosen: Selection) -> tuple[Any, Any]:
    form = integer_form(layout, chosen.patterns)
    return form, with_losses(form, np.concatenate([chosen.static, chosen.counts]).astype(float))


def layouts(given: Snapshot) -> list[Layout]:
    program = compile_program(given)
    return [Layout.build(program), Layout.build(program, split=range(program.n_nodes))]


def check_point(layout: Layout, plan: dict[int, Placement]) -> None:
    """The plan satisfies every row, and is worth no less there than it really is."""
    program = layout.program
    class_of = {j: c for c, jobs in enumerate(layout.class_jobs) for j in jobs}
    form, point = point_of(layout, Encoder(layout).selection(plan))
    broken = np.flatnonzero(form.rows @ point > form.row_upper + 1e-9)
    assert not len(broken), [form.row_names[r] for r in broken]
    assert (point <= form.column_upper).all()
    shift = int(layout.n_must > 0)
    if shift:
        assert form.value(0, point) == sum(bool(program.job_must[j]) for j in plan)
    tiers = evaluate(program.snapshot, program.to_plan(plan)).tiers.values()
    uneven = any(  # gangs that are one class share its columns, and are charged the mean
        program.option_workers[placement.option] > 1 and layout.class_size[class_of[j]] > 1
        for j, placement in plan.items()
    )
    for t, true in enumerate(tiers):
        value = form.value(t + shift, point) + float(layout.offset[t])
        assert value >= true - 1e-9 * max(1.0, abs(true))
        if not (uneven and program.excess.any()):
            assert value == pytest.approx(true, rel=1e-9, abs=1e-9)


@settings(max_examples=250)
@given(snapshots(), st.integers(0, 2**32))
def test_every_plan_is_a_point_of_its_value(given: Snapshot, seed: int) -> None:
    """Else the bound could lie below a plan: pooled and split, with every feature mixed."""
    for layout in layouts(given):
        check_point(layout, random_plan(layout.program, seed))


@settings(max_examples=150)
@given(snapshots(max_jobs=3, tiers=False, must_place=False), st.integers(0, 2**32))
def test_running_gangs_are_points_too(given: Snapshot, seed: int) -> None:
    """Staying, moving, cordons, tasks of two GPUs and CPU tasks with a home."""
    for layout in layouts(given):
        check_point(layout, random_plan(layout.program, seed))


@settings(max_examples=60)
@given(snapshots(max_jobs=3), st.integers(0, 2**32))
def test_the_patterns_of_a_plan_are_listed_patterns(given: Snapshot, seed: int) -> None:
    """Enumeration of all patterns misses none that a real plan uses."""
    layout = layouts(given)[0]
    listed = set(all_patterns(layout).keys())
    used = Encoder(layout).patterns(random_plan(layout.program, seed))
    assert set(used.keys()) <= listed


def test_only_the_relaxation_values_a_gang_by_the_mean() -> None:
    """The gang runs at its slowest worker; patterns know the mean, the loss column the truth."""
    given = snapshot(
        {"n": 2}, {"gang": {"tasks": [{"count": 2}]}, "other": {}},
        interference={"table": [{"a": "gang/p", "b": "other/p", "slowdown": [1.5, 1]}]},
    )  # fmt: skip
    layout = Layout.build(compile_program(given))
    plan = {0: Placement(0, ((0, (0,)), (0, (1,)))), 1: Placement(1, ((0, (0,)),))}
    form, point = point_of(layout, Encoder(layout).selection(plan))
    assert evaluate(given, layout.program.to_plan(plan)).objective == 1.5
    assert form.value(0, point) == 1.5
    chosen = Encoder(layout).selection(plan)
    by_mean = static_values(layout).T @ chosen.static
    by_mean += pattern_values(layout, chosen.patterns).T @ chosen.counts
    assert by_mean == [1.75]
