"""The pattern form solved to proof: column generation, reduced-cost enumeration, integer program.

Per stage (must-place jobs, then each priority):

1. Column generation solves the LP over all patterns; every round yields a valid bound.
2. Where devices hold two residents at most and nothing else ties jobs together, best matchings
   take over from the LP after a few rounds; their duals prove the optimum and the stage is done.
3. Otherwise all patterns whose reduced cost is within ``slack`` of zero are listed, and the
   integer program over them is solved with gap zero. No solution better than ``bound - slack``
   uses another pattern, so ``max(its bound, bound - slack)`` bounds the optimum. The slack starts
   small and grows until the incumbent meets the bound.
4. The chosen patterns are given devices; where nodes were aggregated and the choice does not fit
   them, the nodes get pools of their own and the stage is solved again.

The incumbent is verified from the snapshot before it counts. The restricted master alone proves
nothing and is never used as if it did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.plan import Plan
from elastico_opt.program import Program
from elastico_opt.solvers.base import Capability, Limits, Listener, Outcome, Stop
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.lexicographic import trivial_bounds
from elastico_opt.solvers.pattern.closing import close
from elastico_opt.solvers.pattern.dive import Dive
from elastico_opt.solvers.pattern.generation import Generation
from elastico_opt.solvers.pattern.master import Stage
from elastico_opt.solvers.pattern.realise import realise
from elastico_opt.solvers.pattern.standing import Standing

#: Growth of the slack of the enumeration.
GROWTH = 8.0
#: Rounds of the linear relaxation before matchings take over, and jobs from which they do: below,
#: cuts end as soon, and the compiled matching need not be loaded.
FEW_ROUNDS, MANY_JOBS = 4, 300
#: Patterns beyond which the enumeration is given up.
MOST_PATTERNS = 600_000
#: Patterns up to which all that a better plan can use are listed at once.
FEW_PATTERNS = 60_000
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
        if not program.n_jobs:
            return Outcome(Plan({}), [], Stop.PROVED)
        standing = Standing(program, limits, on_event)
        greedy = first_fit(program)
        for placements in (greedy, None if start is None else program.from_plan(start)):
            if placements is not None:
                standing.incumbent.offer(placements)
        return _Run(standing, search=True).outcome()


def _solve_part(program: Program, start: Plan, limits: Limits) -> Plan | None:
    """Solve a sub-cluster from a plan, without a search below it."""
    standing = Standing(program, limits, None)
    standing.incumbent.offer(program.from_plan(start))
    return _Run(standing, search=False).outcome().plan


class _Run:
    """One solve: stage after stage, on pools that are split where that is needed."""

    def __init__(self, standing: Standing, search: bool) -> None:
        self.standing, self.search = standing, search
        self.program, self.limits = standing.program, standing.limits

    @property
    def layout(self) -> Layout:
        """The layout of the pools as they are now."""
        return self.standing.layout

    def outcome(self) -> Outcome:
        """Prove stage after stage until one stays open."""
        standing, stop = self.standing, Stop.PROVED
        for stage in range(self.layout.n_stages):
            stop = self._stage(stage)
            if stop is not Stop.PROVED or standing.incumbent.plan is None:
                break
        shift = int(self.layout.n_must > 0)
        offsets = [float(offset) for offset in self.layout.offset]
        # A stage that was not reached still has the bound of every job alone at its best.
        tiers: list[float | None] = [
            alone if bound is None else bound + offset
            for bound, offset, alone in zip(
                standing.bounds[shift:], offsets, trivial_bounds(self.program), strict=True
            )
        ]
        if stop is Stop.INFEASIBLE:
            tiers = [None] * len(tiers)
        return Outcome(standing.incumbent.plan, tiers, stop, statistics=standing.statistics)

    # ---- one stage ---------------------------------------------------------------------

    def _stage(self, index: int) -> Stop:
        if self.layout.n_must and index == 0 and self.standing.incumbent.plan is not None:
            self.standing.bounds[0] = float(self.layout.n_must)
            return Stop.PROVED
        while True:
            stop = self._prove(Stage(index, self.standing.floors(index)))
            if stop is not None:
                return stop
            if not self._split():
                return Stop.CONVERGED

    def _split(self) -> bool:
        """Give nodes pools of their own; False when they have them, or are too many."""
        coarse = any(len(nodes) > 1 for nodes in self.layout.pool_nodes)
        if not self.layout.node_coupled or not coarse or self.program.n_nodes > MOST_SPLIT:
            return False
        self.standing.split()
        return True

    def _prove(self, stage: Stage) -> Stop | None:
        """Close a stage on the present layout; None when only finer pools can close it."""
        standing, index = self.standing, stage.index
        generation = Generation(self.layout, standing.pricer, stage, self.limits)
        start = standing.patterns()

        def note() -> None:
            if generation.bound < np.inf:
                standing.bound_all(index, generation.bound)
            standing.tell("columns")

        paired = self.program.n_jobs >= MANY_JOBS and self._pair(stage, generation, start, note)
        if not paired:
            generation.run(start, note)
            note()
        standing.statistics["rounds"] += generation.rounds
        if paired:
            return standing.settled(index)
        standing.statistics["columns"] += len(generation.master.patterns)
        if generation.duals is None:
            return self.limits.reached() or Stop.ERROR
        Dive(standing, stage, generation.master).run(_solve_part if self.search else None)
        return self._enumerate(stage, generation)

    def _pair(
        self, stage: Stage, generation: Generation, start: Patterns, note: Callable[[], None]
    ) -> bool:
        """Solve a stage that is a matching; False when it is none, or that does not close it."""
        from elastico_opt.solvers.pattern.pairs import Pairing, pairs_only

        standing, index = self.standing, stage.index
        if not pairs_only(self.layout, standing.pricer, stage):
            return False
        generation.run(start, note, FEW_ROUNDS)
        if generation.duals is None:
            return False
        pairing = Pairing(self.layout, standing.pricer, stage, self.limits)

        def on_round() -> bool:
            if pairing.choice is not None and pairing.value > standing.value(index):
                plan = realise(self.layout, pairing.choice, index, self.limits)
                standing.incumbent.offer(plan)
            standing.bound_all(index, pairing.bound)
            standing.tell("matching")
            return standing.settled(index) is None

        pairing.run(generation.master.patterns, generation.duals, on_round)
        standing.statistics["rounds"] += pairing.rounds
        standing.statistics["columns"] += len(pairing.patterns)
        return standing.settled(index) is not None

    def _enumerate(self, stage: Stage, generation: Generation) -> Stop | None:
        """List patterns within a growing slack and solve over them, until the stage is closed."""
        standing, index = self.standing, stage.index
        slack, listed = standing.first_slack(generation.bound), 0.0
        while not (settled := standing.settled(index)):
            if stopped := self.limits.reached():
                return stopped
            needed = standing.needed(index, generation.bound)
            patterns = generation.columns(needed, FEW_PATTERNS)
            if patterns is not None:
                slack = max(slack, needed)
            else:
                patterns = generation.columns(min(slack, needed), MOST_PATTERNS)
            enough = patterns is not None and slack >= needed
            if patterns is not None:
                generation.master.add(patterns)
                counted = standing.statistics["enumerated"]
                standing.statistics["enumerated"] = max(counted, len(patterns))
                listed = slack
            beyond = -np.inf if enough else generation.bound - listed
            final = enough or patterns is None
            if not close(standing, stage, generation.master, beyond, final):
                return self.limits.reached() or Stop.ERROR
            if patterns is None:
                return standing.settled(index) or self.limits.reached() or Stop.MEMORY_LIMIT
            if enough and not standing.settled(index):
                return self._hopeless(index)
            slack *= GROWTH
        return settled

    def _hopeless(self, index: int) -> Stop | None:
        """Decide what it means that the integer program is solved and the stage is open."""
        must = self.layout.n_must
        if must and index == 0 and self.standing.bound(0) < must - 0.5:
            return Stop.INFEASIBLE
        return None
