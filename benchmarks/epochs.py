"""Warm epochs: a tenth of the jobs leave and as many come, again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from elastico_opt.instances.generate import generate
from elastico_opt.scheduler import Scheduler
from elastico_opt.snapshot import Snapshot

#: Every so many epochs the optimum is proved, to compare with.
_PROVE_EACH = 10


def epochs(
    family: str, jobs: int, gpus: int, steps: int = 60, share: float = 0.1, seed: int = 0
) -> dict[str, Any]:
    """Time `Scheduler.step` on a stream of snapshots; compare with the proof of some of them."""
    scheduler = Scheduler(seed=seed)
    seconds, stages, gaps, proofs = [], [], [], []
    for step, snapshot in enumerate(_stream(family, jobs, gpus, steps + 2, share, seed)):
        began = time.perf_counter()
        found = scheduler.step(snapshot)
        took = time.perf_counter() - began
        if step < 2:  # the first is cold, the second loads what only warm epochs need
            continue
        seconds.append(took)
        stages.append([found.timing[name] for name in ("compile", "solve", "check")])
        if step % _PROVE_EACH == 0:
            optimum, proof = _prove(found.snapshot)
            proofs.append(proof)
            gaps.append((optimum - (found.objective or 0.0)) / optimum)
    compiling, solving, checking = np.median(stages, axis=0)
    return {
        "seconds": round(float(np.median(seconds)), 5),
        "p95": round(float(np.quantile(seconds, 0.95)), 5),
        "worst": round(max(seconds), 5),
        "phases": {"compile": compiling, "solve": solving, "check": checking},
        "proof": round(float(np.median(proofs)), 4),
        "ratio": round(float(np.median(proofs) / np.quantile(seconds, 0.95)), 2),
        "median_gap": float(np.median(gaps)),
        "worst_gap": float(max(gaps)),
        "steps": steps,
    }


def _prove(snapshot: Snapshot) -> tuple[float, float]:
    """Return the optimum (or the bound) of a snapshot, and how long the pattern form took."""
    from elastico_opt.program import compile_program
    from elastico_opt.solvers.base import Limits
    from elastico_opt.solvers.pattern import PatternSolver

    began = time.perf_counter()
    limits = Limits(deadline=time.monotonic() + 30)
    outcome = PatternSolver().solve(compile_program(snapshot), limits)
    return float(outcome.bound or np.nan), time.perf_counter() - began


def _stream(
    family: str, jobs: int, gpus: int, steps: int, share: float, seed: int
) -> Iterator[Snapshot]:
    """Yield snapshots of as many jobs, a share of which is new in each."""
    draw = random.Random(seed)
    count = max(1, round(share * jobs))
    known = generate(family, jobs + count * steps, gpus, seed=seed)
    now, waiting = list(known.jobs[:jobs]), list(known.jobs[jobs:])
    for _ in range(steps):
        yield known.replace(jobs=tuple(now))
        for _ in range(count):
            now[draw.randrange(jobs)] = waiting.pop()
