"""`elastico-opt import`: a snapshot on standard output, the account of it on standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastico_opt import parse_snapshot, read_snapshot

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
x1,64000,262144,2,P100
x3,32500,262144,0,
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase
p1,12000,16384,1,1000,,LS,Running
p2,6000,12288,1,460,,BE,Pending
"""
SHAPES = """\
model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem
ResNet18,CIFAR-10,64,0,5.5,40.5,20.5,1800
ResNet18,CIFAR-10,128,1,4.0,50.5,30.5,2800
"""
PAIRS = """\
model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2
ResNet18,CIFAR-10,64,0,0.9,ResNet18,CIFAR-10,128,1,0.8
"""


@pytest.fixture
def openb(write: Any) -> list[Path]:
    return [write(NODES, "nodes.csv"), write(PODS, "pods.csv")]


def test_openb(run: Any, openb: list[Path], tmp_path: Path) -> None:
    done = run("import", "openb", *openb)
    assert done.exit_code == 0, done.output
    assert [job.name for job in parse_snapshot(done.stdout).jobs] == ["p1", "p2"]
    assert "2 nodes" in done.stderr
    run("import", "openb", *openb, "--limit", 1, "-o", "one.json.gz")
    assert [job.name for job in read_snapshot(tmp_path / "one.json.gz").jobs] == ["p1"]
    pending = run("import", "openb", *openb, "--phase", "Pending")
    assert [job.name for job in parse_snapshot(pending.stdout).jobs] == ["p2"]


def test_lucid(run: Any, write: Any) -> None:
    files = ["--shapes", write(SHAPES, "single.csv"), "--pairs", write(PAIRS, "pairs.csv")]
    args = [*files, "--jobs", 3, "--gpus", 2]
    done = run("import", "lucid", *args, "--seed", 1)
    assert done.exit_code == 0, done.output
    snapshot = parse_snapshot(done.stdout)
    assert (len(snapshot.jobs), snapshot.nodes[0].gpus) == (3, 2)
    assert snapshot.interference is not None
    three = parse_snapshot(run("import", "lucid", *args, "--residents", 3).stdout)
    assert next(iter(three.gpu_types.values())).max_residents == 3


def test_what_cannot_be_read_is_one_line(run: Any, openb: list[Path], write: Any) -> None:
    bad = write(PODS.replace("12000", "many"), "bad.csv")
    for args in ([openb[0], "none.csv"], [openb[0], bad], openb[::-1]):
        done = run("import", "openb", *args)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("elastico-opt: ")


def test_the_imported_snapshot_is_solved(run: Any, openb: list[Path]) -> None:
    pytest.importorskip("elastico_opt.solvers.highs")
    run("import", "openb", *openb, "-o", "s.json")
    done = run("solve", "s.json", "--solver", "highs")
    assert done.exit_code == 0, done.output
    assert "Placed: 2 of 2 jobs" in done.stdout
