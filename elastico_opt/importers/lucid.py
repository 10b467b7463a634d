"""Import Lucid: training shapes measured alone, and in pairs on one GPU."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

from elastico_opt.errors import InputError
from elastico_opt.importers.base import Imported, Source, build_snapshot
from elastico_opt.importers.tables import Row, Table
from elastico_opt.units import parse_quantity

#: The GPU of the measurements, and its memory in MB.
GPU_TYPE, MEMORY_MB = "RTX3090", 24_576

_SHAPE_COLUMNS = (
    "model", "dataset", "batchsize", "amp", "speed", "gpu_util", "gmem_util", "gmem",
)  # fmt: skip
_PAIR_COLUMNS = tuple(
    f"{column}{side}"
    for side in "12"
    for column in ("model", "dataset", "batchsize", "amp", "speed")
)
_MICRO = 10**6

Profiles = dict[str, list[dict[str, Any]]]
Slowdowns = dict[tuple[str, str], tuple[Fraction | None, Fraction | None]]


def import_lucid(
    shapes: Source,
    pairs: Source,
    jobs: int,
    gpus: int,
    seed: int = 0,
    gpus_per_node: int = 8,
    residents: int = 2,
    oversubscribe: Fraction | float | str | None = None,
    name: str | None = None,
) -> Imported:
    """Draw jobs from the measured models, to be placed on RTX 3090 GPUs.

    Each job is one model on its dataset, drawn uniformly; its profiles are all measured shapes
    (batch size, with or without mixed precision) of it, with throughput in samples/s and demand
    for ``memory`` (MB), ``sm`` and ``bandwidth`` (the measured utilisation; 1 = 100 %).

    A pair's slowdown is 1 / normalised speed, at least 1, rounded up to six digits. When a pair
    was measured twice, or a shape beside itself, the worse value of each side counts. Pairs that
    were not measured are never co-located (``"default": null``).

    Parameters
    ----------
    shapes, pairs : Source
        ``single_data.csv`` and ``colocate_info.csv``.
    jobs, gpus : int
    seed : int
        Decides which models the jobs are.
    gpus_per_node : int
        The last node takes what is left.
    residents : int
        Most jobs on one GPU. Pairs are measured; of three, the excess slowdowns add.
    oversubscribe : number, optional
        Capacity of a GPU for ``sm`` and ``bandwidth``. The default, `residents`, never binds: the
        measured slowdown already says what sharing costs, and 42 % of the pairs that Lucid
        measured use more than 100 % of the SMs together. Give 1 to refuse those.
    name : str, optional
        The snapshot's name.

    Returns
    -------
    Imported

    Raises
    ------
    InputError
        With file, line, column and remedy.
    """
    _check_options(jobs=(jobs, 0), gpus=(gpus, 0), seed=(seed, 0),
                   gpus_per_node=(gpus_per_node, 1), residents=(residents, 1))  # fmt: skip
    shape_table, pair_table = (
        Table(shapes, "shapes", _SHAPE_COLUMNS),
        Table(pairs, "pairs", _PAIR_COLUMNS),
    )
    models = _models(shape_table)
    known = {profile["workload"] for profiles in models.values() for profile in profiles}
    slowdowns, left_out, warnings = _slowdowns(pair_table, known)
    draw, names = random.Random(seed), list(models)
    drawn = [names[int(draw.random() * len(names))] for _ in range(jobs)]
    used = {profile["workload"] for model in drawn for profile in models[model]}
    rows = {pair: both for pair, both in slowdowns.items() if used.issuperset(pair)}
    warnings += _unmeasured(models, drawn, used, rows)
    snapshot = build_snapshot(
        {
            "name": name or f"lucid-j{jobs}-g{gpus}-r{residents}-s{seed:02d}",
            "gpu_types": {GPU_TYPE: _gpu_type(residents, oversubscribe)},
            "nodes": _nodes(gpus, gpus_per_node),
            "jobs": [
                {"name": f"{model.split('/')[0]}-{i}", "profiles": models[model]}
                for i, model in enumerate(drawn)
            ],
            "interference": {
                "table": [{"a": a, "b": b, "slowdown": both} for (a, b), both in rows.items()],
                "default": None,
            },
        },
        f"{shape_table.source}, {pair_table.source}",
    )
    read = {
        "jobs": jobs, "GPUs": gpus, "models": len(models), "models drawn": len(set(drawn)),
        "shapes": len(known), "pairs": len(slowdowns), "pairs of drawn models": len(rows),
    }  # fmt: skip
    return Imported(snapshot, tuple(warnings), read, dict(left_out))


def _check_options(**options: tuple[int, int]) -> None:
    for option, (value, least) in options.items():
        if value < least:
            raise InputError(f"{option}: {value} is too small: give at least {least}")


def _gpu_type(residents: int, oversubscribe: Fraction | float | str | None) -> dict[str, Any]:
    try:
        share = Fraction(residents) if oversubscribe is None else parse_quantity(oversubscribe)
    except ValueError as error:
        raise InputError(f"oversubscribe: {error}: give a number such as 1 or 1.5") from None
    return {
        "capacity": {"memory": MEMORY_MB, "sm": share, "bandwidth": share},
        "max_residents": residents,
        "annotations": {"units": {"memory": "MB", "sm": "GPUs", "bandwidth": "GPUs"}},
    }


def _nodes(gpus: int, gpus_per_node: int) -> list[dict[str, Any]]:
    starts = range(0, gpus, gpus_per_node)
    return [
        {"name": f"node-{i}", "gpu_type": GPU_TYPE, "gpus": min(gpus_per_node, gpus - start)}
        for i, start in enumerate(starts)
    ]


# ---- shapes --------------------------------------------------------------------------------


def _models(table: Table) -> Profiles:
    """Return the profiles of each model on a dataset, in the order of the file."""
    models: Profiles = {}
    seen: set[str] = set()
    for row in table:
        profile = _profile(row)
        if profile["workload"] in seen:
            raise row.error(
                "model", f"the shape '{profile['workload']}' is given twice: remove one"
            )
        seen.add(profile["workload"])
        models.setdefault(f"{row.name('model')}/{row.name('dataset')}", []).append(profile)
    if not models:
        raise InputError(f"{table.source}: no shape below the header: add at least one")
    return models


def _profile(row: Row) -> dict[str, Any]:
    speed = row.quantity("speed")
    if not speed:
        raise row.error("speed", "is 0, so this shape never runs: remove the line")
    batch, amp = _batch(row), _amp(row)
    return {
        "name": f"b{batch}-amp" if amp else f"b{batch}",
        "workload": _workload(row),
        "knobs": {"batch_size": batch, "amp": amp},
        "gpus": 1,
        "gpu": {
            "memory": row.quantity("gmem"),
            "sm": row.quantity("gpu_util") / 100,
            "bandwidth": row.quantity("gmem_util") / 100,
        },
        "throughput": {GPU_TYPE: speed},
    }


def _batch(row: Row, side: str = "") -> int:
    return row.count(f"batchsize{side}")


def _amp(row: Row, side: str = "") -> bool:
    flag = row.count(f"amp{side}")
    if flag > 1:
        raise row.error(f"amp{side}", f"{flag} is neither 0 nor 1: correct it")
    return flag == 1


def _workload(row: Row, side: str = "") -> str:
    """Return the key of a shape in the interference table, such as ``VGG/CIFAR-10/b32/amp``."""
    model, dataset = row.name(f"model{side}"), row.name(f"dataset{side}")
    return f"{model}/{dataset}/b{_batch(row, side)}" + ("/amp" if _amp(row, side) else "")


# ---- pairs ---------------------------------------------------------------------------------


def _slowdowns(table: Table, known: Collection[str]) -> tuple[Slowdowns, Counter[str], list[str]]:
    """Return the slowdowns of each measured pair of known shapes, names in order."""
    found: Slowdowns = {}
    left_out: Counter[str] = Counter()
    repeated = 0
    for row in table:
        if any(row.count(f"gpu_num{side}", empty=1) != 1 for side in "12"):
            left_out["pair on several GPUs"] += 1
            continue
        a, b = _workload(row, "1"), _workload(row, "2")
        if a not in known or b not in known:
            left_out["pair of a shape that was not measured alone"] += 1
            continue
        one, two = _slowdown(row, "1"), _slowdown(row, "2")
        if a == b:
            one = two = _worse(one, two)
        if a > b:
            a, b, one, two = b, a, two, one
        if (a, b) in found:
            repeated += 1
            one, two = _worse(one, found[a, b][0]), _worse(two, found[a, b][1])
        found[a, b] = one, two
    warnings = []
    if repeated:
        warnings.append(
            f"pairs measured more than once, the worse value of each side kept: {repeated}"
        )
    return found, left_out, warnings


def _slowdown(row: Row, side: str) -> Fraction | None:
    """Return 1 / speed, at least 1, rounded up to six digits; None for a job that stands still."""
    speed = row.quantity(f"speed{side}")
    return max(Fraction(1), Fraction(math.ceil(_MICRO / speed), _MICRO)) if speed else None


def _worse(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else max(one, other)


def _unmeasured(
    models: Profiles,
    drawn: Sequence[str],
    used: Collection[str],
    rows: Mapping[tuple[str, str], object],
) -> list[str]:
    """Say which pairs are not co-located because nobody measured them."""
    lines = []
    paired = {workload for pair in rows for workload in pair}
    alone = [m for m in dict.fromkeys(drawn) if not any(p["workload"] in paired for p in models[m])]
    if alone:
        count = sum(model in alone for model in drawn)
        names = ", ".join(model.split("/")[0] for model in alone)
        lines.append(f"no measured pair, so run alone ({count} of {len(drawn)} jobs): {names}")
    missing = len(used) * (len(used) + 1) // 2 - len(rows)
    if missing:
        lines.append(f"pairs of shapes that were not measured, and are not co-located: {missing}")
    return lines
