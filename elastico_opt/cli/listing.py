"""``elastico-opt solvers``."""

from __future__ import annotations

import json

import click


@click.command(epilog="Example: elastico-opt solvers")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="Form of the list.")  # fmt: skip
def solvers(form: str) -> None:
    """List the solvers, what they work on and what they can do."""
    from elastico_opt.solvers.registry import get_solver, solver_names

    rows = []
    for name in solver_names():
        solver = get_solver(name)
        rows.append({
            "name": name, "formulation": solver.formulation, "available": solver.available(),
            "capabilities": sorted(map(str, solver.capabilities)),
        })  # fmt: skip
    if form == "json":
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        missing = "" if row["available"] else "  (not installed)"
        click.echo(
            f"{row['name']:<12} {row['formulation']:<8} {', '.join(row['capabilities'])}{missing}"
        )
