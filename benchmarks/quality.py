"""How far plans are from the proven optimum, over many instances, beside other methods."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.baselines import first_fit_decreasing, one_configuration
from benchmarks.instances import instance_file
from elastico_opt.errors import VerificationError
from elastico_opt.instances.generate import generate
from elastico_opt.plan import Plan
from elastico_opt.program import Program, compile_program
from elastico_opt.reading import read_snapshot
from elastico_opt.snapshot import Snapshot
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.registry import get_solver
from elastico_opt.verification import check

Method = Callable[[Program, float], Plan | None]
#: Least seconds for the general solvers: below that they cannot even build their model.
_LEAST = 1.0


def quality(
    instance: str, family: str, seeds: int, proof_limit: float, methods: list[str]
) -> dict[str, Any]:
    """Prove (or bound) each instance, then plan it by each method.

    Parameters
    ----------
    instance : str
        Its file gives the jobs to draw from (family ``lucid``), or only the size.
    proof_limit : float
        Seconds for the pattern form. Where it ends without a proof, gaps are to its bound.
    methods : list of str
        ``lagrangian`` comes first: ``highs`` and ``cpsat`` get as long as it took, and at least
        a second.
    """
    gaps: dict[str, list[float]] = {name: [] for name in methods}
    times: dict[str, list[float]] = {name: [] for name in methods}
    proofs, open_ = [], 0
    for seed in range(seeds):
        snapshot = _draw(instance, family, seed)
        program = compile_program(snapshot)
        began = time.perf_counter()
        proof = get_solver("pattern").solve(program, _limits(proof_limit))
        proofs.append(time.perf_counter() - began)
        bound = float(proof.bound or np.nan)
        best = check(snapshot, proof.plan).objective if proof.plan is not None else -np.inf
        open_ += bound - best > 1e-6 * abs(bound)
        for name in methods:
            seconds = max(_LEAST, times["lagrangian"][-1]) if times["lagrangian"] else _LEAST
            began = time.perf_counter()
            plan = _METHODS[name](program, seconds)
            times[name].append(time.perf_counter() - began)
            gaps[name].append((bound - _worth(snapshot, plan)) / abs(bound))
    return {
        "seeds": seeds, "open": open_, "proof": round(float(np.median(proofs)), 4),
        "methods": {name: _summary(gaps[name], times[name], proofs) for name in methods},
    }  # fmt: skip


def _summary(gaps: list[float], times: list[float], proofs: list[float]) -> dict[str, float]:
    warm = times[1:] or times  # the first call loads compiled code
    return {
        "median_gap": float(np.median(gaps)),
        "worst_gap": float(np.max(gaps)),
        "seconds": round(float(np.median(warm)), 5),
        "ratio": round(float(np.median(warm) / np.median(proofs[1:] or proofs)), 5),
    }


def _worth(snapshot: Snapshot, plan: Plan | None) -> float:
    """Return the value of a plan; 0 (nothing placed) when there is none that holds."""
    try:
        return check(snapshot, plan).objective if plan is not None else 0.0
    except VerificationError:
        return 0.0


def _draw(instance: str, family: str, seed: int) -> Snapshot:
    given = read_snapshot(instance_file(instance))
    jobs, gpus = len(given.jobs), sum(len(node.devices()) for node in given.nodes)
    if family != "lucid":
        options = {"gangs": {"running": "0.4"}, "mixed": {"tiers": 1}}.get(family, {})
        return generate(family, jobs, gpus, seed=seed, **options)  # type: ignore[arg-type]
    draw = random.Random(seed)
    picked = draw.choices(given.jobs, k=jobs)
    names = [job.name for job in given.jobs]
    return given.replace(
        jobs=tuple(job.replace(name=name) for job, name in zip(picked, names, strict=True))
    )


def _limits(seconds: float) -> Limits:
    return Limits(deadline=time.monotonic() + seconds)


def _solver(name: str) -> Method:
    def plan(program: Program, seconds: float) -> Plan | None:
        return get_solver(name).solve(program, _limits(seconds)).plan

    return plan


def _lagrangian(program: Program, _: float) -> Plan | None:
    return get_solver("lagrangian").solve(program, Limits()).plan


_METHODS: dict[str, Method] = {
    "lagrangian": _lagrangian,
    "greedy": _solver("greedy"),
    "first fit decreasing": lambda p, _: p.to_plan(first_fit_decreasing(p)),
    "one configuration, then placement": lambda p, s: p.to_plan(one_configuration(p, s)),
    "highs": _solver("highs"),
    "cpsat": _solver("cpsat"),
}
METHODS = tuple(_METHODS)
