"""From bytes to a Snapshot: encodings, exact JSON numbers, and errors that name the place."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import math
import sys
import zlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from elastico_opt.collector import paused_collector
from elastico_opt.errors import InputError
from elastico_opt.snapshot import (
    Current,
    Gpu,
    GpuType,
    Interference,
    Job,
    Node,
    PairSlowdown,
    PlacedTask,
    Policy,
    Profile,
    Snapshot,
    Task,
    nearest,
)

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_bytes(path: str | Path) -> bytes:
    """Read a file, or standard input for ``-``; gzip is undone.

    Raises
    ------
    InputError
        When the file cannot be read or is a broken gzip file.
    """
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from None


def decode_text(data: bytes, source: str) -> str:
    """Decode UTF-8 (with or without BOM) or UTF-16 with BOM."""
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source}: byte {error.start} is not {encoding.removesuffix('-sig').upper()}: "
            "save the file as UTF-8"
        ) from None


def parse_json(text: str, source: str) -> Any:
    """Parse JSON with numbers kept exact (int or Decimal), refusing what JSON does not have.

    Raises
    ------
    InputError
        For malformed text, NaN and infinities, repeated keys, and nesting beyond reason.
    """
    try:
        return json.loads(
            text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_distinct_keys
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise InputError(f"{source}: nested too deeply to be a snapshot") from None
    except (ValueError, ArithmeticError) as error:
        raise InputError(f"{source}: {str(error).split(';')[0]}") from None


def _refuse(constant: str) -> Decimal:
    return Decimal(
        constant
    )  # refused as a quantity, with its place; JSON proper has no such number


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key '{twice}' stands twice in one object: remove one")
    return data


def read_snapshot(path: str | Path) -> Snapshot:
    """Read and validate a snapshot file (``.json``, ``.json.gz``, or ``-`` for standard input).

    Raises
    ------
    InputError
        With one line per problem: file, job, profile and field, and the remedy.
    """
    return parse_snapshot(read_bytes(path), source=str(path))


def parse_snapshot(data: bytes | str | Mapping[str, Any], source: str = "snapshot") -> Snapshot:
    """Validate a snapshot given as bytes, JSON text or plain data; see `read_snapshot`."""
    with paused_collector():
        return _parse(data, source)


def _parse(data: bytes | str | Mapping[str, Any], source: str) -> Snapshot:
    if isinstance(data, bytes):
        data = decode_text(data, source)
    raw = parse_json(data, source) if isinstance(data, str) else data
    if not isinstance(raw, Mapping):
        raise InputError(f"{source}: a snapshot is a JSON object, this is {_kind(raw)}")
    if "schema" not in raw:
        raise InputError(
            f'{source}: no "schema" key: add "schema": "elastico-opt/snapshot@1" '
            "(or `elastico-opt import` to read another format)"
        )
    try:
        return Snapshot.model_validate(raw)
    except ValidationError as error:
        _raise(error, raw, source)
    except RecursionError:
        raise InputError(f"{source}: nested too deeply to be a snapshot") from None


def snapshot_json(snapshot: Snapshot, indent: int | None = 1) -> str:
    """Write a snapshot as JSON text that reads back to an equal snapshot."""
    data = snapshot.to_dict()
    try:
        return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False, default=_opaque)
    except ValueError:  # a NaN under `knobs` or `annotations`
        return json.dumps(_finite(data), indent=indent, ensure_ascii=False, default=_opaque)


def _finite(value: Any) -> Any:
    """Replace floats that JSON does not have by null."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _opaque(value: Any) -> float | None:
    """Write a decimal found under ``knobs`` or ``annotations``, which the program never reads."""
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else None
    raise TypeError(f"{value!r} is not JSON data")


def snapshot_hash(snapshot: Snapshot) -> str:
    """Return the SHA-256 of the snapshot's canonical JSON, for provenance."""
    text = json.dumps(snapshot.to_dict(), sort_keys=True, separators=(",", ":"), default=_opaque)
    return hashlib.sha256(text.encode()).hexdigest()


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "null", bool: "true or false"}.get(
        type(value), "a number"
    )


def _raise(error: ValidationError, raw: Mapping[str, Any], source: str) -> NoReturn:
    lines = [
        f"{source}: {_line(item, raw)}"
        for item in error.errors(include_url=False)
        if not (item["type"] == "too_short" and item["input"])  # only its broken items are left out
    ]
    raise InputError(*dict.fromkeys(lines)) from None


_MESSAGES = {
    "missing": "is missing: add it",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "too_long": "has too many items",
}
_LISTS = {"nodes": "node", "jobs": "job", "profiles": "profile"}
_UNION_TAGS = frozenset({"count", "list", "int", "str"})
_KNOWN: tuple[type[BaseModel], ...] = (
    Snapshot,
    GpuType,
    Gpu,
    Node,
    Task,
    Profile,
    PlacedTask,
    Current,
    Job,
    PairSlowdown,
    Interference,
    Policy,
)


def _line(item: Any, raw: Any) -> str:
    """Return one problem as a line: where in the user's words, what, and the remedy."""
    kind, message, loc = item["type"], item["msg"], list(item["loc"])
    if kind == "extra_forbidden":
        key = str(loc.pop())
        return _place(loc, raw, f"unknown key '{key}'{nearest(key, _siblings(loc))}")
    if kind == "value_error":
        message = str(item["ctx"]["error"])
    elif kind == "literal_error":
        message = f"must be {item['ctx']['expected']}, got {item['input']!r}"
    elif kind == "greater_than_equal":
        message = f"must be at least {item['ctx']['ge']}, got {item['input']}"
    else:
        message = _MESSAGES.get(kind, message)
    return _place(loc, raw, message)


def _place(loc: Iterable[Any], raw: Any, message: str) -> str:
    """Turn ``('jobs', 3, 'gpu', 'memory')`` into ``job 'bert', gpu.memory: …``."""
    parts: list[str] = []
    field = ""
    for step in loc:
        is_tag = step in _UNION_TAGS and not (isinstance(raw, Mapping) and step in raw)
        if is_tag or step == "[key]":
            continue
        if isinstance(step, int):
            raw = raw[step] if isinstance(raw, (list, tuple)) and step < len(raw) else None
            name = raw.get("name") if isinstance(raw, Mapping) else None
            if field in _LISTS:
                parts.append(
                    f"{_LISTS[field]} {name!r}"
                    if isinstance(name, str)
                    else f"{_LISTS[field]} number {step + 1}"
                )
                field = ""
            else:
                field += f"[{step}]"
            continue
        raw = raw.get(step) if isinstance(raw, Mapping) else None
        field = f"{field}.{step}" if field else str(step)
    where = ", ".join([*parts, field] if field else parts)
    return f"{where}: {message}" if where else message


def _siblings(loc: list[Any]) -> list[str]:
    """Return the keys allowed where an unknown one was found."""
    model: type[BaseModel] = Snapshot
    for step in loc:
        field = model.model_fields.get(str(step))
        if field is not None:
            nested = [known for known in _KNOWN if known.__name__ in _words(str(field.annotation))]
            model = nested[-1] if nested else model
    return [field.alias or name for name, field in model.model_fields.items()]


def _words(text: str) -> set[str]:
    return set(
        text.replace("[", " ")
        .replace("]", " ")
        .replace(".", " ")
        .replace("'", " ")
        .replace(",", " ")
        .replace(">", " ")
        .split()
    )
