"""Resources as whole numbers: one quantum per resource, the largest that divides every demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.snapshot import Task
from elastico_opt.units import common_quantum

#: Integers up to here are exact in the floating-point arithmetic of linear solvers.
EXACT = 2**53
_ZERO = Fraction(0)

#: Per resource, a quantity of which every demand is a multiple.
Quantities = Mapping[str, Fraction]


def demanded(tasks: Iterable[Task]) -> tuple[Quantities, Quantities]:
    """Return the quanta of what tasks demand of devices and of their nodes."""
    device: dict[str, set[Fraction]] = {}
    host: dict[str, set[Fraction]] = {}
    for task in tasks:
        for demands, found in ((task.gpu if task.gpus else {}, device), (task.host, host)):
            for resource, amount in demands.items():
                if amount:
                    found.setdefault(resource, set()).add(amount)
    return _common(device), _common(host)


def _common(amounts: Mapping[str, set[Fraction]]) -> Quantities:
    return {resource: common_quantum(found) for resource, found in amounts.items()}


class Quanta:
    """The resources that some task demands, each with its quantum."""

    def __init__(self, demands: Sequence[tuple[Quantities, Quantities]]) -> None:
        self.device = _merged(device for device, _ in demands)
        self.host = _merged(host for _, host in demands)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quanta) and (self.device, self.host) == (other.device, other.host)

    __hash__ = None  # type: ignore[assignment]

    @property
    def device_names(self) -> tuple[str, ...]:
        """Names of the device resources, sorted."""
        return tuple(name for name, _ in self.device)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names of the host resources, sorted."""
        return tuple(name for name, _ in self.host)

    def device_row(self, amounts: Quantities) -> list[int]:
        """Return whole quanta per device resource: demands exactly, capacities rounded down."""
        return _row(amounts, self.device)

    def host_row(self, amounts: Quantities) -> list[int]:
        """Return whole quanta per host resource likewise."""
        return _row(amounts, self.host)


def _merged(demands: Iterable[Quantities]) -> list[tuple[str, Fraction]]:
    found: dict[str, dict[int, Fraction]] = {}
    for quantities in demands:
        for resource, quantum in quantities.items():
            # By identity: hashing fractions is slow, and jobs that stay bring the same objects.
            found.setdefault(resource, {})[id(quantum)] = quantum
    return sorted((name, common_quantum(parts.values())) for name, parts in found.items())


def _row(amounts: Quantities, quanta: Sequence[tuple[str, Fraction]]) -> list[int]:
    return [min(_whole(amounts.get(r, _ZERO), quantum), 2**62) for r, quantum in quanta]


def _whole(amount: Fraction, quantum: Fraction) -> int:
    """Return ``amount // quantum``, four times as fast as fractions do it."""
    return (amount.numerator * quantum.denominator) // (amount.denominator * quantum.numerator)


def refuse_inexact(demand: Any, names: Sequence[str]) -> None:
    """Refuse demands that do not fit the exact integers of linear solvers.

    Raises
    ------
    InputError
        Naming the resource.
    """
    for name, largest in zip(names, np.max(demand, axis=0, initial=0), strict=True):
        if largest > EXACT:
            raise InputError(
                f"resource '{name}': its demands need more than 53 bits in one unit: "
                "write them with fewer digits"
            )
