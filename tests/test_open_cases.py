"""Reports that people have filed against schedulers and solvers, answered.

One test per report, each a small input with its known right answer. The id is that of the
collected list; `owner/repo#n` is the issue where the trouble was described. Inputs are ours.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import registered
from build import Json, data, gang, job, node, profile, snapshot, whole
from click.testing import CliRunner

from elastico_opt import (
    InputError,
    Plan,
    Result,
    Snapshot,
    evaluate,
    generate,
    parse_snapshot,
    snapshot_json,
    solve,
    verify,
)
from elastico_opt.certify import certify
from elastico_opt.cli import main
from elastico_opt.plan import running_plan
from elastico_opt.snapshot import Job, Profile
from elastico_opt.solvers.base import Outcome, Stop, relative_gap

EXACT = registered.exact()


@pytest.fixture(params=EXACT)
def solver(request: pytest.FixtureRequest) -> str:
    """Each solver that claims proofs must give the answer."""
    return str(request.param)


def optimum(found: Snapshot, solver: str, **options: Any) -> Result:
    """Solve to a proof, checked."""
    result = solve(found, solver=solver, **options)
    assert result.status == "optimal", result.to_json()
    verify(found, result)
    assert evaluate(found, result).objective == result.objective
    return result


def placed(result: Result) -> list[str]:
    return [row.job for row in result.placements]


def reason(result: Result, name: str, *numbers: str) -> tuple[Any, ...]:
    """Return the code of a job that is not placed, and the numbers behind its message."""
    row = next(row for row in result.unplaced if row.job == name)
    return (row.reason, *(row.details[number] for number in numbers))


def spots(result: Result) -> dict[str, list[tuple[str, int | str]]]:
    return {
        row.job: [(task.node, gpu) for task in row.tasks for gpu in task.gpus]
        for row in result.placements
    }


def memory(amount: str, residents: int | None = None) -> Json:
    """One GPU type whose devices have this much memory."""
    limit = {} if residents is None else {"max_residents": residents}
    return {"G": {"capacity": {"memory": amount}, **limit}}


def many(count: int, *profiles: Json, prefix: str = "j", **more: Any) -> list[Json]:
    return [job(f"{prefix}{i}", *profiles, **more) for i in range(count)]


# ---- B: packing, sharing, fragmentation --------------------------------------------------------


def test_b01_memory_of_a_gpu_is_a_hard_cap(solver: str) -> None:
    """B01, kai-scheduler/KAI-Scheduler#257: 16384 MiB hold two jobs of 8000 MiB, not three."""
    jobs = many(3, profile(gpu={"memory": "8000Mi"}))
    result = optimum(snapshot([node()], jobs, memory("16384Mi")), solver)
    assert result.objective == 2
    code, short = reason(result, result.unplaced[0].job, "short_by")
    assert (code, short) == ("short_of_memory", (3 * 8000 - 16384) * 2**20)


@pytest.mark.parametrize(("count", "each", "fit"), [(24, "2000Mi", 23), (4, "12000Mi", 3)])
def test_b02_the_cap_holds_for_many_small_jobs(
    solver: str, count: int, each: str, fit: int
) -> None:
    """B02, kai-scheduler/KAI-Scheduler#416: 46068 MiB hold 23 jobs of 2000, 3 of 12000."""
    jobs = many(count, profile(gpu={"memory": each}))
    assert optimum(snapshot([node()], jobs, memory("46068Mi")), solver).objective == fit


def test_b03_fractions_are_counted_gpu_by_gpu(solver: str) -> None:
    """B03, ray-project/ray#5902: two GPUs hold 2 x 6 jobs of 0.15; the node's sum says 13."""
    jobs = many(13, profile(gpu={"sm": 0.15}))
    found = snapshot([node(gpus=2)], jobs, {"G": {"capacity": {"sm": 1}}})
    assert optimum(found, solver).objective == 12


def test_b04_fractions_are_packed_tightly(solver: str) -> None:
    """B04, ray-project/ray#52133, #20933: spread badly, fractions that fit would hang."""
    types = {"G": {"capacity": {"sm": 1}}}
    ten = snapshot([node("n1"), node("n2")], many(10, profile(gpu={"sm": 0.18})), types)
    assert optimum(ten, solver).objective == 10
    four = snapshot([node("n1", 2), node("n2", 2)], many(4, profile(gpu={"sm": 0.6})), types)
    result = optimum(four, solver)
    assert result.objective == 4
    assert len({spot for (spot,) in spots(result).values()}) == 4


def test_b06_a_gang_does_not_block_itself(solver: str) -> None:
    """B06, volcano-sh/volcano#1297: X fits both nodes, Y only A. X must leave A to Y."""
    nodes = [
        {"name": "A", "host": {"cpu": 53, "memory": 476}},
        {"name": "B", "host": {"cpu": 31, "memory": 96}},
    ]
    tasks = [
        {"gpus": 0, "host": {"cpu": 30, "memory": 1}},
        {"gpus": 0, "host": {"cpu": 50, "memory": 1}},
    ]
    result = optimum(
        snapshot(nodes, [job("g", {"name": "p", "throughput": 1, "tasks": tasks})]), solver
    )
    assert [task.node for task in result.placements[0].tasks] == ["B", "A"]


def test_b10_some_memory_on_each_of_several_gpus(solver: str) -> None:
    """B10, AliyunContainerService/gpushare-scheduler-extender#174, koordinator-sh/koordinator#2097.

    Two GPUs of 16 GB hold 2 x 5 and 2 x 10; then 1 GB is left on each, too little for 2 x 2.
    """
    sizes = {"A": "5G", "B": "10G", "C": "2G"}
    jobs = [
        job(name, profile(gpus=2, gpu={"memory": size}), weight=1 if name == "C" else 5)
        for name, size in sizes.items()
    ]
    result = optimum(snapshot([node(gpus=2)], jobs, memory("16G")), solver)
    assert placed(result) == ["A", "B"]
    code, needs, free = reason(result, "C", "needs", "largest_free")
    assert (code, needs, free) == ("short_of_memory", 2 * 10**9, 10**9)


def test_b11_gpus_of_one_node_may_differ(solver: str) -> None:
    """B11, koordinator-sh/koordinator#2191, NVIDIA/k8s-device-plugin#75: one of three is larger."""
    sizes = ["16130Mi", "11178Mi", "11178Mi"]
    gpus = [{"id": f"g{i}", "capacity": {"memory": size}} for i, size in enumerate(sizes)]
    found = snapshot([node(gpus=gpus)], many(2, profile(gpu={"memory": "12000Mi"})))
    result = optimum(found, solver)
    assert list(spots(result).values()) == [[("n1", "g0")]]


def test_b12_every_gpu_of_a_node_is_used(solver: str) -> None:
    """B12, AliyunContainerService/gpushare-scheduler-extender#188, #101: 5 x 10 on 4 x 23 GiB."""
    jobs = many(5, profile(gpu={"memory": "10Gi"}))
    assert optimum(snapshot([node(gpus=4)], jobs, memory("23Gi")), solver).objective == 5


def test_b14_small_jobs_make_room_for_a_gang(solver: str) -> None:
    """B14, kubernetes-sigs/kueue#1476, #4329, cBio/cbio-cluster#20: three nodes of eight.

    Two small jobs share one node so that a gang of 2 x 8 fits; fixed on two nodes they bar it.
    """
    nodes = [node(f"n{i}", 8) for i in range(3)]
    big = job("gang", gang(2, 8))
    free = optimum(snapshot(nodes, [*many(2, whole()), big]), solver)
    assert free.objective == 3
    small = spots(free)
    assert small["j0"][0][0] == small["j1"][0][0]
    fixed = [
        job(f"j{i}", whole(), current={"profile": "p", "tasks": [{"node": f"n{i}", "gpus": [0]}]},
            movable=False, preemptible=False)
        for i in range(2)
    ]  # fmt: skip
    barred = optimum(snapshot(nodes, [*fixed, big]), solver)
    assert placed(barred) == ["j0", "j1"]
    assert reason(barred, "gang", "tasks", "tasks_fit") == ("gang_partial", 2, 1)


def test_b15_a_job_that_fits_nowhere_blocks_nobody(solver: str) -> None:
    """B15, volcano-sh/volcano#1119, #4617: 5 GPUs on one node wanted, 4 and 1 there."""
    found = snapshot(
        [node("n1", 4), node("n2", 1)], [job("big", whole(5), weight=9), job("small", whole())]
    )
    result = optimum(found, solver)
    assert placed(result) == ["small"]
    why = reason(result, "big", "needs", "largest_free", "total_free", "short_by")
    assert why == ("never_fits", 5, 4, 5, 1)


def test_b17_the_number_of_jobs_on_a_gpu_has_its_own_reason(solver: str) -> None:
    """B17, Project-HAMi/website#767: memory is ample, the cap of ten jobs is not."""
    jobs = many(11, profile(gpu={"memory": "100Mi"}))
    result = optimum(snapshot([node()], jobs, memory("80000Mi", 10)), solver)
    assert result.objective == 10
    assert [row.reason for row in result.unplaced] == ["residents"]


def test_b19_a_demand_is_never_rounded_down(solver: str) -> None:
    """B19, NVIDIA-NeMo/Curator#2421: 10 of 250.69 GB is not 0.0 GPUs; 25 jobs fit, not 26."""
    jobs = many(26, profile(gpu={"memory": "10240Mi"}))
    assert optimum(snapshot([node()], jobs, memory("256706Mi")), solver).objective == 25


def test_b20_cpu_jobs_leave_the_gpu_node_to_gpu_jobs(solver: str) -> None:
    """B20, ray-project/ray#64469, #64307, skypilot-org/skypilot#3597: both on, each in its place.

    Without the CPU node, the CPU job may well use the GPU node's cores.
    """
    gpu_node, cpu_node = node("G", 4, host={"cpu": 8}), {"name": "C", "host": {"cpu": 8}}
    jobs = [job("g", whole(4, host={"cpu": 8})), job("c", profile(gpus=0, host={"cpu": 8}))]
    both = optimum(snapshot([gpu_node, cpu_node], jobs), solver)
    assert {row.job: row.tasks[0].node for row in both.placements} == {"g": "G", "c": "C"}
    alone = optimum(snapshot([gpu_node], jobs[1:]), solver)
    assert alone.placements[0].tasks[0].node == "G"


def test_b21_a_node_without_gpus_breaks_no_ratio(tmp_path: Path) -> None:
    """B21, kubernetes-sigs/descheduler#1634, #1635: no NaN, no division by zero in the report."""
    path = tmp_path / "s.json"
    path.write_text(snapshot_json(snapshot([node(), {"name": "cpu"}], [job()])))
    for form in ("text", "json"):
        ran = CliRunner().invoke(main, ["solve", str(path), "--format", form])
        assert ran.exit_code == 0, ran.stderr
        assert not re.search(r"\b(nan|inf|infinity)\b", ran.stdout.lower())
    assert json.loads(ran.stdout)["objective"] == 1


# ---- D: gangs ----------------------------------------------------------------------------------


def test_d01_fewer_than_the_gang_is_nothing(solver: str) -> None:
    """D01, volcano-sh/volcano#2462: eight of ten workers fit, so none is placed."""
    result = optimum(snapshot([node("n1", 4), node("n2", 4)], [job("g", gang(10))]), solver)
    assert placed(result) == []
    assert (result.objective, result.bound, result.gap) == (0, 0, 0)
    assert reason(result, "g", "tasks", "tasks_fit") == ("never_fits", 10, 8)


def test_d02_two_gangs_do_not_hold_half_each(solver: str) -> None:
    """D02, kubernetes-retired/kube-batch#158, opensource4you/astraea#201: one whole gang of 3."""
    found = snapshot([node("n1", 4)], [job("a", gang(3)), job("b", gang(3))])
    result = optimum(found, solver)
    assert len(result.placements) == 1
    assert len(result.placements[0].tasks) == 3


def test_d03_an_impossible_gang_stops_nobody(solver: str) -> None:
    """D03, ray-project/ray#50959, #39691, #20968: three nodes needed, two exist; the other runs."""
    nodes = [{"name": f"n{i}", "host": {"cpu": 2}} for i in range(2)]
    groups = [
        job("pg1", gang(3, 0, host={"cpu": 2}), weight=9),
        job("pg2", gang(2, 0, host={"cpu": 2})),
    ]
    result = optimum(snapshot(nodes, groups), solver)
    assert placed(result) == ["pg2"]
    assert sorted(task.node for task in result.placements[0].tasks) == ["n0", "n1"]
    assert reason(result, "pg1", "tasks", "tasks_fit") == ("never_fits", 3, 2)


def test_d04_a_part_that_fits_waits_for_its_peers(solver: str) -> None:
    """D04, volcano-sh/volcano#4116, #3976: part 0 fits alone, part 1 is short of 2 cpu."""
    found = snapshot([{"name": "n1", "host": {"cpu": 2}}], [job("g", gang(2, 0, host={"cpu": 2}))])
    result = optimum(found, solver)
    assert placed(result) == []
    numbers = ("tasks", "tasks_fit", "resource", "short_by")
    assert reason(result, "g", *numbers) == ("never_fits", 2, 1, "cpu", 2)


def test_d08_as_many_workers_as_fit(solver: str) -> None:
    """D08, kubernetes-sigs/kueue#420, #763, #14310: of 2, 4 and 8 GPUs, five GPUs allow four."""
    family = [whole(g, f"{g}g", t) for g, t in ((2, 2), (4, "3.5"), (8, 6))]
    result = optimum(snapshot([node(gpus=5)], [job("elastic", *family)]), solver)
    assert result.placements[0].profile == "4g"


# ---- E: interference ---------------------------------------------------------------------------


def pair(gpus: int, slowdown: list[Any] | None, coupling: str = "throughput") -> Snapshot:
    """Jobs a and b, alone worth 1 each, at most two on a GPU."""
    rows = [] if slowdown is None else [{"a": "a/p", "b": "b/p", "slowdown": slowdown}]
    return snapshot(
        [node(gpus=gpus)],
        [job("a"), job("b")],
        {"G": {"max_residents": 2}},
        interference={"table": rows},
        policy={"coupling": coupling},
    )


def test_e02_sharing_must_pay(solver: str) -> None:
    """E02, NVIDIA/nvidia-docker#911: twice as slow together is worth no more than one alone."""
    assert optimum(pair(1, [2, 2]), solver).objective == pytest.approx(1)
    shared = optimum(pair(1, [1.25, 1.25]), solver)
    assert shared.objective == pytest.approx(1.6)
    assert [row.slowdown for row in shared.placements] == [1.25, 1.25]
    apart = optimum(pair(2, [1.25, 1.25]), solver)
    assert apart.objective == 2
    assert len({spot for (spot,) in spots(apart).values()}) == 2


def test_e03_slowdowns_are_asymmetric(solver: str) -> None:
    """E03, sgl-project/sglang-omni#986, #372: 1.1 and 4 is worth 1.159, 4 and 4 is not."""
    result = optimum(pair(1, [1.1, 4]), solver)
    assert result.objective == pytest.approx(1 / 1.1 + 1 / 4)
    assert {row.job: row.slowdown for row in result.placements} == {"a": 1.1, "b": 4}
    assert optimum(pair(1, [4, 4]), solver).objective == pytest.approx(1)


def test_e03_a_missing_pair_is_not_guessed(solver: str) -> None:
    """E03: with `default: null` an unmeasured pair is kept apart, and the report counts it."""
    result = optimum(pair(1, None), solver)
    assert result.objective == 1
    assert result.missing_pairs > 0
    default = pair(1, None).replace(interference={"table": [], "default": 1.25})
    assert optimum(default, solver).objective == pytest.approx(1.6)


# ---- F: solvers, numbers, interfaces -----------------------------------------------------------


def infeasible() -> Snapshot:
    return snapshot([node()], [job("needs-two", whole(2), must_place=True)])


def save(found: Snapshot, folder: Path) -> str:
    path = folder / "snapshot.json"
    path.write_text(snapshot_json(found), encoding="utf-8")
    return str(path)


def test_f01_infeasible_is_an_answer(solver: str, tmp_path: Path) -> None:
    """F01, Pyomo/pyomo#2920, #3130, #3141, #3557: a status and an exit code, no exception."""
    result = solve(infeasible(), solver=solver)
    assert (result.status, result.plan, result.objective, result.gap) == (
        "infeasible",
        None,
        None,
        None,
    )
    assert result.infeasibility is not None
    assert result.infeasibility.jobs == ("needs-two",)
    ran = CliRunner().invoke(main, ["solve", save(infeasible(), tmp_path), "--solver", solver])
    assert ran.exit_code == 3
    assert "Traceback" not in ran.output


@pytest.mark.parametrize("name", ["auto", *EXACT])
def test_f03_no_time_no_claim(name: str) -> None:
    """F03, cvxpy/cvxpy#3534, coin-or/pulp#876, google/or-tools#5016: never an unchecked plan."""
    found = snapshot([node(gpus=4)], many(9, whole()))
    result = solve(found, solver=name, time_limit=0)
    assert result.status in ("no_solution", "feasible")
    if result.status == "no_solution":
        assert (result.plan, result.objective) == (None, None)
        assert result.placements == ()
    else:
        verify(found, result)


def test_f04_the_status_follows_from_plan_and_bound() -> None:
    """F04, coin-or/pulp#711, #649, #445, ERGO-Code/HiGHS#1147, #660: the clock proves nothing."""
    found = snapshot([node()], many(2, whole()))
    one = solve(found).plan
    assert one is not None
    for bound, status in (
        (1.0, "optimal"),
        (1.0 + 5e-7, "optimal"),
        (1.1, "feasible"),
        (None, "feasible"),
    ):
        for stop in (Stop.PROVED, Stop.TIME_LIMIT):
            assert certify(found, Outcome(one, [bound], stop)).status == status
    assert certify(found, Outcome(None, [1.0], Stop.TIME_LIMIT)).status == "no_solution"


def large() -> Snapshot:
    """Far too much for a proof in a second."""
    return generate("mixed", jobs=300, gpus=96, seed=1)


def test_f05_a_stopped_run_keeps_what_it_has(solver: str) -> None:
    """F05, scipy/scipy#16545, #16814, cvxpy/cvxpy#847, #2278: plan, bound and gap at the limit."""
    found = generate("mixed", jobs=24, gpus=8, seed=1)
    result = solve(found, solver=solver, time_limit=3)
    if result.status == "no_solution":
        assert result.stop == "time_limit"
        return
    verify(found, result)
    assert result.objective is not None
    if result.bound is not None:
        assert result.bound >= result.objective
        assert result.gap == relative_gap(result.objective, result.bound)
    if result.status != "optimal":
        assert result.stop in ("time_limit", "converged")


def test_f07_the_bound_is_above(solver: str) -> None:
    """F07, ERGO-Code/HiGHS#2154, #752, jump-dev/HiGHS.jl#229: ten jobs, room for three."""
    result = optimum(snapshot([node(gpus=3)], many(10, whole())), solver)
    assert (result.objective, result.bound, result.gap) == (3, 3, 0)


def test_f09_values_are_not_cut_to_integers(solver: str) -> None:
    """F09, google/or-tools#2050, #2174, #4352: 30.55 beats 30.45 though both are 30 in integers."""
    jobs = [job("less", whole(throughput=30.45)), job("more", whole(throughput=30.55))]
    result = optimum(snapshot([node()], jobs, policy={"objective": "throughput"}), solver)
    assert placed(result) == ["more"]
    assert result.objective == 30.55


def test_f11_large_coefficients_do_not_wrap(solver: str) -> None:
    """F11, google/or-tools#5293, #5295, ERGO-Code/HiGHS#3258, #3034: no wrong optimum near 2^31.

    Byte counts far beyond 32 bits, values of eight digits: the subset is known by hand.
    """
    sizes = [48_000_000_001, 37_000_000_003, 26_000_000_007, 15_000_000_011]
    jobs = [
        job(f"j{i}", profile(gpu={"memory": size}, throughput=size // 1000), weight="0.001")
        for i, size in enumerate(sizes)
    ]
    found = snapshot([node()], jobs, memory("79900000000"), policy={"objective": "throughput"})
    result = optimum(found, solver)
    assert placed(result) == ["j1", "j2", "j3"]
    assert result.objective == pytest.approx(sum(size // 1000 for size in sizes[1:]) / 1000)


def test_f12_a_tiny_demand_is_not_zero(solver: str) -> None:
    """F12, ERGO-Code/HiGHS#1292, #1626, #2943, #1527, #1721: 1e-7 of nothing does not fit."""
    jobs = [job("j", profile(gpu={"sm": "0.0000001"}))]
    for nodes, types in (
        ([node()], {"G": {"capacity": {"sm": 0}}}),
        ([node()], {"G": {}}),
        ([node("n1", 0, host={"cpu": 1})], {"G": {}}),
    ):
        assert placed(optimum(snapshot(nodes, jobs, types), solver)) == []
    almost = [
        job(name, profile(gpu={"sm": size})) for name, size in (("a", "0.5"), ("b", "0.50000001"))
    ]
    assert (
        optimum(snapshot([node()], almost, {"G": {"capacity": {"sm": 1}}}), solver).objective == 1
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('"throughput": NaN', "throughput"),
        ('"throughput": Infinity', "throughput"),
        ('"throughput": 1e400', "throughput"),
        ('"throughput": -1', "throughput"),
        ('"throughput": true', "throughput"),
        ('"throughput": "fast"', "throughput"),
        ('"throughput": 1, "gpu": {"sm": -1}', "gpu.sm"),
        ('"throughput": 1, "gpu": {"sm": Infinity}', "gpu.sm"),
        ('"throughput": 1, "gpus": -1', "gpus"),
    ],
)
def test_f13_bad_numbers_stop_at_the_door(text: str, field: str, tmp_path: Path) -> None:
    """F13, ERGO-Code/HiGHS#2883, #1577: no "Optimal, nan", but an error that names the field."""
    raw = json.dumps(data([node()], [job("bert", {"name": "b64", "throughput": 7})]))
    path = tmp_path / "s.json"
    path.write_text(raw.replace('"throughput": 7', text))
    assert text in path.read_text()
    ran = CliRunner().invoke(main, ["solve", str(path)])
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert f"job 'bert', profile 'b64', {field}: " in ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_f15_thread_counts_may_change(solver: str) -> None:
    """F15, jump-dev/HiGHS.jl#130, ERGO-Code/HiGHS#3141, #1731: 1, 2, 1 threads in one process."""
    found = snapshot(
        [node(gpus=3)], many(5, profile(gpu={"sm": 0.6})), {"G": {"capacity": {"sm": 1}}}
    )
    assert [optimum(found, solver, threads=n).objective for n in (1, 2, 1)] == [3, 3, 3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", *EXACT])
def test_f16_the_time_limit_covers_everything(name: str) -> None:
    """F16, ERGO-Code/HiGHS#885, #947, #1501, #2226, #2478, google/or-tools#2604: 2 s plus grace.

    A small solve comes first: kernels compiled on the very first use are kept on disk.
    """
    solve(snapshot([node()], [job()]), solver=name)
    found = large()
    began = time.monotonic()
    result = solve(found, solver=name, time_limit=2)
    assert time.monotonic() - began < 4
    if result.plan is not None:
        verify(found, result)


def test_f17_a_stale_start_changes_nothing(solver: str) -> None:
    """F17, ERGO-Code/HiGHS#902, google/or-tools#4693, #4373, #3750: used where valid, and told."""
    before = snapshot([node("old", 2), node("n1", 2)], many(4, whole()))
    start = solve(before, solver=solver)
    after = snapshot([node("n1", 2), node("new", 1)], many(4, whole()))
    cold, warm = optimum(after, solver), optimum(after, solver, start=start)
    assert warm.objective == cold.objective == 3
    assert any("'old'" in line for line in warm.warnings)
    assert not any("'old'" in line for line in cold.warnings)


def mixed_bag() -> Json:
    jobs = [
        job(f"j{i}", profile(gpu={"sm": size}, throughput=rate), whole(2, "two", rate * 1.5))
        for i, (size, rate) in enumerate(
            [(0.3, 5), (0.6, 7), (0.5, 3), (0.4, 7), (0.9, 2), (0.5, 6)]
        )
    ]
    return data([node("n1", 2), node("n2", 1)], jobs, {"G": {"capacity": {"sm": 1}}},
                policy={"objective": "throughput"})  # fmt: skip


def test_f18_order_does_not_matter_and_runs_repeat(solver: str) -> None:
    """F18, google/or-tools#2793, #1579, #3948, #4458, #4783: same file, same plan."""
    raw = mixed_bag()
    first, again = (optimum(parse_snapshot(raw), solver) for _ in range(2))
    assert first.placements == again.placements
    shuffled = {**raw, "jobs": raw["jobs"][::-1], "nodes": raw["nodes"][::-1]}
    assert optimum(parse_snapshot(shuffled), solver).objective == pytest.approx(first.objective)


def test_f20_odd_names_survive(solver: str) -> None:
    """F20, ERGO-Code/HiGHS#2887, #1799, #2897, #851, coin-or/Cbc#58: "a b", "a_b", "a/b" differ."""
    names = ["a b", "a_b", "a/b", "a\nb", "ä", "'", "c0", "x1"]
    found = snapshot([node("gpu node 1", len(names))], [job(name, whole()) for name in names])
    result = optimum(found, solver)
    assert placed(result) == names
    assert Result.from_json(result.to_json()).plan == result.plan


@pytest.mark.parametrize("form", ["mps", "lp"])
def test_f20_exported_names_are_safe_and_distinct(form: str, tmp_path: Path) -> None:
    """F20: a file with "a b" and "a_b" in it, read back by HiGHS, keeps optimum and names."""
    import highspy

    names = ["a b", "a_b", "a/b"]
    jobs = [job(name, whole(), weight=i + 1) for i, name in enumerate(names)]
    found = snapshot([node("gpu node 1", 2)], jobs)
    path = tmp_path / f"model.{form}"
    ran = CliRunner().invoke(main, ["export", form, save(found, tmp_path), "-o", str(path)])
    assert (ran.exit_code, ran.stdout) == (0, "")
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", 0.0)
    assert model.readModel(str(path)) == highspy.HighsStatus.kOk
    model.run()
    assert model.getObjectiveValue() == pytest.approx(5)
    columns = model.getLp().col_names_
    assert len(set(columns)) == len(columns)
    assert all(re.fullmatch(r"[A-Za-z_][\w.]*", name, re.ASCII) for name in columns)
    meanings = json.dumps(json.loads((tmp_path / f"model.{form}.names.json").read_text()))
    assert all(name in meanings for name in [*names, "gpu node 1"])


def test_f21_nothing_to_do_is_optimal(solver: str) -> None:
    """F21, credativ/ProxLB#128: a snapshot that already is its own optimum needs no move."""
    raw = mixed_bag()
    before = optimum(parse_snapshot(raw), solver)
    held = {row["job"]: row for row in before.to_dict()["placements"]}
    for one in raw["jobs"]:
        if one["name"] in held:
            row = held[one["name"]]
            one["current"] = {"profile": row["profile"], "tasks": row["tasks"]}
    raw["policy"] |= {"migration_cost": 0.01, "switch_cost": 0.01, "eviction_cost": 0.01}
    settled = parse_snapshot(raw)
    result = optimum(settled, solver)
    assert result.plan == running_plan(settled)
    assert (result.terms["migration"], result.terms["switching"], result.terms["eviction"]) == (
        0,
        0,
        0,
    )
    assert result.objective == pytest.approx(before.objective)


def test_f22_the_conflict_is_one_and_is_minimal(solver: str) -> None:
    """F22, google/or-tools#5141, ERGO-Code/HiGHS#2652, #3037, Pyomo/pyomo#3703.

    Three jobs of one GPU must be placed on two; a CPU job that fits is no part of the conflict.
    """
    cpu = job("cpu", profile(gpus=0, host={"cpu": 1}), must_place=True)
    three = many(3, whole(), must_place=True)
    found = snapshot([node(gpus=2, host={"cpu": 4})], [cpu, *three])
    conflict = solve(found, solver=solver).infeasibility
    assert conflict is not None
    assert conflict.minimal
    assert set(conflict.jobs) == {"j0", "j1", "j2"}
    for left_out in conflict.jobs:
        rest = tuple(j for j in found.jobs if j.name in conflict.jobs and j.name != left_out)
        assert solve(found.replace(jobs=rest), solver=solver).status == "optimal"


def test_f24_equal_nodes_are_not_tried_one_by_one() -> None:
    """F24, google/or-tools#1799, #3620, fdabrandao/vpsolver#14: symmetry must not cost hours.

    Twenty jobs on 200 equal nodes, with sharing worth a thought; the answer is known by hand.
    """
    rows = [{"a": "w", "b": "w", "slowdown": [1.5, 1.5]}]
    jobs = many(20, profile(workload="w", gpu={"sm": 0.4}))
    types = {"G": {"capacity": {"sm": 1}, "max_residents": 2}}
    nodes = [node(f"n{i}", 1) for i in range(200)]
    found = snapshot(nodes, jobs, types, interference={"table": rows})
    began = time.monotonic()
    result = optimum(found, "auto")
    assert result.objective == 20
    assert time.monotonic() - began < 60  # kernels may have to be compiled first


@pytest.mark.parametrize("name", ["auto", *EXACT])
def test_f25_only_the_result_is_on_standard_output(name: str, tmp_path: Path) -> None:
    """F25, ERGO-Code/HiGHS#1257: a solver's banner on C's stdout would break every pipe."""
    path = save(snapshot([node(gpus=2)], many(3, whole())), tmp_path)
    command = [sys.executable, "-m", "elastico_opt", "solve", path, "--format", "json"]
    ran = subprocess.run([*command, "--solver", name], capture_output=True, check=True, timeout=60)
    result = Result.from_json(ran.stdout)
    assert result.objective == 2
    assert ran.stderr == b""


def test_f26_numpy_numbers_are_numbers(solver: str) -> None:
    """F26, Pyomo/pyomo#2033: numpy scalars in, the same answer out."""
    plain = snapshot([node(gpus=2)], many(3, profile(gpu={"sm": 0.5, "memory": 3})),
                     {"G": {"capacity": {"sm": 1, "memory": 4}}})  # fmt: skip
    numpy = plain.replace(
        jobs=[
            Job(
                name=f"j{i}",
                weight=np.int64(1),
                profiles=(
                    Profile(
                        name="p",
                        gpus=np.int32(1),
                        gpu={"sm": np.float32(0.5), "memory": np.int64(3)},
                        throughput=np.float64(1),
                    ),
                ),
            )
            for i in range(3)
        ]
    )
    one, other = optimum(plain, solver), optimum(numpy, solver)
    assert one.objective == other.objective == 2
    assert Counter(placed(one)) == Counter(placed(other)) or len(placed(other)) == 2
    with pytest.raises(InputError):
        parse_snapshot(data([node()], [job(weight=np.float64(math.nan))]))


def test_the_empty_plan_of_an_empty_cluster() -> None:
    """No jobs is optimal with 0; without nodes all are left out, with that reason."""
    nothing = solve(snapshot([node()], []))
    assert (nothing.status, nothing.objective, nothing.bound, nothing.gap) == ("optimal", 0, 0, 0)
    bare = solve(snapshot([], [job()]))
    assert (bare.status, bare.objective, bare.plan) == ("optimal", 0, Plan({}))
    assert [row.reason for row in bare.unplaced] == ["no_nodes"]
