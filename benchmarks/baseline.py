"""This release beside an earlier one: both solve the same files through their command lines."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.instances import MissingData, make_instance
from benchmarks.rows import ROOT

SUITE = "baseline"
TITLE = "Beside the release before"

_INSTANCES = ("lucidlike-200x64", "weighted-400x256", "triples-200x64", "gangs-200x64")
_LIMIT = 30.0


@dataclass(frozen=True)
class Release:
    """A checkout of this package, or a virtual environment that holds one.

    Attributes
    ----------
    path : Path
    """

    path: Path

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Return how to call it, and the environment for that."""
        for python in (self.path / "bin/python", self.path / "Scripts/python.exe"):
            if python.exists():
                environment = {key: os.environ[key] for key in os.environ if key != "PYTHONPATH"}
                return [str(python), "-m", "elastico_opt"], environment
        if not (self.path / "elastico_opt/__main__.py").exists():
            raise SystemExit(
                f"--baseline {self.path}: neither a virtual environment nor a checkout: "
                "name the folder that holds bin/python or elastico_opt/"
            )
        return [sys.executable, "-m", "elastico_opt"], {
            **os.environ,
            "PYTHONPATH": str(self.path.resolve()),
        }

    def solve(self, instance: Path, limit: float) -> dict[str, Any]:
        """Solve a file; return what its result says."""
        command, environment = self.command()
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run(
                    [*command, "solve", str(instance.resolve()), "--format", "json",
                     "--time-limit", str(limit)],
                    capture_output=True, encoding="utf-8",
                    timeout=limit + 60, cwd=folder, env=environment,
                )  # fmt: skip
                result = json.loads(done.stdout)
            except subprocess.TimeoutExpired:
                return {"status": "timeout", "seconds": limit + 60}
            except ValueError:
                why = (done.stderr.strip().splitlines() or ["no output"])[-1]
                return {"status": "failed", "error": why[:300]}
        return {
            **{key: result.get(key) for key in ("status", "objective", "bound", "gap", "solver")},
            "version": (result.get("provenance") or {}).get("elastico_opt"),
            "seconds": round(time.monotonic() - began, 3),
        }


@dataclass(frozen=True)
class Comparison:
    """One instance, solved by the earlier release and by this one.

    Each runs twice and the faster run counts: the first may have to compile its kernels.
    """

    name: str
    earlier: Release
    suite: str = SUITE

    def run(self) -> dict[str, Any]:
        """Solve with both, the whole process timed, in turn."""
        try:
            path = make_instance(self.name)
        except MissingData as missing:
            return {"suite": SUITE, "row": self.name, "status": "skipped", "error": str(missing)}
        runs = [[r.solve(path, _LIMIT) for r in (self.earlier, Release(ROOT))] for _ in range(2)]
        before, now = (min(pair, key=_seconds) for pair in zip(*runs, strict=True))
        return {
            "suite": SUITE, "row": self.name, "before": before, "now": now,
            "status": now["status"], "seconds": now.get("seconds"),
        }  # fmt: skip


def _seconds(run: dict[str, Any]) -> float:
    return float(run.get("seconds", math.inf))


def rows(earlier: Path) -> Iterator[Comparison]:
    """Yield the rows of the table."""
    release = Release(earlier)
    release.command()  # a wrong path is told at once
    for instance in _INSTANCES:
        yield Comparison(instance, release)
