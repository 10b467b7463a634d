"""Small snapshots whose optimum is known by hand, with the story of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from small import snapshot

from elastico_opt import Snapshot
from elastico_opt.solvers.base import Capability


@dataclass(frozen=True)
class Known:
    """A snapshot and its optimum: one value per priority, highest first; None = infeasible."""

    name: str
    snapshot: Snapshot
    tiers: tuple[float, ...] | None
    needs: frozenset[Capability] = field(default_factory=frozenset)


def _types(residents: int | None = None, **capacity: Any) -> dict[str, Any]:
    limit = {} if residents is None else {"max_residents": residents}
    return {"A": {"capacity": capacity, **limit}}


def _jobs(count: int, prefix: str = "j", **fields: Any) -> dict[str, Any]:
    return {f"{prefix}{i}": dict(fields) for i in range(count)}


def _pair(slow_a: Any, slow_b: Any, a: str = "a/p", b: str = "b/p") -> dict[str, Any]:
    return {"table": [{"a": a, "b": b, "slowdown": [slow_a, slow_b]}]}


def _known(
    name: str,
    nodes: dict[str, Any],
    jobs: dict[str, Any],
    tiers: tuple[float, ...] | None,
    needs: tuple[Capability, ...] = (),
    **more: Any,
) -> Known:
    return Known(name, snapshot(nodes, jobs, **more), tiers, frozenset(needs))


_HOME = {"profile": "p", "tasks": [{"node": "n1", "gpus": [0]}]}
_GANG, _HOST, _RUNNING = Capability.GANG, Capability.HOST, Capability.RUNNING
_TIERS, _THROUGHPUT = Capability.TIERS, Capability.THROUGHPUT

KNOWN: tuple[Known, ...] = (
    _known("nothing fits", {"n": 2}, {"a": {"gpu": {"memory": 11}}}, (0,)),
    _known("memory of one GPU is a hard cap", {"n": 1}, _jobs(3, gpu={"memory": 8000}), (2,),
           types=_types(memory=16384)),
    _known("fractions count GPU by GPU", {"n": 2}, _jobs(13, gpu={"sm": 0.15}), (12,),
           types=_types(sm=1)),
    _known("one above half is one each", {"m": 2, "n": 2}, _jobs(5, gpu={"sm": 0.6}), (4,),
           types=_types(sm=1)),
    _known("one byte too much", {"n": 1}, _jobs(2, gpu={"memory": 512 * 2**30 + 1}), (1,),
           types=_types(memory="1Ti")),
    _known("one byte too much beside a small job", {"n": 1},
           {"a": {"weight": 3, "gpu": {"memory": 2**40 + 1}},
            "b": {"weight": 2, "gpu": {"memory": 2**40 + 3}},
            "c": {"weight": 1, "gpu": {"memory": 1}}}, (4,),
           types=_types(residents=2, memory=2**41 + 3)),
    _known("next to nothing on nothing", {"n": 1}, {"a": {"gpu": {"memory": "0.0000001"}}}, (0,),
           types=_types(memory=0)),
    _known("values are not cut to integers", {"n": 1},
           {"a": {"gpu": {"memory": 10}, "throughput": 30.55},
            "b": {"gpu": {"memory": 10}, "throughput": 30.45}}, (30.55,),
           policy={"objective": "throughput"}),
    _known("large and small values", {"n": 2},
           {"a": {"gpu": {"memory": 10}, "throughput": 1e6},
            "b": {"gpu": {"memory": 10}, "throughput": 1},
            "c": {"gpu": {"memory": 10}, "throughput": 0.5}}, (1000001,),
           policy={"objective": "throughput"}),
    _known("a cap on residents", {"n": 1}, _jobs(11, gpu={"memory": 1}), (10,),
           types=_types(residents=10, memory=100)),
    _known("unlike GPUs of one node",
           {"n": [{"id": "0", "capacity": {"memory": 16130}},
                  {"id": "1", "capacity": {"memory": 11178}},
                  {"id": "2", "capacity": {"memory": 11178}}]},
           _jobs(2, gpu={"memory": 12000}), (1,), types=_types(memory=0)),
    _known("a cordoned node is not used", {"m": {"gpus": 8, "schedulable": False}, "n": 1},
           _jobs(2, gpu={"memory": 10}), (1,)),
    _known("a selector admits one node", {"m": {"gpus": 1, "labels": {"zone": "a"}}, "n": 1},
           _jobs(2, gpu={"memory": 10}, node_selector={"zone": "a"}), (1,)),
    _known("the best profile that fits", {"n": 5},
           {"a": {"profiles": [
               {"name": f"{g}g", "gpus": g, "gpu": {"memory": 10}, "throughput": t}
               for g, t in ((2, 2), (4, 3.5), (8, 6))]}}, (3.5 / 6,), (_GANG,),
           policy={"objective": "normalised"}),
    _known("gangs of three cannot share four", {"n": 4},
           _jobs(2, tasks=[{"count": 3, "gpu": {"memory": 10}}]), (1,), (_GANG,)),
    _known("a task stays on one node", {"m": 1, "n": 1}, {"a": {"gpus": 2}}, (0,), (_GANG,)),
    _known("small jobs make room for the gang", {"m": 2, "n": 2, "o": 2},
           {"a": {"gpu": {"memory": 10}}, "b": {"gpu": {"memory": 10}},
            "g": {"weight": 9, "tasks": [{"count": 2, "gpus": 2, "gpu": {"memory": 10}}]}},
           (11,), (_GANG,)),
    _known("X leaves the only node where Y fits",
           {"A": {"host": {"cpu": 53, "memory": 476}}, "B": {"host": {"cpu": 31, "memory": 96}}},
           {"x": {"gpus": 0, "host": {"cpu": 30, "memory": 1}},
            "y": {"gpus": 0, "host": {"cpu": 50, "memory": 1}}}, (2,), (_GANG, _HOST)),
    _known("host cores are shared by the GPUs of a node", {"n": {"gpus": 4, "host": {"cpu": 10}}},
           _jobs(4, host={"cpu": 4}), (2,), (_HOST,)),
    _known("CPU work makes room on the GPU node",
           {"g": {"gpus": 1, "host": {"cpu": 8}}, "c": {"host": {"cpu": 8}}},
           {"a": {"host": {"cpu": 8}}, "b": {"gpus": 0, "host": {"cpu": 8}}}, (2,),
           (_GANG, _HOST)),
    _known("an exclusive task is alone", {"n": 1}, {"a": {"exclusive": True}, "b": {}, "c": {}},
           (2,), types=_types(residents=3, memory=10)),
    _known("sharing costs nothing when nothing is known", {"n": 1}, _jobs(2), (2,)),
    _known("halved by sharing: no better than alone", {"n": 1}, {"a": {}, "b": {}}, (1,),
           interference=_pair(2, 2), policy={"coupling": "throughput"}),
    _known("sharing wins when it does", {"n": 1}, {"a": {}, "b": {}}, (1.6,),
           interference=_pair(1.25, 1.25), policy={"coupling": "throughput"}),
    _known("two GPUs: separate", {"n": 2}, {"a": {}, "b": {}}, (2,),
           interference=_pair(1.25, 1.25), policy={"coupling": "throughput"}),
    _known("unequal slowdowns", {"n": 1}, {"a": {}, "b": {}}, (1 / 1.1 + 1 / 4,),
           interference=_pair(1.1, 4), policy={"coupling": "throughput"}),
    _known("the penalty is on the excess", {"n": 1}, {"a": {}, "b": {"weight": 2}},
           (3 - 0.5 * 0.12 - 2 * 0.5 * 0.3,),
           interference=_pair(1.12, 1.30), policy={"interference_penalty": 0.5}),
    _known("a limit on the slowdown forbids a pair", {"n": 1},
           {"a": {"max_slowdown": 1.1}, "b": {"weight": 2}}, (2,), interference=_pair(1.12, 1)),
    _known("a pair that is not in the table stays apart", {"n": 1}, {"a": {}, "b": {}}, (1,),
           interference={"table": []}),
    _known("three residents: excesses add", {"n": 1}, _jobs(3, workload="w"), (3 - 3 * 0.2,),
           types=_types(residents=3, memory=10),
           interference={"table": [{"a": "w", "b": "w", "slowdown": [1.1, 1.1]}]}),
    _known("three residents exceed a limit that two keep", {"n": 1},
           _jobs(3, workload="w", max_slowdown=1.15), (2 - 2 * 0.1,),
           types=_types(residents=3, memory=10),
           interference={"table": [{"a": "w", "b": "w", "slowdown": [1.1, 1.1]}]}),
    _known("three residents and w·t/s", {"n": 1}, _jobs(3, workload="w"), (3 / 1.2,),
           (_THROUGHPUT,), types=_types(residents=3, memory=10),
           interference={"table": [{"a": "w", "b": "w", "slowdown": [1.1, 1.1]}]},
           policy={"coupling": "throughput"}),
    _known("a gang runs at its slowest worker", {"n": 2},
           {"g": {"weight": 2, "tasks": [{"count": 2}]}, "a": {}, "b": {}},
           (4 - 2 * 0.3 - 0.1 - 0.1,), (_GANG,),
           interference={"table": [{"a": "g/p", "b": "a/p", "slowdown": [1.3, 1.1]},
                                   {"a": "g/p", "b": "b/p", "slowdown": [1.3, 1.1]},
                                   {"a": "a/p", "b": "b/p", "slowdown": [3, 3]}]}),
    _known("must be placed, and cannot", {"n": 1}, {"a": {"must_place": True, "gpus": 2}}, None,
           (_GANG,)),
    _known("two that must be placed, room for one", {"n": 1},
           _jobs(2, must_place=True, gpu={"memory": 10}), None),
    _known("must be placed, though another is worth more", {"n": 1},
           {"a": {"must_place": True, "gpu": {"memory": 10}},
            "b": {"weight": 5, "gpu": {"memory": 10}}}, (1,)),
    _known("a lower priority never costs a higher one", {"n": 1},
           {"a": {"priority": 1, "weight": 0.1, "gpu": {"memory": 10}},
            "b": {"weight": 5, "gpu": {"memory": 10}}}, (0.1, 0), (_TIERS,)),
    _known("not even by sharing", {"n": 1}, {"a": {"priority": 1}, "b": {"weight": 5}}, (1, 0),
           (_TIERS,), interference=_pair(1.01, 1)),
    _known("sharing that hurts only the lower one", {"n": 1},
           {"a": {"priority": 1}, "b": {"weight": 5}}, (1, 5 - 5 * 0.01), (_TIERS,),
           interference=_pair(1, 1.01)),
    _known("the better of two equal choices above", {"m": 1, "n": 1},
           {"a": {"priority": 1, "gpu": {"memory": 10}},
            "b": {"gpu": {"memory": 10}, "eligible_nodes": ["m"]}}, (1, 1), (_TIERS,)),
    _known("a running job stays", {"n1": 2},
           {"a": {"current": _HOME, "gpu": {"memory": 10}}, "b": {"gpu": {"memory": 10}}}, (2,),
           (_RUNNING,), policy={"migration_cost": 0.25}),
    _known("moving pays", {"n1": 1, "n2": 1},
           {"a": {"current": _HOME, "gpu": {"memory": 10}},
            "b": {"gpu": {"memory": 10}, "eligible_nodes": ["n1"]}}, (2 - 0.25,), (_RUNNING,),
           policy={"migration_cost": 0.25}),
    _known("moving does not pay", {"n1": 1, "n2": 1},
           {"a": {"current": _HOME, "gpu": {"memory": 10}},
            "b": {"weight": 0.2, "gpu": {"memory": 10}, "eligible_nodes": ["n1"]}}, (1,),
           (_RUNNING,), policy={"migration_cost": 0.25}),
    _known("eviction is charged", {"n1": 1},
           {"a": {"current": _HOME, "gpu": {"memory": 10}},
            "b": {"weight": 1.2, "gpu": {"memory": 10}}}, (1,), (_RUNNING,),
           policy={"eviction_cost": 0.25}),
    _known("eviction pays", {"n1": 1},
           {"a": {"current": _HOME, "gpu": {"memory": 10}},
            "b": {"weight": 2, "gpu": {"memory": 10}}}, (2 - 0.25,), (_RUNNING,),
           policy={"eviction_cost": 0.25}),
    _known("switching the profile is charged", {"n1": 1},
           {"a": {"current": _HOME, "profiles": [{"name": "p", "throughput": 1},
                                                 {"name": "q", "throughput": 2}]}}, (1 - 0.1,),
           (_RUNNING,), policy={"switch_cost": 0.1}),
    _known("a job that cannot move blocks its place", {"n1": 1, "n2": 1},
           {"a": {"current": _HOME, "movable": False, "weight": 9, "gpu": {"memory": 10}},
            "b": {"gpu": {"memory": 10}, "eligible_nodes": ["n1"]}}, (9,), (_RUNNING,)),
    _known("a running job may keep a cordoned home",
           {"n1": {"gpus": 1, "schedulable": False}},
           {"a": {"current": _HOME}, "b": {}}, (1,), (_RUNNING,)),
    _known("one that is not preemptible stays placed", {"n1": 1},
           {"a": {"current": _HOME, "preemptible": False, "gpu": {"memory": 10}},
            "b": {"weight": 5, "gpu": {"memory": 10}}}, (1,), (_RUNNING,)),
    _known("the home is gone", {"n1": 1, "n2": 1},
           {"a": {"current": {"profile": "p", "tasks": [{"node": "n9", "gpus": [0]}]}}},
           (1 - 0.25,), (_RUNNING,), policy={"migration_cost": 0.25}),
)  # fmt: skip
