"""Elastic shadow pricing: prices of resources, plans at these prices, and bounds from both."""

from __future__ import annotations

from elastico_opt.solvers.lagrangian.solver import LagrangianSolver

__all__ = ["LagrangianSolver"]
