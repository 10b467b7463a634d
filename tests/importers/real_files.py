"""Files that others published. They are not in the repository; tests that need them skip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("ELASTICO_OPT_DATA") or Path(__file__).parents[2] / "../shared/data")


def real(name: str) -> Path:
    """Return the path of a real file, or skip the test."""
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set ELASTICO_OPT_DATA to the folder that holds it")
    return path
