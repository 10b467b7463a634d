"""Why a job is not placed: the code, and the numbers a user would check by hand."""

from __future__ import annotations

import time
from typing import Any

import pytest
from brute_force import brute_force
from hypothesis import given
from small import plan, snapshot
from strategies import snapshots

from elastico_opt import Plan, Snapshot
from elastico_opt.reasons import STATIC, explain_unplaced
from elastico_opt.result import Unplaced

FREE: dict[str, Any] = {"A": {}}
WHOLE = {"exclusive": True}


def why(cluster: Snapshot, placed: Plan | None = None, job: str = "j") -> Unplaced:
    rows = explain_unplaced(cluster, Plan({}) if placed is None else placed)
    return next(row for row in rows if row.job == job)


def numbers(row: Unplaced) -> tuple[Any, ...]:
    return tuple(row.details[key] for key in ("needs", "largest_free", "total_free", "short_by"))


# ---- rules about nodes and types -----------------------------------------------------------


def test_no_nodes() -> None:
    assert why(snapshot({}, {"j": {}})).reason == "no_nodes"


def test_ineligible_names_the_rule() -> None:
    cluster = snapshot(
        {"n": 1}, {"j": {"node_selector": {"zone": "b"}}, "k": {"eligible_nodes": ["m"]}}
    )
    assert why(cluster).reason == "ineligible"
    assert "zone=b" in why(cluster).message
    assert "list of 1 nodes" in why(cluster, job="k").message


def test_a10_free_but_cordoned() -> None:
    """Cordoned capacity must not look free, and must be named as what stands in the way."""
    cluster = snapshot(
        {"n1": {"gpus": 8, "schedulable": False}, "n2": 1}, {"a": WHOLE, "j": WHOLE}, types=FREE
    )
    row = why(cluster, plan(a=("n2", "0")))
    assert (row.reason, row.details["nodes"]) == ("cordoned", ["n1"])


def test_all_nodes_cordoned() -> None:
    row = why(snapshot({"n1": {"gpus": 8, "schedulable": False}}, {"j": {}}))
    assert row.reason == "cordoned"
    assert "'n1'" in row.message


def test_a_cordon_is_not_blamed_where_it_changes_nothing() -> None:
    cluster = snapshot({"n1": {"gpus": 1, "schedulable": False}, "n2": 1}, {"j": {"gpus": 2}})
    assert why(cluster).reason == "never_fits"


def test_cannot_run() -> None:
    types = {"A": {}, "B": {}}
    cluster = snapshot(
        {"n": {"gpus": 1, "gpu_type": "B"}},
        {"j": {"throughput": {"A": 5}}, "slow": {"throughput": {"B": 3}, "min_throughput": 4}},
        types=types,
    )
    assert why(cluster).reason == "cannot_run"
    assert "GPU type 'B'" in why(cluster).message
    slow = why(cluster, job="slow")
    assert slow.reason == "cannot_run"
    assert (slow.details["needs"], slow.details["largest"], slow.details["short_by"]) == (4, 3, 1)


def test_gpus_wanted_where_there_are_none() -> None:
    row = why(snapshot({"n": {"host": {"cpu": 8}}}, {"j": {"gpus": 2}}))
    assert (row.reason, *numbers(row)) == ("never_fits", 2, 0, 0, 2)


# ---- short of something --------------------------------------------------------------------


def test_a05_gpu_fits_host_memory_does_not() -> None:
    """Every resource is checked, and the short one is named, to the byte."""
    cluster = snapshot(
        {"n": {"gpus": 2, "host": {"memory": 32457011200}}},
        {"old": {"host": {"memory": 32290433792}}, "j": {"host": {"memory": 2147483648}}},
        types=FREE,
    )
    row = why(cluster, plan(old=("n", "0")))
    assert row.reason == "short_of_memory"
    assert (row.details["of"], row.details["nearest_node"]) == ("host", "n")
    assert row.details["held_by"] == ["old"]
    assert row.details["short_by"] == 1980906240
    assert "needs 2Gi of host memory" in row.message
    assert "short by 1980906240" in row.message


def test_a25_free_in_all_is_not_free_on_one_node() -> None:
    """4 nodes with 4 CPUs, 2 taken on each: 8 are free, but a job of 3 has no place."""
    nodes = {f"n{i}": {"host": {"cpu": 4}} for i in range(4)}
    pods = {f"{kind}{i}": {"gpus": 0, "host": {"cpu": 1}} for i in range(4) for kind in "dj"}
    cluster = snapshot(nodes, {**pods, "j": {"gpus": 0, "host": {"cpu": 3}}})
    row = why(cluster, plan(**{f"{kind}{i}": (f"n{i}",) for i in range(4) for kind in "dj"}))
    assert (row.reason, *numbers(row)) == ("short_of_cpu", 3, 2, 8, 1)
    assert row.message == (
        "it needs 3 of host cpu; the largest free piece is 2 (8 in all), short by 1 on the nearest "
        "node 'n0'"
    )


@pytest.mark.parametrize("busy", [False, True])
def test_b15_five_on_one_node(busy: bool) -> None:
    """4 + 1 free GPUs are 5, but not 5 on one node: never, or not now."""
    jobs = {"old": {"gpus": 4, **WHOLE}, "big": {"gpus": 5, **WHOLE}, "small": WHOLE}
    cluster = snapshot({"n1": 8 if busy else 4, "n2": 1}, jobs, types=FREE)
    placed = plan(old=("n1", *"0123")) if busy else plan()
    row = why(cluster, placed, "big")
    assert numbers(row) == (5, 4, 5, 1)
    assert row.reason == ("short_of_gpus" if busy else "never_fits")
    assert "5 GPUs on one node, each for itself" in row.message
    assert row.details["nearest_node"] == "n1"


def test_b17_jobs_per_gpu() -> None:
    """A card with free memory refuses task 11: the cap has its own reason."""
    types = {"A": {"capacity": {"memory": 80000}, "max_residents": 10}}
    cluster = snapshot(
        {"n": 1}, {f"j{i}": {"gpu": {"memory": 100}} for i in range(11)}, types=types
    )
    row = why(cluster, plan(**{f"j{i}": ("n", "0") for i in range(10)}), "j10")
    assert (row.reason, *numbers(row)) == ("residents", 1, 0, 0, 1)
    assert "jobs per GPU" in row.message


def test_b10_memory_left_on_each_gpu() -> None:
    """2 GPUs of 16 with 15 taken: a job of 2 × 2 is short by 1 on each."""
    types = {"A": {"capacity": {"memory": 16}}}
    jobs = {"a": {"gpus": 2, "gpu": {"memory": 15}}, "j": {"gpus": 2, "gpu": {"memory": 2}}}
    row = why(snapshot({"n": 2}, jobs, types=types), plan(a=("n", "0", "1")))
    assert (row.reason, *numbers(row)) == ("short_of_memory", 2, 1, 2, 1)
    assert row.details["of"] == "gpu"
    assert "on each of 2 GPUs" in row.message


def test_some_gpus_have_enough() -> None:
    """When single GPUs would do, what is short is their number."""
    types = {"A": {"capacity": {"memory": 16}}}
    jobs = {"a": {"gpu": {"memory": 15}}, "j": {"gpus": 2, "gpu": {"memory": 2}}}
    row = why(snapshot({"n": 2}, jobs, types=types), plan(a=("n", "0")))
    assert (row.reason, *numbers(row)) == ("short_of_gpus", 2, 1, 1, 1)


def test_f12_the_smallest_demand_on_nothing() -> None:
    """0.0000001 of a GPU share does not fit on capacity 0, whatever a tolerance says."""
    types = {"A": {"capacity": {"share": 0}}}
    row = why(snapshot({"n": 1}, {"j": {"gpu": {"share": "0.0000001"}}}, types=types))
    assert (row.reason, *numbers(row)) == ("never_fits", 1e-7, 0, 0, 1e-7)


def test_huge_and_tiny_amounts_stay_exact() -> None:
    """Amounts beyond 64 bits are compared as they are."""
    types = {"A": {"capacity": {"memory": "1000000000000000000000.000000001"}}}
    jobs = {"a": {"gpu": {"memory": "1000000000000000000000"}}, "j": {"gpu": {"memory": "2n"}}}
    row = why(snapshot({"n": 1}, jobs, types=types), plan(a=("n", "0")))
    assert (row.reason, *numbers(row)) == ("short_of_memory", 2e-9, 1e-9, 1e-9, 1e-9)


def test_the_nearest_node_lacks_least() -> None:
    """Closest is the node with fewest kinds of shortage, then with the smallest."""
    nodes = {
        "both": {"gpus": 1, "host": {"cpu": 7}}, "four": {"gpus": 1, "host": {"cpu": 4}},
        "three": {"gpus": 1, "host": {"cpu": 3}}, "enough": {"gpus": 1, "host": {"cpu": 8}},
    }  # fmt: skip
    jobs = {
        "a": {"gpu": {"memory": 6}}, "b": {"gpu": {"memory": 8}},
        "j": {"gpu": {"memory": 5}, "host": {"cpu": 8}},
    }  # fmt: skip
    cluster = snapshot(nodes, jobs)
    row = why(cluster, plan(a=("both", "0"), b=("enough", "0")))
    assert (row.reason, row.details["nearest_node"]) == ("short_of_cpu", "four")
    assert numbers(row) == (8, 4, 22, 4)
    row = why(cluster.replace(nodes=cluster.nodes[::3]), plan(a=("both", "0"), b=("enough", "0")))
    assert (row.reason, row.details["nearest_node"]) == ("short_of_memory", "enough")
    assert numbers(row) == (5, 2, 6, 3)
    row = why(cluster.replace(nodes=cluster.nodes[:1]), plan(a=("both", "0")))
    assert (row.reason, "also_short" in row.details) == ("never_fits", False)


def test_the_profile_that_comes_closest() -> None:
    profiles = [
        {"name": "big", "gpu": {"memory": 10}, "throughput": 2},
        {"name": "small", "gpu": {"memory": 3}, "throughput": 1},
    ]
    cluster = snapshot({"n": 1}, {"old": {"gpu": {"memory": 8}}, "j": {"profiles": profiles}})
    row = why(cluster, plan(old=("n", "0")))
    assert (row.details["profile"], *numbers(row)) == ("small", 3, 2, 2, 1)
    assert "profile 'small' comes closest" in row.message


# ---- sharing -------------------------------------------------------------------------------


def test_exclusive_tasks_hold_the_gpus() -> None:
    row = why(snapshot({"n": 1}, {"a": WHOLE, "j": {}}, types=FREE), plan(a=("n", "0")))
    assert (row.reason, *numbers(row)) == ("exclusive", 1, 0, 0, 1)


@pytest.mark.parametrize("slowdown", [None, [2, 1], [1, 2]])
def test_interference(slowdown: list[int] | None) -> None:
    """A pair is refused by `never`, by the newcomer's limit, or by the resident's."""
    row = {"a": "old/p", "b": "j/p", "slowdown": slowdown or [None, 1]}
    cluster = snapshot(
        {"n": 1}, {"old": {}, "j": {}}, interference={"table": [row]}, policy={"max_slowdown": 1.5}
    )
    found = why(cluster, plan(old=("n", "0")))
    assert (found.reason, *numbers(found)) == ("interference", 1, 0, 0, 1)


def test_a_third_resident_adds_up() -> None:
    """1.3 and 1.3 make 1.6 for the one in the middle: each pair alone would be allowed."""
    cluster = snapshot(
        {"n": 1}, {"a": {}, "b": {}, "j": {}}, types=FREE,
        interference={"default": 1.3}, policy={"max_slowdown": 1.5},
    )  # fmt: skip
    assert why(cluster, plan(a=("n", "0"), b=("n", "0"))).reason == "interference"
    assert why(cluster, plan(a=("n", "0"))).reason != "interference"


# ---- gangs ---------------------------------------------------------------------------------


def test_d03_three_nodes_needed_two_exist() -> None:
    """An impossible group is named, and is no matter for the others."""
    gang = {"tasks": [{"count": 3, "gpus": 0, "host": {"cpu": 2}}]}
    row = why(snapshot({"n1": {"host": {"cpu": 2}}, "n2": {"host": {"cpu": 2}}}, {"j": gang}))
    assert (row.reason, row.details["tasks"], row.details["tasks_fit"]) == ("never_fits", 3, 2)


def test_d04_the_part_waits_for_its_peer() -> None:
    """Part 0 fits alone; part 1 is short by 2 CPUs."""
    gang = {"tasks": [{"count": 2, "gpus": 0, "host": {"cpu": 2}}]}
    row = why(snapshot({"n1": {"host": {"cpu": 2}}}, {"j": gang}))
    assert (row.details["tasks"], row.details["tasks_fit"]) == (2, 1)
    assert (row.details["resource"], row.details["short_by"]) == ("cpu", 2)
    assert row.message == (
        "1 of its 2 tasks fit on the empty cluster; the next needs 2 of host cpu; the largest free "
        "piece is 0 (0 in all), short by 2 on the nearest node 'n1'"
    )


def test_gang_partial_under_the_plan() -> None:
    gang = {"tasks": [{"count": 2, "gpus": 2, "exclusive": True}]}
    cluster = snapshot({"n1": 2, "n2": 2}, {"old": WHOLE, "j": gang}, types=FREE)
    row = why(cluster, plan(old=("n2", "1")))
    assert (row.reason, row.details["tasks_fit"]) == ("gang_partial", 1)
    assert numbers(row) == (2, 1, 1, 1)
    assert row.details["nearest_node"] == "n2"


def test_unlike_tasks_that_only_fit_in_another_order_are_not_called_impossible() -> None:
    """Greedy packing may fail where a plan exists; then `never_fits` would be a lie."""
    tasks = [{"gpus": 0, "host": {"cpu": 3}}, {"gpus": 0, "host": {"cpu": 5}}]
    nodes = {"a": {"host": {"cpu": 5}}, "b": {"host": {"cpu": 3}}}
    assert why(snapshot(nodes, {"j": {"tasks": tasks}})).reason in ("gang_partial", "not_tried")


def test_all_gpus_of_a_job_are_of_one_type() -> None:
    cluster = snapshot(
        {"n": {"gpus": [{"id": "a"}, {"id": "b", "type": "B"}]}}, {"j": {"gpus": 2}},
        types={"A": {}, "B": {}},
    )  # fmt: skip
    assert (why(cluster).reason, *numbers(why(cluster))) == ("never_fits", 2, 1, 1, 1)


# ---- worth less ----------------------------------------------------------------------------


def beside(slowdown: float, **more: Any) -> Snapshot:
    row = {"a": "old/p", "b": "j/p", "slowdown": [slowdown, slowdown]}
    return snapshot({"n": 1}, {"old": {}, "j": more}, interference={"table": [row]})


def test_outbid_costs_more_than_it_brings() -> None:
    """Each loses 0.75: the pair is worth 0.5, one alone 1."""
    row = why(beside(1.75), plan(old=("n", "0")))
    assert (row.reason, row.details["gain"]) == ("outbid", -0.5)
    assert "0.5 more than it brings" in row.message


def test_not_tried_would_bring_more() -> None:
    row = why(beside(1.25), plan(old=("n", "0")))
    assert (row.reason, row.details["gain"]) == ("not_tried", 0.5)


def test_outbid_by_a_higher_priority() -> None:
    """Whatever it brings, a lower priority costs a higher one nothing."""
    cluster = beside(1.25, priority=-1)
    row = why(cluster, plan(old=("n", "0")))
    assert row.reason == "outbid"
    assert "would cost jobs of priority 0 0.25" in row.message


def test_worth_nothing() -> None:
    row = why(snapshot({"n": 1}, {"j": {"weight": 0}}))
    assert (row.reason, row.details["gain"]) == ("outbid", 0)


def test_the_least_harmful_gpu_is_judged() -> None:
    """With a bad and a good neighbour, the gain is that beside the good one."""
    table = [
        {"a": "bad/p", "b": "j/p", "slowdown": [3, 3]},
        {"a": "good/p", "b": "j/p", "slowdown": [1.1, 1.1]},
    ]
    cluster = snapshot({"n": 2}, {"bad": {}, "good": {}, "j": {}}, interference={"table": table})
    row = why(cluster, plan(bad=("n", "0"), good=("n", "1")))
    assert (row.reason, row.details["gain"]) == ("not_tried", pytest.approx(0.8))


# ---- running jobs --------------------------------------------------------------------------


def test_a_running_job_may_stay_on_its_cordoned_node() -> None:
    running = {"current": {"profile": "p", "tasks": [{"node": "n", "gpus": [0]}]}}
    cluster = snapshot({"n": {"gpus": 1, "schedulable": False}}, {"j": running})
    assert why(cluster).reason == "not_tried"


def test_an_immovable_job_is_short_at_home_only() -> None:
    running = {"movable": False, "current": {"profile": "p", "tasks": [{"node": "n", "gpus": [0]}]}}
    cluster = snapshot({"n": 1, "m": 4}, {"a": WHOLE, "j": {**running, **WHOLE}})
    row = why(cluster, plan(a=("n", "0")))
    assert (row.reason, row.details["nearest_node"], row.details["total_free"]) == (
        "short_of_gpus", "n", 0,
    )  # fmt: skip


# ---- any snapshot --------------------------------------------------------------------------


@given(snapshots(max_jobs=3, max_devices=3, max_profiles=2))
def test_reasons_of_an_optimal_plan(cluster: Snapshot) -> None:
    """No job is called impossible that a plan can hold, and none could be added for a gain."""
    best = brute_force(cluster).plan
    if best is None:
        return
    rows = explain_unplaced(cluster, best)
    assert [row.job for row in rows] == [job.name for job in cluster.jobs if job.name not in best]
    for row in rows:
        assert row.reason != "not_tried", row
        if "short_by" in row.details:
            assert row.details["short_by"] > 0, row
            assert row.message.count("\n") == 0
        free = cluster.replace(jobs=tuple(
            job.replace(must_place=False, preemptible=True, weight=1)
            for job in cluster.jobs if job.name == row.job
        ))  # fmt: skip
        alone = brute_force(free).plan
        if row.reason in STATIC - {"cordoned"} and not _immovable(free):
            assert alone is not None
            assert not alone, row
        elif row.reason.startswith("short_of") or row.reason in ("residents", "interference"):
            assert alone or _unlike_tasks(free), row


def _unlike_tasks(cluster: Snapshot) -> bool:
    return any(len(profile.task_list()) > 1 for job in cluster.jobs for profile in job.profiles)


def _immovable(cluster: Snapshot) -> bool:
    return any(not job.movable for job in cluster.jobs)


def test_six_thousand_unplaced_jobs_in_seconds() -> None:
    """The size of a public trace: 8,152 jobs of some hundred shapes, 1,213 nodes."""
    nodes = {f"n{i}": {"gpus": 5, "host": {"cpu": 64}} for i in range(1213)}
    jobs = {
        f"j{i}": {"gpus": i % 9, "gpu": {"memory": 1 + i % 7}, "host": {"cpu": 1 + i % 31}}
        for i in range(8152)
    }
    cluster = snapshot(nodes, jobs)
    full = plan(**{f"j{i * 9 + 5}": (f"n{i}", *"01234") for i in range(900)})
    begun = time.process_time()
    rows = explain_unplaced(cluster, full)
    assert len(rows) == 8152 - 900
    assert time.process_time() - begun < 15  # about 2 s on an idle machine
