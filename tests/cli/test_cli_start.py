"""The program as a process: fast help, clean streams, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("pyomo", "ortools", "highspy", "numpy", "scipy", "numba", "pandas", "torch", "rich")


def program(*args: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "elastico_opt", *map(str, args)],
        capture_output=True, encoding="utf-8", timeout=60, cwd=ROOT, **more,
    )  # fmt: skip


@pytest.mark.parametrize("args", [["--help"], ["solve", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    """`--help` within 0.3 s means: none of these is imported."""
    code = (
        "import sys\n"
        "from elastico_opt.cli import main\n"
        f"try: main({args!r})\n"
        "except SystemExit as end: assert not end.code\n"
        f"print('loaded:', [m for m in {HEAVY!r} if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "loaded: []", done.stderr


def test_every_command_has_help_and_an_example() -> None:
    import click
    from click.testing import CliRunner

    from elastico_opt.cli import main

    def check(command: click.Command, path: list[str]) -> None:
        shown = CliRunner().invoke(main, [*path, "--help"])
        assert shown.exit_code == 0
        assert "Example: elastico-opt " in " ".join(shown.stdout.split()), path
        for name, child in getattr(command, "commands", {}).items():
            check(child, [*path, name])

    check(main, [])


def test_as_a_module() -> None:
    assert program("--version").stdout.startswith("elastico-opt ")


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    """`elastico-opt schema | head -1` ends quietly."""
    process = subprocess.Popen(
        [sys.executable, "-m", "elastico_opt", "schema"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(30)


SLOW = """
import sys, time
from elastico_opt import api
from elastico_opt.cli import main
from elastico_opt.solvers.base import Outcome, Stop
from elastico_opt.plan import Plan

class Slow:
    name, formulation, capabilities = "slow", "joint", frozenset()
    def available(self): return True
    def solve(self, program, limits, start=None, on_event=None):
        sys.stderr.write("ready\\n"); sys.stderr.flush()
        while {patient} and not limits.reached(): time.sleep(0.01)
        if not {patient}: time.sleep(60)
        return Outcome(Plan({{}}), (1.0,), limits.reached())

api.choose = lambda *names: [Slow()]
main(["solve", "-", "--format", "json"])
"""
SNAPSHOT = json.dumps({
    "schema": "elastico-opt/snapshot@1", "gpu_types": {"A": {}},
    "nodes": [{"name": "n", "gpu_type": "A", "gpus": 1}],
    "jobs": [{"name": "a", "profiles": [{"name": "p", "throughput": 1}]}],
})  # fmt: skip


def interrupted(patient: bool, times: int) -> tuple[int, str, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(patient=patient)], cwd=ROOT, encoding="utf-8",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(SNAPSHOT)
    process.stdin.close()
    assert process.stderr.readline() == "ready\n"
    said = ""
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        said += process.stderr.readline()
    assert process.stdout is not None
    return process.wait(30), process.stdout.read(), said


def test_ctrl_c_returns_what_is_held() -> None:
    """One Ctrl-C: the best plan so far, checked, on standard output, and exit code 0."""
    code, out, said = interrupted(patient=True, times=1)
    assert code == 0
    assert "best plan so far" in said
    data = json.loads(out)
    assert (data["status"], data["stop"], data["objective"]) == ("feasible", "interrupted", 0)


def test_a_second_ctrl_c_aborts() -> None:
    """A solver that does not listen must not hold the terminal."""
    code, out, said = interrupted(patient=False, times=2)
    assert (code, out) == (1, "")
    assert "aborted" in said
