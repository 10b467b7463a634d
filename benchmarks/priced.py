"""Elastic shadow pricing: time of an epoch, distance to the proven optimum, growth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.rows import Row

SUITE = "prices"
TITLE = "Elastic shadow pricing"

_METHODS = ["lagrangian", "greedy", "first fit decreasing", "one configuration, then placement"]
_GENERAL = ["highs", "cpsat"]
_CURVE = ((1_000, 400), (3_000, 1_200), (10_000, 4_000), (30_000, 12_000), (100_000, 40_000))


def rows(threads: int) -> Iterator[Row]:
    """Yield the rows of the tables."""
    yield _epochs("lucidlike", 200, 64, 0.015)
    yield _epochs("lucidlike", 800, 256, None)
    yield _quality("lucid", 20, 10.0, [*_METHODS, *_GENERAL], "median ≤ 0.1 %, worst ≤ 0.5 %")
    yield _quality("lucidlike", 20, 10.0, [*_METHODS, *_GENERAL], "median ≤ 0.1 %, worst ≤ 0.5 %")
    yield _quality("gangs", 20, 10.0, _METHODS, "median ≤ 0.5 %, worst ≤ 2 %")
    yield _scale(1_600, 512, 0.5, "gap ≤ 0.2 %", threads)
    yield _scale(10_000, 4_000, 30.0, "two threads, gap ≤ 1 %, 6 GiB", 2, bound="pattern")
    for jobs, gpus in _CURVE:
        yield _scale(jobs, gpus, 120.0 if jobs == 100_000 else None, "", threads, group="growth")


def _epochs(family: str, jobs: int, gpus: int, target: float | None) -> Row:
    task = {"do": "epochs", "family": family, "jobs": jobs, "gpus": gpus}
    note = "p95; 20 times faster than the proof" if target else ""
    return Row(SUITE, f"epochs, {family}-{jobs}x{gpus}", task, 400.0, target, note, group="epochs")


def _quality(family: str, seeds: int, proof: float, methods: list[str], note: str) -> Row:
    instance = f"{family}-200x64"
    task = {
        "do": "quality", "instance": instance, "family": family, "seeds": seeds,
        "proof_limit": proof, "methods": methods,
    }  # fmt: skip
    return Row(SUITE, f"quality, {instance}", task, seeds * (3 * proof + 10), note=note,
               group="quality")  # fmt: skip


def _scale(
    jobs: int, gpus: int, target: float | None, note: str, threads: int, group: str = "cold",
    **options: Any,
) -> Row:  # fmt: skip
    instance = f"lucidlike-{jobs}x{gpus}"
    task = {
        "do": "solve", "instance": instance, "solver": "lagrangian", "time_limit": 120.0,
        "threads": threads, "options": options,
    }  # fmt: skip
    return Row(SUITE, f"{group}, {instance}", task, 600.0, target, note, group=group)
