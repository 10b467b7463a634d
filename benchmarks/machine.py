"""Where and with what a measurement was made."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from elastico_opt import __version__

_LIBRARIES = ("highspy", "ortools", "numba", "numpy", "scipy", "pyomo", "pydantic", "networkx")


def stamp() -> dict[str, Any]:
    """Return versions, commit, machine and date."""
    return {
        "version": __version__,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "cpu": _cpu(),
        "cores": os.process_cpu_count() if hasattr(os, "process_cpu_count") else _cores(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def commit() -> str:
    """Return the short commit, with a plus when tracked files of the package differ from it."""
    root = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
        return done.stdout.strip()

    try:
        name = git("rev-parse", "--short", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "elastico_opt")
    except OSError:
        return "unknown"
    return f"{name}+" if name and changed else name or "unknown"


def load_average() -> float | None:
    """Return how many processes wanted a core during the last minute."""
    try:
        return round(os.getloadavg()[0], 1)
    except (OSError, AttributeError):
        return None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if "model name" in line), "unknown"
    )


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
