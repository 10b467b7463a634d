"""A result survives the trip to JSON and back, and its JSON is plain."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import jsonschema
import pytest
from small import snapshot

from elastico_opt import InputError, Result, VerificationError, verify
from elastico_opt.result import (
    Infeasibility,
    JobPlacement,
    ResourcePrice,
    Status,
    TaskPlace,
    Tier,
    Unplaced,
)
from elastico_opt.result_schema import result_schema


def full(**changes: object) -> Result:
    fields: dict[str, object] = {
        "status": Status.FEASIBLE, "stop": "time_limit", "objective": 0.5, "bound": 1.0,
        "gap": 0.5, "tolerance": 1e-6, "solver": "highs", "formulation": "joint",
        "placements": (
            JobPlacement("a", "p", (TaskPlace("n", (0, 1)), TaskPlace("m", ("G",))), 2.0, 1, 0.5),
        ),
        "unplaced": (Unplaced("b", "short_of_memory", "GPU memory short", {"needs": 3}),),
        "terms": {"throughput": 0.5},
        "tiers": (Tier(0, 0.5, None),),
        "prices": (ResourcePrice("A", "memory", 0.1, "value per unit", "LP relaxation"),),
        "missing_pairs": 2, "warnings": ("look out",),
        "infeasibility": Infeasibility(("a",), ("n",), "too big", True),
        "timing": {"total": 1.5}, "provenance": {"seed": 0, "options": {"gap": None}},
    }  # fmt: skip
    return Result(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [
    {}, {"status": Status.OPTIMAL, "bound": None, "gap": None, "infeasibility": None},
    {"status": Status.NO_SOLUTION, "objective": None, "placements": (), "unplaced": ()},
])  # fmt: skip
def test_round_trip(changes: dict[str, object]) -> None:
    """What one program writes, another reads back unchanged, and the schema agrees."""
    result = full(**changes)
    again = Result.from_json(result.to_json())
    assert again == result
    assert again.to_dict() == result.to_dict() == json.loads(result.to_json())
    jsonschema.validate(result.to_dict(), result_schema())


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(result_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**full().to_dict(), "status": "fine"}, result_schema())


def test_the_plan_is_what_the_placements_say() -> None:
    """`verify(snapshot, result)` reads `result.plan`; indices and ids both name devices."""
    cluster = snapshot(
        {"n": 2, "m": {"gpus": [{"id": "G"}]}},
        {"a": {"tasks": [{"gpus": 2}, {"gpus": 1}]}, "b": {"gpus": 9}},
    )
    plan = full().plan
    assert plan is not None
    assert plan["a"].devices() == {("n", "0"), ("n", "1"), ("m", "G")}
    with pytest.raises(VerificationError, match=r"objective is 1, claimed is 0\.5"):
        verify(cluster, full())
    held = replace(full().placements[0], throughput=1.0, value=1.0)
    verify(cluster, full(objective=1.0, placements=(held,)))
    with pytest.raises(VerificationError, match="placed 2 times"):
        verify(cluster, full(objective=1.0, placements=(held, held)))
    with pytest.raises(VerificationError, match=r"bound 0\.5 is below"):
        verify(cluster, full(objective=1.0, bound=0.5, placements=(held,)))


def test_without_a_plan_there_is_no_plan() -> None:
    """An empty plan is a plan; `no_solution` holds none."""
    assert full(status=Status.NO_SOLUTION, placements=()).plan is None
    empty = full(placements=()).plan
    assert empty is not None
    assert len(empty) == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_never_holds_nan_or_infinity(value: float) -> None:
    """Such text is not JSON, and half of all readers take it without a word."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        full(bound=value).to_json()


@pytest.mark.parametrize(("data", "message"), [
    ([], "schema"), ({}, "schema"), ({"schema": "elastico-opt/snapshot@1"}, "schema"),
    ({"schema": "elastico-opt/result@1"}, "'stop' is missing"),
    ({**full().to_dict(), "status": "fine"}, "fine"),
    ({**full().to_dict(), "placements": [1]}, "not a result"),
])  # fmt: skip
def test_what_is_not_a_result_is_refused(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Result.from_dict(data)  # type: ignore[arg-type]


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(InputError, match="not JSON"):
        Result.from_json("{")
