"""The integer program over listed patterns: cuts, then branch and cut, and what they prove."""

from __future__ import annotations

from elastico_opt.solvers.base import Stop
from elastico_opt.solvers.highs import HighsEngine
from elastico_opt.solvers.pattern.dive import round_point
from elastico_opt.solvers.pattern.integer import integer_form
from elastico_opt.solvers.pattern.master import Master, Stage
from elastico_opt.solvers.pattern.rounding import Rounding
from elastico_opt.solvers.pattern.standing import NOTHING, Standing
from elastico_opt.solvers.pattern.tighten import Tightening

#: Bursts of cuts that may pass without a better bound before branching.
PATIENCE = 1


def close(standing: Standing, stage: Stage, master: Master, beyond: float, final: bool) -> bool:
    """Solve the integer program over the master's patterns; False when stopped.

    Parameters
    ----------
    beyond : float
        What solutions with other patterns are worth at most.
    final : bool
        Whether no more patterns will be listed. If not, branching is left for later where
        `beyond` already exceeds the incumbent.
    """
    tightening = Tightening(standing.layout, master, standing.limits)
    if _cut(standing, stage, master, tightening, beyond):
        return True
    if standing.limits.reached():
        return False
    if not final and beyond > standing.value(stage.index):
        return True
    return _branch(standing, stage, master, tightening, beyond)


def _cut(
    standing: Standing, stage: Stage, master: Master, tightening: Tightening, beyond: float
) -> bool:
    """Cut and round while it helps; say whether that settled the stage."""
    rounding = Rounding(integer_form(standing.layout, master.patterns), stage, standing.exact)
    stale = 0
    while stale < PATIENCE:
        improved = tightening.cut()
        standing.bound_better(stage.index, max(tightening.bound, beyond))
        if not standing.program.host_resources:
            round_point(standing, master, rounding, tightening)
        standing.tell("cuts")
        if standing.settled(stage.index):
            return True
        if tightening.exhausted:
            break
        stale = 0 if improved else stale + 1
    return False


def _branch(
    standing: Standing, stage: Stage, master: Master, tightening: Tightening, beyond: float
) -> bool:
    """Solve the integer program over the columns that the cuts leave, by branch and cut."""
    index = stage.index
    needed = standing.needed(index, tightening.bound)
    kept = tightening.near(needed + 1e-7 * max(1.0, abs(tightening.bound)))
    patterns = master.patterns.select(kept)
    form = integer_form(standing.layout, patterns)
    start = standing.point(patterns, form)
    effort = None if start is None else 0.0  # the start is near the optimum: only prove
    answer = HighsEngine(form, standing.exact, effort).solve(
        index, stage.floor_pairs, start, lambda objective, bound: None
    )
    if answer.vector is not None:
        standing.offer(index, patterns, answer.vector)
    if answer.stop is Stop.INFEASIBLE and standing.incumbent.plan is None:
        standing.bound_better(index, max(beyond, NOTHING))
    elif answer.bound is not None:
        standing.bound_better(index, max(answer.bound, beyond))
    standing.tell("integer program")
    return answer.stop in (Stop.PROVED, Stop.INFEASIBLE, Stop.GAP_LIMIT)
