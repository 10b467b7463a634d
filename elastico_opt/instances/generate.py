"""Seeded instances: the same arguments give the same snapshot, everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from operator import index
from typing import Any

from elastico_opt.errors import InputError
from elastico_opt.instances.cluster import (
    MOST_TYPES,
    make_kinds,
    make_machines,
    node_json,
    type_json,
)
from elastico_opt.instances.contention import Contention, contention_json, pair_slowdowns
from elastico_opt.instances.draws import Draws
from elastico_opt.instances.families import FAMILIES, Dials, Family, family_of
from elastico_opt.instances.homes import Homes
from elastico_opt.instances.scaling import load_of, scale_to_load
from elastico_opt.instances.workload import Draft, Model, Shape, draw_job, draw_models, shapes_of
from elastico_opt.reading import parse_snapshot
from elastico_opt.snapshot import Snapshot
from elastico_opt.units import parse_quantity, plain_number

Number = Fraction | float | str

_COSTS = {
    "switch_cost": Fraction(2, 100),
    "migration_cost": Fraction(5, 100),
    "eviction_cost": Fraction(1, 10),
}
_MUST = Fraction(5, 100)


def generate(
    family: str = "mixed",
    jobs: int = 20,
    gpus: int = 8,
    *,
    profiles: int | None = None,
    load: Number | None = None,
    heterogeneity: Number | None = None,
    interference: Number | None = None,
    running: Number | None = None,
    gangs: Number | None = None,
    host: bool | None = None,
    residents: int | None = None,
    types: int | None = None,
    tiers: int | None = None,
    seed: int = 0,
    gpus_per_node: int = 8,
    name: str | None = None,
) -> Snapshot:
    """Generate an instance.

    A dial left at None stands where the family has it; see `FAMILIES`.

    Parameters
    ----------
    family : {"lucidlike", "gangs", "mixed", "identical", "triples"}
    jobs, gpus : int
    profiles : int
        Per job.
    load : number, optional
        Total demand of the jobs' middle profiles over the capacity of the cluster, for the device
        resource where it is largest (`load_of`). None leaves the demands as drawn.
    heterogeneity : number
        From 0 (jobs of one model are equal, GPU types are equally fast) to 1 (sizes and weights
        between half and one and a half, GPU types as unlike as they are).
    interference : number
        Share of the workload pairs that slow each other down; 0 = sharing costs nothing.
    running, gangs : number
        Share of the jobs that already run (as far as they fit), and that take several GPUs.
    host : bool
        Whether nodes have limited CPU cores and memory.
    residents : int
        Most jobs on one GPU.
    types, tiers : int
        GPU types (where there are enough GPUs) and priorities.
    seed : int
    gpus_per_node : int
        At most; the last node takes what is left.
    name : str, optional
        Default: family and main dials, such as ``lucidlike-j200-g64-r2-l110-s03``.

    Returns
    -------
    Snapshot
        Its annotation ``generated`` holds the dials: ``generate(**dials)`` makes it again.

    Raises
    ------
    InputError
        Naming the dial and what it may be.
    """
    traits = family_of(family)
    dials = Dials(
        jobs=_count("jobs", jobs, 0),
        gpus=_count("gpus", gpus, 0),
        profiles=_count("profiles", _or(profiles, traits.profiles), 1),
        load=None if load is None else _number("load", load, None),
        heterogeneity=_number("heterogeneity", _or(heterogeneity, traits.heterogeneity), 1),
        interference=_number("interference", _or(interference, traits.interference), 1),
        running=_number("running", _or(running, traits.running), 1),
        gangs=_number("gangs", _or(gangs, traits.gangs), 1),
        host=traits.host if host is None else host,
        residents=_count("residents", _or(residents, traits.residents), 1),
        types=max(1, min(gpus, _count("types", _or(types, traits.types), 1, MOST_TYPES))),
        tiers=_count("tiers", _or(tiers, traits.tiers), 1),
        seed=_count("seed", seed, 0),
        gpus_per_node=_count("gpus_per_node", gpus_per_node, 1),
    )
    snapshot = _generate(family, traits, dials)
    percent = round(100 * load_of(snapshot))
    title = f"{family}-j{jobs}-g{gpus}-r{dials.residents}-l{percent:03d}-s{seed:02d}"
    return snapshot.model_copy(update={"name": name or title})


def _generate(name: str, family: Family, dials: Dials) -> Snapshot:
    kinds = make_kinds(family, dials)
    machines = make_machines(list(kinds.values()), family, dials)
    models = draw_models(family, dials)
    drafts = [draw_job(family, dials, models, kinds, i) for i in range(dials.jobs)]
    if dials.load is not None:
        scale_to_load(drafts, machines, dials.load)
    contention = _contention(family, dials, drafts, [m for group in models.values() for m in group])
    homes = Homes(machines, contention, Draws(dials.seed, "homes"))
    _settle(family, dials, drafts, homes)
    data: dict[str, Any] = {
        "schema": "elastico-opt/snapshot@1",
        "name": "generated",
        "gpu_types": {name: type_json(kind) for name, kind in kinds.items()},
        "nodes": [node_json(machine) for machine in machines],
        "jobs": [_job_json(draft) for draft in drafts],
        "annotations": {"generated": {"family": name, **_plain(dials)}},
    }
    if dials.interference:
        data["interference"] = contention_json(contention)
    if dials.running:
        data["policy"] = _COSTS
    return parse_snapshot(data, "generated instance")


def _plain(dials: Dials) -> dict[str, Any]:
    """Write the dials as JSON data; `generate` takes them back."""
    return {
        dial: plain_number(value) if isinstance(value, Fraction) else value
        for dial, value in asdict(dials).items()
    }


def _contention(
    family: Family, dials: Dials, drafts: Sequence[Draft], models: Sequence[Model]
) -> Contention:
    """Return the slowdowns of the workloads in use; they do not depend on which are in use."""
    if not dials.interference:
        return {}
    pressure = {
        shape.workload: (model.sensitivity, shape.demand["sm"] + shape.demand["bandwidth"])
        for model in models if model.kind != "cpu"
        for shape in shapes_of(model, dials.profiles, 1, host=False)
    }  # fmt: skip
    draws = Draws(dials.seed, "contention")
    pairs = pair_slowdowns(pressure, dials.interference, family.severity, family.never, draws)
    used = {shape.workload for draft in drafts for shape in draft.shapes}
    return {pair: both for pair, both in pairs.items() if used.issuperset(pair)}


def _settle(family: Family, dials: Dials, drafts: Sequence[Draft], homes: Homes) -> None:
    """Let some jobs run; of those, some must stay placed, and with rules some may not move."""
    draws = Draws(dials.seed, "running")
    wanted = int(dials.running * len(drafts))
    must = math.ceil(_MUST * len(drafts)) if family.rules else 0
    settled = 0
    for j in draws.order(len(drafts)):
        if settled >= max(wanted, must):
            break
        if not homes.settle(drafts[j]):
            continue
        settled += 1
        rules = {"must_place": settled <= must}
        if settled > wanted:
            drafts[j].current = None  # it would fit there, so a plan that places it exists
        elif family.rules:
            rules |= {"movable": draws.below(10) > 0, "preemptible": draws.below(10) > 0}
        drafts[j].rules = rules if family.rules else None


def _job_json(draft: Draft) -> dict[str, Any]:
    job: dict[str, Any] = {"name": draft.name, "profiles": [_profile_json(s) for s in draft.shapes]}
    if draft.weight != 1:
        job["weight"] = draft.weight
    if draft.priority:
        job["priority"] = draft.priority
    if draft.floor is not None:
        job["min_throughput"] = draft.floor
    if draft.limit is not None:
        job["max_slowdown"] = 1 + Fraction(draft.limit, 1000)
    if draft.zone is not None:
        job["node_selector"] = {"zone": draft.zone}
    defaults = {"must_place": False, "movable": True, "preemptible": True}
    job |= {rule: value for rule, value in (draft.rules or {}).items() if value != defaults[rule]}
    if draft.current is not None:
        job["current"] = draft.current
    return job


def _profile_json(shape: Shape) -> dict[str, Any]:
    profile: dict[str, Any] = {"name": shape.name}
    if shape.gpus:
        profile |= {"workload": shape.workload, "knobs": shape.knobs}
    demand = {
        r: Fraction(a) if r == "memory" else Fraction(a, 1000) for r, a in shape.demand.items()
    }
    task: dict[str, Any] = {"gpus": shape.gpus}
    if demand:
        task["gpu"] = demand
    if shape.host:
        task["host"] = shape.host
    if shape.tasks > 1:
        profile["tasks"] = [{"count": shape.tasks, **task}]
    else:
        profile |= task
    profile["throughput"] = shape.rates if shape.gpus else shape.rate
    return profile


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _count(dial: str, value: int, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{dial}: {value!r} is not a whole number: give one")
    value = index(value)  # numpy's integers too
    if value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"{least} to {most}"
        raise InputError(f"{dial}: {value} is out of range: give {limits}")
    return value


def _number(dial: str, value: Number, most: int | None) -> Fraction:
    try:
        number = parse_quantity(value)
    except ValueError as error:
        raise InputError(f"{dial}: {error}: give a number") from None
    if most is not None and number > most:
        raise InputError(f"{dial}: {float(number):g} is out of range: give 0 to {most}")
    return number


__all__ = ["FAMILIES", "generate", "load_of"]
