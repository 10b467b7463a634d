"""`elastico-opt solvers`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elastico_opt import InputError
from elastico_opt.solvers import registry


def test_every_solver_with_what_it_can_do(run: Any) -> None:
    rows = json.loads(run("solvers", "--format", "json").stdout)
    assert [row["name"] for row in rows] == list(registry.solver_names())
    highs = next(row for row in rows if row["name"] == "highs")
    assert highs["formulation"] == "joint"
    assert "exact" in highs["capabilities"]
    assert "highs" in run("solvers").stdout


def test_a_broken_plug_in_does_not_hide_the_others(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> Any:
        raise InputError(f"solver '{name}' cannot be loaded")

    monkeypatch.setattr(registry, "get_solver", broken)
    done = run("solvers")
    assert done.exit_code == 0
    assert "cannot be loaded" in done.stdout
