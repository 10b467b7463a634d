"""What every importer takes and returns.

An importer is a function from files to an `Imported`. It raises `InputError` for what a user must
repair, and counts and explains everything else that it leaves out or assumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastico_opt.reading import decode_text, parse_snapshot, read_bytes
from elastico_opt.snapshot import Snapshot

#: A path (``-`` is standard input, ``.gz`` is undone), or the bytes of a file already read.
Source = str | Path | bytes


@dataclass(frozen=True, slots=True)
class Imported:
    """A snapshot, and an account of how the files became it.

    Attributes
    ----------
    snapshot : Snapshot
    warnings : tuple of str
        One line each: what was assumed, and what a user may not expect.
    read : mapping
        How many of each thing went into the snapshot (``{"nodes": 2, "jobs": 5}``).
    left_out : mapping
        How many rows were left out, by reason.
    """

    snapshot: Snapshot
    warnings: tuple[str, ...] = ()
    read: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_source(source: Source, label: str) -> tuple[str, str]:
    """Return the text of a source and the name it has in messages: its path, else `label`."""
    if isinstance(source, bytes):
        return decode_text(source, label), label
    return decode_text(read_bytes(source), str(source)), str(source)


def build_snapshot(data: Mapping[str, Any], source: str) -> Snapshot:
    """Validate the plain data of a snapshot; problems name `source`."""
    return parse_snapshot({"schema": "elastico-opt/snapshot@1", **data}, source)
