"""Elastic shadow pricing: prices, then a plan at these prices, and a bound from both.

One solve:

1. The **price loop** finds a price per pool and resource, and a bound (`loop`).
2. **Repair**: what a start plan has is kept as far as it is feasible; the other jobs are placed in
   the order of what they bring at these prices (`improve`).
3. **Improvement** by exchange chains and by ruin and recreate, with interference and costs exact.
4. On request, the rounds are repeated with Γ fed back from the plan; and tighter bounds.

The solver keeps prices and pair values: the next call on a similar program starts from them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from elastico_opt.errors import InputError
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
    Price,
    Stop,
)
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.improvement.pairs import PairValues
from elastico_opt.solvers.improvement.search import Improved, improve
from elastico_opt.solvers.lagrangian.gamma import interference_term
from elastico_opt.solvers.lagrangian.loop import Loop, price_loop
from elastico_opt.solvers.lagrangian.prices import reported_prices, start_prices, tidied
from elastico_opt.solvers.lagrangian.problem import SCORES, Problem, Score
from elastico_opt.solvers.lagrangian.relaxation import Relaxation
from elastico_opt.solvers.lagrangian.steps import Polyak, SquareRoot, StepRule, Volume
from elastico_opt.solvers.occupancy import Occupancy

#: Share of the usual moves after a start from the last epoch's plan.
WARM = 0.25
Bound = Literal["price", "aggregate", "pattern"]
_STEPS: dict[str, type[StepRule]] = {"polyak": Polyak, "paper": SquareRoot, "volume": Volume}


class LagrangianSolver:
    """Plans in milliseconds by shadow prices.

    Parameters
    ----------
    bound : {"price", "aggregate", "pattern"}
        What to prove. ``price``: the price loop's own bound. ``aggregate``: also the linear
        relaxation that prices tend to, so that the gap can be split. ``pattern``: also the bound
        of the pattern form by prices of its rows, which is much tighter and takes longer.
    step : {"polyak", "paper", "volume"}
        The step rule; ``paper`` is η0/√t.
    score : {"eq6", "eq7", "eq7-weighted"}
        What orders the search: a job's value less what it pays; without weights; and less Γ,
        which is estimated from the plan before. See
        `elastico_opt.solvers.lagrangian.problem.Problem`.
    rounds : int
        Rounds of pricing and planning; from the second on there is a plan to estimate Γ from.
    iterations : int
        Steps of the price loop, at most.
    effort : float
        Moves of the improvement, as a multiple of the usual number.
    arrays : str
        ``numpy``, ``torch`` or ``torch:<device>``: what the price loop runs on.

    Raises
    ------
    InputError
        For an option that does not exist.
    """

    name: ClassVar[str] = "lagrangian"
    formulation: ClassVar[str] = "priced"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability) - {Capability.EXACT}

    def __init__(
        self,
        bound: Bound = "price",
        step: str = "polyak",
        score: Score = "eq6",
        rounds: int = 1,
        iterations: int = 150,
        effort: float = 1.0,
        arrays: str = "numpy",
    ) -> None:
        for name, value, known in (
            ("bound", bound, get_args(Bound)), ("step", step, _STEPS), ("score", score, SCORES)
        ):  # fmt: skip
            if value not in known:
                raise InputError(f"{name} '{value}' is unknown: use one of {', '.join(known)}")
        _refuse_wrong_kinds(rounds, iterations, effort, arrays)
        self.bound, self.score, self.arrays = bound, score, arrays
        self.step, self.rounds, self.iterations, self.effort = step, rounds, iterations, effort
        self._prices: tuple[Price, ...] = ()
        self._pairs: PairValues | None = None

    def available(self) -> bool:
        """Whether numba is installed."""
        from importlib.util import find_spec

        return find_spec("numba") is not None

    def solve(
        self,
        program: Program,
        limits: Limits,
        start: Plan | None = None,
        on_event: Listener | None = None,
    ) -> Outcome:
        """Price and plan; see `elastico_opt.solvers.base.Solver`."""
        if stop := limits.reached():
            return Outcome(None, [None] * len(program.priorities), stop)
        if not program.n_jobs:
            return Outcome(Plan({}), [], Stop.PROVED)
        return _Solve(self, program, limits, on_event).outcome(start)

    def rule(self) -> StepRule | None:
        """Return the step rule; None for the default, which knows warm starts."""
        return None if self.step == "polyak" else _STEPS[self.step]()


def _refuse_wrong_kinds(rounds: object, iterations: object, effort: object, arrays: object) -> None:
    """Refuse option values that are not what they must be; they may come from a command line."""
    for name, count in (("rounds", rounds), ("iterations", iterations)):
        if not isinstance(count, int) or count < 1:
            raise InputError(f"{name} is a whole number of at least 1, got {count!r}")
    if not isinstance(effort, (int, float)) or not 0 <= effort < math.inf:
        raise InputError(f"effort is a number of at least 0, got {effort!r}")
    if not isinstance(arrays, str) or arrays.split(":")[0] not in ("numpy", "torch"):
        raise InputError(f"arrays is numpy, torch or torch:<device>, got {arrays!r}")


class _Solve:
    """One call: the relaxation, the bounds, and the best plan."""

    def __init__(
        self, solver: LagrangianSolver, program: Program, limits: Limits,
        on_event: Listener | None,
    ) -> None:  # fmt: skip
        self.solver, self.program, self.limits, self.on_event = solver, program, limits, on_event
        self.began = time.monotonic()
        self.warm = False
        self.gamma: Floats | None = None
        self.relaxation = Relaxation.build(program, prune=False)
        self.tiers: list[float | None] = [None] * len(program.priorities)
        self.relaxations: dict[str, float] = {}
        self.statistics: dict[str, Any] = {"iterations": 0}
        self.improved: Improved | None = None

    def outcome(self, start: Plan | None) -> Outcome:
        """Run the rounds, then prove what was asked for."""
        solver, placements = self.solver, self._repaired(start)
        for _ in range(solver.rounds):
            loop = self._price(placements)
            placements = self._improve(loop, placements)
            if self.limits.reached():
                break
        self._tighten()
        improved = self.improved
        assert improved is not None
        plan = self.program.to_plan(improved.placements) if improved.complete else None
        return Outcome(
            plan,
            self.tiers,
            self._stop(improved),
            detail="" if improved.complete else "no place found for a job that needs one",
            prices=solver._prices,
            relaxations=self.relaxations,
            statistics={**self.statistics, **improved.statistics},
        )

    # ---- the plan ----------------------------------------------------------------------

    def _repaired(self, start: Plan | None) -> dict[int, Placement] | None:
        """Return what is feasible of a start plan; jobs that lost their place find another."""
        given = self.program.from_plan(start) if start is not None else {}
        if not given:
            return None
        self.warm = self.solver._pairs is not None
        p, jobs = self.program, np.array(sorted(given), dtype=np.int64)
        order = jobs[np.lexsort((jobs, p.job_tier[jobs], ~p.job_must[jobs]))]
        occupancy = Occupancy(p)
        if occupancy.fill(order, given):
            return first_fit(p, given)
        return occupancy.placements()

    def _improve(self, loop: Loop, placements: dict[int, Placement] | None) -> dict[int, Placement]:
        relaxation, solver = self.relaxation, self.solver
        paid = relaxation.usage @ (loop.shares[0] / relaxation.capacity)
        if self.gamma is not None:
            paid = paid + self.gamma
        value = relaxation.unweighted if solver.score == "eq7" else relaxation.value
        worth = np.maximum((value - paid).max(axis=1), 0.0)
        costs = np.zeros(self.program.n_options)
        known = relaxation.option >= 0
        costs[relaxation.option[known]] = paid[known]
        self.improved = improve(
            self.program, placements, self.limits, seed=self.limits.seed, prices=worth,
            costs=costs, effort=solver.effort * (WARM if self.warm else 1.0), pairs=solver._pairs,
        )  # fmt: skip
        solver._pairs = self.improved.pairs
        self._tell("plan")
        return self.improved.placements

    # ---- prices and bounds -------------------------------------------------------------

    def _price(self, placements: Mapping[int, Placement] | None) -> Loop:
        """Run the price loop; with Γ where a score has it and there is a plan."""
        solver, gamma = self.solver, None
        if solver.score != "eq6" and placements:
            gamma = interference_term(self.relaxation, placements)
        problem = Problem.of(self.relaxation, solver.score, gamma)
        first = start_prices(self.relaxation, solver._prices) if solver._prices else None
        if first is not None:
            known, none = problem.bounds(np.stack([first, 0 * first]))
            first = None if known > none else first  # of another scale: worse than none
        loop = self._loop(problem, first)
        self.gamma = gamma
        shares = tidied(problem, loop.shares[0])
        solver._prices = reported_prices(self.relaxation, shares)
        if len(self.tiers) == 1:
            self._lower(0, float(loop.bound[0]))
        else:
            for tier in range(len(self.tiers)):
                found = self._loop(Problem.of(self.relaxation, tier=tier), loop.shares[0])
                self._lower(tier, float(found.bound[0]))
        self.relaxations["price"] = self._total()
        self._tell("prices")
        return loop

    def _loop(self, problem: Problem, first: Floats | None) -> Loop:
        solver = self.solver
        loop = price_loop(
            problem, solver.rule(), solver.iterations, first, solver.arrays, limits=self.limits
        )
        self.statistics["iterations"] += loop.iterations
        return loop

    def _tighten(self) -> None:
        """Prove what was asked for beyond the price bound."""
        if self.solver.bound == "price" or self.limits.reached():
            return
        self._aggregate()
        if self.solver.bound == "pattern" and not self.limits.reached():
            self._pattern()

    def _aggregate(self) -> None:
        from elastico_opt.solvers.lagrangian.aggregate_lp import solve_aggregate

        found = []
        for tier in range(len(self.tiers)):
            one = None if len(self.tiers) == 1 else tier
            lp = solve_aggregate(self.relaxation, self.limits, one)
            if lp is None:
                return
            found.append(lp.bound)
            self._lower(tier, lp.bound)
        self.relaxations["aggregate"] = math.fsum(found)
        self._tell("linear relaxation")

    def _pattern(self) -> None:
        from elastico_opt.formulations.layout import Layout
        from elastico_opt.solvers.lagrangian.rows import row_price_bound

        found = row_price_bound(Layout.build(self.program), self.limits)
        if all(bound is not None for bound in found.tiers):
            self.relaxations["pattern"] = math.fsum(b for b in found.tiers if b is not None)
        for tier, bound in enumerate(found.tiers):
            if bound is not None:
                self._lower(tier, bound)
        self._tell("row prices")

    # ---- bookkeeping -------------------------------------------------------------------

    def _lower(self, tier: int, bound: float) -> None:
        held = self.tiers[tier]
        if math.isfinite(bound) and (held is None or bound < held):
            self.tiers[tier] = bound

    def _total(self) -> float:
        return math.fsum(np.inf if bound is None else bound for bound in self.tiers)

    def _objective(self) -> float | None:
        complete = self.improved is not None and self.improved.complete
        return math.fsum(self.improved.values) if complete and self.improved else None

    def _stop(self, improved: Improved) -> Stop:
        if stop := self.limits.reached():
            return stop
        objective, bound = self._objective(), self._total()
        if objective is not None:
            if bound - objective <= TOLERANCE * max(1.0, abs(objective)):
                return Stop.PROVED
            if bound - objective <= self.limits.gap * max(abs(bound), abs(objective)):
                return Stop.GAP_LIMIT
        return Stop.CONVERGED

    def _tell(self, phase: str) -> None:
        if self.on_event is not None:
            bound = self._total()
            seconds = time.monotonic() - self.began
            known = bound if math.isfinite(bound) else None
            self.on_event(Event(seconds, self._objective(), known, phase))
