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

import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from elastico_opt.errors import VerificationError
from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.formulations.matrix import MatrixForm
from elastico_opt.plan import Plan
from elastico_opt.program import Placement, Program
from elastico_opt.program.arrays import Floats
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
from elastico_opt.solvers.highs import HighsEngine
from elastico_opt.solvers.lexicographic import trivial_bounds
from elastico_opt.solvers.pattern.encode import Encoder
from elastico_opt.solvers.pattern.generation import Generation
from elastico_opt.solvers.pattern.incumbent import Incumbent
from elastico_opt.solvers.pattern.integer import integer_form, selection, with_losses
from elastico_opt.solvers.pattern.master import Master, Stage
from elastico_opt.solvers.pattern.neighbourhood import NodeSearch
from elastico_opt.solvers.pattern.pairs import Pairing, pairs_only
from elastico_opt.solvers.pattern.pricing import Pricer
from elastico_opt.solvers.pattern.realise import realise
from elastico_opt.solvers.pattern.rounding import Rounding
from elastico_opt.solvers.pattern.tighten import Tightening

#: First slack of the enumeration as a share of the value of one device, and its growth.
FIRST_SLACK, GROWTH = 5e-3, 8.0
#: Rounds of the linear relaxation before matchings take over.
FEW_ROUNDS = 4
#: Bursts of cuts and roundings before patterns are listed.
DIVES = 3
#: Bursts of cuts that may pass without a better bound before branching.
PATIENCE = 1
#: Seconds for the search over sub-clusters, as share of the time left and at most; and the number
#: of jobs up to which every gain is verified at once.
SEARCH_SHARE, SEARCH_SECONDS, CHECK_EACH = 0.5, 60.0, 1_000
#: Relative gap below which the proof is tried before that search.
SEARCH_GAP = 2e-3
#: Share of the host resources left free at first, so that patterns can be packed into nodes, and
#: how often another share is tried.
MARGIN, TRIES = 5e-3, 3
#: Patterns beyond which the enumeration is given up.
MOST_PATTERNS = 4_000_000
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
        run = _Run(program, limits, on_event)
        greedy = first_fit(program)
        for placements in (greedy, None if start is None else program.from_plan(start)):
            if placements is not None:
                run.incumbent.offer(placements)
        return run.outcome()


def _solve_part(program: Program, start: Plan, limits: Limits) -> Plan | None:
    """Solve a sub-cluster from a plan, without a search below it."""
    run = _Run(program, limits, None, search=False)
    run.incumbent.offer(program.from_plan(start))
    return run.outcome().plan


class _Run:
    """One solve: the incumbent, and per stage the best bound."""

    def __init__(
        self, program: Program, limits: Limits, on_event: Listener | None, search: bool = True
    ) -> None:
        self.search = search
        self.program, self.limits, self.on_event = program, limits, on_event
        # Engines know nothing of the constant for evictions, which the gap counts.
        self.exact = replace(limits, gap=0.0)
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
        offsets = [float(offset) for offset in self.layout.offset]
        # A stage that was not reached still has the bound of every job alone at its best.
        tiers: list[float | None] = [
            alone if bound is None else bound + offset
            for bound, offset, alone in zip(
                self.bounds[shift:], offsets, trivial_bounds(self.program), strict=True
            )
        ]
        if stop is Stop.INFEASIBLE:
            tiers = [None] * len(tiers)
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
        start = self._start_patterns()
        if pairs_only(self.layout, self.pricer, stage):
            generation.run(start, lambda: self._note(index, generation), FEW_ROUNDS)
            if self._pair(index, stage, generation):
                return self._settled(index)
        generation.run(start, lambda: self._note(index, generation))
        self._note(index, generation)
        self.statistics["rounds"] += generation.rounds
        self.statistics["columns"] += len(generation.master.patterns)
        if generation.duals is None:
            return self.limits.reached() or Stop.ERROR
        self._dive(index, stage, generation.master)
        slack = self._first_slack(generation.bound)
        while not (settled := self._settled(index)):
            if stopped := self.limits.reached():
                return stopped
            needed = self._needed(index, generation.bound)
            patterns = generation.columns(needed, FEW_PATTERNS)
            if patterns is not None:
                slack = max(slack, needed)
            elif slack < needed:
                patterns = generation.columns(slack, MOST_PATTERNS)
            if patterns is None:
                return self.limits.reached() or Stop.MEMORY_LIMIT
            generation.master.add(patterns)
            self.statistics["enumerated"] = max(self.statistics["enumerated"], len(patterns))
            beyond = generation.bound - slack if slack < needed else -np.inf
            if not self._integer(index, stage, generation.master, beyond):
                return self.limits.reached() or Stop.ERROR
            if slack >= needed and not self._settled(index):
                return self._hopeless(index)
            slack *= GROWTH
        return settled

    def _pair(self, index: int, stage: Stage, generation: Generation) -> bool:
        """Solve a stage that is a matching; False when that does not close it."""
        if generation.duals is None:
            return False
        pairing = Pairing(self.layout, self.pricer, stage, self.limits)

        def on_round() -> bool:
            held = self.incumbent.values[index] if self.incumbent.plan is not None else -np.inf
            if pairing.choice is not None and pairing.value > held:
                self.incumbent.offer(realise(self.layout, pairing.choice, index, self.limits))
            self._refute(index, pairing.bound)
            self._lower(index, pairing.bound)
            self._event("matching")
            return self._settled(index) is None

        pairing.run(generation.master.patterns, generation.duals, on_round)
        self.statistics["rounds"] += generation.rounds + pairing.rounds
        self.statistics["columns"] += len(pairing.patterns)
        return self._settled(index) is not None

    def _dive(self, index: int, stage: Stage, master: Master) -> None:
        """Look for a good plan among the master's patterns, cutting off what cannot be whole.

        No bound comes of it: other patterns may be better. A good incumbent makes the list of
        patterns short that the proof needs.
        """
        tightening = Tightening(self.layout, master, self.limits)
        rounding = Rounding(integer_form(self.layout, master.patterns), stage, self.exact)
        point: Floats | None = None
        slack = self._first_slack(self._bound(index))
        for _ in range(DIVES):
            if self.limits.reached() or self._needed(index, self._bound(index)) <= slack:
                return
            tightening.cut()
            point = self._round(index, master, rounding, tightening)
            self._event("rounding")
            if tightening.exhausted or self.program.host_resources:
                break
        if not len(tightening.reduced) or not self.search or not self._loose():
            return
        self._restrict(index, master, rounding, tightening, point)
        if self._needed(index, self._bound(index)) > SEARCH_GAP * abs(self._bound(index)):
            self._search_nodes(index, slack)

    def _restrict(
        self, index: int, master: Master, rounding: Rounding, tightening: Tightening,
        start: Floats | None,
    ) -> None:  # fmt: skip
        """Solve over the master's best patterns; leave as much host room as packing needs."""
        margin = self._margin()
        for _ in range(TRIES if margin else 1):
            if self._needed(index, self._bound(index)) <= GROWTH * self._first_slack(
                self._bound(index)
            ):
                return
            found = rounding.restricted(start, tightening.reduced, margin)
            self._event("restricted")
            if found is None:
                return
            if self._offer(index, master.patterns, found):
                return
            start, margin = None, margin * 2

    def _margin(self) -> float:
        """Return the share of the host resources to leave free, so that patterns can be packed."""
        return MARGIN if self.program.host_resources else 0.0

    def _loose(self) -> bool:
        """Whether cuts alone may leave a gap: nodes tie devices, or three may share one."""
        return self.layout.node_coupled or any(place.slots > 2 for place in self.pricer.places)

    def _search_nodes(self, index: int, slack: float) -> None:
        """Improve the incumbent sub-cluster by sub-cluster, until the gap is small."""
        if self.incumbent.plan is None or self.limits.reached():
            return

        def on_gain(placements: dict[int, Placement]) -> bool:
            if self.program.n_jobs <= CHECK_EACH:
                self.incumbent.offer(placements)
                self._event("sub-clusters")
            return self._needed(index, self._bound(index)) > slack

        seconds = min(SEARCH_SECONDS, SEARCH_SHARE * self.limits.remaining())
        search = NodeSearch(self.program, _solve_part, self.limits)
        self.incumbent.offer(search.run(self.incumbent.placements, seconds, on_gain))
        self._event("sub-clusters")

    def _hopeless(self, index: int) -> Stop | None:
        """Decide what it means that the integer program is solved and the stage is open."""
        if self.layout.n_must and index == 0 and self._bound(0) < self.layout.n_must - 0.5:
            return Stop.INFEASIBLE
        return None

    def _integer(self, index: int, stage: Stage, master: Master, beyond: float) -> bool:
        """Solve the integer program over the master's patterns; False when stopped.

        Solutions with other patterns are worth at most `beyond`.
        """
        tightening = Tightening(self.layout, master, self.limits)
        form = integer_form(self.layout, master.patterns)
        rounding = Rounding(form, stage, self.exact)
        stale = 0
        while stale < PATIENCE:
            improved = tightening.cut()
            self._lower(index, max(tightening.bound, beyond))
            self._round(index, master, rounding, tightening)
            self._event("cuts")
            if self._settled(index):
                return True
            if tightening.exhausted:
                break
            stale = 0 if improved else stale + 1
        if self.limits.reached():
            return False
        if self.incumbent.plan is not None and beyond > self.incumbent.values[index]:
            return True  # the listed patterns cannot close the gap: list more first
        return self._branch(index, stage, master, tightening, beyond)

    def _round(
        self, index: int, master: Master, rounding: Rounding, tightening: Tightening
    ) -> Floats | None:
        """Round the LP point and offer the plan; return the integer point.

        Where host resources tie devices together, what rounds well seldom packs well.
        """
        if not len(tightening.point) or self.program.host_resources:
            return None
        point = rounding.round(tightening.point, tightening.reduced)
        if point is not None:
            self._offer(index, master.patterns, point)
        return point

    def _branch(
        self,
        index: int,
        stage: Stage,
        master: Master,
        tightening: Tightening,
        beyond: float,
    ) -> bool:
        """Solve the integer program over the columns that the cuts leave, by branch and cut."""
        needed = self._needed(index, tightening.bound)
        kept = tightening.near(needed + 1e-7 * max(1.0, abs(tightening.bound)))
        patterns = master.patterns.select(kept)
        form = integer_form(self.layout, patterns)
        start = self._held(patterns, form)
        effort = None if start is None else 0.0  # the start is near the optimum: only prove
        answer = HighsEngine(form, self.exact, effort).solve(
            index, stage.floor_pairs, start, lambda objective, bound: None
        )
        if answer.vector is not None:
            self._offer(index, patterns, answer.vector)
        if answer.stop is Stop.INFEASIBLE:
            self._lower(index, max(beyond, -1.0))
        elif answer.bound is not None:
            self._lower(index, max(answer.bound, beyond))
        self._event("integer program")
        return answer.stop in (Stop.PROVED, Stop.INFEASIBLE, Stop.GAP_LIMIT)

    def _held(self, patterns: Patterns, form: MatrixForm) -> Floats | None:
        """Return the incumbent as a point over given patterns; None when one is not among them."""
        if self.incumbent.plan is None:
            return None
        held = Encoder(self.layout).selection(self.incumbent.placements)
        place = {key: i for i, key in enumerate(patterns.keys())}
        names = held.patterns.keys()
        found = [place.get(key, -1) for key in names]
        if -1 in found:
            return None
        counts = np.zeros(len(patterns))
        counts[found] = held.counts
        return with_losses(form, np.concatenate([held.static, counts]))

    def _offer(self, index: int, patterns: Patterns, point: Floats) -> bool:
        """Offer the plan of an integer point; say whether every chosen job found its place."""
        chosen = selection(self.layout, patterns, point)
        placements = realise(self.layout, chosen, index, self.limits)
        self.incumbent.offer(placements)
        if len(placements) == chosen.placed(self.layout):
            return True
        filled = first_fit(self.program, placements)
        if filled is not None:
            self.incumbent.offer(filled)
        return False

    # ---- bookkeeping -------------------------------------------------------------------

    def _floors(self, index: int) -> tuple[float, ...]:
        """Return what earlier stages must keep: the incumbent's values, less rounding."""
        return tuple(value - 1e-9 * max(1.0, abs(value)) for value in self.incumbent.values[:index])

    def _start_patterns(self) -> Any:
        return Encoder(self.layout).patterns(self.incumbent.placements)

    def _bound(self, index: int) -> float:
        bound = self.bounds[index]
        return np.inf if bound is None else bound

    def _refute(self, index: int, bound: float) -> None:
        """Raise when a bound on all plans lies below a plan: a bug must not be clamped away."""
        if self.incumbent.plan is None:
            return
        value = self.incumbent.values[index]
        if bound < value - TOLERANCE * max(1.0, abs(value)):
            raise VerificationError([f"bound {bound} of stage {index} is below a plan's {value}"])

    def _lower(self, index: int, bound: float) -> None:
        """Take a bound on all plans better than the incumbent."""
        if self.incumbent.plan is not None:
            bound = max(bound, self.incumbent.values[index])
        if bound < self._bound(index):
            self.bounds[index] = bound

    def _first_slack(self, bound: float) -> float:
        return FIRST_SLACK * max(1.0, abs(bound)) / max(1, self.program.n_devices)

    def _needed(self, index: int, bound: float) -> float:
        """Return the slack under a bound at which every better plan is held."""
        least = self.incumbent.values[index] if self.incumbent.plan is not None else -1.0
        return max(bound - least, 0.0) * (1 + 1e-9) + 1e-12

    def _settled(self, index: int) -> Stop | None:
        if self.incumbent.plan is None:
            return None
        value, bound = self.incumbent.values[index], self._bound(index)
        if bound - value <= 0.9 * TOLERANCE * max(1.0, abs(value)):
            return Stop.PROVED
        tier = index - int(self.layout.n_must > 0)
        shift = float(self.layout.offset[tier]) if tier >= 0 else 0.0
        if bound - value <= self.limits.gap * max(abs(bound + shift), abs(value + shift)):
            return Stop.GAP_LIMIT
        return None

    def _note(self, index: int, generation: Generation) -> None:
        if generation.bound < np.inf:
            self._refute(index, generation.bound)
            self._lower(index, generation.bound)
        self._event("columns")

    def _event(self, phase: str) -> None:
        if self.on_event is None:
            return
        bounds = self.bounds[int(self.layout.n_must > 0) :]
        known = [bound for bound in bounds if bound is not None]
        total = sum(known) + float(self.layout.offset.sum()) if len(known) == len(bounds) else None
        self.on_event(Event(time.monotonic() - self.began, self.incumbent.objective, total, phase))
