"""The pattern form on the instances that it has to solve: time to proof, beside the target."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.rows import Row

SUITE = "pattern"
TITLE = "Proven optima by the pattern form"

_SIZES = ((200, 64, 1.0), (400, 256, 2.0), (800, 512, 5.0), (1600, 512, 15.0), (3200, 2048, 120.0))
_FAMILIES = ("lucid", "weighted", "lucidlike")
#: Besides its time limit a row may take this long to load and to end.
_GRACE = 60.0


def rows(threads: int) -> Iterator[Row]:
    """Yield the rows of the table."""
    for jobs, gpus, target in _SIZES:
        for family in _FAMILIES:
            yield _row(f"{family}-{jobs}x{gpus}", target, threads)
    yield _row("triples-200x64", 20.0, threads)
    yield _row("gangs-200x64", 30.0, threads, note="or gap ≤ 0.1 %", limit=30.0)
    yield _row("openb", 120.0, threads, note="gap ≤ 1 %, 8 GiB", limit=120.0)
    yield _row("lucidlike-200x64", None, threads, name="lucidlike-200x64, cold cache", cold=True)


def _row(
    instance: str, target: float | None, threads: int, note: str = "", limit: float | None = None,
    name: str = "", cold: bool = False,
) -> Row:  # fmt: skip
    limit = limit or max(30.0, 2 * (target or 0))
    return Row(
        suite=SUITE,
        name=name or instance,
        task={
            "do": "solve", "instance": instance, "solver": "pattern", "time_limit": limit,
            "threads": threads,
        },
        timeout=limit + _GRACE,
        target=target,
        note=note,
        cold=cold,
    )  # fmt: skip
