"""The independent check accepts what is right, refuses every corruption, and values exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import pytest
from brute_force import brute_force
from build import Json, gang, job, node, profile, snapshot, whole
from hypothesis import given, note, settings
from strategies import snapshots

from elastico_opt import (
    Assignment,
    Plan,
    Snapshot,
    TaskPlacement,
    VerificationError,
    evaluate,
    snapshot_json,
    verify,
)
from elastico_opt.verification import TERMS, check


def at(name: str, *gpus: str) -> TaskPlacement:
    return TaskPlacement(name, gpus)


def put(profile_name: str, *tasks: TaskPlacement) -> Assignment:
    return Assignment(profile_name, tasks)


def violations(found: Snapshot, plan: Plan) -> list[str]:
    try:
        verify(found, plan)
    except VerificationError as error:
        return list(error.violations)
    return []


# ---- against the brute force ----------------------------------------------------------------


def check_best_plan(found: Snapshot) -> None:
    """`verify` accepts the best plan; `evaluate` gives its value in all, per tier, per term."""
    note(snapshot_json(found))
    answer = brute_force(found)
    if answer.plan is None or answer.objective is None:
        return
    verify(found, answer.plan)
    worth = evaluate(found, answer.plan)
    assert check(found, answer.plan) == worth
    assert worth.objective == pytest.approx(float(answer.objective), abs=1e-9, rel=1e-12)
    assert list(worth.tiers) == list(answer.tiers)
    for priority, value in answer.tiers.items():
        assert worth.tiers[priority] == pytest.approx(float(value), abs=1e-9, rel=1e-12)
    assert math.fsum(worth.terms.values()) == pytest.approx(worth.objective, abs=1e-9)
    for name, share in worth.jobs.items():
        assert set(share.terms) == set(TERMS)
        assert math.fsum(share.terms.values()) == pytest.approx(share.value, abs=1e-9)
        assert (share.slowdown >= 1) == (name in answer.plan)
        assert (share.throughput > 0) == (name in answer.plan)


@settings(max_examples=250)
@given(snapshots(max_jobs=5))
def test_the_best_plan_is_accepted_and_valued_the_same(found: Snapshot) -> None:
    """Two programs that share no line of code agree on what a plan may do and what it is worth."""
    check_best_plan(found)


@pytest.mark.slow
@settings(max_examples=4000)
@given(snapshots(max_jobs=5))
def test_the_best_plan_is_accepted_and_valued_the_same_at_length(found: Snapshot) -> None:
    """The same, on many more snapshots."""
    check_best_plan(found)


def raw_assignments(found: Snapshot, number: int) -> Iterator[Assignment | None]:
    """Every way to write an assignment of a job, rules or no rules; None: not placed."""
    yield None
    held = {n.name: [gpu.id for gpu in n.devices()] for n in found.nodes}
    for choice in found.jobs[number].profiles:
        tasks = [task for task in choice.task_list() for _ in range(task.count)]
        ways = [
            [at(n, *gpus) for n, ids in held.items() for gpus in combinations(ids, task.gpus)]
            for task in tasks
        ]
        for spots in product(*ways):
            yield put(choice.name, *spots)


def check_by_verify_alone(found: Snapshot) -> None:
    note(snapshot_json(found))
    ways = [list(raw_assignments(found, number)) for number in range(len(found.jobs))]
    if math.prod(map(len, ways)) > 3000:
        return
    best: tuple[float, ...] | None = None
    for choice in product(*ways):
        plan = Plan({j.name: a for j, a in zip(found.jobs, choice, strict=True) if a is not None})
        if not violations(found, plan):
            values = tuple(evaluate(found, plan).tiers.values())
            if best is None or tuple(round(v, 9) for v in values) > tuple(
                round(v, 9) for v in best
            ):
                best = values
    answer = brute_force(found)
    assert (best is None) == (answer.status == "infeasible")
    if best is not None:
        assert best == pytest.approx([float(v) for v in answer.tiers.values()], abs=1e-8)


@settings(max_examples=100)
@given(snapshots(max_jobs=2, max_devices=3, max_nodes=2, max_profiles=2))
def test_verify_alone_finds_the_same_optimum(found: Snapshot) -> None:
    """Filter all conceivable plans with `verify`: the best that is left is the true optimum.

    A rule that `verify` forgot would leave a better plan, a rule too many would leave a worse.
    """
    check_by_verify_alone(found)


@pytest.mark.slow
@settings(max_examples=2000)
@given(snapshots(max_jobs=3, max_devices=3, max_nodes=2, max_profiles=2))
def test_verify_alone_finds_the_same_optimum_at_length(found: Snapshot) -> None:
    """The same, on many more snapshots."""
    check_by_verify_alone(found)


# ---- a catalogue of corruptions ---------------------------------------------------------------

TYPES = {
    "A": {"capacity": {"memory": "80Gi", "sm": 1}, "max_residents": 2},
    "B": {"capacity": {"memory": "40Gi", "sm": 1}, "max_residents": 2},
}


def cluster() -> Snapshot:
    """Each rule of the contract has a job that depends on it."""
    return snapshot(
        [
            {"name": "a1", "gpu_type": "A", "gpus": 4, "host": {"cpu": 8}, "labels": {"zone": "x"}},
            {"name": "a2", "gpu_type": "A", "gpus": 2, "host": {"cpu": 8}},
            {"name": "b1", "gpu_type": "B", "gpus": 2, "host": {"cpu": 4}},
            {"name": "cordoned", "gpu_type": "A", "gpus": 2, "schedulable": False},
            {"name": "cpu", "host": {"cpu": 4}},
        ],
        [
            job("big", profile(gpu={"memory": "60Gi"})),
            job("small", profile(gpu={"memory": "20Gi"}, host={"cpu": 2})),
            job("tiny", profile(gpu={"memory": "1Gi"})),
            job("alone", whole()),
            job("gang", gang(2, throughput={"A": 2, "B": 1}), must_place=True),
            job("pair", profile(gpus=2, gpu={"sm": "0.6"})),
            job("half", profile(gpu={"sm": "0.5"})),
            job("zoned", whole(), node_selector={"zone": "x"}),
            job("listed", whole(), eligible_nodes=["b1"]),
            job("only-a", whole(throughput={"A": 1, "B": 0})),
            job("floor", whole(throughput={"A": 5, "B": 3}), min_throughput=4),
            job("calm", profile(workload="calm", gpu={"sm": "0.1"}), max_slowdown=1.1),
            job("loud", profile(workload="loud", gpu={"sm": "0.1"})),
            job("foe", profile(workload="foe", gpu={"sm": "0.1"})),
            job("cpu-job", profile(gpus=0, host={"cpu": 3})),
            job(
                "fixed",
                whole(),
                current={"profile": "p", "tasks": [{"node": "a2", "gpus": [1]}]},
                movable=False,
            ),
            job(
                "running",
                whole(),
                current={"profile": "p", "tasks": [{"node": "cordoned", "gpus": [0]}]},
                preemptible=False,
            ),
        ],
        TYPES,
        interference={
            "table": [
                {"a": "calm", "b": "loud", "slowdown": [1.2, 1]},
                {"a": "foe", "b": "loud", "slowdown": [None, 1]},
            ],
            "default": 1,
        },
    )


GOOD = Plan(
    {
        "big": put("p", at("a1", "0")),
        "small": put("p", at("a1", "0")),
        "gang": put("p", at("a1", "1"), at("a2", "0")),
        "fixed": put("p", at("a2", "1")),
        "running": put("p", at("cordoned", "0")),
        "cpu-job": put("p", at("cpu")),
    }
)


def swap(plan: Plan = GOOD, /, **changes: Assignment | None) -> Plan:
    """Change or drop assignments (`cpu_job` stands for the job `cpu-job`)."""
    new = {**plan, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return Plan({name: value for name, value in new.items() if value is not None})


def test_the_uncorrupted_plan_holds() -> None:
    """Otherwise the corruptions below would prove nothing."""
    assert violations(cluster(), GOOD) == []


CORRUPTIONS: dict[str, tuple[Plan, str]] = {
    "memory is full": (swap(tiny=put("p", at("a1", "0"))), "memory 86973087744 used"),
    "a third resident": (swap(tiny=put("p", at("a1", "0"))), "3 residents, at most 2"),
    "a smaller device type": (swap(big=put("p", at("b1", "0"))), "memory .* capacity 42949672960"),
    "sm is full": (
        swap(pair=put("p", at("b1", "0", "1")), half=put("p", at("b1", "1"))), "sm 1.1 used",
    ),
    "exclusive job gets company": (swap(tiny=put("p", at("a1", "1"))), "not alone"),
    "exclusive job joins": (swap(small=None, alone=put("p", at("a1", "0"))), "not alone"),
    "a task dropped": (swap(gang=put("p", at("a1", "1"))), "1 tasks placed, its profile has 2"),
    "a task too many": (swap(alone=put("p", at("a1", "2"), at("a1", "3"))), "2 tasks placed"),
    "a GPU dropped": (swap(pair=put("p", at("b1", "0"))), "takes 1 GPUs, it needs 2"),
    "a GPU too many": (swap(alone=put("p", at("a1", "2", "3"))), "takes 2 GPUs, it needs 1"),
    "a GPU for a CPU task": (swap(cpu_job=put("p", at("a1", "2"))), "takes 1 GPUs, it needs 0"),
    "types mixed in a gang": (swap(gang=put("p", at("a1", "1"), at("b1", "0"))), "mixes GPU types"),
    "one device twice, two tasks": (swap(gang=put("p", at("a1", "1"), at("a1", "1"))), "twice"),
    "one device twice, one task": (swap(pair=put("p", at("b1", "0", "0"))), "twice"),
    "must-place job dropped": (swap(gang=None), "'gang' must be placed"),
    "non-preemptible job dropped": (swap(running=None), "'running' .* not preemptible"),
    "immovable job moved": (swap(fixed=put("p", at("a1", "2"))), "'fixed' is not movable"),
    "start on a cordoned node": (swap(alone=put("p", at("cordoned", "1"))), "cordoned"),
    "move within a cordoned node": (swap(running=put("p", at("cordoned", "1"))), "cordoned"),
    "selector ignored": (swap(zoned=put("p", at("b1", "0"))), "'zoned' is not eligible"),
    "list of nodes ignored": (swap(listed=put("p", at("a1", "2"))), "'listed' is not eligible"),
    "type without throughput": (swap(only_a=put("p", at("b1", "0"))), "cannot run on"),
    "below the floor": (swap(floor=put("p", at("b1", "0"))), "below the throughput floor"),
    "slowdown limit": (
        swap(calm=put("p", at("b1", "0")), loud=put("p", at("b1", "0"))), "'calm': slowdown 1.2",
    ),
    "never together": (
        swap(foe=put("p", at("b1", "0")), loud=put("p", at("b1", "0"))), "'foe': slowdown infinite",
    ),
    "host is full": (
        swap(cpu_job=put("p", at("b1")), small=put("p", at("b1", "0"))), "'b1': cpu 5 used",
    ),
    "no host resources": (swap(small=put("p", at("cordoned", "0"))), "cpu 2 used, capacity 0"),
    "no GPU on a CPU node": (swap(alone=put("p", at("cpu", "0"))), "has no GPU '0'"),
    "unknown job": (swap(ghost=put("p", at("a1", "2"))), "no job 'ghost'"),
    "unknown profile": (swap(alone=put("q", at("a1", "2"))), "has no profile 'q'"),
    "unknown node": (swap(alone=put("p", at("a9", "0"))), "no node 'a9'"),
    "unknown device": (swap(alone=put("p", at("a1", "4"))), "has no GPU '4'"),
    "device of odd name": (swap(alone=put("p", at("a1", "01"))), "has no GPU '01'"),
}  # fmt: skip


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_corruption_is_flagged(name: str) -> None:
    """Each broken rule is named; a check that only says "wrong" helps nobody."""
    plan, expected = CORRUPTIONS[name]
    found = violations(cluster(), plan)
    assert any(re.search(expected, line) for line in found), found


@pytest.mark.parametrize("name", sorted(GOOD))
def test_what_is_merely_left_out_is_no_violation(name: str) -> None:
    """Jobs that need not be placed may be dropped one by one."""
    must = name in ("gang", "running")
    assert bool(violations(cluster(), swap(**{name.replace("-", "_"): None}))) == must


def test_all_violations_are_listed() -> None:
    """The error carries every reason, and its text holds them all."""
    plan = swap(gang=None, running=None, ghost=put("p"), alone=put("p", at("a9", "0")))
    with pytest.raises(VerificationError) as caught:
        verify(cluster(), plan)
    assert len(caught.value.violations) == 4
    assert all(line in str(caught.value) for line in caught.value.violations)


def corruptions(found: Snapshot, plan: Plan) -> Iterator[Plan]:
    """Break an optimal plan in every way that is wrong whatever the snapshot."""
    for name, assignment in plan.items():
        rest = {other: a for other, a in plan.items() if other != name}
        tasks = assignment.tasks
        yield Plan({**rest, name: replace(assignment, tasks=tasks[1:])})
        yield Plan({**rest, name: replace(assignment, tasks=(*tasks, at(found.nodes[0].name)))})
        yield Plan({**rest, name: replace(assignment, profile="no such profile")})
        yield Plan({**rest, f"no such {name}": assignment})
        for i, task in enumerate(tasks):
            for wrong in (
                replace(task, node="no such node"),
                replace(task, gpus=(*task.gpus, "no such GPU")),
                *([replace(task, gpus=task.gpus[1:])] if task.gpus else []),
                *(
                    [replace(task, gpus=(*task.gpus[1:], task.gpus[-1]))]
                    if len(task.gpus) > 1
                    else []
                ),
                *([replace(task, gpus=("no such GPU", *task.gpus[1:]))] if task.gpus else []),
            ):
                yield Plan(
                    {**rest, name: replace(assignment, tasks=(*tasks[:i], wrong, *tasks[i + 1 :]))}
                )
    for one in found.jobs:
        if one.must_place or (one.current is not None and not one.preemptible):
            yield Plan({name: a for name, a in plan.items() if name != one.name})


@settings(max_examples=100)
@given(snapshots())
def test_broken_plans_never_pass(found: Snapshot) -> None:
    """Take the best plan of a random snapshot and break it: `verify` must say so every time."""
    note(snapshot_json(found))
    plan = brute_force(found).plan
    if plan is None:
        return
    for broken in corruptions(found, plan):
        note(str(broken))
        assert violations(found, broken)


# ---- rules of value, by hand ------------------------------------------------------------------


def values(found: Snapshot, plan: Plan) -> dict[str, float]:
    return {name: share.value for name, share in evaluate(found, plan).jobs.items()}


def shared(coupling: str, *slow: float, alpha: float = 1) -> tuple[Snapshot, Plan]:
    """Three jobs on one GPU; `slow` are the slowdowns of `x` beside `y` and `z`."""
    found = snapshot(
        [node()],
        [job("x", profile(throughput=10), weight=2), job("y"), job("z")],
        interference={
            "table": [
                {"a": "x/p", "b": "y/p", "slowdown": [slow[0], 1]},
                {"a": "z/p", "b": "x/p", "slowdown": [1, slow[1]]},
            ],
            "default": 1,
        },
        policy={"coupling": coupling, "interference_penalty": alpha},
    )
    return found, Plan({name: put("p", at("n1", "0")) for name in "xyz"})


def test_excess_slowdowns_add() -> None:
    """Beside two others at 1.1 and 1.3 a job runs at 1.4 (a stated rule, not 1.43)."""
    found, plan = shared("penalty", 1.1, 1.3, alpha=0.5)
    share = evaluate(found, plan).jobs["x"]
    assert share.slowdown == 1.4
    assert share.value == pytest.approx(2 * (1 - 0.5 * 0.4))
    assert share.throughput == pytest.approx(10 / 1.4)


def test_throughput_coupling_divides() -> None:
    """With the coupling `throughput` the value is the share of the speed that is left."""
    found, plan = shared("throughput", 1.5, 1.5)
    assert values(found, plan) == {"x": 1, "y": 1, "z": 1}


def test_a_gang_runs_at_its_slowest_worker() -> None:
    """Slowed on one device of two, by 1.5 on one and 1.2 on the other: 1.5 counts."""
    found = snapshot(
        [node(gpus=2)],
        [job("g", profile(gpus=2)), job("x"), job("y")],
        interference={
            "table": [
                {"a": "g/p", "b": "x/p", "slowdown": [1.5, 1]},
                {"a": "g/p", "b": "y/p", "slowdown": [1.2, 1]},
            ]
        },
    )
    plan = Plan(
        {
            "g": put("p", at("n1", "0", "1")),
            "x": put("p", at("n1", "0")),
            "y": put("p", at("n1", "1")),
        }
    )
    assert evaluate(found, plan).jobs["g"].slowdown == 1.5


def test_normalised_throughput_is_a_share_of_the_best() -> None:
    """1.0 is the job's best profile on its best type, whether that one is placed or not."""
    rates = {"G": 40, "H": 80}
    kinds: Json = {"G": {}, "H": {}}
    jobs = [job("j", profile(throughput=rates), profile("q", throughput=100), weight=3)]
    plan = Plan({"j": put("p", at("n1", "0"))})
    assert values(snapshot([node()], jobs, kinds), plan) == {"j": pytest.approx(3 * 0.4)}
    raw = snapshot([node()], jobs, kinds, policy={"objective": "throughput"})
    assert values(raw, plan) == {"j": 120}


HELD = {"profile": "p", "tasks": [{"node": "n1", "gpus": [0]}, {"node": "n1", "gpus": [1]}]}


def running() -> Snapshot:
    pair: Json = {"tasks": [{"count": 2, "gpus": 1}]}
    return snapshot(
        [node(gpus=3)],
        [job("r", profile(**pair), profile("q", **pair), current=HELD, weight=2), job("new")],
        policy={"switch_cost": 0.1, "migration_cost": 0.02, "eviction_cost": 0.7},
    )


@pytest.mark.parametrize(
    ("assignment", "cost"),
    [
        (put("p", at("n1", "0"), at("n1", "1")), 0),
        (put("p", at("n1", "1"), at("n1", "0")), 0),  # tasks changed places: the same devices
        (put("p", at("n1", "0"), at("n1", "2")), 0.04),
        (put("q", at("n1", "0"), at("n1", "1")), 0.2),
        (put("q", at("n1", "2"), at("n1", "1")), 0.24),
    ],
)
def test_changes_cost_once_and_by_weight(assignment: Assignment, cost: float) -> None:
    """Switching and moving are charged per job, not per task, times its weight."""
    assert values(running(), Plan({"r": assignment}))["r"] == pytest.approx(2 - cost)


def test_eviction_costs_only_what_runs() -> None:
    """A waiting job that stays out costs nothing; a running one its eviction cost."""
    worth = evaluate(running(), Plan({}))
    assert worth.jobs["r"].value == -1.4
    assert worth.jobs["new"].value == 0
    assert worth.terms["eviction"] == worth.objective == -1.4


@pytest.mark.parametrize(
    "held",
    [
        {"profile": "p", "tasks": [{"node": "gone", "gpus": [0]}]},
        {"profile": "p", "tasks": [{"node": "n1", "gpus": [9]}]},
        {"profile": "p", "tasks": [{"node": "n1", "gpus": ["gone"]}]},
    ],
)
def test_from_a_place_that_is_gone_every_placement_is_a_move(held: object) -> None:
    """A node or GPU that no longer exists cannot be kept."""
    found = snapshot([node()], [job(current=held)], policy={"migration_cost": 0.25})
    assert values(found, Plan({"j": put("p", at("n1", "0"))})) == {"j": 0.75}


def test_ids_that_look_like_numbers_are_ids() -> None:
    """On a node that lists its GPUs, "1" is the GPU of that id; 1 is the second in the list."""
    gpus = [{"id": "1"}, {"id": "0"}]
    for held, kept in (("1", "1"), ("0", "0"), (1, "0"), (0, "1")):
        current = {"profile": "p", "tasks": [{"node": "n1", "gpus": [held]}]}
        found = snapshot([node(gpus=gpus)], [job(current=current)], policy={"migration_cost": 0.5})
        assert values(found, Plan({"j": put("p", at("n1", kept))})) == {"j": 1}
        other = "0" if kept == "1" else "1"
        assert values(found, Plan({"j": put("p", at("n1", other))})) == {"j": 0.5}


def test_capacity_is_exact() -> None:
    """Two jobs of half a GPU plus one part in 10^15 do not fit, in floats they would."""
    half = "0.5000000000000001"
    types = {"G": {"capacity": {"sm": 1}}}
    jobs = [job(name, profile(gpu={"sm": half})) for name in "xy"]
    plan = Plan({name: put("p", at("n1", "0")) for name in "xy"})
    assert violations(snapshot([node()], jobs, types), plan)
    tenths = [job(name, profile(gpu={"sm": 0.1})) for name in "abcdefghij"]
    full = Plan({name: put("p", at("n1", "0")) for name in "abcdefghij"})
    assert violations(snapshot([node()], tenths, types), full) == []


def test_slowdown_limits_are_exact() -> None:
    """1.1 + 1.2 - 1 is 1.3 and not a hair more: a limit of 1.3 is met."""
    found, plan = shared("penalty", 1.1, 1.2)
    at_limit = found.replace(policy=found.policy.replace(max_slowdown=Fraction(13, 10)))
    below = found.replace(policy=found.policy.replace(max_slowdown="1.29999"))
    assert violations(at_limit, plan) == []
    assert violations(below, plan)


def test_the_stricter_slowdown_limit_counts() -> None:
    """A job's own limit and the policy's both bind, whichever is lower."""
    found, plan = shared("penalty", 1.1, 1.2)
    for own, common, holds in ((1.3, 1.2, False), (1.2, 1.3, False), (1.3, 1.3, True)):
        jobs = [one.replace(max_slowdown=own) if one.name == "x" else one for one in found.jobs]
        both = found.replace(jobs=jobs, policy=found.policy.replace(max_slowdown=common))
        assert (violations(both, plan) == []) == holds


def test_a_device_may_have_its_own_capacity() -> None:
    """What a device names replaces its type's; what it does not name stays the type's."""
    types = {"G": {"capacity": {"memory": 8, "sm": 1}}}
    gpus = [{"id": "small", "capacity": {"memory": 2}}, {"id": "large", "capacity": {"memory": 9}}]
    jobs = [job("x", profile(gpu={"memory": 9, "sm": 1}))]
    found = snapshot([node(gpus=gpus)], jobs, types)
    assert violations(found, Plan({"x": put("p", at("n1", "large"))})) == []
    assert violations(found, Plan({"x": put("p", at("n1", "small"))}))


def test_no_residents_means_none() -> None:
    """`max_residents: 0` closes a type; it does not mean "no limit"."""
    found = snapshot([node()], [job("x")], {"G": {"max_residents": 0}})
    assert violations(found, Plan({"x": put("p", at("n1", "0"))}))


def test_check_verifies_and_values_in_one_go() -> None:
    found = snapshot([node("n", gpus=2)], [job("a", whole()), job("b", whole())])
    apart = Plan({"a": put("p", at("n", "0")), "b": put("p", at("n", "1"))})
    assert check(found, apart) == evaluate(found, apart)
    together = Plan({"a": put("p", at("n", "0")), "b": put("p", at("n", "0"))})
    with pytest.raises(VerificationError, match="GPU '0'"):
        check(found, together)
