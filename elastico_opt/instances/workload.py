"""Generated models, the profiles they have, and the jobs that run them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from elastico_opt.instances.cluster import GpuKind
from elastico_opt.instances.draws import Draws
from elastico_opt.instances.families import Dials, Family

#: Most workloads with slowdowns of their own: the pair table stays near 2,000 rows.
_WORKLOADS = 64
_CPU_MODELS = 4
_GANG_SIZE, _GANG_SM = (40, 75), (40, 75)

Kind = Literal["single", "gang", "cpu"]


@dataclass(frozen=True, slots=True)
class Model:
    """What jobs run: the numbers from which its profiles are made.

    Attributes
    ----------
    size, sm, bandwidth : int
        Of the smallest profile, in thousandths of the largest GPU.
    rate, gain, amp : int
        Throughput on one GPU; what each doubling of the batch adds and mixed precision makes of
        it, in percent.
    sensitivity : int
        How much it suffers from others, in thousandths.
    width, spread : int, bool
        Devices of a gang, and whether they may lie on several nodes.
    """

    name: str
    kind: Kind
    size: int
    sm: int
    bandwidth: int
    rate: int
    gain: int
    amp: int
    sensitivity: int
    width: int
    spread: bool
    cores: int
    host_memory: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A profile: memory in MB, SM and bandwidth in thousandths; host in cores and MB per task."""

    name: str
    workload: str
    knobs: dict[str, Any]
    tasks: int
    gpus: int
    demand: dict[str, int]
    host: dict[str, int]
    rate: int
    rates: dict[str, int]

    def workers(self) -> int:
        """Return the number of devices."""
        return self.tasks * self.gpus


@dataclass(slots=True)
class Draft:
    """A job in the making; `limit` is an excess slowdown in thousandths."""

    name: str
    kind: Kind
    shapes: list[Shape]
    weight: Fraction
    priority: int
    floor: int | None = None
    limit: int | None = None
    zone: str | None = None
    rules: dict[str, bool] | None = None
    current: dict[str, Any] | None = None


def draw_models(family: Family, dials: Dials) -> dict[Kind, list[Model]]:
    """Return the models of each kind of job that the dials ask for."""
    count = max(1, _WORKLOADS // dials.profiles)
    count = min(count, family.models) if family.models else count
    gangs = 0
    if dials.gangs and _widest(dials) > 1:
        gangs = count if dials.gangs == 1 else max(1, count // 3)
    singles = 0 if gangs and dials.gangs == 1 else max(1, count - gangs)
    counts: list[tuple[Kind, int]] = [("single", singles), ("gang", gangs)]
    if family.cpu_jobs and dials.host:
        counts.append(("cpu", _CPU_MODELS))
    return {kind: [_model(family, dials, kind, m) for m in range(n)] for kind, n in counts}


def _widest(dials: Dials) -> int:
    """Return the number of GPUs that every node but perhaps the last has."""
    return min(dials.gpus_per_node, dials.gpus // dials.types)


def _model(family: Family, dials: Dials, kind: Kind, number: int) -> Model:
    draws = Draws(dials.seed, "model", kind, number)
    size, sm = (_GANG_SIZE, _GANG_SM) if kind == "gang" else (family.size, family.sm)
    widths = [w for w in (2, 4, 8) if w <= _widest(dials)]
    sm_share = draws.between(10 * sm[0], 10 * sm[1])
    return Model(
        name=f"{kind}{number}",
        kind=kind,
        size=draws.between(10 * size[0], 10 * size[1]),
        sm=sm_share,
        bandwidth=max(1, sm_share * draws.between(30, 100) // 100),
        rate=draws.between(50, 2000),
        gain=draws.between(10, 45),
        amp=draws.between(85, 135),
        sensitivity=draws.between(200, 1000),
        width=draws.pick(widths) if kind == "gang" else 1,
        spread=draws.below(4) == 0,
        cores=draws.between(2, 14),
        host_memory=1024 * draws.between(8, 72),
    )


def shapes_of(model: Model, profiles: int, memory: int, host: bool) -> list[Shape]:
    """Return the profiles of a model, the smallest first; `memory` is the largest GPU's."""
    if model.kind == "cpu":
        return [_cpu_shape(model, p) for p in range(profiles)]
    steps = (profiles + 1) // 2
    shapes = []
    for p in range(profiles):
        step, amp = p // 2, p % 2 == 1
        elastic = model.width > 1 and steps > 1
        width = model.width // 2 if elastic and step == 0 else model.width
        shapes.append(_gpu_shape(model, max(0, step - elastic), amp, width, memory, host))
    return shapes


def _gpu_shape(model: Model, step: int, amp: bool, width: int, memory: int, host: bool) -> Shape:
    batch = 32 << step
    name = (f"x{width}-" if model.kind == "gang" else "") + f"b{batch}" + ("-amp" if amp else "")
    larger = 100 + 30 * step
    use = larger * (85 if amp else 100)
    rate = model.rate * (100 + model.gain * step) * (model.amp if amp else 100) // 10_000
    scaling = 100 - 6 * (width.bit_length() - 1)
    spread = model.spread and width > 1
    on_one_node = 1 if spread else width
    return Shape(
        name=name,
        workload=f"{model.name}/{name}",
        knobs={"batch_size": batch, "amp": amp, "gpus": width},
        tasks=width if spread else 1,
        gpus=on_one_node,
        demand={
            "memory": memory * model.size * larger * (75 if amp else 100) // 10_000_000,
            "sm": min(1000, model.sm * use // 10_000),
            "bandwidth": min(1000, model.bandwidth * use // 10_000),
        },
        host={"cpu": model.cores * on_one_node, "memory": model.host_memory * on_one_node}
        if host
        else {},
        rate=max(1, rate * width * scaling // 100),
        rates={},
    )


def _cpu_shape(model: Model, p: int) -> Shape:
    return Shape(
        name=f"cpu{model.cores * (p + 1)}",
        workload=f"{model.name}/cpu{p}",
        knobs={},
        tasks=1,
        gpus=0,
        demand={},
        host={"cpu": model.cores * (p + 1), "memory": model.host_memory},
        rate=max(1, model.rate * (100 + 60 * p) // 100),
        rates={},
    )


def draw_job(
    family: Family,
    dials: Dials,
    models: dict[Kind, list[Model]],
    kinds: dict[str, GpuKind],
    number: int,
) -> Draft:
    """Return job `number`; it is the same whatever the number of jobs."""
    draws = Draws(dials.seed, "job", number)
    kind: Kind = "gang" if draws.chance(dials.gangs) and models["gang"] else "single"
    if draws.below(100) < family.cpu_jobs and models.get("cpu"):
        kind = "cpu"
    elif not models[kind]:
        kind = "gang"
    model = draws.pick(models[kind])
    memory = max((gpu.memory for gpu in kinds.values()), default=0)
    spread = draws.between(-500, 500)
    speeds = {name: _speed(gpu.speed, dials, draws) for name, gpu in kinds.items()}
    barred = (
        draws.pick(list(kinds)) if family.rules and len(kinds) > 1 and draws.below(5) == 0 else None
    )
    shapes = []
    for shape in shapes_of(model, dials.profiles, memory, dials.host):
        demand = dict(shape.demand)
        if demand:
            demand["memory"] = min(memory, max(1, _unlike(demand["memory"], spread, dials)))
        rate = max(1, _unlike(shape.rate, draws.between(-150, 150), dials))
        rates = {k: max(1, rate * v // 1000) for k, v in speeds.items() if k != barred}
        shapes.append(replace(shape, demand=demand, rate=rate, rates=rates if shape.gpus else {}))
    weight = Fraction(_unlike(100, draws.between(-500, 500), dials), 100)
    job = Draft(f"j{number}", kind, shapes, weight, priority=_priority(dials.tiers, draws))
    if family.rules:
        _draw_rules(job, draws)
    return job


def _unlike(amount: int, deviation: int, dials: Dials) -> int:
    """Change an amount by so many thousandths of it, as far as jobs are unlike at all."""
    return int(amount * (1000 + dials.heterogeneity * deviation) / 1000)


def _speed(nominal: int, dials: Dials, draws: Draws) -> int:
    """Return a job's speed on a GPU type, in thousandths: the nominal one, more or less."""
    return int(1000 + dials.heterogeneity * (nominal - 100) * draws.between(5, 15))


def _priority(tiers: int, draws: Draws) -> int:
    """Return a tier; each holds about half as many jobs as the one below."""
    tier = 0
    while tier < tiers - 1 and draws.below(3) == 0:
        tier += 1
    return tier


def _draw_rules(job: Draft, draws: Draws) -> None:
    """Give some jobs a throughput floor, a slowdown limit or a zone."""
    lowest = min(shape.rate for shape in job.shapes)
    if draws.below(5) == 0:
        job.floor = max(1, lowest // 2)
    if draws.below(3) == 0:
        job.limit = 500
    if draws.below(10) == 0:
        job.zone = "a"
