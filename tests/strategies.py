"""Random small snapshots for hypothesis: every feature of the contract, mixed, and dials to turn.

Values lie on small grids, so that ties and exact fits are common, with odd decimals among them.
Everything is generated as JSON data and read like a user's file. A snapshot is small enough for
`brute_force`: at most a few jobs, devices and profiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from elastico_opt import Snapshot, parse_snapshot
from elastico_opt.snapshot import SCHEMA

Json = dict[str, Any]

RATES = ["1", "2", "3", "2", "0.1", "2.37", "310.0", "1e3", "540"]
WEIGHTS = ["1", "1", "2", "0.5", "3.3", "1500m", "0"]
SLOWDOWNS = ["1", "1.1", "1.12", "1.25", "1.3", "1.5", "2", "4", "1.0007"]
MILD = ["1.1", "1", "1.05", "1.2", "1.12", "1.3"]
LIMITS = ["1", "1.12", "1.3", "1.37", "1.5", "2"]
COSTS = ["0", "0.1", "0.25", "1", "0.033"]
PENALTIES = ["1", "0", "0.5", "2.5"]
#: One unit of a resource: integers, halves, memory, cores, and a fraction with many digits.
UNITS = ["1", "0.5", "1073741824", "0.001", "0.15", "1.0000001"]


@dataclass(frozen=True)
class Dials:
    """What the snapshots hold. The name of a dial says what True allows."""

    max_jobs: int = 4
    max_devices: int = 4
    max_nodes: int = 3
    max_profiles: int = 3
    gangs: bool = True  # profiles with several tasks or devices, or with none
    host: bool = True
    eligibility: bool = True  # selectors, lists of nodes, cordons
    running: bool = True  # jobs that hold devices now, and the costs of change
    must_place: bool = True
    tiers: bool = True
    interference: bool = True
    limits: bool = True  # throughput floors and slowdown limits
    crowded: bool = False  # memory never short, slowdowns always known: sharing decides
    max_residents: tuple[int | None, ...] = (2, None, 3, 1, 2)
    coupling: str | None = None  # None: either
    objective: str | None = None


def snapshots(**dials: Any) -> SearchStrategy[Snapshot]:
    """Small valid snapshots; the dials are those of `Dials`."""
    return snapshot_data(**dials).map(parse_snapshot)


def snapshot_data(**dials: Any) -> SearchStrategy[Json]:
    """The JSON data of small valid snapshots, numbers as ints, decimals or quantity texts."""
    return _snapshot(Dials(**dials))


@st.composite
def twins(draw: DrawFn, **dials: Any) -> Snapshot:
    """Snapshots in which jobs and nodes come several times: what grouping is for.

    At most five jobs and about four devices. Copies of a running job do not run.
    """
    data = draw(snapshot_data(**dials))
    jobs: list[Json] = []
    nodes: list[Json] = []
    gpus = 0
    for job in data["jobs"]:
        for profile in job["profiles"]:
            profile.setdefault("workload", f"{job['name']}/{profile['name']}")
        waiting = {k: job[k] for k in job if k not in ("current", "movable", "preemptible")}
        for copy in range(draw(st.sampled_from([1, 2, 3]))):
            jobs.append({**(waiting if copy else job), "name": f"{job['name']}.{copy}"})
    for node in data["nodes"]:
        for copy in range(draw(st.sampled_from([1, 2]))):
            gpus += len(_device_names(node))
            if gpus <= 4 or not copy:
                nodes.append({**node, "name": f"{node['name']}.{copy}" if copy else node["name"]})
    return parse_snapshot({**data, "jobs": jobs[:5], "nodes": nodes})


@st.composite
def _snapshot(draw: DrawFn, dials: Dials) -> Json:
    units = {r: draw(st.sampled_from(UNITS)) for r in ("memory", "sm", "cpu")}
    named = [] if dials.crowded else draw(st.sampled_from([["memory"], ["memory", "sm"], []]))
    types = {
        name: _without_none(
            capacity={r: _amount(draw, draw(st.integers(2, 5)), units[r]) for r in named},
            max_residents=draw(st.sampled_from(dials.max_residents)),
        )
        for name in draw(st.sampled_from([["A"], ["A", "B"]]))
    }
    nodes = draw(_nodes(dials, sorted(types), units))
    jobs = [
        draw(_job(dials, number, sorted(types), nodes, {r: units[r] for r in [*named, "cpu"]}))
        for number in range(draw(st.sampled_from(_counts(dials.max_jobs))))
    ]
    data: Json = {"schema": SCHEMA, "gpu_types": types, "nodes": nodes, "jobs": jobs}
    if dials.crowded or (dials.interference and not _rarely(draw, 4)):
        data["interference"] = draw(_interference(jobs, dials.crowded))
    data["policy"] = draw(_policy(dials))
    return data


@st.composite
def _nodes(draw: DrawFn, dials: Dials, types: list[str], units: dict[str, str]) -> list[Json]:
    nodes: list[Json] = []
    left = draw(st.sampled_from(_counts(dials.max_devices)))
    for number in range(draw(st.integers(1, dials.max_nodes))):
        gpus = draw(st.integers(0 if nodes else 1, left))
        left -= gpus
        node: Json = {"name": f"n{number}"}
        if gpus or draw(st.booleans()):
            node["gpu_type"] = draw(st.sampled_from(types))
            node["gpus"] = gpus
        if gpus and _rarely(draw, 4):
            node["gpus"] = [
                _without_none(
                    id=f"GPU-{i}",
                    type=draw(st.sampled_from([None, *types])),
                    capacity=draw(
                        st.none() | st.just({"memory": _amount(draw, 2, units["memory"])})
                    ),
                )
                for i in range(gpus)
            ]
        if dials.host and not _rarely(draw, 4):
            node["host"] = {"cpu": _amount(draw, draw(st.integers(0, 5)), units["cpu"])}
        if dials.eligibility:
            if _rarely(draw, 2):
                node["labels"] = {"zone": draw(st.sampled_from("ab"))}
            if _rarely(draw, 6):
                node["schedulable"] = False
        nodes.append(node)
    return nodes


@st.composite
def _job(
    draw: DrawFn,
    dials: Dials,
    number: int,
    types: list[str],
    nodes: list[Json],
    units: dict[str, str],
) -> Json:
    count = draw(st.integers(1, dials.max_profiles))
    profiles = [draw(_profile(dials, c, types, units)) for c in range(count)]
    job: Json = {"name": f"j{number}", "profiles": profiles}
    if draw(st.booleans()):
        job["weight"] = _number(draw(st.sampled_from(WEIGHTS)))
    if dials.tiers and _rarely(draw, 3):
        job["priority"] = draw(st.sampled_from([1, -1, 5]))
    if dials.must_place and _rarely(draw, 10):
        job["must_place"] = True
    if dials.limits:
        if _rarely(draw, 6):
            job["min_throughput"] = _number(draw(st.sampled_from(RATES)))
        if _rarely(draw, 4):
            job["max_slowdown"] = _number(draw(st.sampled_from(LIMITS)))
    if dials.eligibility:
        if _rarely(draw, 8):
            job["node_selector"] = {"zone": draw(st.sampled_from("ab"))}
        if _rarely(draw, 8):
            names = [node["name"] for node in nodes]
            job["eligible_nodes"] = draw(st.lists(st.sampled_from(names), unique=True))
    if dials.running and draw(st.booleans()):
        job["current"] = draw(_current(profiles, nodes))
        if dials.must_place and _rarely(draw, 8):
            job["preemptible"] = False
        if _rarely(draw, 4):
            job["movable"] = False
    return job


@st.composite
def _profile(
    draw: DrawFn, dials: Dials, number: int, types: list[str], units: dict[str, str]
) -> Json:
    profile: Json = {"name": f"c{number}"}
    if draw(st.booleans()):
        profile["workload"] = draw(st.sampled_from(["w", "x"]))
    shape = draw(st.integers(0, 3)) if dials.gangs else 0
    if shape == 3:
        profile["tasks"] = [
            {
                "count": draw(st.sampled_from([1, 2])),
                **_task(draw, dials, st.sampled_from([1, 0, 2]), units),
            }
            for _ in range(draw(st.sampled_from([1, 2])))
        ]
        workers = sum(task["count"] * task["gpus"] for task in profile["tasks"])
    else:
        task = _task(draw, dials, st.sampled_from([2, 0] if shape == 2 else [1]), units)
        profile.update(task)
        workers = task["gpus"]
    rates = st.sampled_from([*RATES, *RATES, "0"]).map(_number)
    if workers and draw(st.booleans()):
        named = (
            types if not _rarely(draw, 4) else draw(st.lists(st.sampled_from(types), unique=True))
        )
        profile["throughput"] = {name: draw(rates) for name in named}
    else:
        profile["throughput"] = draw(rates)
    return profile


def _task(draw: DrawFn, dials: Dials, gpus: SearchStrategy[int], units: dict[str, str]) -> Json:
    task: Json = {"gpus": draw(gpus)}
    if task["gpus"]:
        asked = [r for r in units if r != "cpu" and not _rarely(draw, 3)]
        if _rarely(draw, 12) and not dials.crowded:
            asked.append("rare")  # a resource that no device names
        task["gpu"] = {
            r: _amount(draw, draw(st.sampled_from([1, 2, 0, 1, 3])), units.get(r, "1"))
            for r in asked
        }
        if _rarely(draw, 10):
            task["exclusive"] = True
    if dials.host and _rarely(draw, 3):
        task["host"] = {"cpu": _amount(draw, draw(st.integers(0, 3)), units["cpu"])}
    return task


@st.composite
def _current(draw: DrawFn, profiles: list[Json], nodes: list[Json]) -> Json:
    """What a job holds: often a fit for its profile, sometimes gone, vanished or misshapen."""
    profile = draw(st.sampled_from(profiles))
    tasks = []
    for task in profile.get("tasks", [profile]):
        for _ in range(task.get("count", 1)):
            node = draw(st.sampled_from(nodes))
            there = _device_names(node)
            if _rarely(draw, 8):
                there = [*there, 7]  # a device that is gone
            if _rarely(draw, 10):
                node = {"name": "gone"}
            held = draw(st.permutations(there))[: task.get("gpus", 1)]
            tasks.append({"node": node["name"], "gpus": held})
    name = "vanished" if _rarely(draw, 8) else profile["name"]
    return {"profile": name, "tasks": tasks}


def _device_names(node: Json) -> list[int | str]:
    gpus = node.get("gpus", 0)
    return list(range(gpus)) if isinstance(gpus, int) else [gpu["id"] for gpu in gpus]


@st.composite
def _interference(draw: DrawFn, jobs: list[Json], crowded: bool) -> Json:
    keys = sorted(
        {p.get("workload", f"{job['name']}/{p['name']}") for job in jobs for p in job["profiles"]}
    )
    pairs = [(a, b) for i, a in enumerate(keys) for b in keys[i:]]
    slowdown = st.sampled_from(MILD if crowded else [*SLOWDOWNS, None]).map(_number)
    table = []
    rows = st.lists(st.sampled_from(pairs), unique=True, max_size=8)
    for a, b in pairs[:12] if crowded else draw(rows):
        mine, theirs = draw(slowdown), draw(slowdown)
        flip = draw(st.booleans())
        row = [mine, mine if a == b else theirs]
        table.append({"a": b if flip else a, "b": a if flip else b, "slowdown": row})
    return {"table": table, "default": _number(draw(st.sampled_from(["1", "1.2", None, "1.5"])))}


@st.composite
def _policy(draw: DrawFn, dials: Dials) -> Json:
    policy: Json = {
        "objective": dials.objective or draw(st.sampled_from(["normalised", "throughput"])),
        "coupling": dials.coupling or draw(st.sampled_from(["penalty", "throughput"])),
    }
    if policy["coupling"] == "penalty" and draw(st.booleans()):
        policy["interference_penalty"] = _number(draw(st.sampled_from(PENALTIES)))
    if dials.limits and _rarely(draw, 4):
        policy["max_slowdown"] = _number(draw(st.sampled_from(LIMITS)))
    if dials.running:
        for cost in ("switch_cost", "migration_cost", "eviction_cost"):
            policy[cost] = _number(draw(st.sampled_from(COSTS)))
    return policy


def _counts(most: int) -> list[int]:
    """1 to `most`, large numbers more often; shrinks to few."""
    return [*range(1, most + 1), *range((most + 1) // 2, most + 1)]


def _rarely(draw: DrawFn, one_in: int) -> bool:
    """True once in so many draws; shrinks to False, the plainer snapshot."""
    return draw(st.integers(1, one_in)) == one_in


def _number(text: str | None) -> Any:
    if text is None or text.endswith("m"):
        return text
    return int(text) if text.isdecimal() else Decimal(text)


def _amount(draw: DrawFn, count: int, unit: str) -> Any:
    """Write `count` units in one of several ways that mean the same."""
    if unit == "1073741824":
        return draw(st.sampled_from([f"{count}Gi", f"{count * 1024}Mi", count * 2**30]))
    number = count * Decimal(unit)
    milli = number * 1000
    forms: list[Any] = [number, f"{number:f}", f"{number:f}e0", f"{milli.normalize():f}m"]
    return draw(st.sampled_from(forms))


def _without_none(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
