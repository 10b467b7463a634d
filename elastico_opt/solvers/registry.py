"""Find a solver by name: the built-in ones, and those other packages register.

Another package adds a solver with an entry point in the group ``elastico_opt.solvers``; see
``TEMPLATE.py``. Nothing is imported until a solver is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from elastico_opt.errors import InputError

if TYPE_CHECKING:
    from elastico_opt.solvers.base import Solver

GROUP = "elastico_opt.solvers"

#: Module and class by name; a built-in whose module is missing is left out.
BUILT_IN: dict[str, str] = {
    "pattern": "elastico_opt.solvers.pattern:PatternSolver",
    "highs": "elastico_opt.solvers.highs:HighsSolver",
    "cpsat": "elastico_opt.solvers.cpsat:CpsatSolver",
    "lagrangian": "elastico_opt.solvers.lagrangian:LagrangianSolver",
    "greedy": "elastico_opt.solvers.greedy:GreedySolver",
}


def solver_names() -> tuple[str, ...]:
    """Return the names of all registered solvers, the built-in ones first."""
    return tuple(_targets())


def get_solver(name: str, **options: Any) -> Solver:
    """Return a new instance of a registered solver.

    Parameters
    ----------
    name : str
    options
        Passed on to the solver's class.

    Raises
    ------
    InputError
        For a name that is not registered, an entry point that cannot be loaded, or an option
        that the solver does not know.
    """
    targets = _targets()
    if name not in targets:
        from elastico_opt.snapshot import nearest

        known = ", ".join(targets)
        raise InputError(
            f"solver '{name}' is unknown{nearest(name, list(targets))} (there are: {known})"
        )
    target = targets[name]
    try:
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            make = getattr(import_module(module), attribute)
        else:
            make = target.load()
        _refuse_unknown(name, make, options)
        solver: Solver = make(**options)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"solver '{name}' cannot be loaded: {error}: reinstall it") from error
    return solver


def _refuse_unknown(name: str, make: Callable[..., Solver], options: Mapping[str, Any]) -> None:
    """Refuse options that a solver's class does not take."""
    taken = [p.name for p in signature(make).parameters.values() if p.kind is not p.VAR_KEYWORD]
    for option in options:
        if option not in taken:
            known = f"it has: {', '.join(taken)}" if taken else "it has none"
            raise InputError(f"solver '{name}' has no option '{option}' ({known})")


@cache
def _targets() -> dict[str, str | EntryPoint]:
    found: dict[str, str | EntryPoint] = {}
    for name, target in BUILT_IN.items():
        if find_spec(target.partition(":")[0]) is not None:
            found[name] = target
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point)
    return found
