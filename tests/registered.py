"""The solvers under test: all that are registered, or those that `--solvers` names."""

from __future__ import annotations

from elastico_opt.solvers.base import Capability
from elastico_opt.solvers.registry import get_solver, solver_names

#: Names given on the command line; empty for all.
chosen: list[str] = []


def available() -> list[str]:
    """Return the names of all solvers under test."""
    names = chosen or solver_names()
    return [name for name in names if get_solver(name).available()]


def exact() -> list[str]:
    """Return those that prove optima."""
    return [name for name in available() if claims(name, Capability.EXACT)]


def claims(name: str, capability: Capability) -> bool:
    """Whether a solver claims a capability."""
    return capability in get_solver(name).capabilities
