"""The pattern form beside other ways to solve the same instance, in one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.rows import Row

SUITE = "rivals"
TITLE = "Beside other methods"

#: Instance, time limit, and who takes part; times are ratios to the first.
_CONTESTS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("matching-50", 20.0, ("pattern", "networkx", "lagrangian", "greedy", "highs", "cpsat")),
    ("matching-100", 20.0, ("pattern", "networkx", "lagrangian", "greedy")),
    ("matching-200", 20.0, ("pattern", "networkx", "lagrangian", "greedy")),
    ("lucidlike-10x4", 20.0, ("pattern", "lagrangian", "greedy", "highs", "cpsat")),
    ("lucidlike-20x8", 20.0, ("pattern", "lagrangian", "greedy", "highs", "cpsat")),
    ("lucid-200x64", 20.0, ("pattern", "lagrangian", "greedy", "highs", "cpsat")),
    ("flat-40x16", 20.0, ("pattern", "lagrangian", "greedy", "highs", "cpsat")),
    ("gangs-200x64", 30.0, ("pattern", "lagrangian", "greedy", "highs", "cpsat")),
)


def rows(threads: int) -> Iterator[Row]:
    """Yield the rows of the table."""
    for instance, limit, methods in _CONTESTS:
        for method in methods:
            task: dict[str, Any] = {"do": "matching", "instance": instance}
            if method != "networkx":
                task = {
                    "do": "solve", "instance": instance, "solver": method, "time_limit": limit,
                    "threads": threads,
                }  # fmt: skip
            yield Row(
                suite=SUITE,
                name=f"{instance}, {method}",
                task=task,
                timeout=limit + 40 if method != "networkx" else 180.0,
                group=instance,
                extra={"method": method, "limit": None if method == "networkx" else limit},
            )
