"""Streams that the caller closed, as some service managers and pipelines do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "elastico_opt/instances/data/two-gpus.json"


def closed(stream: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run ``elastico-opt ARGS`` with a stream closed."""
    command = [sys.executable, "-m", "elastico_opt", *map(str, args)]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {stream}', "sh", *command],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize(
    ("stream", "args", "code"),
    [
        (">&-", ("validate", GOOD), 0),
        ("2>&-", ("validate", GOOD), 0),
        ("2>&-", ("solve", "missing.json"), 2),
        ("<&-", ("validate", GOOD), 0),
        ("<&-", ("solve", "-"), 2),
    ],
)
def test_a_closed_stream_is_no_surprise(stream: str, args: tuple[object, ...], code: int) -> None:
    """Python gives closed streams as None; code that asks them anything broke."""
    done = closed(stream, *args)
    assert done.returncode == code, done.stderr
    assert "unexpected" not in done.stderr
