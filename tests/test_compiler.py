"""Compiling one snapshot after the other gives what compiling each afresh gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, strategies as st
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.program import Program, compile_program
from elastico_opt.program.compile import Compiler


def _drop_job(s: Snapshot, i: int) -> Snapshot:
    return s.replace(jobs=s.jobs[:i] + s.jobs[i + 1 :])


def _reweigh(s: Snapshot, i: int) -> Snapshot:
    jobs = [job.replace(weight=job.weight + Fraction(i, 8)) for job in s.jobs[: i + 1]]
    return s.replace(jobs=(*jobs, *s.jobs[i + 1 :]))


def _finer(s: Snapshot, i: int) -> Snapshot:
    """A demand in smaller units changes the quantum for all."""
    if not s.jobs:
        return s
    job = s.jobs[i % len(s.jobs)]
    first = job.profiles[0]
    tasks = tuple(
        task.replace(gpu={r: amount / 5 for r, amount in task.gpu.items()})
        for task in first.task_list()
    )
    plain = {"gpus": None, "gpu": None, "host": None, "exclusive": None}
    changed = first.replace(**plain, tasks=tasks)
    renewed = job.replace(profiles=(changed, *job.profiles[1:]))
    return s.replace(jobs=tuple(renewed if other is job else other for other in s.jobs))


def _drop_node(s: Snapshot, i: int) -> Snapshot:
    return s.replace(nodes=s.nodes[:i] + s.nodes[i + 1 :])


def _cordon(s: Snapshot, i: int) -> Snapshot:
    nodes = [node.replace(schedulable=not node.schedulable) for node in s.nodes[:i]]
    return s.replace(nodes=(*nodes, *s.nodes[i:]))


def _other_objective(s: Snapshot, _: int) -> Snapshot:
    return s.replace(policy=s.policy.replace(objective="throughput"))


def _no_interference(s: Snapshot, _: int) -> Snapshot:
    return s.replace(interference=None)


_EDITS: tuple[Callable[[Snapshot, int], Snapshot], ...] = (
    _drop_job, _reweigh, _finer, _drop_node, _cordon, _other_objective, _no_interference,
)  # fmt: skip


@given(snapshots(), st.lists(st.tuples(st.sampled_from(_EDITS), st.integers(0, 3)), max_size=6))
def test_warm_equals_cold(found: Snapshot, edits: list[tuple[Any, int]]) -> None:
    """Whatever changes between two snapshots, nothing stale is left in the program."""
    compiler = Compiler()
    compiler.compile(found)
    for edit, i in edits:
        found = edit(found, i)
        _assert_same(compiler.compile(found), compile_program(found))


def test_new_workloads_are_looked_up(  # the table is read for the workloads in use only
) -> None:
    """A workload that comes back after its job was away has its slowdowns again."""
    from elastico_opt.instances.generate import generate

    found = generate("lucidlike", 12, 4)
    compiler = Compiler()
    few = found.replace(jobs=found.jobs[:3])
    for snapshot in (few, found, few, found.replace(jobs=found.jobs[3:])):
        _assert_same(compiler.compile(snapshot), compile_program(snapshot))


def _assert_same(one: Program, other: Program) -> None:
    """Compare all arrays, slowdowns by what two options do to each other."""
    apart = {"option_workload", "excess", "excess_unit", "job_limit"}
    for name in (f.name for f in dataclasses.fields(Program) if f.name not in apart):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
    np.testing.assert_allclose(_slowdowns(one), _slowdowns(other))
    limits = [np.minimum(p.job_limit * p.excess_unit, 1e9) for p in (one, other)]
    assert (np.abs(limits[0] - limits[1]) <= max(one.excess_unit, other.excess_unit)).all()


def _slowdowns(p: Program) -> Any:
    excess = p.excess[p.option_workload][:, p.option_workload]
    return np.where(excess < 0, -1.0, excess * p.excess_unit)
