"""``elastico-opt export``."""

from __future__ import annotations

import click


@click.group()
def export() -> None:
    """Write the program for other solvers."""
