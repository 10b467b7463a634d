"""Snapshots of one line each, for tests whose right answer is known by hand."""

from __future__ import annotations

from typing import Any

from elastico_opt import Snapshot, parse_snapshot
from elastico_opt.plan import Assignment, Plan, TaskPlacement

TYPES = {"A": {"capacity": {"memory": 10}, "max_residents": 2}}


def snapshot(
    nodes: dict[str, Any], jobs: dict[str, Any], *, types: Any = None, **more: Any
) -> Snapshot:
    """Build a snapshot; a node is a number of GPUs or fields, a job is a profile or fields."""
    return parse_snapshot({
        "schema": "elastico-opt/snapshot@1",
        "gpu_types": TYPES if types is None else types,
        "nodes": [_node(name, given) for name, given in nodes.items()],
        "jobs": [_job(name, given) for name, given in jobs.items()],
        **more,
    })  # fmt: skip


def _node(name: str, given: Any) -> dict[str, Any]:
    fields = {"gpus": given} if isinstance(given, (int, list)) else given
    return {"name": name, **({"gpu_type": "A"} if fields.get("gpus") else {}), **fields}


def _job(name: str, given: dict[str, Any]) -> dict[str, Any]:
    if "profiles" in given:
        return {"name": name, **given}
    job = {key: given[key] for key in given if key in _JOB_FIELDS}
    profile = {key: given[key] for key in given if key not in _JOB_FIELDS}
    return {"name": name, **job, "profiles": [{"name": "p", "throughput": 1, **profile}]}


_JOB_FIELDS = (
    "weight", "priority", "must_place", "preemptible", "movable", "min_throughput",
    "max_slowdown", "node_selector", "eligible_nodes", "current",
)  # fmt: skip


def plan(**jobs: Any) -> Plan:
    """Build a plan: ``a=("n1", "0", "1")``, or a list of such tuples; profile ``p``."""
    return Plan({
        job: Assignment("p", tuple(
            TaskPlacement(node, tuple(gpus))
            for node, *gpus in (places if isinstance(places, list) else [places])
        ))
        for job, places in jobs.items()
    })  # fmt: skip
