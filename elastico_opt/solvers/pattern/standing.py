"""How a solve stands: the incumbent, the bound of each stage, and what follows from both."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from elastico_opt.errors import VerificationError
from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.layout import Layout
from elastico_opt.formulations.matrix import MatrixForm
from elastico_opt.program import Program
from elastico_opt.program.arrays import Floats
from elastico_opt.solvers.base import TOLERANCE, Event, Limits, Listener, Stop
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.pattern.encode import Encoder
from elastico_opt.solvers.pattern.incumbent import Incumbent
from elastico_opt.solvers.pattern.integer import selection, with_losses
from elastico_opt.solvers.pattern.pricing import Pricer
from elastico_opt.solvers.pattern.realise import realise

#: First slack of the enumeration as a share of the value of one device.
FIRST_SLACK = 5e-3
#: Below what any plan places, where there is no plan yet: the stage of jobs that must be placed.
NOTHING = -1.0


class Standing:
    """What a solve holds.

    Attributes
    ----------
    layout, pricer : Layout and Pricer
        Of the pools as they are now; splitting changes them.
    incumbent : Incumbent
    bounds : list of float or None
        Best bound per stage, given what the stages before must keep.
    statistics : dict
    """

    def __init__(self, program: Program, limits: Limits, on_event: Listener | None) -> None:
        self.program, self.limits, self._on_event = program, limits, on_event
        # Engines know nothing of the constant for evictions, which the gap counts.
        self.exact = replace(limits, gap=0.0)
        self._began = time.monotonic()
        self.layout = Layout.build(program)
        self.pricer = Pricer(self.layout)
        self.incumbent = Incumbent(program, self.layout)
        self.bounds: list[float | None] = [None] * self.layout.n_stages
        self.statistics: dict[str, Any] = {"rounds": 0, "columns": 0, "enumerated": 0, "splits": 0}

    def split(self) -> None:
        """Give every node pools of its own."""
        self.layout = Layout.build(self.program, split=range(self.program.n_nodes))
        self.pricer = Pricer(self.layout)
        self.incumbent.layout = self.layout
        self.statistics["splits"] += 1

    # ---- bounds ------------------------------------------------------------------------

    def bound(self, index: int) -> float:
        """Return the best bound of a stage, infinity for none."""
        bound = self.bounds[index]
        return np.inf if bound is None else bound

    def value(self, index: int) -> float:
        """Return the incumbent's value in a stage, minus infinity without one."""
        return self.incumbent.values[index] if self.incumbent.plan is not None else -np.inf

    def bound_all(self, index: int, bound: float) -> None:
        """Take a bound on all plans.

        Raises
        ------
        VerificationError
            When it lies below the incumbent: a bug, which must not be clamped away.
        """
        value = self.value(index)
        if bound < value - TOLERANCE * max(1.0, abs(value)):
            raise VerificationError([f"bound {bound} of stage {index} is below a plan's {value}"])
        self.bound_better(index, bound)

    def bound_better(self, index: int, bound: float) -> None:
        """Take a bound on all plans better than the incumbent."""
        bound = max(bound, self.value(index))
        if bound < self.bound(index):
            self.bounds[index] = float(bound)

    def floors(self, index: int) -> tuple[float, ...]:
        """Return what earlier stages must keep: the incumbent's values, less rounding."""
        return tuple(value - 1e-9 * max(1.0, abs(value)) for value in self.incumbent.values[:index])

    def first_slack(self, bound: float) -> float:
        """Return the slack under a bound to begin with."""
        return FIRST_SLACK * max(1.0, abs(bound)) / max(1, self.program.n_devices)

    def needed(self, index: int, bound: float | None = None) -> float:
        """Return the slack under a bound (the best one) at which every better plan is held."""
        bound = self.bound(index) if bound is None else bound
        least = self.value(index) if self.incumbent.plan is not None else NOTHING
        return max(bound - least, 0.0) * (1 + 1e-9) + 1e-12

    def settled(self, index: int) -> Stop | None:
        """Return why a stage needs no more work, or None."""
        if self.incumbent.plan is None:
            return None
        value, bound = self.value(index), self.bound(index)
        if bound - value <= 0.9 * TOLERANCE * max(1.0, abs(value)):
            return Stop.PROVED
        tier = index - int(self.layout.n_must > 0)
        shift = float(self.layout.offset[tier]) if tier >= 0 else 0.0
        if bound - value <= self.limits.gap * max(abs(bound + shift), abs(value + shift)):
            return Stop.GAP_LIMIT
        return None

    # ---- the incumbent -----------------------------------------------------------------

    def offer(self, index: int, patterns: Patterns, point: Floats) -> bool:
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

    def patterns(self) -> Patterns:
        """Return the patterns of the incumbent."""
        return Encoder(self.layout).patterns(self.incumbent.placements)

    def point(self, patterns: Patterns, form: MatrixForm) -> Floats | None:
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

    # ---- progress ----------------------------------------------------------------------

    def tell(self, phase: str) -> None:
        """Report progress."""
        if self._on_event is None:
            return
        bounds = self.bounds[int(self.layout.n_must > 0) :]
        known = [bound for bound in bounds if bound is not None]
        total = None
        if len(known) == len(bounds):
            total = float(sum(known) + self.layout.offset.sum())
        seconds = time.monotonic() - self._began
        self._on_event(Event(seconds, self.incumbent.objective, total, phase))
