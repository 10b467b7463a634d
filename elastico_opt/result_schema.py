"""The JSON Schema of a result, for editors and other tools."""

from __future__ import annotations

from typing import Any

from elastico_opt.result import SCHEMA, Status

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_OPTIONAL: dict[str, Any] = {"type": ["number", "null"]}
_TERMS = ("throughput", "interference", "switching", "migration", "eviction")


def result_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``elastico-opt/result@1``."""
    task = _object({"node": _TEXT, "gpus": _list({"type": ["integer", "string"]})})
    placement = _object({
        "job": _TEXT, "profile": _TEXT, "tasks": _list(task),
        "throughput": _says(_NUMBER, "T / slowdown, in the job's own unit"),
        "slowdown": _says(_NUMBER, "the largest over its GPUs; 1 when undisturbed"),
        "value": _says(_NUMBER, "its share of the objective, costs included"),
    })  # fmt: skip
    unplaced = _object({"job": _TEXT, "reason": _TEXT, "message": _TEXT})
    tier = _object({"priority": {"type": "integer"}, "objective": _OPTIONAL, "bound": _OPTIONAL})
    price = _object({
        "pool": _TEXT, "resource": _TEXT, "price": _NUMBER, "unit": _TEXT, "origin": _TEXT,
    })  # fmt: skip
    split = _object(dict.fromkeys((
        "price_bound", "aggregate_bound", "pattern_bound", "price_gap", "relaxation_gap",
        "plan_gap",
    ), _OPTIONAL))  # fmt: skip
    conflict = _object({
        "jobs": _list(_TEXT), "nodes": _list(_TEXT), "message": _TEXT,
        "minimal": {"type": "boolean"},
    })  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        **_object({
            "schema": {"const": SCHEMA},
            "status": _says({"enum": [str(status) for status in Status]}, "what is held"),
            "stop": _says(_TEXT, "why the solve ended"),
            "objective": _says(_OPTIONAL, "value of the plan; null without a plan"),
            "bound": _says(_OPTIONAL, "no plan is worth more; null when nothing is proven"),
            "gap": _says(_OPTIONAL, "|bound − objective| / max(|bound|, |objective|)"),
            "tolerance": _NUMBER, "solver": _TEXT, "formulation": _TEXT,
            "placements": _list(placement), "unplaced": _list(unplaced),
            "terms": {"type": "object", "properties": dict.fromkeys(_TERMS, _NUMBER)},
            "tiers": _list(tier), "prices": _list(price),
            "gap_split": _says(
                {"anyOf": [split, {"type": "null"}]}, "the gap of a priced plan by its causes"
            ),
            "missing_pairs": _COUNT,
            "warnings": _list(_TEXT), "infeasibility": {"anyOf": [conflict, {"type": "null"}]},
            "timing": _says(
                {"type": "object", "additionalProperties": _NUMBER}, "seconds by stage"
            ),
            "provenance": {"type": "object"},
        }),
    }  # fmt: skip


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _says(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}
