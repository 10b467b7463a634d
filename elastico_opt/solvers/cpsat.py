"""The joint form on CP-SAT, a solver that learns clauses, in whole numbers throughout.

Its solutions are exact. Its bound is one on an objective rounded up (`integers`), so it is valid
as it stands; the rounding is finer than the tolerance unless the values span too many bits.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from elastico_opt.formulations.matrix import MatrixForm
from elastico_opt.plan import Plan
from elastico_opt.program import Program
from elastico_opt.program.arrays import Floats
from elastico_opt.solvers import statuses
from elastico_opt.solvers.background import run_watched
from elastico_opt.solvers.base import Capability, Limits, Listener, Outcome, Stop
from elastico_opt.solvers.integers import HEADROOM, whole_form
from elastico_opt.solvers.lexicographic import Report, TierAnswer, settled, solve_joint


class CpsatSolver:
    """The joint form on CP-SAT."""

    name: ClassVar[str] = "cpsat"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({
        Capability.EXACT, Capability.BOUND, Capability.ANYTIME, Capability.WARM_START,
        Capability.TIERS, Capability.GANG, Capability.HOST, Capability.RUNNING,
    })  # fmt: skip

    def available(self) -> bool:
        """Whether OR-tools is installed."""
        from importlib.util import find_spec

        return find_spec("ortools") is not None

    def solve(
        self,
        program: Program,
        limits: Limits,
        start: Plan | None = None,
        on_event: Listener | None = None,
    ) -> Outcome:
        """Solve the joint form; see `elastico_opt.solvers.base.Solver`."""
        return solve_joint(program, limits, start, on_event, CpsatEngine)


class CpsatEngine:
    """Maximises one tier of a form in whole numbers."""

    def __init__(self, form: MatrixForm, limits: Limits) -> None:
        self.form, self.limits = form, limits
        self.whole = whole_form(form)

    def solve(
        self, tier: int, floors: Sequence[tuple[int, float]], start: Floats | None, report: Report
    ) -> TierAnswer:
        """Run CP-SAT once."""
        if not self.form.n_columns:
            return TierAnswer(np.zeros(0), self.form.value(tier, np.zeros(0)), Stop.PROVED)
        progress: queue.SimpleQueue[tuple[float | None, float | None]] = queue.SimpleQueue()
        model, solver = self._model(tier, floors, start), self._solver()
        listener = _listener(self, tier, solver, progress)

        def work() -> None:
            if math.isfinite(self.limits.deadline):
                solver.parameters.max_time_in_seconds = self.limits.remaining()
            solver.solve(model, listener)

        def tell() -> None:
            while not progress.empty():
                report(*progress.get())

        if not run_watched(work, solver.stop_search, self.limits, tell):
            stop = statuses.stopped(Stop.TIME_LIMIT, self.limits)
            return TierAnswer(listener.best, listener.bound, stop, "CP-SAT did not stop in time")
        tell()
        return self._read(solver, tier)

    # ---- the model ---------------------------------------------------------------------

    def _model(self, tier: int, floors: Sequence[tuple[int, float]], start: Floats | None) -> Any:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        proto = model.proto
        for upper in self.whole.upper:
            proto.variables.add().domain.extend([0, upper])
        kept = [self.whole.floor(t, least, float(self.form.offsets[t])) for t, least in floors]
        for columns, amounts, lower, upper in [*self.whole.rows, *kept]:
            row = proto.constraints.add().linear
            row.vars.extend(columns)
            row.coeffs.extend(amounts)
            row.domain.extend([lower, upper])
        columns, amounts = self.whole.objectives[tier]
        proto.objective.vars.extend(columns)
        proto.objective.coeffs.extend([-amount for amount in amounts])
        if start is not None:
            proto.solution_hint.vars.extend(range(self.form.n_columns))
            proto.solution_hint.values.extend(self.whole.hint(start))
        return model

    def _solver(self) -> Any:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = self.limits.threads
        parameters.random_seed = self.limits.seed
        parameters.absolute_gap_limit = 0.0
        parameters.relative_gap_limit = self.limits.gap
        parameters.catch_sigint_signal = False
        parameters.cp_model_probing_level = 0  # it took longer than it saved (two residents)
        return solver

    # ---- the answer --------------------------------------------------------------------

    def value(self, tier: int, minimised: float) -> float | None:
        """Return an upper bound, or the value of a solution, in the unit of the objective."""
        if abs(minimised) >= HEADROOM:
            return None
        return -minimised / self.whole.steps[tier] + float(self.form.offsets[tier])

    def _read(self, solver: Any, tier: int) -> TierAnswer:
        response = solver.response_proto
        name = solver.status_name(response.status)
        stop = statuses.stopped(statuses.CPSAT[name], self.limits)
        statistics = {
            "branches": int(response.num_branches), "conflicts": int(response.num_conflicts),
            "steps": self.whole.steps[tier],
        }  # fmt: skip
        if name == "MODEL_INVALID":
            detail = "CP-SAT refused the model: use --solver highs"
            return TierAnswer(None, None, Stop.ERROR, detail, statistics)
        if name == "INFEASIBLE":
            return TierAnswer(None, None, stop, "", statistics)
        # without a solution the bound may not have been set: it reads 0 then
        least = response.inner_objective_lower_bound
        bound = None if name == "UNKNOWN" and least == 0 else self.value(tier, least)
        if name == "UNKNOWN":
            return TierAnswer(None, bound, stop, "", statistics)
        vector = self.whole.vector(list(response.solution))
        detail = ""
        if stop is Stop.PROVED and bound is not None:
            value = self.form.value(tier, vector)
            if not settled(value, bound, 0.0):
                stop = Stop.GAP_LIMIT if self.limits.gap > 0 else Stop.CONVERGED
                if self.limits.gap == 0:
                    detail = f"values rounded to {1 / self.whole.steps[tier]:.1g} hide the rest"
        return TierAnswer(vector, bound, stop, detail, statistics)


def _listener(engine: CpsatEngine, tier: int, solver: Any, progress: Any) -> Any:
    """Return a callback that keeps the best solution and passes on objective and bound."""
    from ortools.sat.python import cp_model

    class Listening(cp_model.CpSolverSolutionCallback):
        def __init__(self) -> None:
            super().__init__()
            self.best: Floats | None = None
            self.objective: float | None = None
            self.bound: float | None = None

        def on_solution_callback(self) -> None:
            self.best = engine.whole.vector(list(self.response_proto.solution))
            self.objective = engine.form.value(tier, self.best)
            self.bound = engine.value(tier, self.best_objective_bound)
            progress.put((self.objective, self.bound))

        def on_bound(self, minimised: float) -> None:
            self.bound = engine.value(tier, minimised)
            progress.put((self.objective, self.bound))

    listening = Listening()
    solver.best_bound_callback = listening.on_bound
    return listening
