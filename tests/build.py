"""Short ways to write small snapshots: plain JSON data, read like a user's file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elastico_opt import Snapshot, parse_snapshot
from elastico_opt.snapshot import SCHEMA

Json = dict[str, Any]


def snapshot(
    nodes: Sequence[Json], jobs: Sequence[Json], types: Json | None = None, **more: Any
) -> Snapshot:
    """Read a snapshot; without `types` there is one GPU type `G` that no resource limits."""
    return parse_snapshot(data(nodes, jobs, types, **more))


def data(
    nodes: Sequence[Json], jobs: Sequence[Json], types: Json | None = None, **more: Any
) -> Json:
    """The JSON data of `snapshot`."""
    return {
        "schema": SCHEMA,
        "gpu_types": {"G": {}} if types is None else types,
        "nodes": list(nodes),
        "jobs": list(jobs),
        **more,
    }


def node(name: str = "n1", gpus: Any = 1, **more: Any) -> Json:
    """A node of GPU type `G` (none for a node without GPUs)."""
    return {"name": name, "gpu_type": "G" if gpus else None, "gpus": gpus, **more}


def job(name: str = "j", *profiles: Json, **more: Any) -> Json:
    """A job with these profiles, or with one that takes a whole GPU."""
    return {"name": name, "profiles": list(profiles) or [profile()], **more}


def profile(name: str = "p", throughput: Any = 1, **more: Any) -> Json:
    """A profile of throughput 1; what it needs follows by keyword."""
    return {"name": name, "throughput": throughput, **more}


def whole(gpus: int = 1, name: str = "p", throughput: Any = 1, **more: Any) -> Json:
    """A profile that has its GPUs for itself, all on one node."""
    return profile(name, throughput, gpus=gpus, exclusive=True, **more)


def gang(count: int, gpus: int = 1, name: str = "p", throughput: Any = 1, **more: Any) -> Json:
    """A profile of equal tasks, each with GPUs for itself, placed all or none."""
    tasks = [{"count": count, "gpus": gpus, "exclusive": bool(gpus), **more}]
    return {"name": name, "throughput": throughput, "tasks": tasks}
