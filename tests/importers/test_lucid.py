"""Lucid's measurements: shapes alone and in pairs, from which jobs are drawn."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from real_files import real

from elastico_opt import InputError, compile_program, parse_snapshot, snapshot_json
from elastico_opt.importers.base import Imported
from elastico_opt.importers.lucid import import_lucid
from elastico_opt.snapshot import Job

SHAPES = """\
model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label
VGG,CIFAR-10,32,0,3000,44.0,23.5,3386.0,0
VGG,CIFAR-10,64,1,4500,34.0,16.5,3588.125,1
PPO,LunarLander,32,0,5.156,12.425,0.0,2051.0,0
BERT,SQuAD,32,0,84.872,99.689,62.484,20162.0,2
"""
PAIRS = """\
,model1,dataset1,gpu_num1,batchsize1,amp1,speed1,model2,dataset2,gpu_num2,batchsize2,amp2,speed2,gpu_util,gmem_util,gmem
0,VGG,CIFAR-10,1,32,0,0.9,PPO,LunarLander,1,32,0,1.034,64,29,5106
1,VGG,CIFAR-10,1,64,1,0.75,VGG,CIFAR-10,1,32,0,0.5,45,20,5046
2,PPO,LunarLander,1,32,0,0.983,PPO,LunarLander,1,32,0,1.025,45,20,5046
"""


def load(
    pairs: str = PAIRS, shapes: str = SHAPES, jobs: int = 30, gpus: int = 4, **options: object
) -> Imported:
    return import_lucid(shapes.encode(), pairs.encode(), jobs, gpus, **options)


def table(imported: Imported) -> dict[tuple[str, str], tuple[Fraction | None, Fraction | None]]:
    return {(row.a, row.b): row.slowdown for row in imported.snapshot.interference.table}


def job_of(imported: Imported, model: str) -> Job:
    return next(job for job in imported.snapshot.jobs if job.name.startswith(model))


def test_a_job_has_all_shapes_of_its_model() -> None:
    """Utilisation in percent becomes a share, MB stay MB; nothing is rounded."""
    small, large = job_of(load(), "VGG").profiles
    assert (small.name, small.workload) == ("b32", "VGG/CIFAR-10/b32")
    assert small.knobs == {"batch_size": 32, "amp": False}
    assert small.gpu == {"memory": 3386, "sm": Fraction(44, 100), "bandwidth": Fraction(235, 1000)}
    assert small.throughput == {"RTX3090": 3000}
    assert (large.name, large.workload) == ("b64-amp", "VGG/CIFAR-10/b64/amp")
    assert large.gpu["memory"] == Fraction(3588125, 1000)


def test_slowdowns_are_inverse_speeds_rounded_up() -> None:
    """1/0.9 = 1.1111… must not lose its tail; a speed beyond 1 is no slowdown."""
    rows = table(load())
    assert rows["PPO/LunarLander/b32", "VGG/CIFAR-10/b32"] == (1, Fraction(1111112, 10**6))


def test_sides_follow_the_names() -> None:
    """The file has larger names first as often as not."""
    rows = table(load())
    assert rows["VGG/CIFAR-10/b32", "VGG/CIFAR-10/b64/amp"] == (2, Fraction(1333334, 10**6))


def test_the_worse_of_two_measurements_counts() -> None:
    """A shape beside itself gives two numbers for one slowdown; so does a pair measured again."""
    again = PAIRS + "3,PPO,LunarLander,1,32,0,0.8,VGG,CIFAR-10,1,32,0,0.95,1,1,1\n"
    imported = load(again)
    rows = table(imported)
    itself = rows["PPO/LunarLander/b32", "PPO/LunarLander/b32"]
    assert itself == (Fraction(1017294, 10**6),) * 2
    assert rows["PPO/LunarLander/b32", "VGG/CIFAR-10/b32"] == (
        Fraction(5, 4), Fraction(1111112, 10**6),
    )  # fmt: skip
    assert (
        "pairs measured more than once, the worse value of each side kept: 1"
        in imported.warnings[0]
    )


def test_a_job_that_stands_still_may_not_share() -> None:
    rows = table(load(PAIRS.replace("0.9,PPO", "0,PPO")))
    assert rows["PPO/LunarLander/b32", "VGG/CIFAR-10/b32"] == (1, None)


def test_what_was_not_measured_is_not_co_located() -> None:
    """4 shapes make 10 pairs; 3 are measured. BERT has none, so it runs alone."""
    imported = load()
    assert imported.snapshot.interference.default is None
    berts = sum(job.name.startswith("BERT") for job in imported.snapshot.jobs)
    assert imported.warnings == (
        f"no measured pair, so run alone ({berts} of 30 jobs): BERT",
        "pairs of shapes that were not measured, and are not co-located: 7",
    )
    assert compile_program(imported.snapshot).missing_pairs == 7


def test_pairs_that_cannot_be_used_are_counted() -> None:
    more = (
        "3,VGG,CIFAR-10,2,32,0,0.8,PPO,LunarLander,1,32,0,0.95,1,1,1\n"
        "4,VGG,CIFAR-10,1,128,0,0.8,PPO,LunarLander,1,32,0,0.95,1,1,1\n"
    )
    imported = load(PAIRS + more)
    assert imported.left_out == {
        "pair on several GPUs": 1, "pair of a shape that was not measured alone": 1,
    }  # fmt: skip
    assert imported.read["pairs"] == 3


def test_utilisation_does_not_forbid_what_was_measured() -> None:
    """Pairs that use 150 % of the SMs were run and measured: the slowdown says what it costs."""
    kind = load().snapshot.gpu_types["RTX3090"]
    assert kind.capacity == {"memory": 24576, "sm": 2, "bandwidth": 2}
    assert kind.max_residents == 2
    strict = load(residents=3, oversubscribe="1.25").snapshot.gpu_types["RTX3090"]
    assert (strict.capacity["sm"], strict.max_residents) == (Fraction(5, 4), 3)


def test_nodes_and_names() -> None:
    """Ten GPUs on nodes of four: the last has two."""
    imported = load(gpus=10, gpus_per_node=4, seed=7)
    assert [node.gpus for node in imported.snapshot.nodes] == [4, 4, 2]
    assert imported.snapshot.name == "lucid-j30-g10-r2-s07"
    assert load(name="mine").snapshot.name == "mine"
    assert load(jobs=0, gpus=0).snapshot.nodes == ()


def test_the_seed_decides_the_models() -> None:
    """The same seed gives the same snapshot; models are drawn alike often."""
    one, same, other = load(jobs=300), load(jobs=300), load(jobs=300, seed=1)
    assert one.snapshot == same.snapshot != other.snapshot
    counts = Counter(job.name.split("-")[0] for job in one.snapshot.jobs)
    assert set(counts) == {"VGG", "PPO", "BERT"}
    assert min(counts.values()) > 70


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": SHAPES}, "pairs: line 1: no column 'model1', 'dataset1'"),
        ({"shapes": PAIRS}, "shapes: line 1: no column 'model', 'dataset', 'batchsize', 'amp'"),
        ({"shapes": SHAPES.splitlines()[0]}, "shapes: no shape below the header"),
        ({"shapes": SHAPES + SHAPES.splitlines()[1]}, "'VGG/CIFAR-10/b32' is given twice"),
        ({"shapes": SHAPES.replace("3000", "0")}, "shapes: line 2, column 'speed': is 0"),
        ({"shapes": SHAPES.replace("44.0", "n/a")}, "line 2, column 'gpu_util': 'n/a' is not"),
        ({"shapes": SHAPES.replace("64,1", "64,2")}, "line 3, column 'amp': 2 is neither 0 nor 1"),
        ({"pairs": PAIRS.replace("0.75", "-0.75")}, "pairs: line 3, column 'speed1': must not be"),
        ({"jobs": -1}, "jobs: -1 is too small"),
        ({"gpus_per_node": 0}, "gpus_per_node: 0 is too small: give at least 1"),
        ({"oversubscribe": "lots"}, "oversubscribe: 'lots' is not a number"),
    ],
)
def test_bad_input(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(**options)
    assert message in str(caught.value)


def published(jobs: int, gpus: int, **options: object) -> Imported:
    files = real("lucid/single_data.csv"), real("lucid/colocate_info.csv")
    return import_lucid(*files, jobs, gpus, **options)


def test_the_published_measurements() -> None:
    """All shapes and pairs are read, and the slowdowns are spread as published."""
    imported = published(200, 64)
    assert imported.read == {
        "jobs": 200, "GPUs": 64, "models": 14, "models drawn": 14,
        "shapes": 66, "pairs": 1388, "pairs of drawn models": 1388,
    }  # fmt: skip
    assert imported.left_out == {}
    assert imported.warnings[0].endswith("of 200 jobs): ResNet50, Transformer, BERT")
    slowdowns = sorted(float(s) for pair in table(imported).values() for s in pair)
    n = len(slowdowns)
    assert slowdowns[n // 2] == pytest.approx(1.05, abs=0.01)
    assert slowdowns[95 * n // 100] == pytest.approx(1.45, abs=0.01)
    assert slowdowns[-1] == pytest.approx(2.25, abs=0.01)


def test_every_published_pair_fits_a_gpu() -> None:
    """No capacity forbids a pair that was measured; one GPU's worth of SMs would forbid 587."""
    imported = published(200, 64)
    kind = imported.snapshot.gpu_types["RTX3090"]
    demand = {p.workload: p.gpu for job in imported.snapshot.jobs for p in job.profiles}
    both = [{r: demand[a][r] + demand[b][r] for r in demand[a]} for a, b in table(imported)]
    assert all(use[r] <= kind.capacity[r] for use in both for r in use)
    assert sum(use["sm"] > 1 for use in both) == 587


def test_the_published_snapshot_is_a_file_like_any_other() -> None:
    imported = published(40, 16)
    assert parse_snapshot(snapshot_json(imported.snapshot)) == imported.snapshot
    assert compile_program(imported.snapshot).n_devices == 16
