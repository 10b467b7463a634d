"""``elastico-opt solvers``."""

from __future__ import annotations

import json
from typing import Any

import click

from elastico_opt.errors import InputError


@click.command(epilog="Example: elastico-opt solvers")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="Form of the list.")  # fmt: skip
def solvers(form: str) -> None:
    """List the solvers, what they work on and what they can do."""
    from elastico_opt.solvers.registry import solver_names

    rows = [_row(name) for name in solver_names()]
    if form == "json":
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        can = row["missing"] or ", ".join(row["capabilities"])
        click.echo(f"{row['name']:<12} {row['formulation']:<10} {can}")


def _row(name: str) -> dict[str, Any]:
    from elastico_opt.solvers.registry import get_solver

    try:
        solver = get_solver(name)
    except InputError as error:
        return {"name": name, "formulation": "?", "capabilities": [], "missing": str(error)}
    missing = "" if solver.available() else "a package it needs is not installed"
    return {
        "name": name, "formulation": solver.formulation,
        "capabilities": sorted(map(str, solver.capabilities)), "missing": missing,
    }  # fmt: skip
