"""The instances that ship with the package, and their proven optima.

``small.solu`` lists the optima in the form that mixed-integer solvers use for their test sets:
``=opt= NAME VALUE`` is a proven optimum, ``=best= NAME VALUE`` a plan that may be beaten,
``=inf= NAME`` an instance without a plan. The tests solve each again; what brute force can
enumerate, it has confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from elastico_opt.errors import InputError
from elastico_opt.reading import parse_snapshot
from elastico_opt.snapshot import Snapshot, nearest

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_STATUS: dict[str, Literal["optimal", "feasible", "infeasible"]] = {
    "=opt=": "optimal",
    "=best=": "feasible",
    "=inf=": "infeasible",
}


@dataclass(frozen=True, slots=True)
class BestKnown:
    """What is known about an instance: the status a full solve must reach, and the objective."""

    status: Literal["optimal", "feasible", "infeasible"]
    objective: float | None


def _data() -> Traversable:
    return files("elastico_opt.instances") / "data"


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped instances, in order."""
    return tuple(
        sorted(f.name.removesuffix(".json") for f in _data().iterdir() if f.name.endswith(".json"))
    )


def load(name: str) -> Snapshot:
    """Read a shipped instance.

    Raises
    ------
    InputError
        When there is none of that name, with the nearest.
    """
    names = shipped()
    if name not in names:
        hint = nearest(name, list(names)) or f"; there are {', '.join(names)}"
        raise InputError(f"no shipped instance '{name}'{hint}")
    return parse_snapshot((_data() / f"{name}.json").read_bytes(), source=name)


def best_known(text: str | None = None) -> dict[str, BestKnown]:
    """Return what is known, by instance: from ``small.solu``, or from `text` in that form."""
    if text is None:
        text = (files("elastico_opt.instances") / "small.solu").read_text(encoding="utf-8")
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        status = _STATUS.get(fields[0])
        try:
            objective = None if status == "infeasible" else float(fields[2])
            if status is None or len(fields) != (2 if objective is None else 3):
                raise ValueError
        except (ValueError, IndexError):
            raise InputError(f"line {number}: {line!r} is not '=opt= NAME VALUE'") from None
        found[fields[1]] = BestKnown(status, objective)
    return found
