"""Generated nodes and GPU types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from elastico_opt.instances.families import Dials, Family

#: Name, memory in MB, speed in percent of the first.
_TYPES = (
    ("A100-40GB", 40_960, 100),
    ("RTX3090", 24_576, 55),
    ("H100", 81_920, 190),
    ("V100", 32_768, 60),
    ("A100-80GB", 81_920, 105),
    ("T4", 16_384, 25),
)
MOST_TYPES = len(_TYPES)
_CORES_PER_GPU, _HOST_MB_PER_GPU = 16, 98_304
_ZONES = ("a", "b")


@dataclass(frozen=True, slots=True)
class GpuKind:
    """A GPU type: memory in MB, SM and bandwidth in thousandths, speed in percent."""

    name: str
    memory: int
    share: int
    speed: int
    residents: int

    def capacity(self) -> dict[str, int]:
        """Return the capacity in the units of a shape's demand."""
        return {"memory": self.memory, "sm": self.share, "bandwidth": self.share}


@dataclass(frozen=True, slots=True)
class Machine:
    """A node: its GPUs are alike; host resources in cores and MB."""

    name: str
    kind: GpuKind
    gpus: int
    host: dict[str, int]
    labels: dict[str, str]


def make_kinds(family: Family, dials: Dials) -> dict[str, GpuKind]:
    """Return the GPU types, by name."""
    share = 1000 * dials.residents if family.shared else 1000
    return {
        name: GpuKind(name, memory, share, speed, dials.residents)
        for name, memory, speed in _TYPES[: dials.types]
    }


def make_machines(kinds: Sequence[GpuKind], family: Family, dials: Dials) -> list[Machine]:
    """Split the GPUs into nodes, the types in turn; the last node takes what is left."""
    per_node = max(1, min(dials.gpus_per_node, dials.gpus // dials.types))
    machines = []
    for i, first in enumerate(range(0, dials.gpus, per_node)):
        gpus = min(per_node, dials.gpus - first)
        host = (
            {"cpu": _CORES_PER_GPU * gpus, "memory": _HOST_MB_PER_GPU * gpus} if dials.host else {}
        )
        labels = {"zone": _ZONES[i % 2]} if family.rules else {}
        machines.append(Machine(f"n{i}", kinds[i % len(kinds)], gpus, host, labels))
    return machines


def type_json(kind: GpuKind) -> dict[str, Any]:
    """Write a GPU type as snapshot data."""
    share = Fraction(kind.share, 1000)
    return {
        "capacity": {"memory": kind.memory, "sm": share, "bandwidth": share},
        "max_residents": kind.residents,
    }


def node_json(machine: Machine) -> dict[str, Any]:
    """Write a node as snapshot data."""
    node: dict[str, Any] = {
        "name": machine.name,
        "gpu_type": machine.kind.name,
        "gpus": machine.gpus,
    }
    if machine.host:
        node["host"] = machine.host
    if machine.labels:
        node["labels"] = machine.labels
    return node
