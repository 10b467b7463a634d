"""The openb trace: nodes and pods with shares of GPUs, and rows that are easy to misread."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from real_files import real

from elastico_opt import InputError, Snapshot, compile_program, parse_snapshot, snapshot_json
from elastico_opt.importers.base import Imported
from elastico_opt.importers.openb import import_openb

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
x1,64000,262144,2,P100
x2,96000,786432,8,V100M32
x3,32500,262144,0,
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,12000,16384,1,1000,,LS,Running,0,12537496,0
p2,6000,12288,1,460,,BE,Running,427061,12902960,427061
p3,12000,16384,1,1000,V100M16|V100M32,LS,Pending,4975773,12902960,
p4,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854,9437497
p5,4000,8192,0,0,,LS,Failed,10,20,12
"""
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def load(pods: str = PODS, nodes: str = NODES, **options: object) -> Imported:
    return import_openb(nodes.encode(), pods.encode(), **options)


def one(row: str) -> Imported:
    return load(HEADER + row + "\n")


def test_nodes() -> None:
    """A node without GPUs has no model; cores and MiB become cores and bytes, exactly."""
    snapshot = load().snapshot
    assert [(n.name, n.gpu_type, n.gpus) for n in snapshot.nodes] == [
        ("x1", "P100", 2), ("x2", "V100M32", 8), ("x3", None, 0),
    ]  # fmt: skip
    assert snapshot.nodes[2].host == {"cpu": Fraction(65, 2), "memory": 262144 * 2**20}
    assert snapshot.gpu_types["P100"].capacity == {"share": 1}
    assert snapshot.interference is None


def test_pods_are_jobs_with_one_profile() -> None:
    """A share counts only beside one GPU; several GPUs are whole ones, on one node."""
    tasks = {job.name: job.profiles[0].task_list()[0] for job in load().snapshot.jobs}
    assert {name: (task.gpus, task.gpu) for name, task in tasks.items()} == {
        "p1": (1, {"share": 1}),
        "p2": (1, {"share": Fraction(46, 100)}),
        "p3": (1, {"share": 1}),
        "p4": (8, {"share": 1}),
        "p5": (0, {}),
    }
    assert tasks["p2"].host == {"cpu": 6, "memory": 12288 * 2**20}


def test_type_sets_become_throughputs() -> None:
    """`A|B` runs on A and B only; a type that no node has is declared, and told."""
    imported = load()
    job = imported.snapshot.jobs[2]
    assert job.profiles[0].throughput == {"V100M16": 1, "V100M32": 1}
    assert "V100M16" in imported.snapshot.gpu_types
    assert imported.warnings == ("no node has GPU type 'V100M16', named in gpu_spec by pods: 1",)


def test_a_type_named_twice_counts_once() -> None:
    """The published file with more type sets has `V100M16|V100M32|V100M32`."""
    imported = one("p,1,1,1,500, V100M32|P100||V100M32 ")
    assert imported.snapshot.jobs[0].profiles[0].throughput == {"V100M32": 1, "P100": 1}
    assert imported.warnings == ()


def test_every_phase_is_placed_unless_phases_are_named() -> None:
    """The trace is one batch: it does not say where a pod runs, so none holds a place."""
    imported = load()
    assert imported.read["pods"] == 5
    assert [j.annotations["phase"] for j in imported.snapshot.jobs][-2:] == ["Succeeded", "Failed"]
    some = load(phases={"Running", "Pending"})
    assert [job.name for job in some.snapshot.jobs] == ["p1", "p2", "p3"]
    assert some.left_out == {"phase Succeeded": 1, "phase Failed": 1}


def test_limit_keeps_the_first_pods_of_the_phases() -> None:
    imported = load(limit=1, phases={"Pending", "Failed"})
    assert [job.name for job in imported.snapshot.jobs] == ["p3"]
    assert imported.left_out == {"phase Running": 2, "phase Succeeded": 1, "beyond the first 1": 1}
    assert load(limit=0).snapshot.jobs == ()


def test_columns_that_may_be_absent() -> None:
    """Older lists have neither type sets nor phases."""
    imported = load("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,250\n")
    job = imported.snapshot.jobs[0]
    assert (job.profiles[0].throughput, job.annotations) == (1, {})


def test_unknown_is_not_zero() -> None:
    """A pod with one GPU and no share takes all of it; GPUs of no model are a type of their own."""
    imported = one("p,1,1,1,,")
    assert imported.snapshot.jobs[0].profiles[0].gpu == {"share": 1}
    assert imported.warnings == ("pods with one GPU and no gpu_milli, taken as whole GPUs: 1",)
    imported = load(HEADER, NODES + "x4,1,1,2,\n")
    assert imported.snapshot.nodes[3].gpu_type == "unknown"
    assert "node 'x4' has GPUs of no model" in imported.warnings[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("p,1,1,1,1500,", "pods: line 2, column 'gpu_milli': 1500 is more than one GPU"),
        ("p,1,1,0,500,", "pods: line 2, column 'gpu_milli': 500 of no GPU"),
        ("p,x,1,0,0,", "pods: line 2, column 'cpu_milli': 'x' is not a number"),
        (",1,1,0,0,", "pods: line 2, column 'name': is empty"),
        ("p,1,1,0,0,\np,1,1,0,0,", "nodes, pods: job 'p' is given 2 times: names must differ"),
    ],
)
def test_bad_rows(row: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        one(row)
    assert message in str(caught.value)


def test_files_in_the_wrong_order_are_told() -> None:
    """Both are CSV, and both arguments are just paths."""
    with pytest.raises(InputError, match="nodes: line 1: no column 'sn', 'gpu', 'model'"):
        load(NODES, PODS)
    with pytest.raises(InputError, match="node 'x1' is given 2 times"):
        load(PODS, NODES + NODES.splitlines()[1])


def test_the_snapshot_is_a_file_like_any_other() -> None:
    imported = load()
    assert parse_snapshot(snapshot_json(imported.snapshot)) == imported.snapshot
    program = compile_program(imported.snapshot)
    assert (program.n_devices, program.n_jobs) == (10, 5)


def used(snapshot: Snapshot) -> tuple[float, float, float]:
    """Shares of GPUs, cores and memory that the jobs ask for together."""
    tasks = [job.profiles[0].task_list()[0] for job in snapshot.jobs]
    gpus = sum(task.gpus * task.gpu.get("share", 0) for task in tasks)
    return (
        float(gpus / sum(len(node.devices()) for node in snapshot.nodes)),
        *(
            float(sum(t.host[r] for t in tasks) / sum(n.host[r] for n in snapshot.nodes))
            for r in ("cpu", "memory")
        ),
    )


@pytest.mark.parametrize("pods", ["default", "gpuspec33"])
def test_the_published_trace(pods: str) -> None:
    """The whole trace is read within seconds, and its totals are the published ones."""
    nodes, path = (
        real(f"openb/csv/openb_{name}.csv") for name in ("node_list_gpu_node", f"pod_list_{pods}")
    )
    start = time.perf_counter()
    imported = import_openb(nodes, path)
    assert time.perf_counter() - start < 5
    assert imported.read == {"nodes": 1213, "GPUs": 6212, "GPU types": 7, "pods": 8152}
    assert (imported.warnings, imported.left_out) == ((), {})
    assert used(imported.snapshot) == pytest.approx((0.980, 0.798, 0.602), abs=5e-4)
    shapes = {
        (task.gpus, *task.gpu.values(), *task.host.values())
        for task in (job.profiles[0].task_list()[0] for job in imported.snapshot.jobs)
    }
    assert len(shapes) == 151
