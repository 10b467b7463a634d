"""An infeasible snapshot is explained by a conflict that is one."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pytest
from brute_force import brute_force
from hypothesis import given, settings
from small import snapshot
from strategies import snapshots

import elastico_opt as eo
from elastico_opt import Snapshot
from elastico_opt.conflict import find_conflict
from elastico_opt.solvers.base import Capability, Limits, Outcome, Stop

MUST = {"must_place": True, "exclusive": True}


class Enumeration:
    """An exact solver by brute force."""

    name: ClassVar[str] = "enumeration"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT})

    def __init__(self) -> None:
        self.calls = 0

    def available(self) -> bool:
        return True

    def solve(self, program: Any, limits: Any, start: Any = None, on_event: Any = None) -> Outcome:
        self.calls += 1
        found = brute_force(program.snapshot)
        if found.plan is None:
            return Outcome(None, (), Stop.INFEASIBLE)
        return Outcome(found.plan, (None,), Stop.PROVED)


def test_f22_the_conflict_is_a_conflict() -> None:
    """3 jobs of 1 GPU on 2 GPUs exclude each other; the CPU job that fits has no part in it."""
    cluster = snapshot(
        {"n": {"gpus": 2, "host": {"cpu": 4}}},
        {"cpu": {"gpus": 0, "host": {"cpu": 1}, "must_place": True},
         "a": MUST, "b": MUST, "c": MUST, "free": {}},
    )  # fmt: skip
    found = find_conflict(cluster, Enumeration(), Limits())
    assert sorted(found.jobs) == ["a", "b", "c"]
    assert found.minimal
    assert found.nodes == ("n",)
    assert "must be placed and cannot all be; any 2 of them can" in found.message
    assert "GPU for itself; the most such GPUs on one node are 0 (0 in all)" in found.message


def test_one_job_that_never_fits() -> None:
    """F01: an infeasible snapshot is an answer, with the numbers of the job that is too big."""
    cluster = snapshot({"n": 1}, {"a": MUST, "big": {**MUST, "gpus": 2}})
    found = find_conflict(cluster, Enumeration(), Limits())
    assert (found.jobs, found.minimal) == (("big",), True)
    assert found.message.startswith("job 'big' must be placed and cannot be: even on the empty ")


def test_running_jobs_that_may_not_be_stopped() -> None:
    running = {"preemptible": False, "exclusive": True}
    home = {"current": {"profile": "p", "tasks": [{"node": "n", "gpus": [0]}]}}
    cluster = snapshot({"n": 1}, {"a": {**running, **home}, "b": {**running, **home}})
    found = find_conflict(cluster, Enumeration(), Limits())
    assert sorted(found.jobs) == ["a", "b"]
    assert "run and may not be stopped" in found.message


def test_the_nodes_they_are_limited_to() -> None:
    only = {**MUST, "eligible_nodes": ["m"]}
    found = find_conflict(
        snapshot({"n": 4, "m": 1}, {"a": only, "b": only}), Enumeration(), Limits()
    )
    assert found.nodes == ("m",)
    assert "They may use only node 'm'" in found.message


def test_few_solves_for_a_small_conflict_among_many() -> None:
    """40 jobs that must be placed, 2 of them in conflict: not 40 solves."""
    free = {"gpus": 0, "must_place": True}
    pair = {**MUST, "eligible_nodes": ["m"]}
    jobs: dict[str, Any] = {f"j{i}": free for i in range(40)}
    jobs["j13"] = jobs["j31"] = pair
    solver = Enumeration()
    found = find_conflict(snapshot({"m": 1}, jobs), solver, Limits())
    assert sorted(found.jobs) == ["j13", "j31"]
    assert solver.calls <= 16


def test_at_the_time_limit_it_says_so() -> None:
    cluster = snapshot({"n": 1}, {"a": MUST, "b": MUST, "c": MUST})
    found = find_conflict(cluster, Enumeration(), Limits(deadline=time.monotonic()))
    assert (found.jobs, found.minimal) == (("a", "b", "c"), False)
    assert "may not be minimal (the time limit)" in found.message


def test_a_false_claim_is_raised() -> None:
    with pytest.raises(eo.VerificationError, match="claims infeasibility and then places"):
        find_conflict(snapshot({"n": 1}, {"a": MUST}), Enumeration(), Limits())


@settings(max_examples=60)
@given(snapshots(max_jobs=4, max_devices=2, max_profiles=2))
def test_any_conflict_is_minimal(cluster: Snapshot) -> None:
    """Exactly these jobs cannot be placed; without any one of them the rest can."""
    cluster = cluster.replace(jobs=tuple(job.replace(must_place=True) for job in cluster.jobs))
    if brute_force(cluster).plan is not None:
        return
    found = find_conflict(cluster, Enumeration(), Limits())
    assert found.minimal

    def possible(names: set[str]) -> bool:
        jobs = tuple(job for job in cluster.jobs if job.name in names)
        return brute_force(cluster.replace(jobs=jobs)).plan is not None

    assert not possible(set(found.jobs))
    for name in found.jobs:
        assert possible(set(found.jobs) - {name})


@pytest.mark.parametrize("solver", ["highs", "cpsat"])
def test_solve_reports_the_conflict(solver: str) -> None:
    """`solve` returns a status, no exception, and the conflict beside it."""
    pytest.importorskip(f"elastico_opt.solvers.{solver}")
    result = eo.solve(snapshot({"n": 2}, {"a": MUST, "b": MUST, "c": MUST, "d": {}}), solver=solver)
    assert (result.status, result.objective, result.plan) == ("infeasible", None, None)
    assert result.infeasibility is not None
    assert sorted(result.infeasibility.jobs) == ["a", "b", "c"]
    assert eo.Result.from_json(result.to_json()) == result
