"""The pattern form solved to proof: column generation, reduced-cost enumeration, integer program.

Per stage (must-place jobs, then each priority):

1. Column generation solves the LP over all patterns; every round yields a valid bound.
2. All patterns whose reduced cost is within ``slack`` of zero are listed, and the integer program
   over them is solved with gap zero. No solution better than ``bound - slack`` uses another
   pattern, so ``max(its bound, bound - slack)`` bounds the optimum. The slack starts small and
   grows until the incumbent meets the bound.
3. The chosen patterns are given devices; where nodes were aggregated and the choice does not fit
   them, the nodes get pools of their own and the stage is solved again.

The incumbent is verified from the snapshot before it counts. The restricted master alone proves
nothing and is never used as if it did.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np

from elastico_opt.formulations.layout import Layout
from elastico_opt.plan import Plan
from elastico_opt.program import Program
from elastico_opt.solvers.base import (
    TOLERANCE,
    Capability,
    Event,
    Limits,
    Listener,
    Outcome,
    Stop,
)
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.pattern.encode import Encoder
from elastico_opt.solvers.pattern.generation import Generation
from elastico_opt.solvers.pattern.incumbent import Incumbent
from elastico_opt.solvers.pattern.integer import matrix_form, selection
from elastico_opt.solvers.pattern.master import Stage
from elastico_opt.solvers.pattern.pricing import Pricer
from elastico_opt.solvers.pattern.realise import realise

#: First slack of the enumeration, as a share of the bound, and its growth.
FIRST_SLACK, GROWTH = 1e-5, 8.0
#: Patterns beyond which the enumeration is given up.
MOST_PATTERNS = 4_000_000
#: Nodes up to which pools are split into nodes when a choice cannot be realised.
MOST_SPLIT = 64


class PatternSolver:
    """Proven optima by the pattern form."""

    name: ClassVar[str] = "pattern"
    formulation: ClassVar[str] = "pattern"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def available(self) -> bool:
        """Whether highspy and numba are installed."""
        from importlib.util import find_spec

        return find_spec("highspy") is not None and find_spec("numba") is not None

    def solve(
        self,
        program: Program,
        limits: Limits,
        start: Plan | None = None,
        on_event: Listener | None = None,
    ) -> Outcome:
        """Solve the pattern form; see `elastico_opt.solvers.base.Solver`."""
        if stop := limits.reached():
            return Outcome(None, [None] * len(program.priorities), stop)
        run = _Run(program, limits, on_event)
        greedy = first_fit(program)
        for placements in (greedy, None if start is None else program.from_plan(start)):
            if placements is not None:
                run.incumbent.offer(placements)
        return run.outcome()


class _Run:
    """One solve: the incumbent, and per stage the best bound."""

    def __init__(self, program: Program, limits: Limits, on_event: Listener | None) -> None:
        self.program, self.limits, self.on_event = program, limits, on_event
        self.began = time.monotonic()
        self.layout = Layout.build(program)
        self.pricer = Pricer(self.layout)
        self.incumbent = Incumbent(program, self.layout)
        self.bounds: list[float | None] = [None] * self.layout.n_stages
        self.statistics: dict[str, Any] = {"rounds": 0, "columns": 0, "enumerated": 0, "splits": 0}

    def outcome(self) -> Outcome:
        """Prove stage after stage until one stays open."""
        stop = Stop.PROVED
        for stage in range(self.layout.n_stages):
            stop = self._stage(stage)
            if stop is Stop.INFEASIBLE:
                break
            if stop is not Stop.PROVED or self.incumbent.plan is None:
                break
        shift = int(self.layout.n_must > 0)
        tiers: list[float | None] = [
            None if bound is None else bound + float(offset)
            for bound, offset in zip(self.bounds[shift:], self.layout.offset, strict=False)
        ]
        tiers += [None] * (len(self.program.priorities) - len(tiers))
        return Outcome(self.incumbent.plan, tiers, stop, statistics=self.statistics)

    # ---- one stage ---------------------------------------------------------------------

    def _stage(self, index: int) -> Stop:
        if self.layout.n_must and index == 0 and self.incumbent.plan is not None:
            self.bounds[0] = float(self.layout.n_must)
            return Stop.PROVED
        while True:
            stop = self._prove(index)
            if stop is not None:
                return stop
            if not self._split():
                return Stop.CONVERGED

    def _split(self) -> bool:
        """Give nodes pools of their own; False when they have them, or are too many."""
        coarse = [n for nodes in self.layout.pool_nodes if len(nodes) > 1 for n in nodes]
        if not self.layout.node_coupled or not coarse or self.program.n_nodes > MOST_SPLIT:
            return False
        self.layout = Layout.build(self.program, split=range(self.program.n_nodes))
        self.pricer = Pricer(self.layout)
        self.incumbent.layout = self.layout
        self.statistics["splits"] += 1
        return True

    def _prove(self, index: int) -> Stop | None:
        """Close a stage on the present layout; None when only finer pools can close it."""
        stage = Stage(index, self._floors(index))
        generation = Generation(self.layout, self.pricer, stage, self.limits)
        generation.run(self._start_patterns(), lambda: self._note(index, generation))
        self._note(index, generation)
        self.statistics["rounds"] += generation.rounds
        self.statistics["columns"] += len(generation.master.patterns)
        slack = FIRST_SLACK * max(1.0, abs(generation.bound))
        while not (stopped := self._settled(index)):
            if reached := self.limits.reached():
                return reached
            if generation.duals is None:
                return Stop.ERROR
            needed = self._needed(index, generation)
            exhausted = slack >= needed
            slack = min(slack, needed)
            if not self._integer(index, stage, generation, slack):
                return self.limits.reached() or Stop.MEMORY_LIMIT
            if exhausted and not self._settled(index):
                return self._hopeless(index)
            slack *= GROWTH
        return stopped

    def _hopeless(self, index: int) -> Stop | None:
        """Decide what it means that the integer program is solved and the stage is open."""
        if self.layout.n_must and index == 0 and self._bound(0) < self.layout.n_must - 0.5:
            return Stop.INFEASIBLE
        return None

    def _integer(self, index: int, stage: Stage, generation: Generation, slack: float) -> bool:
        """Solve the integer program over all patterns within the slack; False when stopped."""
        from elastico_opt.solvers.highs import HighsEngine

        patterns = generation.columns(slack, MOST_PATTERNS)
        if patterns is None:
            return False
        self.statistics["enumerated"] = max(self.statistics["enumerated"], len(patterns))
        form = matrix_form(self.layout, patterns)
        engine = HighsEngine(form, self.limits)

        def report(objective: float | None, bound: float | None) -> None:
            self._event("integer program")

        floors = tuple(enumerate(stage.floors))
        answer = engine.solve(index, floors, None, report)
        if answer.vector is not None:
            chosen = selection(self.layout, patterns, answer.vector)
            self.incumbent.offer(realise(self.layout, chosen, index, self.limits))
        if answer.stop is Stop.INFEASIBLE:
            self._lower(index, generation.bound - slack)
        elif answer.bound is not None:
            self._lower(index, max(answer.bound, generation.bound - slack))
        self._event("integer program")
        return answer.stop in (Stop.PROVED, Stop.INFEASIBLE, Stop.GAP_LIMIT)

    # ---- bookkeeping -------------------------------------------------------------------

    def _floors(self, index: int) -> tuple[float, ...]:
        """Return what earlier stages must keep: the incumbent's values, less rounding."""
        return tuple(value - 1e-9 * max(1.0, abs(value)) for value in self.incumbent.values[:index])

    def _start_patterns(self) -> Any:
        return Encoder(self.layout).patterns(self.incumbent.placements)

    def _bound(self, index: int) -> float:
        bound = self.bounds[index]
        return np.inf if bound is None else bound

    def _lower(self, index: int, bound: float) -> None:
        if self.incumbent.plan is not None:
            bound = max(bound, self.incumbent.values[index])
        if bound < self._bound(index):
            self.bounds[index] = bound

    def _needed(self, index: int, generation: Generation) -> float:
        """Return the slack at which the integer program holds every better plan."""
        least = self.incumbent.values[index] if self.incumbent.plan is not None else -1.0
        return (generation.bound - least) * (1 + 1e-9) + 1e-12

    def _settled(self, index: int) -> Stop | None:
        if self.incumbent.plan is None:
            return None
        value, bound = self.incumbent.values[index], self._bound(index)
        if bound - value <= 0.1 * TOLERANCE * max(1.0, abs(value)):
            return Stop.PROVED
        if bound - value <= self.limits.gap * max(abs(bound), abs(value)):
            return Stop.GAP_LIMIT
        return None

    def _note(self, index: int, generation: Generation) -> None:
        if generation.bound < np.inf:
            self._lower(index, generation.bound)
        self._event("columns")

    def _event(self, phase: str) -> None:
        if self.on_event is None:
            return
        bounds = self.bounds[int(self.layout.n_must > 0):]
        known = [bound for bound in bounds if bound is not None]
        total = sum(known) + float(self.layout.offset.sum()) if len(known) == len(bounds) else None
        self.on_event(Event(time.monotonic() - self.began, self.incumbent.objective, total, phase))
