"""The result: a checked plan, what it is worth, what bounds it, and where it comes from.

Plain data with a JSON round trip (``elastico-opt/result@1``). Nothing is computed here except
the plan that the placements spell out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from elastico_opt.errors import InputError

if TYPE_CHECKING:
    from elastico_opt.plan import Plan

SCHEMA = "elastico-opt/result@1"


class Status(StrEnum):
    """What is held at the end."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    NO_SOLUTION = "no_solution"
    INFEASIBLE = "infeasible"
    ERROR = "error"

    @property
    def has_plan(self) -> bool:
        """Whether a checked plan is held (it may place no job)."""
        return self in (Status.OPTIMAL, Status.FEASIBLE)


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """One task: its node, and its GPUs there as indices, or ids where the node lists ids."""

    node: str
    gpus: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobPlacement:
    """One placed job.

    Attributes
    ----------
    throughput : float
        ``T / slowdown``, in the job's own unit (samples/s, tokens/s, …).
    slowdown : float
        The largest over its GPUs; 1 when nothing disturbs it.
    value : float
        Its share of the objective, costs included.
    """

    job: str
    profile: str
    tasks: tuple[TaskPlace, ...]
    throughput: float
    slowdown: float
    value: float


@dataclass(frozen=True, slots=True)
class Unplaced:
    """One job that is not placed, and why.

    Attributes
    ----------
    reason : str
        A stable code; `elastico_opt.reasons` lists them.
    message : str
        One line for people.
    details : dict
        The numbers behind the message: ``needs``, ``largest_free``, ``short_by`` …
    """

    job: str
    reason: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tier:
    """One priority: what its jobs contribute, and the most they could (given higher tiers)."""

    priority: int
    objective: float | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class ResourcePrice:
    """What one more unit of a pool's resource would be worth, and which model says so."""

    pool: str
    resource: str
    price: float
    unit: str
    origin: str


@dataclass(frozen=True, slots=True)
class GapSplit:
    """Where the distance between a plan and its price bound comes from.

    All in the unit of the objective; None where the bound that is needed was not asked for.

    Attributes
    ----------
    price_bound : float or None
        The best value of the priced relaxation, at the prices that are reported.
    aggregate_bound : float or None
        The linear program over pools, without the borders of devices: prices cannot do better.
    pattern_bound : float or None
        A bound that knows which jobs fit on one device together, and what that costs them.
    price_gap : float or None
        ``price_bound - aggregate_bound``: prices that have not settled.
    relaxation_gap : float or None
        ``aggregate_bound - pattern_bound``: packing and interference that pools do not see.
    plan_gap : float or None
        ``pattern_bound - objective``: what a better plan could still gain, at most.
    """

    price_bound: float | None = None
    aggregate_bound: float | None = None
    pattern_bound: float | None = None
    price_gap: float | None = None
    relaxation_gap: float | None = None
    plan_gap: float | None = None


@dataclass(frozen=True, slots=True)
class Infeasibility:
    """Why no plan exists.

    Attributes
    ----------
    jobs : tuple of str
        Jobs that must be placed and cannot all be.
    nodes : tuple of str
        Every node that one of them may use.
    minimal : bool
        Whether it was checked that without any one of the jobs the others can be placed.
    """

    jobs: tuple[str, ...]
    nodes: tuple[str, ...]
    message: str
    minimal: bool


@dataclass(frozen=True)
class Result:
    """What a solve returns: what is held, what bounds it, and where it comes from.

    Attributes
    ----------
    status : Status
        What is held.
    stop : str
        Why the solve ended.
    objective : float or None
        Value of the plan, computed from the snapshot; None without a plan.
    bound : float or None
        No plan is worth more; None when nothing is proven.
    gap : float or None
        ``|bound - objective| / max(|bound|, |objective|)``.
    """

    status: Status
    stop: str
    objective: float | None
    bound: float | None
    gap: float | None
    tolerance: float
    solver: str
    formulation: str
    placements: tuple[JobPlacement, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)
    tiers: tuple[Tier, ...] = ()
    prices: tuple[ResourcePrice, ...] = ()
    gap_split: GapSplit | None = None
    missing_pairs: int = 0
    warnings: tuple[str, ...] = ()
    infeasibility: Infeasibility | None = None
    timing: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that the placements spell out; None when no plan is held."""
        from elastico_opt.plan import Assignment, Plan, TaskPlacement

        if not self.status.has_plan:
            return None
        return Plan({
            placement.job: Assignment(
                placement.profile,
                tuple(TaskPlacement(task.node, tuple(map(str, task.gpus)))
                      for task in placement.tasks),
            )
            for placement in self.placements
        })  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data (dicts, lists, text, finite numbers, null)."""
        data = {name: getattr(self, name) for name in _SCALARS}
        data["status"], data["stop"] = str(self.status), str(self.stop)
        return {
            "schema": SCHEMA,
            **data,
            "placements": [_plain(asdict(row)) for row in self.placements],
            "unplaced": [_unplaced_row(row) for row in self.unplaced],
            "terms": dict(self.terms),
            "tiers": [asdict(row) for row in self.tiers],
            "prices": [asdict(row) for row in self.prices],
            "gap_split": asdict(self.gap_split) if self.gap_split else None,
            "missing_pairs": self.missing_pairs,
            "warnings": list(self.warnings),
            "infeasibility": _plain(asdict(self.infeasibility)) if self.infeasibility else None,
            "timing": dict(self.timing),
            "provenance": _plain(self.provenance),
        }

    def to_json(self, indent: int | None = 1) -> str:
        """Return JSON text; it never holds NaN or Infinity.

        Raises
        ------
        ValueError
            When a number is not finite, which would be a bug.
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read plain data back; keys that this version does not know are ignored.

        Raises
        ------
        InputError
            When the data is not a result of this schema.
        """
        if not hasattr(data, "get") or data.get("schema") != SCHEMA:
            raise InputError(f'not a result: the key "schema" must be "{SCHEMA}"')
        try:
            return _read(cls, data)
        except (KeyError, TypeError, ValueError) as error:
            what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
            raise InputError(f"not a result of {SCHEMA}: {what}") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> Result:
        """Read JSON text back; see `from_dict`."""
        try:
            return cls.from_dict(json.loads(text))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"result: not JSON: {error}") from None


_SCALARS = (
    "status", "stop", "objective", "bound", "gap", "tolerance", "solver", "formulation",
)  # fmt: skip


def _read(cls: type[Result], data: Mapping[str, Any]) -> Result:
    conflict = data.get("infeasibility")
    return cls(
        **{name: data[name] for name in _SCALARS if name != "status"},
        status=Status(data["status"]),
        placements=tuple(_placement(row) for row in data["placements"]),
        unplaced=tuple(_unplaced(row) for row in data["unplaced"]),
        terms=dict(data.get("terms", {})),
        tiers=tuple(_known(Tier, row) for row in data.get("tiers", ())),
        prices=tuple(_known(ResourcePrice, row) for row in data.get("prices", ())),
        gap_split=_known(GapSplit, data["gap_split"]) if data.get("gap_split") else None,
        missing_pairs=data.get("missing_pairs", 0),
        warnings=tuple(data.get("warnings", ())),
        infeasibility=None if conflict is None else Infeasibility(
            tuple(conflict["jobs"]), tuple(conflict["nodes"]), conflict["message"],
            conflict["minimal"],
        ),
        timing=dict(data.get("timing", {})),
        provenance=dict(data.get("provenance", {})),
    )  # fmt: skip


def _known(cls: type[Any], row: Mapping[str, Any]) -> Any:
    return cls(**{name: row[name] for name in cls.__dataclass_fields__})


def _placement(row: Mapping[str, Any]) -> JobPlacement:
    tasks = tuple(TaskPlace(task["node"], tuple(task["gpus"])) for task in row["tasks"])
    return _known(JobPlacement, {**row, "tasks": tasks})  # type: ignore[no-any-return]


def _unplaced(row: Mapping[str, Any]) -> Unplaced:
    details = {key: value for key, value in row.items() if key not in _UNPLACED}
    return Unplaced(row["job"], row["reason"], row["message"], details)


_UNPLACED = ("job", "reason", "message")


def _unplaced_row(row: Unplaced) -> dict[str, Any]:
    data: dict[str, Any] = _plain(row.details)
    return {"job": row.job, "reason": row.reason, "message": row.message, **data}


def _plain(value: Any) -> Any:
    """Tuples become lists, so that data from memory equals data read back."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
