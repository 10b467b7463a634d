"""Good plans early: what the master's patterns can do, before the proof.

No bound comes of it: other patterns may be better. A good incumbent makes the list of patterns
short that the proof needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from elastico_opt.plan import Plan
from elastico_opt.program import Placement, Program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.integer import integer_form
from elastico_opt.solvers.pattern.master import Master, Stage
from elastico_opt.solvers.pattern.neighbourhood import NodeSearch
from elastico_opt.solvers.pattern.rounding import Rounding
from elastico_opt.solvers.pattern.standing import Standing
from elastico_opt.solvers.pattern.tighten import Tightening

#: Bursts of cuts and roundings.
BURSTS = 3
#: Seconds for the search over sub-clusters, as share of the time left and at most; and the number
#: of jobs up to which every gain is verified at once.
SEARCH_SHARE, SEARCH_SECONDS, CHECK_EACH = 0.5, 60.0, 1_000
#: Relative gap below which that search is left out where host resources bind, for the proof.
SEARCH_GAP = 2e-3
#: Share of the host resources left free at first, so that patterns can be packed into nodes, and
#: how often another share is tried.
MARGIN, TRIES = 5e-3, 3
#: Jobs up to which such a choice is packed.
MOST_PACKED = 1_000
#: Jobs from which the compiled improvement is worth loading.
MANY_JOBS = 100

SubSolver = Callable[[Program, Plan, Limits], Plan | None]


class Dive:
    """Looks for plans among the patterns of a master whose relaxation is solved."""

    def __init__(self, standing: Standing, stage: Stage, master: Master) -> None:
        self.standing, self.stage, self.master = standing, stage, master
        self.tightening = Tightening(standing.layout, master, standing.limits)
        form = integer_form(standing.layout, master.patterns)
        self.rounding = Rounding(form, stage, standing.exact)
        self.slack = standing.first_slack(standing.bound(stage.index))
        # Where host resources tie devices together, what rounds well packs badly.
        self.packed = bool(standing.program.host_resources)

    def run(self, solve_part: SubSolver | None) -> None:
        """Cut and round; where that may leave a gap, search on, sub-clusters by `solve_part`."""
        self._bursts()
        if not len(self.tightening.reduced) or not self._loose():
            return
        n_jobs = self.standing.program.n_jobs
        if solve_part is not None and n_jobs >= MANY_JOBS and self._far():
            self._improve()
        if self.packed and n_jobs <= MOST_PACKED and self._far():
            self._restrict()
        if solve_part is not None and self._far():
            self._search_nodes(solve_part)

    def _far(self) -> bool:
        index, least = self.stage.index, self.slack
        if self.packed:
            least = max(least, SEARCH_GAP * abs(self.standing.bound(index)))
        return self.standing.needed(index) > least and not self.standing.limits.reached()

    def _loose(self) -> bool:
        """Whether cuts alone may leave a gap: nodes tie devices, or three may share one."""
        standing = self.standing
        return standing.layout.node_coupled or any(p.slots > 2 for p in standing.pricer.places)

    def _bursts(self) -> None:
        """Cut off what cannot be whole and round what is left."""
        for _ in range(BURSTS):
            done = self.standing.needed(self.stage.index) <= self.slack
            if done or self.standing.limits.reached():
                break
            self.tightening.cut()
            if not self.packed:
                round_point(self.standing, self.master, self.rounding, self.tightening)
            self.standing.tell("rounding")
            if self.tightening.exhausted or self.packed:
                break

    def _improve(self) -> None:
        """Improve the incumbent by chains and ruins, as elastic shadow pricing does."""
        from elastico_opt.solvers.improvement.search import improve

        standing = self.standing
        if standing.incumbent.plan is not None:
            ends = time.monotonic() + SEARCH_SHARE * standing.limits.remaining()
            limits = replace(standing.limits, deadline=min(ends, standing.limits.deadline))
            found = improve(
                standing.program, standing.incumbent.placements, limits, seed=limits.seed
            )
            standing.incumbent.offer(found.placements)
            standing.tell("improvement")

    def _restrict(self) -> None:
        """Solve over the master's best patterns; leave as much host room as packing needs."""
        margin = MARGIN
        for _ in range(TRIES):
            found = self.rounding.restricted(self.tightening.reduced, margin)
            if found is None:
                return
            whole = self.standing.offer(self.stage.index, self.master.patterns, found)
            self.standing.tell("restricted")
            if whole or self.standing.limits.reached():
                return
            margin *= 2

    def _search_nodes(self, solve_part: SubSolver) -> None:
        """Improve the incumbent sub-cluster by sub-cluster, until the gap is small."""
        standing, index = self.standing, self.stage.index
        if standing.incumbent.plan is None:
            return

        def on_gain(placements: dict[int, Placement]) -> bool:
            if standing.program.n_jobs <= CHECK_EACH:
                standing.incumbent.offer(placements)
                standing.tell("sub-clusters")
            return standing.needed(index) > self.slack

        seconds = min(SEARCH_SECONDS, SEARCH_SHARE * standing.limits.remaining())
        search = NodeSearch(standing.program, solve_part, standing.limits)
        standing.incumbent.offer(search.run(standing.incumbent.placements, seconds, on_gain))
        standing.tell("sub-clusters")


def round_point(
    standing: Standing, master: Master, rounding: Rounding, tightening: Tightening
) -> None:
    """Round the LP point of a tightening and offer the plan."""
    if len(tightening.point):
        point = rounding.round(tightening.point, tightening.reduced)
        if point is not None:
            standing.offer(rounding.stage.index, master.patterns, point)
