"""Identical GPUs, two residents, GPUs enough: the problem is maximum-weight matching.

`networkx.max_weight_matching` shares nothing with the solver, so that equal optima on sizes that
no enumeration reaches say much about pricing, cuts, enumeration and proof.
"""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from elastico_opt import Snapshot, solve, verify
from elastico_opt.instances.generate import generate
from elastico_opt.program import NEVER, Program, compile_program


def pair_values(p: Program) -> tuple[np.ndarray, np.ndarray]:
    """Return what each job is worth alone, and each pair of jobs on one GPU, from the arrays."""
    options = np.arange(p.n_options)
    group = p.group_start[:-1]
    demand, limit = p.group_demand[group], p.job_limit[p.option_job]
    work, reward = p.option_workload, p.option_reward
    weight = p.job_weight[p.option_job] * p.penalty
    alone = np.zeros(p.n_jobs)
    fits = (demand <= p.class_capacity[0]).all(axis=1)
    np.maximum.at(alone, p.option_job[fits], reward[fits])
    pairs = np.full((p.n_jobs, p.n_jobs), -np.inf)
    excess = p.excess[np.ix_(work, work)]
    for a in options[fits]:
        mine, theirs = excess[a], excess[:, a]
        ok = fits & (demand[a] + demand <= p.class_capacity[0]).all(axis=1)
        ok &= (mine != NEVER) & (theirs != NEVER) & (mine <= limit[a]) & (theirs <= limit)
        ok &= p.option_job != p.option_job[a]
        worth = reward[a] - weight[a] * mine * p.excess_unit
        worth = worth + reward - weight * theirs * p.excess_unit
        np.maximum.at(pairs[p.option_job[a]], p.option_job[ok], worth[ok])
    return alone, np.maximum(pairs, pairs.T)


def matching_optimum(given: Snapshot) -> float:
    """Return the weight of a best perfect matching of jobs and spare places, two to a GPU.

    Two jobs on a GPU are worth their pair's value, or what the better one is worth without the
    other; a job and a spare place what the job is worth alone.
    """
    program = compile_program(given)
    assert (program.option_workers == 1).all()
    assert program.class_residents.tolist() == [2]
    alone, pairs = pair_values(program)
    n = len(alone)
    spare = min(2 * program.n_devices - n, n)
    assert spare >= 0, "a GPU for every pair"
    graph = networkx.Graph()
    for i in range(n):
        for s in range(n, n + spare):
            graph.add_edge(i, s, weight=alone[i])
        for j in range(i):
            graph.add_edge(i, j, weight=max(pairs[i, j], alone[i], alone[j]))
    for s in range(n, n + spare):
        for other in range(n, s):
            graph.add_edge(s, other, weight=0.0)
    found = networkx.max_weight_matching(graph, maxcardinality=True)
    return float(sum(graph.edges[edge]["weight"] for edge in found))


def check(given: Snapshot) -> None:
    best = matching_optimum(given)
    result = solve(given, solver="pattern")
    verify(given, result)
    assert result.status == "optimal"
    assert result.objective == pytest.approx(best, abs=1e-6)
    assert result.bound == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("jobs", "gpus"), [(40, 20), (41, 21), (40, 28), (24, 64)])
def test_the_optimum_is_that_of_the_matching(jobs: int, gpus: int, seed: int) -> None:
    """GPUs for every pair exactly, one to spare, some jobs alone, all jobs alone."""
    check(generate("lucidlike", jobs, gpus, seed=seed))


@pytest.mark.parametrize("seed", range(3))
def test_strong_interference(seed: int) -> None:
    """Every pair of workloads slows both down: who meets whom is worth much."""
    check(generate("lucidlike", 30, 16, interference=1, heterogeneity=1, seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8])
def test_two_hundred_jobs_on_a_hundred_gpus(seed: int) -> None:
    """The size of the issue's `done when`, at which the matching itself takes seconds."""
    check(generate("lucidlike", 200, 100, seed=seed))
