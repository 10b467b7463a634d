"""``python -m elastico_opt``: the same as the command ``elastico-opt``."""

from __future__ import annotations

from elastico_opt.cli import main

main(prog_name="elastico-opt")
