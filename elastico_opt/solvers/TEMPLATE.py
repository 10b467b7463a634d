"""How to add a solver: copy this file, change four things, register it.

1. The class attributes: a unique ``name``, the ``formulation`` it works on, and only those
   `Capability` values that the conformance suite may hold it to.
2. ``available``: whether what it needs is installed. Import heavy packages inside methods, so
   that naming the solver stays free.
3. ``solve``: read coefficients from the program (never from the snapshot), hand back assignments
   and bounds. Obey ``limits``; never raise for a limit, an interrupt or infeasibility.
4. Register it, in another package by an entry point::

       [project.entry-points."elastico_opt.solvers"]
       my-solver = "my_package:MySolver"

   or, inside this package, in ``registry.BUILT_IN`` and in the list of the conformance suite.

Do not value or check the plan: both are done after every solver, from the snapshot. A bound is
one per priority, the highest first, and None where there is none.

This example works: it returns the greedy plan, and as a bound what the jobs would be worth if
each ran alone in its best profile.
"""

from __future__ import annotations

from typing import ClassVar

from elastico_opt.plan import Plan
from elastico_opt.program import Program
from elastico_opt.solvers.base import Capability, Event, Limits, Listener, Outcome, Stop
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.lexicographic import trivial_bounds


class TemplateSolver:
    """One greedy plan and a simple bound."""

    name: ClassVar[str] = "template"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({
        Capability.BOUND, Capability.TIERS, Capability.GANG, Capability.HOST, Capability.RUNNING,
        Capability.THROUGHPUT,
    })  # fmt: skip

    def available(self) -> bool:
        """Whether everything the solver imports is installed."""
        return True

    def solve(
        self,
        program: Program,
        limits: Limits,
        start: Plan | None = None,
        on_event: Listener | None = None,
    ) -> Outcome:
        """Solve the program; see `elastico_opt.solvers.base.Solver`."""
        # A limit of 0 and an early interrupt end here: no plan, no bound, and the reason.
        if stop := limits.reached():
            return Outcome(None, [None] * len(program.priorities), stop)
        placements = first_fit(program)
        bounds = trivial_bounds(program)
        if on_event is not None:  # as often as there is news, from the thread of the caller
            on_event(Event(time=0.0, objective=None, bound=sum(bounds), phase="template"))
        if placements is None:  # it gave up; INFEASIBLE would claim a proof
            return Outcome(None, bounds, Stop.CONVERGED, "no place found for a job that needs one")
        return Outcome(program.to_plan(placements), bounds, Stop.CONVERGED)
