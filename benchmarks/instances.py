"""The instances that are measured, made once and kept as files.

A name says all: ``lucid-200x64``, ``weighted-200x64``, ``lucidlike-200x64``, ``matching-100``,
``openb``, and so on. Real data is read from the folder that ELASTICO_OPT_DATA names, by default
``../shared/data`` beside the checkout.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

from elastico_opt.importers.lucid import import_lucid
from elastico_opt.importers.openb import import_openb
from elastico_opt.instances.generate import generate
from elastico_opt.reading import read_snapshot, snapshot_json
from elastico_opt.snapshot import Snapshot

RESULTS = Path(__file__).parent / "results"
FILES = RESULTS / "instances"
_DATA = Path(os.environ.get("ELASTICO_OPT_DATA") or Path(__file__).parents[1] / "../shared/data")


class MissingData(Exception):
    """Published data that is not on this machine."""


def instance_file(name: str) -> Path:
    """Return the file of an instance."""
    return FILES / f"{name}.json"


@cache
def make_instance(name: str) -> Path:
    """Write the file of an instance, once per run: a generator may have changed since.

    Raises
    ------
    MissingData
        Naming the file that is not here.
    """
    path = instance_file(name)
    family, _, size = name.partition("-")
    snapshot = _MAKERS[family](size)
    FILES.mkdir(parents=True, exist_ok=True)
    path.write_text(snapshot_json(snapshot), encoding="utf-8")
    return path


def load(name: str) -> Snapshot:
    """Read an instance from its file."""
    return read_snapshot(instance_file(name))


def _real(name: str) -> Path:
    path = _DATA / name
    if not path.exists():
        raise MissingData(f"{name} is not here: set ELASTICO_OPT_DATA to the folder that holds it")
    return path


def _size(text: str) -> tuple[int, int]:
    jobs, _, gpus = text.partition("x")
    return int(jobs), int(gpus)


def _lucid(size: str) -> Snapshot:
    shapes, pairs = _real("lucid/single_data.csv"), _real("lucid/colocate_info.csv")
    return import_lucid(shapes, pairs, *_size(size)).snapshot


def _weighted(size: str) -> Snapshot:
    """Lucid with another weight for each job: without, only some 14 kinds of jobs exist."""
    found = _lucid(size)
    draw = random.Random(0)
    weights = [Fraction(500 + int(draw.random() * 1001), 1000) for _ in found.jobs]
    return found.replace(
        name=f"weighted {found.name}",
        jobs=tuple(
            job.replace(weight=weight) for job, weight in zip(found.jobs, weights, strict=True)
        ),
    )


def _matching(size: str) -> Snapshot:
    """A GPU for every pair of jobs: the best plan is a maximum-weight matching."""
    return generate("lucidlike", int(size), (int(size) + 1) // 2)


def _openb(_: str) -> Snapshot:
    return import_openb(
        _real("openb/csv/openb_node_list_gpu_node.csv"),
        _real("openb/csv/openb_pod_list_default.csv"),
    ).snapshot


_MAKERS: dict[str, Callable[[str], Snapshot]] = {
    "lucid": _lucid,
    "weighted": _weighted,
    "lucidlike": lambda size: generate("lucidlike", *_size(size)),
    "triples": lambda size: generate("triples", *_size(size)),
    "gangs": lambda size: generate("gangs", *_size(size), running="0.4"),
    "mixed": lambda size: generate("mixed", *_size(size)),
    "flat": lambda size: generate("mixed", *_size(size), tiers=1),
    "matching": _matching,
    "openb": _openb,
}
