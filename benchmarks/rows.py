"""A row of a table: what a child process does, and how long it may take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes
    ----------
    suite, name : str
        The table, and the row's key in it.
    task : dict
        What `benchmarks.child` is asked.
    timeout : float
        Seconds after which the child is ended.
    target : float or None
        Seconds aimed at.
    note : str
        What the target says beyond seconds.
    cold : bool
        Whether numba starts with an empty cache.
    """

    suite: str
    name: str
    task: Mapping[str, Any]
    timeout: float
    target: float | None = None
    note: str = ""
    cold: bool = False
    group: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Measure in a fresh process; a child that fails or is too slow makes a row too."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as empty:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.child", json.dumps(dict(self.task))],
                    capture_output=True,
                    encoding="utf-8",
                    timeout=self.timeout,
                    cwd=ROOT,
                    env={**os.environ, **({"NUMBA_CACHE_DIR": empty} if self.cold else {})},
                )
                found = _answer(done)
            except subprocess.TimeoutExpired:
                found = {"status": "timeout", "seconds": self.timeout}
        return {
            "suite": self.suite,
            "row": self.name,
            "group": self.group,
            "target": self.target,
            "note": self.note,
            "elapsed": round(time.monotonic() - began, 3),
            **self.extra,
            **found,
        }


def _answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer
    why = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return {"status": "failed", "error": f"exit code {done.returncode}: {why}"[:300]}
