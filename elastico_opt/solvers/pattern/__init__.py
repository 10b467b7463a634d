"""The pattern form on column generation: proven optima at cluster scale."""

from __future__ import annotations

from elastico_opt.solvers.pattern.solver import PatternSolver

__all__ = ["PatternSolver"]
