"""Solvers leave signals to the process: some libraries take Ctrl-C for themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import registered

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, signal, sys
import elastico_opt as eo

heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
snapshot = eo.generate("gangs", jobs=6, gpus=8, gpus_per_node=4, seed=1)
eo.solve(snapshot, solver=sys.argv[1], time_limit=4)
os.kill(os.getpid(), signal.SIGINT)
for _ in range(1000):
    pass
sys.exit(0 if heard else 9)
"""


@pytest.mark.parametrize("solver", registered.available())
def test_ctrl_c_is_still_heard_after_a_solve(solver: str) -> None:
    """CP-SAT's own handler replaced ours, and then aborted or ended the process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, solver],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
