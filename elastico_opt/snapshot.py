"""The cluster snapshot: what the user said, validated, exact and immutable.

One set of models is the contract, its JSON Schema and its Python API. Every quantity is a
`fractions.Fraction` read from the text of the number, so no demand is ever rounded down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from elastico_opt.units import parse_count, parse_quantity, plain_number

SCHEMA: Final = "elastico-opt/snapshot@1"

_QUANTITY_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
    "description": "a number, or a Kubernetes quantity such as '24Gi' or '500m'",
}


def _slowdown(value: Any) -> Fraction:
    number = parse_quantity(value)
    if number < 1:
        raise ValueError(f"a slowdown is at least 1, got {plain_number(number)}")
    return number


def _throughput(value: Any) -> Fraction | dict[str, Fraction]:
    if not isinstance(value, Mapping):
        return parse_quantity(value)
    rates = {}
    for gpu_type, rate in value.items():
        try:
            rates[str(gpu_type)] = parse_quantity(rate)
        except ValueError as error:
            raise ValueError(f"for GPU type '{gpu_type}': {error}") from None
    return rates


def _plain_throughput(value: Fraction | dict[str, Fraction]) -> Any:
    if isinstance(value, Fraction):
        return plain_number(value)
    return {gpu_type: plain_number(rate) for gpu_type, rate in value.items()}


def _optional(parse: Any) -> Any:
    return PlainValidator(lambda value: None if value is None else parse(value))


_PLAIN = PlainSerializer(lambda value: None if value is None else plain_number(value))
_QUANTITY_OR_NULL = WithJsonSchema({"anyOf": [*_QUANTITY_SCHEMA["anyOf"], {"type": "null"}]})


def _not_empty(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    return value


# Not Field(min_length=1): that cannot count half a surrogate pair, which JSON may hold.
Name = Annotated[
    StrictStr,
    AfterValidator(_not_empty),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
Quantity = Annotated[
    Fraction, PlainValidator(parse_quantity), _PLAIN, WithJsonSchema(_QUANTITY_SCHEMA)
]
OptionalQuantity = Annotated[Fraction | None, _optional(parse_quantity), _PLAIN, _QUANTITY_OR_NULL]
Slowdown = Annotated[Fraction | None, _optional(_slowdown), _PLAIN, _QUANTITY_OR_NULL]
Count = Annotated[
    int, PlainValidator(parse_count), WithJsonSchema({"type": "integer", "minimum": 0})
]
Throughput = Annotated[
    Fraction | dict[str, Fraction],
    PlainValidator(_throughput),
    PlainSerializer(_plain_throughput),
    WithJsonSchema(
        {"anyOf": [_QUANTITY_SCHEMA, {"type": "object", "additionalProperties": _QUANTITY_SCHEMA}]}
    ),
]
Amounts = dict[Name, Quantity]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, ser_json_inf_nan="strings"
    )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, validated like the original."""
        return type(self)(
            **{**{name: getattr(self, name) for name in self.model_fields_set}, **changes}
        )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, without what was derived from the fields."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


class GpuType(_Model):
    """What every GPU of one type offers: capacity per resource, and a cap on residents."""

    capacity: Amounts = Field(default_factory=dict)
    max_residents: Count | None = None
    annotations: dict[str, Any] = Field(default_factory=dict)


class Gpu(_Model):
    """One device of a node whose devices differ."""

    id: Name
    type: Name | None = None
    capacity: Amounts | None = None
    group: StrictStr | None = None


def _gpus_form(value: Any) -> str:
    return "list" if isinstance(value, (list, tuple)) else "count"


Gpus = Annotated[
    Annotated[Count, Tag("count")] | Annotated[tuple[Gpu, ...], Tag("list")],
    Discriminator(_gpus_form),
]


class Node(_Model):
    """A machine: devices, host resources, labels."""

    name: Name
    gpu_type: Name | None = None
    gpus: Gpus = 0
    host: Amounts = Field(default_factory=dict)
    labels: dict[str, StrictStr] = Field(default_factory=dict)
    schedulable: StrictBool = True
    annotations: dict[str, Any] = Field(default_factory=dict)

    def devices(self) -> tuple[Gpu, ...]:
        """Return the devices, a bare count written out with the indices as ids."""
        if isinstance(self.gpus, int):
            return _plain_devices(self.gpus)
        return self.gpus


@lru_cache(maxsize=64)
def _plain_devices(count: int) -> tuple[Gpu, ...]:
    return tuple(
        Gpu.model_construct(id=str(i), type=None, capacity=None, group=None) for i in range(count)
    )


class Task(_Model):
    """`count` equal tasks; each sits on one node and takes `gpus` distinct devices there."""

    count: Annotated[Count, Field(ge=1)] = 1
    gpus: Count = 1
    gpu: Amounts = Field(default_factory=dict)
    host: Amounts = Field(default_factory=dict)
    exclusive: StrictBool = False


_INLINE = ("gpus", "gpu", "host", "exclusive")
_ONE_TASK: dict[str, Any] = {"count": 1, "gpus": 1, "gpu": {}, "host": {}, "exclusive": False}


class Profile(_Model):
    """One feasible resource-performance shape of a job."""

    name: Name
    workload: StrictStr | None = None
    knobs: dict[str, Any] = Field(default_factory=dict)
    features: dict[str, Any] | None = None
    tasks: Annotated[tuple[Task, ...], Field(min_length=1)] | None = None
    gpus: Count | None = None
    gpu: Amounts | None = None
    host: Amounts | None = None
    exclusive: StrictBool | None = None
    throughput: Throughput
    annotations: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        inline = [field for field in _INLINE if getattr(self, field) is not None]
        if self.tasks is not None and inline:
            raise ValueError(f"give either 'tasks' or '{inline[0]}', not both")
        if isinstance(self.throughput, dict) and not self.workers():
            raise ValueError(
                "throughput: a profile without GPUs takes one number, not one per type"
            )
        return self

    def task_list(self) -> tuple[Task, ...]:
        """Return the tasks, the inline form written as a list of one."""
        return self.inline_task if self.tasks is None else self.tasks

    @cached_property
    def inline_task(self) -> tuple[Task, ...]:
        """The inline form as a list of one task."""
        given = {f: value for f in _INLINE if (value := getattr(self, f)) is not None}
        return (Task.model_construct(set(given), **{**_ONE_TASK, **given}),)

    def workers(self) -> int:
        """Return the number of devices the profile takes (W)."""
        if self.tasks is None:
            return 1 if self.gpus is None else self.gpus
        return sum(task.count * task.gpus for task in self.tasks)

    def rate(self, gpu_type: str | None) -> Fraction:
        """Return the throughput on a GPU type; 0 where the profile cannot run."""
        if isinstance(self.throughput, dict):
            return self.throughput.get(gpu_type or "", Fraction(0))
        return self.throughput


class PlacedTask(_Model):
    """Where one task runs: a node, and device ids (or indices) on it."""

    node: Name
    gpus: tuple[StrictInt | StrictStr, ...] = ()  # an int is an index, text is an id


class Current(_Model):
    """What a running job holds now."""

    profile: Name
    tasks: tuple[PlacedTask, ...]


class Job(_Model):
    """A job: a family of profiles, of which at most one is chosen."""

    name: Name
    kind: StrictStr = "training"
    weight: Quantity = Fraction(1)
    priority: Annotated[int, Field(strict=True)] = 0
    tenant: StrictStr | None = None
    must_place: StrictBool = False
    preemptible: StrictBool = True
    movable: StrictBool = True
    min_throughput: OptionalQuantity = None
    max_slowdown: Slowdown = None
    node_selector: dict[str, StrictStr] = Field(default_factory=dict)
    eligible_nodes: tuple[Name, ...] | None = None
    profiles: Annotated[tuple[Profile, ...], Field(min_length=1)]
    current: Current | None = None
    annotations: dict[str, Any] = Field(default_factory=dict)

    @cached_property
    def top_rate(self) -> Fraction:
        """The highest throughput over profiles and GPU types; 1 if all are 0."""
        rates = [Fraction(0)]
        for profile in self.profiles:
            per_type = profile.throughput
            rates += per_type.values() if isinstance(per_type, dict) else [per_type]
        return max(rates) or Fraction(1)

    @model_validator(mode="after")
    def _distinct_profiles(self) -> Self:
        _refuse_duplicates("profile", (profile.name for profile in self.profiles))
        return self


class PairSlowdown(_Model):
    """Slowdowns of workloads `a` and `b` on one device; null = never together."""

    a: StrictStr
    b: StrictStr
    slowdown: tuple[Slowdown, Slowdown]


class Interference(_Model):
    """A table of pair slowdowns, or the path of a predictor that fills one."""

    table: tuple[PairSlowdown, ...] = ()
    default: Slowdown = None
    model: StrictStr | None = None

    @cached_property
    def pairs(self) -> dict[tuple[str, str], Fraction | None]:
        """Slowdown of the first workload beside the second, both ways, as the table has it."""
        found: dict[tuple[str, str], Fraction | None] = {}
        for row in self.table:
            found[row.a, row.b], found[row.b, row.a] = row.slowdown
        return found

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        if self.model is not None and self.table:
            raise ValueError("give either 'table' or 'model', not both")
        seen: dict[tuple[str, str], PairSlowdown] = {}
        for row in self.table:
            key = (min(row.a, row.b), max(row.a, row.b))
            other = seen.setdefault(key, row)
            values = row.slowdown if row.a == key[0] else row.slowdown[::-1]
            if values != (other.slowdown if other.a == key[0] else other.slowdown[::-1]):
                raise ValueError(
                    f"table: the pair '{row.a}', '{row.b}' is given twice with unlike slowdowns"
                )
            if row.a == row.b and row.slowdown[0] != row.slowdown[1]:
                raise ValueError(f"table: '{row.a}' with itself needs two equal slowdowns")
        return self


class Policy(_Model):
    """What is maximised, and what a change costs (as a share of the job's weight)."""

    objective: Literal["normalised", "throughput"] = "normalised"
    coupling: Literal["penalty", "throughput"] = "penalty"
    interference_penalty: Quantity = Fraction(1)
    max_slowdown: Slowdown = None
    switch_cost: Quantity = Fraction(0)
    migration_cost: Quantity = Fraction(0)
    eviction_cost: Quantity = Fraction(0)


class Snapshot(_Model):
    """Nodes, jobs, interference and policy at one moment."""

    schema_: Annotated[Literal["elastico-opt/snapshot@1"], Field(alias="schema")] = SCHEMA
    name: StrictStr = "snapshot"
    gpu_types: dict[Name, GpuType] = Field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    jobs: tuple[Job, ...] = ()
    interference: Interference | None = None
    policy: Policy = Field(default_factory=Policy)
    annotations: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(populate_by_name=True)

    @model_validator(mode="after")
    def _references(self) -> Self:
        _refuse_duplicates("node", (node.name for node in self.nodes))
        _refuse_duplicates("job", (job.name for job in self.jobs))
        for node in self.nodes:
            _check_devices(node, self.gpu_types)
        for job in self.jobs:
            for profile in job.profiles:
                for gpu_type in profile.throughput if isinstance(profile.throughput, dict) else ():
                    if gpu_type not in self.gpu_types:
                        raise ValueError(
                            f"job '{job.name}', profile '{profile.name}', throughput: no GPU type "
                            f"'{gpu_type}' in gpu_types{nearest(gpu_type, self.gpu_types)}"
                        )
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: only what was given, quantities as exact numbers."""
        data = self.model_dump(by_alias=True, exclude_unset=True)
        return {"schema": SCHEMA, **data}


def _check_devices(node: Node, gpu_types: Mapping[str, GpuType]) -> None:
    _refuse_duplicates(f"node '{node.name}', gpus: id", (gpu.id for gpu in node.devices()))
    for gpu in node.devices():
        name = gpu.type or node.gpu_type
        if name is None:
            raise ValueError(f"node '{node.name}' has GPUs but no gpu_type: name one of gpu_types")
        if name not in gpu_types:
            raise ValueError(
                f"node '{node.name}': no GPU type '{name}' in gpu_types{nearest(name, gpu_types)}"
            )
        if gpu.type is None and gpu.capacity is None and isinstance(node.gpus, int):
            break  # a bare count: all devices are alike


def _refuse_duplicates(what: str, names: Iterator[str]) -> None:
    listed = list(names)
    if len(set(listed)) < len(listed):
        name, count = Counter(listed).most_common(1)[0]
        raise ValueError(f"{what} '{name}' is given {count} times: names must differ")


def nearest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return a hint naming the known key nearest to a wrong one, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


__all__ = [
    "SCHEMA",
    "Current",
    "Gpu",
    "GpuType",
    "Interference",
    "Job",
    "Node",
    "PairSlowdown",
    "PlacedTask",
    "Policy",
    "Profile",
    "Snapshot",
    "Task",
    "ValidationError",
    "nearest",
]
