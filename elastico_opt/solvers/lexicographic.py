"""Solve the joint form tier by tier: one loop, whichever engine solves a tier."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from elastico_opt.formulations.joint import build
from elastico_opt.formulations.matrix import MatrixForm, lift, lower
from elastico_opt.formulations.places import Places
from elastico_opt.formulations.solution import placements, values
from elastico_opt.formulations.symmetry import canonical
from elastico_opt.plan import Plan
from elastico_opt.program import Placement, Program
from elastico_opt.program.arrays import Floats
from elastico_opt.solvers.base import TOLERANCE, Event, Limits, Listener, Outcome, Stop
from elastico_opt.solvers.exactness import feasible
from elastico_opt.solvers.greedy import first_fit

log = logging.getLogger(__name__)

#: Nonzeros of the joint form beyond which it is not built (about 100 bytes each while building).
MOST_NONZEROS = 10_000_000
#: Seconds that building takes per nonzero, measured.
BUILD_SECONDS = 1e-5

#: Stops after which the next tier is solved.
_GOES_ON = (Stop.PROVED, Stop.GAP_LIMIT, Stop.CONVERGED)

#: Called by an engine with the objective and bound of the tier it works on.
Report = Callable[[float | None, float | None], None]


@dataclass(frozen=True, slots=True)
class TierAnswer:
    """What an engine found for one tier.

    Attributes
    ----------
    vector : ndarray or None
        Its best point, satisfying every row of the form exactly.
    bound : float or None
        Upper bound on the tier's objective under the floors.
    stop : Stop
    detail : str
    statistics : dict
    """

    vector: Floats | None
    bound: float | None
    stop: Stop
    detail: str = ""
    statistics: dict[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """A back end that maximises one tier of a form while higher tiers keep their values."""

    limits: Limits

    def solve(
        self, tier: int, floors: Sequence[tuple[int, float]], start: Floats | None, report: Report
    ) -> TierAnswer:
        """Solve one tier; `floors` are (tier, least value) pairs."""
        ...


def solve_joint(
    program: Program,
    limits: Limits,
    start: Plan | None,
    on_event: Listener | None,
    engine: Callable[[MatrixForm, Limits], Engine],
) -> Outcome:
    """Build the joint form and solve its tiers in order of priority.

    Raises
    ------
    UnsupportedError
        When the joint form cannot express the program.
    """
    began = time.monotonic()
    open_tiers: list[float | None] = [None] * len(program.priorities)
    if stop := limits.reached():
        return Outcome(None, open_tiers, stop)
    if hopeless := _hopeless(program):
        return Outcome(None, open_tiers, Stop.INFEASIBLE, hopeless)
    first = first_fit(program)
    bounds = [*trivial_bounds(program)]
    places = Places(program)
    if refusal := _too_large(places, limits):
        stop, detail = refusal
        log.info("joint form not built: %s", detail)
        return Outcome(None if first is None else program.to_plan(first), bounds, stop, detail)
    form = lower(build(program, places))
    run = _Run(places, form, limits, on_event, began, engine(form, limits))
    run.offer(first)
    run.offer(None if start is None else program.from_plan(start))
    return run.tiers(bounds)


class _Run:
    """The loop over the tiers and the incumbent it carries along."""

    def __init__(
        self, places: Places, form: MatrixForm, limits: Limits, on_event: Listener | None,
        began: float, engine: Engine,
    ) -> None:  # fmt: skip
        self.places, self.form, self.limits, self.engine = places, form, limits, engine
        self.on_event, self.began = on_event, began
        self.incumbent: dict[int, Placement] | None = None
        self.vector: Floats | None = None
        self.floors: list[tuple[int, float]] = []

    def offer(self, plan: Mapping[int, Placement] | None) -> bool:
        """Take a plan as incumbent if it is feasible and lexicographically better."""
        if plan is None:
            return False
        plan = canonical(self.places, plan)
        vector = self.form.vector(values(self.places, plan))
        if not feasible(self.form, vector):
            return False
        if self.vector is not None and not self._better(vector, self.vector):
            return False
        self.incumbent, self.vector = plan, vector
        return True

    def _better(self, vector: Floats, than: Floats) -> bool:
        for tier in range(self.form.n_tiers):
            new, old = self.form.value(tier, vector), self.form.value(tier, than)
            if abs(new - old) > 1e-7 * max(1.0, abs(old)):
                return new > old
        tiers = range(self.form.n_tiers)
        value = self.form.value
        return [value(t, vector) for t in tiers] > [value(t, than) for t in tiers]

    def tiers(self, bounds: list[float]) -> Outcome:
        """Solve tier after tier until one is not settled."""
        found: list[float | None] = [*bounds]
        stop, detail, statistics = Stop.PROVED, "", {}
        for tier in range(self.form.n_tiers):
            answer = self._tier(tier, bounds[tier])
            statistics[f"tier {tier}"] = answer.statistics
            if answer.stop is Stop.INFEASIBLE:
                if self.vector is None:
                    nothing: list[float | None] = [None] * len(found)
                    return Outcome(None, nothing, Stop.INFEASIBLE, statistics=statistics)
                # A plan is held: the claim is wrong (floors met only within a tolerance).
                stop, detail = Stop.ERROR, "the solver calls a tier infeasible that has a plan"
                break
            if answer.bound is not None:
                found[tier] = min(bounds[tier], answer.bound)
            if answer.stop is not Stop.PROVED:
                stop, detail = answer.stop, answer.detail
            if self.vector is None or answer.stop not in _GOES_ON:
                break
            value = self.form.value(tier, self.vector)
            proved = found[tier]
            found[tier] = value if proved is None else max(value, proved)
            self.floors.append((tier, value))
        plan = None if self.incumbent is None else self.places.program.to_plan(self.incumbent)
        return Outcome(plan, found, stop, detail, statistics=statistics)

    def _tier(self, tier: int, most: float) -> TierAnswer:
        if self.vector is not None and settled(self.form.value(tier, self.vector), most, 0.0):
            return TierAnswer(self.vector, most, Stop.PROVED)
        if stop := self.limits.reached():
            return TierAnswer(None, None, stop)
        priorities = self.places.program.priorities
        phase = f"priority {priorities[tier]}" if len(priorities) > 1 else ""

        def report(objective: float | None, bound: float | None) -> None:
            if self.on_event is not None:
                self.on_event(Event(time.monotonic() - self.began, objective, bound, phase))

        answer = self._ask(tier, report)
        if answer.stop is Stop.GAP_LIMIT and not self._content(tier, answer):
            # Back ends leave the constant out of the gap (what evictions cost): go on to a proof.
            self.engine.limits = replace(self.limits, gap=0.0)
            answer = self._ask(tier, report)
            self.engine.limits = self.limits
        return answer

    def _ask(self, tier: int, report: Report) -> TierAnswer:
        answer = self.engine.solve(tier, tuple(self.floors), self.vector, report)
        if answer.vector is not None:
            self.offer(placements(self.places, lift(self.form, answer.vector)))
        return answer

    def _content(self, tier: int, answer: TierAnswer) -> bool:
        """Whether the incumbent is as near to the bound as the caller asked."""
        if self.vector is None or answer.bound is None or self.limits.gap == 0:
            return True
        return settled(self.form.value(tier, self.vector), answer.bound, self.limits.gap)


def settled(value: float, bound: float, gap: float) -> bool:
    """Whether a value is within the tolerance, or the caller's gap, of its bound."""
    if bound - value <= TOLERANCE * 0.1 * max(1.0, abs(value)):
        return True
    return bound - value <= gap * max(abs(bound), abs(value))


def trivial_bounds(program: Program) -> list[float]:
    """Return, per tier, what its jobs would be worth if each ran alone in its best profile."""
    worth: list[list[float]] = [[] for _ in program.priorities]
    for j in range(program.n_jobs):
        switch, _, evict = program.change_costs(j)
        gains = [
            float(program.option_reward[o]) - (switch if program.switches(o) else 0.0)
            for o in program.options_of(j)
        ]
        stay_out = [] if program.job_must[j] else [-evict]
        worth[int(program.job_tier[j])].append(max(gains + stay_out, default=0.0))
    return [math.fsum(values) for values in worth]


def _hopeless(program: Program) -> str:
    """Name a job that must be placed and has no option left, if there is one."""
    for j in range(program.n_jobs):
        if program.job_must[j] and not program.options_of(j):
            name = program.snapshot.jobs[j].name
            return f"job '{name}' must be placed, and no profile can run"
    return ""


def _too_large(places: Places, limits: Limits) -> tuple[Stop, str] | None:
    """Estimate the size of the form before it is built."""
    size = places.nonzeros()
    if size > MOST_NONZEROS:
        return Stop.MEMORY_LIMIT, (
            f"the joint form would have {size:.2g} nonzeros: use --solver pattern"
        )
    needed = size * BUILD_SECONDS
    if needed > limits.remaining():
        return Stop.TIME_LIMIT, f"building the joint form would take about {needed:.0f} s"
    return None
