"""Generated instances: the same everywhere, and the dials do what they say.

Results are compared across machines and releases by instance name and seed, so a generator that
drifts makes every published number about other instances.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import elastico_opt as eo
from elastico_opt import InputError, Snapshot, compile_program, generate
from elastico_opt.instances.draws import Draws
from elastico_opt.instances.families import FAMILIES
from elastico_opt.instances.scaling import load_of
from elastico_opt.plan import running_plan
from elastico_opt.reading import snapshot_hash, snapshot_json

#: Of `generate(family, 30, 12, seed=5, load=0.9, running=0.3)`. Change them only together with
#: the changelog: every result on generated instances of older releases is then about other ones.
GOLDEN = {
    "gangs": "17696f1309c3bf24e6ac56d6fea4557d27f5d779c88f11cab437d0222c70ae30",
    "identical": "0aa660e65cb2eb5c84e72a4b43aac4e81e027c8919ae5f739b7495926f0cdfaa",
    "lucidlike": "2d4a381383b9d207cd0a11e403289bcd44d801a7ab25aad0b6a045e1c83a5d58",
    "mixed": "83d28d39d4681f0fc05c655751ee9aa64b05ddd4c45503623b9f12ba55d84dd7",
    "triples": "a1c267e859c055467f03d4fd3d97ede184109f174ac7898b1ec5272659712c2e",
}

EVERY_FAMILY = pytest.mark.parametrize("family", sorted(FAMILIES))


def golden(family: str) -> Snapshot:
    return generate(family, 30, 12, seed=5, load=0.9, running=0.3)


# ---- determinism ---------------------------------------------------------------------------


@EVERY_FAMILY
def test_golden_hash(family: str) -> None:
    """A change of Python, of a library or of the code must not change old instances."""
    assert snapshot_hash(golden(family)) == GOLDEN[family]


def test_hash_seed_does_not_matter() -> None:
    """Sets and hashes of text vary between processes."""
    code = (
        "from elastico_opt import generate; from elastico_opt.reading import snapshot_hash; "
        "print(snapshot_hash(generate('mixed', 30, 12, seed=5, load=0.9, running=0.3)))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == GOLDEN["mixed"]


def test_numpy_numbers_are_numbers() -> None:
    """Sweeps draw their dials from arrays."""
    dials = {"jobs": np.int64(9), "gpus": np.int32(4), "load": np.float64(0.5), "seed": np.int64(1)}
    plain = {"jobs": 9, "gpus": 4, "load": 0.5, "seed": 1}
    assert snapshot_hash(generate(**dials)) == snapshot_hash(generate(**plain))


@EVERY_FAMILY
def test_seeds_differ(family: str) -> None:
    assert generate(family, seed=1).jobs != generate(family, seed=2).jobs


@EVERY_FAMILY
def test_annotations_make_it_again(family: str) -> None:
    """The name holds the main dials only; the annotation holds all, also after a file."""
    snapshot = golden(family)
    read = eo.parse_snapshot(snapshot_json(snapshot))
    assert snapshot_hash(read) == snapshot_hash(snapshot)
    assert snapshot_hash(generate(**read.annotations["generated"])) == snapshot_hash(snapshot)


def test_more_jobs_are_added_at_the_end() -> None:
    """With the demands as drawn, a larger instance contains the smaller one."""
    small, large = generate("mixed", 10, running=0), generate("mixed", 25, running=0)
    names = [job.name for job in small.jobs]
    assert [j.model_copy(update={"must_place": False}) for j in large.jobs[:10]] == [
        j.model_copy(update={"must_place": False}) for j in small.jobs
    ]
    assert names == [f"j{i}" for i in range(10)]


def test_draws() -> None:
    """Python promises these numbers for a text seed; pages and hashes rest on them."""
    draws = Draws(3, "test")
    assert [draws.below(1000) for _ in range(5)] == [789, 795, 974, 544, 166]
    assert sorted(Draws(0).order(50)) == list(range(50))
    assert {Draws(i).between(3, 5) for i in range(60)} == {3, 4, 5}
    assert sum(draws.chance(Fraction(1, 4)) for _ in range(4000)) == pytest.approx(1000, rel=0.1)


# ---- every family is a good instance -------------------------------------------------------


@EVERY_FAMILY
@pytest.mark.parametrize("seed", range(4))
def test_homes_are_feasible_together(family: str, seed: int) -> None:
    """Keeping every running job is a plan; must-place jobs are among them."""
    snapshot = generate(family, 60, 24, running=0.5, load=1.0, seed=seed)
    running = running_plan(snapshot)
    assert 10 <= len(running) <= 30
    eo.verify(snapshot, running)


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(FAMILIES)),
    st.integers(0, 12),
    st.integers(0, 9),
    st.fixed_dictionaries(
        {},
        optional={
            "profiles": st.integers(1, 7),
            "heterogeneity": st.sampled_from([0, "0.3", 1]),
            "interference": st.sampled_from([0, 0.5, 1]),
            "running": st.sampled_from([0, 0.4, 1]),
            "gangs": st.sampled_from([0, 0.5, 1]),
            "host": st.booleans(),
            "residents": st.integers(1, 4),
            "types": st.integers(1, 6),
            "tiers": st.integers(1, 3),
            "gpus_per_node": st.integers(1, 8),
            "seed": st.integers(0, 99),
        },
    ),
)
def test_any_dials(family: str, jobs: int, gpus: int, dials: dict[str, Any]) -> None:
    """Every corner gives an instance that compiles, with a feasible start."""
    snapshot = generate(family, jobs, gpus, **dials)
    assert (len(snapshot.jobs), sum(len(n.devices()) for n in snapshot.nodes)) == (jobs, gpus)
    compile_program(snapshot)
    waiting = [job.replace(must_place=False) for job in snapshot.jobs if not job.current]
    running = [job for job in snapshot.jobs if job.current]
    eo.verify(snapshot.replace(jobs=[*running, *waiting]), running_plan(snapshot))


def test_large_instances_are_quick() -> None:
    """3200 jobs on 2048 GPUs, tables included; the pair table stays small."""
    snapshot = generate("lucidlike", 3200, 2048, load=1.1, seed=3)
    assert snapshot.name == "lucidlike-j3200-g2048-r2-l110-s03"
    assert len(snapshot.interference.table) <= 64 * 65 // 2


# ---- dials ---------------------------------------------------------------------------------


@EVERY_FAMILY
@pytest.mark.parametrize("load", [0.3, 1, "1.4"])
def test_load(family: str, load: Any) -> None:
    """The load is met, and the name says it in percent."""
    snapshot = generate(family, 120, 16, load=load, running=0)
    assert float(load_of(snapshot)) == pytest.approx(float(load), rel=0.01)
    assert f"-l{round(100 * load_of(snapshot)):03d}-" in snapshot.name


def test_load_counts_the_largest_device_resource_of_the_middle_profile() -> None:
    """Two GPUs; the middle of three profiles takes 2 x 30 of 2 x 80, and half the SMs."""
    profiles = [
        {"name": "a", "throughput": 1, "gpu": {"memory": 80}},
        {"name": "b", "throughput": 1, "gpus": 2, "gpu": {"memory": 30, "sm": 0.25}},
        {"name": "c", "throughput": 1, "gpu": {"memory": 80}},
    ]
    snapshot = eo.parse_snapshot({
        "schema": "elastico-opt/snapshot@1",
        "gpu_types": {"G": {"capacity": {"memory": 80, "sm": 1}}},
        "nodes": [{"name": "n", "gpu_type": "G", "gpus": 2}],
        "jobs": [{"name": "j", "profiles": profiles}],
    })  # fmt: skip
    assert load_of(snapshot) == Fraction(3, 8)


def test_load_that_the_jobs_cannot_cause() -> None:
    """Four jobs cannot fill sixty-four GPUs."""
    with pytest.raises(InputError, match=r"load 2: 4 jobs on these GPUs reach 0\.0625 at most"):
        generate("lucidlike", 4, 64, load=2)


def slowdowns(snapshot: Snapshot) -> tuple[list[float], int]:
    """All slowdowns of the workloads in use, and how many pairs are never together."""
    used = sorted({p.workload for j in snapshot.jobs for p in j.profiles if p.workers()})
    rows = {(row.a, row.b): row.slowdown for row in snapshot.interference.table}
    assert snapshot.interference.default == 1
    found, never = [], 0
    for i, a in enumerate(used):
        for b in used[i:]:
            both: Sequence[Any] = rows.get((a, b), (1, 1))
            never += None in both
            found += [] if None in both else [float(s) for s in both]
    return sorted(found), never


def test_lucidlike_slowdowns_are_spread_like_the_measured_ones() -> None:
    """Measured on pairs of training jobs: half below 1.05, 95 % below 1.45, at most 2.25."""
    found, never = slowdowns(generate("lucidlike", 400, 64))
    n = len(found)
    assert found[n // 2] == pytest.approx(1.05, abs=0.02)
    assert found[95 * n // 100] == pytest.approx(1.45, abs=0.03)
    assert found[-1] == pytest.approx(2.25, abs=0.03)
    pairs = 60 * 61 // 2  # ten models, six profiles each
    assert 0.03 < never / pairs < 0.07


def test_interference() -> None:
    """The share of interfering pairs grows with the dial, and each step keeps the pairs before."""
    tables = [
        {(row.a, row.b) for row in s.interference.table} if s.interference else set()
        for s in (generate("lucidlike", 200, 64, interference=d) for d in (0, 0.25, 1))
    ]
    assert tables[0] < tables[1] < tables[2]
    assert len(tables[1]) / len(tables[2]) == pytest.approx(0.25, abs=0.05)
    assert generate("lucidlike", 20, 8, interference=0).interference is None


def test_heterogeneity() -> None:
    """At 0, jobs of one model are equal and GPU types equally fast."""
    alike, unlike = (
        generate("mixed", 100, 12, heterogeneity=h, running=0, load=0.8) for h in (0, 1)
    )
    for snapshot, equal in ((alike, True), (unlike, False)):
        by_workload: dict[str | None, set[Any]] = {}
        rates = [
            p.throughput
            for j in snapshot.jobs
            for p in j.profiles
            if isinstance(p.throughput, dict)
        ]
        for job in snapshot.jobs:
            for profile in job.profiles:
                by_workload.setdefault(profile.workload, set()).add(str(profile.task_list()))
        by_workload.pop(None, None)  # CPU-only
        assert (max(map(len, by_workload.values())) == 1) is equal
        assert all(len(set(rate.values())) == 1 for rate in rates) is equal
        assert ({job.weight for job in snapshot.jobs} == {1}) is equal


@EVERY_FAMILY
def test_running_and_its_costs(family: str) -> None:
    """Nothing runs: nothing to charge. Something runs: moving it is not free."""
    still, busy = (generate(family, 40, 24, running=r) for r in (0, 0.25))
    assert not any(job.current for job in still.jobs)
    assert still.policy.migration_cost == 0
    assert sum(job.current is not None for job in busy.jobs) == 10
    assert busy.policy.migration_cost > 0


def test_gangs() -> None:
    """Widths of 2, 4 and 8 on one node, some spread over several, none wider than a node."""
    snapshot = generate("gangs", 200, 64, gangs=1, running=0)
    tasks = [(t.count, t.gpus) for j in snapshot.jobs for p in j.profiles for t in p.task_list()]
    assert {gpus for count, gpus in tasks if count == 1} == {1, 2, 4, 8}
    assert {count for count, gpus in tasks} > {1, 2}
    assert all(max(p.workers() for p in job.profiles) >= 2 for job in snapshot.jobs)
    narrow = generate("gangs", 60, 8, gangs=1, gpus_per_node=2)
    assert max(p.workers() for j in narrow.jobs for p in j.profiles) == 2
    assert all(p.workers() == 1 for j in generate("gangs", 60, 8, gangs=0).jobs for p in j.profiles)


def test_host_types_tiers_residents_profiles_and_nodes() -> None:
    """The plain dials."""
    snapshot = generate(
        "lucidlike", 90, 20, host=True, types=3, tiers=3, residents=4, profiles=5, gpus_per_node=6
    )
    assert [node.gpus for node in snapshot.nodes] == [6, 6, 6, 2]
    assert len({node.gpu_type for node in snapshot.nodes}) == 3
    assert all(node.host["cpu"] == 16 * node.gpus for node in snapshot.nodes)
    assert all(p.task_list()[0].host for j in snapshot.jobs for p in j.profiles)
    assert {kind.max_residents for kind in snapshot.gpu_types.values()} == {4}
    assert {kind.capacity["sm"] for kind in snapshot.gpu_types.values()} == {4}
    assert {len(job.profiles) for job in snapshot.jobs} == {5}
    tiers = [sum(job.priority == tier for job in snapshot.jobs) for tier in range(3)]
    assert tiers[0] > tiers[1] > tiers[2] > 0
    bare = generate("lucidlike", 20, 8, host=False)
    assert not any(node.host for node in bare.nodes)


def test_mixed_has_every_feature() -> None:
    """One instance family in which all rules meet."""
    snapshot = generate("mixed", 200, 64)
    jobs = snapshot.jobs
    assert any(job.must_place for job in jobs)
    assert any(job.min_throughput for job in jobs)
    assert any(job.max_slowdown for job in jobs)
    assert any(job.node_selector for job in jobs)
    assert any(not job.movable for job in jobs)
    assert any(not job.preemptible for job in jobs)
    assert any(p.workers() == 0 for job in jobs for p in job.profiles)
    assert any(p.workers() > 1 for job in jobs for p in job.profiles)
    assert any(
        len(p.throughput) < 3
        for job in jobs
        for p in job.profiles
        if isinstance(p.throughput, dict)
    )
    assert len({job.priority for job in jobs}) == 2


def test_identical_is_identical() -> None:
    """Equal jobs on equal nodes, so that only symmetry is left."""
    snapshot = generate("identical", 20, 8, gpus_per_node=1)
    assert len({str((job.weight, job.profiles)) for job in snapshot.jobs}) == 1
    assert len({str((node.gpu_type, node.gpus)) for node in snapshot.nodes}) == 1


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"family": "mixd"}, "no family 'mixd': choose one of lucidlike, gangs, mixed"),
        ({"family": "mixd"}, "did you mean 'mixed'?"),
        ({"jobs": -1}, "jobs: -1 is out of range: give at least 0"),
        ({"jobs": 2.5}, "jobs: 2.5 is not a whole number"),
        ({"profiles": 0}, "profiles: 0 is out of range: give at least 1"),
        ({"types": 9}, "types: 9 is out of range: give 1 to 6"),
        ({"running": 1.5}, "running: 1.5 is out of range: give 0 to 1"),
        ({"heterogeneity": "much"}, "heterogeneity: 'much' is not a number"),
        ({"load": float("nan")}, "load: 'nan' is not a number"),
        ({"seed": -3}, "seed: -3 is out of range"),
    ],
)
def test_bad_dials(dials: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        generate(**dials)
    assert message in str(caught.value)
