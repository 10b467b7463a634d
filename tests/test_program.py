"""The compiled program says in integers what the snapshot says in quantities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from brute_force import brute_force
from build import Json, gang, job, node, profile, snapshot, whole
from hypothesis import given, note, settings
from strategies import snapshots

from elastico_opt import (
    Assignment,
    InputError,
    Plan,
    Program,
    Snapshot,
    TaskPlacement,
    UnsupportedError,
    compile_program,
    evaluate,
    snapshot_json,
)
from elastico_opt.program import NEVER, UNLIMITED

GiB = 2**30


def rows(program: Program, resource: str) -> tuple[list[int], list[int]]:
    """Demands of the task groups and capacities of the device classes, in quanta."""
    r = program.device_resources.index(resource)
    return program.group_demand[:, r].tolist(), program.class_capacity[:, r].tolist()


# ---- quanta ------------------------------------------------------------------------------------


def test_the_quantum_is_the_largest_that_divides_every_demand() -> None:
    """24Gi and 40Gi count in units of 8Gi: 3, 5, and 80Gi holds 10."""
    jobs = [job("x", profile(gpu={"memory": "24Gi"}), profile("q", gpu={"memory": "40Gi"}))]
    program = compile_program(snapshot([node()], jobs, {"G": {"capacity": {"memory": "80Gi"}}}))
    assert rows(program, "memory") == ([3, 5], [10])


def test_capacities_round_down_and_that_loses_nothing() -> None:
    """9.9 units of 0.5 hold 19 of them, as the true capacity does."""
    jobs = [job("x", profile(gpu={"sm": "0.5"}), profile("q", gpu={"sm": 1}))]
    program = compile_program(snapshot([node()], jobs, {"G": {"capacity": {"sm": "9.9"}}}))
    assert rows(program, "sm") == ([1, 2], [19])


def test_demands_are_never_rounded() -> None:
    """0.15 of a GPU stays 0.15: six fit on one, not seven."""
    jobs = [job("x", profile(gpu={"sm": "0.15"}))]
    program = compile_program(snapshot([node()], jobs, {"G": {"capacity": {"sm": 1}}}))
    assert rows(program, "sm") == ([1], [6])


def test_resources_nobody_asks_for_are_left_out() -> None:
    """They cannot constrain anything; a demand of 0 asks for nothing."""
    types = {"G": {"capacity": {"memory": 8, "sm": 1, "nvlink": 4}}}
    found = snapshot(
        [node(host={"cpu": 4, "disk": 9})],
        [job("x", profile(gpu={"memory": 2, "sm": 0}, host={"cpu": 1}))],
        types,
    )
    program = compile_program(found)
    assert program.device_resources == ("memory",)
    assert program.host_resources == ("cpu",)
    assert program.node_host.tolist() == [[4]]


def test_what_a_device_does_not_name_has_capacity_zero() -> None:
    """A demand for it fits nowhere."""
    program = compile_program(snapshot([node()], [job("x", profile(gpu={"vram": 1}))]))
    assert rows(program, "vram") == ([1], [0])
    assert not program.fits(0, 0)


def test_gpu_demand_of_a_task_without_gpus_counts_nowhere() -> None:
    """There is no device to put it on."""
    cpu = profile(gpus=0, gpu={"memory": "80Gi"}, host={"cpu": 1})
    program = compile_program(snapshot([node(host={"cpu": 1})], [job("x", cpu)]))
    assert program.device_resources == ()
    assert program.option_type.tolist() == [-1]
    assert program.option_workers.tolist() == [0]


@pytest.mark.parametrize(
    "demands",
    [("1000000000000", "0.00001"), ("9007199254740993", "1"), ("1e24", "1e-24")],
)
def test_too_many_digits_are_refused(demands: tuple[str, str]) -> None:
    """Beyond 53 bits a linear solver would round: an error that names the resource."""
    jobs = [job(name, profile(gpu={"memory": d})) for name, d in zip("xy", demands, strict=True)]
    with pytest.raises(InputError, match=r"'memory'.*53 bits"):
        compile_program(snapshot([node()], jobs, {"G": {"capacity": {"memory": 1}}}))


def test_huge_capacity_beside_small_demand_is_no_error() -> None:
    """Capacity that no demand can reach must not overflow 64 bits."""
    jobs = [job("x", profile(gpu={"memory": "1e-24"}))]
    program = compile_program(snapshot([node()], jobs, {"G": {"capacity": {"memory": "1e24"}}}))
    assert rows(program, "memory")[1][0] >= 2**53


# ---- devices -----------------------------------------------------------------------------------


def test_like_devices_form_a_class() -> None:
    """Equal type, capacity and resident limit; the node does not matter."""
    types = {"G": {"capacity": {"memory": 4}, "max_residents": 2}, "H": {"capacity": {"memory": 4}}}
    gpus = [{"id": "a"}, {"id": "b", "type": "H"}, {"id": "c", "capacity": {"memory": 2}}]
    found = snapshot(
        [node(gpus=2), node("n2", gpus=gpus), {"name": "cpu"}],
        [job("x", profile(gpu={"memory": 1}))],
        types,
    )
    program = compile_program(found)
    assert program.device_class.tolist() == [0, 0, 0, 1, 2]
    assert program.device_node.tolist() == [0, 0, 1, 1, 1]
    assert [program.gpu_types[k] for k in program.class_type] == ["G", "H", "G"]
    assert rows(program, "memory")[1] == [4, 4, 2]
    assert program.class_residents.tolist() == [2, UNLIMITED, 2]
    assert [devices.tolist() for devices in program.node_devices] == [[0, 1], [2, 3, 4], []]


def test_types_without_a_device_have_no_options() -> None:
    """A profile for a type that no node has cannot run."""
    kinds: Json = {"G": {}, "absent": {}}
    jobs = [job("x", profile(throughput={"G": 1, "absent": 5}))]
    program = compile_program(snapshot([node()], jobs, kinds))
    assert program.gpu_types == ("G",)
    assert program.option_reward.tolist() == [0.2]  # still measured against the best it could be


def test_a_type_may_be_closed() -> None:
    """`max_residents: 0` is a limit, not the absence of one: nothing fits."""
    program = compile_program(snapshot([node()], [job()], {"G": {"max_residents": 0}}))
    assert program.class_residents.tolist() == [0]
    assert not program.fits(0, 0)


# ---- jobs and options --------------------------------------------------------------------------


def test_an_option_per_profile_and_type_where_it_runs() -> None:
    """Zero or absent throughput, or one below the floor, makes no option."""
    kinds: Json = {"G": {}, "H": {}}
    found = snapshot(
        [node(), {"name": "n2", "gpu_type": "H", "gpus": 1}],
        [
            job("x", profile(throughput={"G": 4, "H": 0}), profile("q", throughput={"H": 2})),
            job("y", profile(throughput=3), profile("q", throughput=8), min_throughput=4),
            job("none", profile(throughput=0)),
        ],
        kinds,
    )
    program = compile_program(found)
    assert program.option_start.tolist() == [0, 2, 4, 4]
    assert program.option_profile.tolist() == [0, 1, 1, 1]
    assert program.option_type.tolist() == [0, 1, 0, 1]
    assert program.option_reward.tolist() == [1, 0.5, 1, 1]
    assert list(program.options_of(2)) == []


def test_rewards_carry_weight_and_objective() -> None:
    """Normalised: a share of the job's best, times its weight. Raw: throughput times weight."""
    jobs = [job("x", profile(throughput=310), profile("q", throughput=540), weight="0.3")]
    program = compile_program(snapshot([node()], jobs))
    assert program.option_reward.tolist() == [float(Fraction(3, 10) * 310 / 540), 0.3]
    raw = compile_program(snapshot([node()], jobs, policy={"objective": "throughput"}))
    assert raw.option_reward.tolist() == [93, 162]


def test_task_groups() -> None:
    """A list of tasks becomes one group per entry, with its count, GPUs, demands, exclusivity."""
    tasks = [
        {"count": 3, "gpus": 2, "gpu": {"sm": 1}, "exclusive": True},
        {"count": 1, "gpus": 0, "host": {"cpu": 2}},
    ]
    jobs = [job("x", {"name": "p", "tasks": tasks, "throughput": 1})]
    program = compile_program(snapshot([node(host={"cpu": 4})], jobs))
    assert list(program.groups_of(0)) == [0, 1]
    assert program.group_count.tolist() == [3, 1]
    assert program.group_gpus.tolist() == [2, 0]
    assert program.group_demand.tolist() == [[1], [0]]
    assert program.group_host.tolist() == [[0], [1]]
    assert program.node_host.tolist() == [[2]]
    assert program.group_exclusive.tolist() == [True, False]
    assert program.option_workers.tolist() == [6]


def test_tiers_are_numbered_from_the_highest_priority() -> None:
    """Tier 0 is served first, whatever the numbers are."""
    jobs = [job("low", priority=-3), job("high", priority=10), job("mid"), job("mid2")]
    program = compile_program(snapshot([node()], jobs))
    assert program.priorities == (10, 0, -3)
    assert program.job_tier.tolist() == [2, 0, 1, 1]


def test_who_must_stay() -> None:
    """Must-place jobs, and running jobs that may not be preempted."""
    held = {"profile": "p", "tasks": [{"node": "n1", "gpus": [0]}]}
    jobs = [
        job("a"),
        job("b", must_place=True),
        job("c", preemptible=False),
        job("d", preemptible=False, current=held),
    ]
    program = compile_program(snapshot([node()], jobs))
    assert program.job_must.tolist() == [False, True, False, True]


def test_allowed_devices_obey_cordons_homes_and_selectors() -> None:
    """A running job may stay where a cordon bars all others; an immovable one may only stay."""
    held = {"profile": "p", "tasks": [{"node": "n2", "gpus": [1]}]}
    found = snapshot(
        [node(gpus=2, labels={"zone": "a"}), node("n2", 2, schedulable=False)],
        [
            job("new"),
            job("home", current=held),
            job("fixed", current=held, movable=False),
            job("zoned", node_selector={"zone": "a"}, current=held),
            job("nowhere", eligible_nodes=[]),
        ],
    )
    program = compile_program(found)
    allowed = [program.allowed_devices(j).tolist() for j in range(5)]
    assert allowed == [[0, 1], [0, 1, 3], [3], [0, 1], []]


def test_allowed_nodes_of_cpu_tasks() -> None:
    """The same rules by node."""
    held = {"profile": "p", "tasks": [{"node": "c2"}]}
    cpu = profile(gpus=0)
    found = snapshot(
        [{"name": "c1"}, {"name": "c2", "schedulable": False}],
        [
            job("new", cpu),
            job("home", cpu, current=held),
            job("fixed", cpu, current=held, movable=False),
        ],
    )
    program = compile_program(found)
    assert [program.allowed_cpu_nodes(j).tolist() for j in range(3)] == [[0], [0, 1], [1]]


def test_homes() -> None:
    """Devices by index or id; what is gone leaves a warning and a home that cannot be kept."""
    gpus = [{"id": "b"}, {"id": "a"}]
    place = {"node": "n2", "gpus": ["a", 0]}
    found = snapshot(
        [node(gpus=2), node("n2", gpus=gpus), {"name": "cpu"}],
        [
            job("waits"),
            job("listed", profile(gpus=2), current={"profile": "p", "tasks": [place]}),
            job("cpu", profile(gpus=0), current={"profile": "p", "tasks": [{"node": "cpu"}] * 2}),
            job("lost", current={"profile": "p", "tasks": [{"node": "n1", "gpus": [5]}]}),
            job("gone", current={"profile": "p", "tasks": [{"node": "n9", "gpus": [0]}]}),
            job("other", current={"profile": "old", "tasks": [{"node": "n1", "gpus": [1]}]}),
        ],
    )
    program = compile_program(found)
    waits, listed, cpu, lost, gone, other = program.homes
    assert waits is None
    assert listed is not None and listed.devices == (2, 3) and listed.intact
    assert cpu is not None and cpu.cpu_nodes == (2, 2) and cpu.devices == ()
    assert lost is not None and lost.devices == () and not lost.intact
    assert gone is not None and not gone.intact
    assert other is not None and other.profile == -1 and other.devices == (1,)
    assert [name in " ".join(program.warnings) for name in ("'lost'", "'gone'", "'old'")] == [
        True
    ] * 3
    assert len(program.warnings) == 3


def test_immovable_jobs_keep_only_options_of_their_shape() -> None:
    """A profile with other numbers of devices could not stay where the job is."""
    held = {"profile": "one", "tasks": [{"node": "n1", "gpus": [0]}]}
    jobs = [job("f", profile("one"), profile("two", gpus=2), current=held, movable=False)]
    program = compile_program(snapshot([node(gpus=2)], jobs))
    assert program.option_profile.tolist() == [0]


def test_change_costs_are_charged_to_running_jobs_by_weight() -> None:
    """A waiting job changes nothing."""
    held = {"profile": "p", "tasks": [{"node": "n1", "gpus": [0]}]}
    found = snapshot(
        [node()],
        [job("r", profile(), profile("q"), current=held, weight=4), job("w")],
        policy={"switch_cost": 0.25, "migration_cost": 0.5, "eviction_cost": 1},
    )
    program = compile_program(found)
    assert program.change_costs(0) == (1, 2, 4)
    assert program.change_costs(1) == (0, 0, 0)
    assert [program.switches(o) for o in range(3)] == [False, True, False]


# ---- slowdowns ---------------------------------------------------------------------------------


def pairs(found: Snapshot) -> tuple[Program, dict[tuple[str, str], int]]:
    """Excess quanta by (victim, other) job name, for jobs of one option each."""
    program = compile_program(found)
    names = [found.jobs[j].name for j in program.option_job]
    v = program.option_workload
    return program, {
        (a, b): int(program.excess[v[i], v[k]])
        for i, a in enumerate(names)
        for k, b in enumerate(names)
    }


def test_excess_is_integer_and_directed() -> None:
    """1.12 and 1.30 are 12 and 30 hundredths in units of 0.06: two and five."""
    found = snapshot(
        [node()],
        [job("x"), job("y"), job("z")],
        interference={
            "table": [
                {"a": "y/p", "b": "x/p", "slowdown": ["1.12", "1.30"]},
                {"a": "x/p", "b": "z/p", "slowdown": [None, 1]},
            ],
            "default": "1.06",
        },
    )
    program, excess = pairs(found)
    assert program.excess_unit == pytest.approx(0.06)
    assert excess["y", "x"] == 2
    assert excess["x", "y"] == 5
    assert excess["x", "z"] == NEVER
    assert excess["z", "x"] == 0
    assert excess["y", "z"] == excess["z", "y"] == 1  # not listed: the default


def test_limits_round_down_to_the_quantum() -> None:
    """A limit of 1.17 admits 1.12 (two of 0.06) and not 1.18: it is two quanta."""
    row = {"a": "x/p", "b": "y/p", "slowdown": ["1.12", "1.18"]}
    found = snapshot(
        [node()],
        [job("x", max_slowdown="1.17"), job("y", max_slowdown=2), job("z")],
        interference={"table": [row], "default": 1},
        policy={"max_slowdown": 1.5},
    )
    program, _ = pairs(found)
    assert program.job_limit.tolist() == [2, 8, 8]
    assert program.compatible(0, 1)
    without = found.replace(policy={}, interference=None)
    assert compile_program(without).job_limit.tolist()[2] == UNLIMITED


def test_without_interference_sharing_is_free_and_nothing_is_missing() -> None:
    """No table: nothing is known, so nothing is charged and nothing counts as missing."""
    program, excess = pairs(snapshot([node()], [job("x"), job("y")]))
    assert set(excess.values()) == {0}
    assert program.missing_pairs == 0


def test_a_missing_pair_without_default_is_never_together() -> None:
    """`default: null` means what is not measured is not tried; the count is reported."""
    program, excess = pairs(snapshot([node()], [job("x"), job("y")], interference={"table": []}))
    assert excess["x", "y"] == NEVER
    assert not program.compatible(0, 1)
    assert program.missing_pairs > 0


def test_losses() -> None:
    """Penalty: weight times alpha times the excess. Throughput: what the slowdown takes."""
    table = [{"a": "x/p", "b": "y/p", "slowdown": [1.5, 1]}]
    for coupling, expected in (("penalty", 2 * 0.5 * 0.5), ("throughput", 2 - 2 / 1.5)):
        found = snapshot(
            [node()],
            [job("x", weight=2), job("y")],
            interference={"table": table},
            policy={"coupling": coupling, "interference_penalty": 0.5},
        )
        program, excess = pairs(found)
        assert program.loss(0, excess["x", "y"]) == pytest.approx(expected)


def test_a_model_must_be_resolved_first() -> None:
    """A predictor's path is not a table; compiling it by itself would mean "no interference"."""
    found = snapshot([node()], [job()], interference={"model": "net.pt"})
    with pytest.raises(UnsupportedError, match="model"):
        compile_program(found)


# ---- plans -------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(snapshots())
def test_plans_go_through_the_program_and_back(found: Snapshot) -> None:
    """The best plan names only devices and options the program has, and comes back unchanged.

    Its rewards, losses and costs read from the arrays add up to its value.
    """
    note(snapshot_json(found))
    program = compile_program(found)
    plan = brute_force(found).plan
    if plan is None:
        return
    placements = program.from_plan(plan)
    assert program.to_plan(placements) == plan
    for j, placement in placements.items():
        assert placement.option in program.options_of(j)
        devices = [g for _, gpus in placement.tasks for g in gpus]
        assert set(devices) <= set(program.allowed_devices(j).tolist())
        cpu_nodes = {n for n, gpus in placement.tasks if not gpus}
        assert cpu_nodes <= set(program.allowed_cpu_nodes(j).tolist())
    assert program_value(program, plan) == pytest.approx(evaluate(found, plan).objective, abs=1e-9)


def program_value(program: Program, plan: Plan) -> float:
    """Value a plan from the program's arrays alone."""
    placements = program.from_plan(plan)
    held = {j: {g for _, gpus in p.tasks for g in gpus} for j, p in placements.items()}
    total = 0.0
    for j in range(program.n_jobs):
        switch, move, evict = program.change_costs(j)
        if j not in placements:
            total -= evict
            continue
        option = placements[j].option
        mine = program.option_workload[option]
        worst = 0
        for g in held[j]:
            others = [i for i in held if i != j and g in held[i]]
            row = [
                program.excess[mine, program.option_workload[placements[i].option]] for i in others
            ]
            assert NEVER not in row
            worst = max(worst, int(np.sum(row, dtype=int)))
        assert worst <= program.job_limit[j]
        total += program.option_reward[option] - program.loss(option, worst)
        home = program.homes[j]
        if home is not None:
            cpu_nodes = tuple(sorted(n for n, gpus in placements[j].tasks if not gpus))
            stays = home.intact and set(home.devices) == held[j] and home.cpu_nodes == cpu_nodes
            total -= switch * program.switches(option) + move * (not stays)
    return total


def test_from_plan_leaves_out_what_does_not_exist() -> None:
    """Unknown jobs, profiles, nodes, devices and shapes are dropped, the rest is kept."""
    found = snapshot([node(gpus=2)], [job(name, whole(), gang(2, name="g")) for name in "abcdefg"])
    program = compile_program(found)
    spot, pair = TaskPlacement("n1", ("1",)), TaskPlacement("n1", ("0", "1"))
    plan = Plan(
        {
            "a": Assignment("p", (spot,)),
            "b": Assignment("no such profile", (spot,)),
            "c": Assignment("p", (TaskPlacement("n9", ("0",)),)),
            "d": Assignment("p", (TaskPlacement("n1", ("7",)),)),
            "e": Assignment("g", (spot,)),
            "f": Assignment("p", (pair,)),
            "ghost": Assignment("p", (spot,)),
        }
    )
    placements = program.from_plan(plan)
    assert set(placements) == {0}
    assert placements[0].tasks == ((0, (1,)),)


@pytest.mark.parametrize(
    ("nodes", "jobs"), [([], []), ([node()], []), ([], [job()]), ([{"name": "cpu"}], [job()])]
)
def test_empty_snapshots_compile(nodes: list[dict], jobs: list[dict]) -> None:  # type: ignore[type-arg]
    """No nodes, no jobs, no GPUs: arrays of length 0, no error."""
    program = compile_program(snapshot(nodes, jobs))
    assert program.n_jobs == len(jobs)
    assert program.n_options == 0
    assert program.to_plan({}) == Plan({})
    assert all(program.allowed_devices(j).size == 0 for j in range(program.n_jobs))
