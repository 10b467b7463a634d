"""The best plan so far: every candidate is checked and valued from the snapshot first."""

from __future__ import annotations

from collections.abc import Mapping

from elastico_opt.errors import VerificationError
from elastico_opt.formulations.layout import Layout
from elastico_opt.plan import Plan
from elastico_opt.program import Placement, Program
from elastico_opt.verification import Evaluation, check

#: Stage values closer than this (relative) count as equal when plans are compared.
_EQUAL = 1e-9


class Incumbent:
    """Holds the lexicographically best verified plan.

    Attributes
    ----------
    plan : Plan or None
    placements : dict or None
    values : tuple of float
        Per stage of the layout: must-place jobs placed, then each tier's value without the
        constant for evictions.
    """

    def __init__(self, program: Program, layout: Layout) -> None:
        self.program, self.layout = program, layout
        self.plan: Plan | None = None
        self.placements: dict[int, Placement] = {}
        self.values: tuple[float, ...] = ()

    def offer(self, placements: Mapping[int, Placement]) -> bool:
        """Take a plan if it is feasible and better than the one held; say whether it was."""
        plan = self.program.to_plan(placements)
        try:
            values = self._values(check(self.program.snapshot, plan))
        except VerificationError:
            return False
        if self.plan is not None and not _better(values, self.values):
            return False
        self.plan, self.placements, self.values = plan, dict(placements), values
        return True

    def _values(self, evaluation: Evaluation) -> tuple[float, ...]:
        worth = evaluation.tiers
        tiers = tuple(
            worth[priority] - float(self.layout.offset[t])
            for t, priority in enumerate(self.program.priorities)
        )
        return (float(self.layout.n_must), *tiers) if self.layout.n_must else tiers

    @property
    def objective(self) -> float | None:
        """Value of the plan over all tiers, None without a plan."""
        if self.plan is None:
            return None
        tiers = self.values[1:] if self.layout.n_must else self.values
        return sum(tiers) + float(self.layout.offset.sum())


def _better(new: tuple[float, ...], old: tuple[float, ...]) -> bool:
    for one, other in zip(new, old, strict=True):
        if abs(one - other) > _EQUAL * max(1.0, abs(other)):
            return one > other
    return new > old
