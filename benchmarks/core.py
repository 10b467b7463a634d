"""What surrounds the solvers: reading, compiling, checking, and stating the joint form."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.rows import Row

SUITE = "core"
TITLE = "Around the solvers"

_STAGES = ("lucidlike-200x64", "lucidlike-3200x2048", "mixed-400x128", "openb")
_JOINT = ("lucidlike-20x8", "lucidlike-50x16", "mixed-40x16")


def rows(threads: int) -> Iterator[Row]:
    """Yield the rows of both tables; `threads` makes no difference here."""
    for instance in _STAGES:
        yield Row(SUITE, instance, {"do": "stages", "instance": instance}, timeout=120.0)
    for instance in _JOINT:
        task = {"do": "joint", "instance": instance}
        yield Row(SUITE, f"joint, {instance}", task, timeout=120.0, group="joint")
