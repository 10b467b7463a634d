"""The joint form on HiGHS, a branch-and-cut solver in floating point, made exact.

Bounds come from HiGHS with all gaps at zero. Its points hold only within tolerances, so each is
rounded and checked in integer arithmetic; a capacity row that only a tolerance admits gets a
cover cut, and the tier is solved again. The cuts remove no plan, so every bound stays valid.
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
from elastico_opt.solvers.exactness import Cover, broken_rows, cover, rounded
from elastico_opt.solvers.lexicographic import Report, TierAnswer, settled, solve_joint

#: Integrality and feasibility tolerance; HiGHS also cuts off improvements smaller than this.
TOLERANCE = 1e-8
#: Columns that are whole whenever the others are: no branching on them.
IMPLIED = frozenset({"pair"})


class HighsSolver:
    """The joint form on HiGHS."""

    name: ClassVar[str] = "highs"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({
        Capability.EXACT, Capability.BOUND, Capability.ANYTIME, Capability.WARM_START,
        Capability.TIERS, Capability.GANG, Capability.HOST, Capability.RUNNING,
    })  # fmt: skip

    def available(self) -> bool:
        """Whether highspy is installed."""
        from importlib.util import find_spec

        return find_spec("highspy") is not None

    def solve(
        self,
        program: Program,
        limits: Limits,
        start: Plan | None = None,
        on_event: Listener | None = None,
    ) -> Outcome:
        """Solve the joint form; see `elastico_opt.solvers.base.Solver`."""
        return solve_joint(program, limits, start, on_event, HighsEngine)


class HighsEngine:
    """Maximises one tier of a form; keeps its cuts from tier to tier."""

    def __init__(self, form: MatrixForm, limits: Limits, effort: float | None = None) -> None:
        """Take a form; `effort` is the share of work HiGHS spends on heuristics, 0 to 1."""
        self.form, self.limits, self.effort = form, limits, effort
        self.covers: list[Cover] = []
        implied = np.array([name in IMPLIED for name, _ in form.columns], dtype=bool)
        self.integer = form.integer & ~implied

    def solve(
        self, tier: int, floors: Sequence[tuple[int, float]], start: Floats | None, report: Report
    ) -> TierAnswer:
        """Solve until HiGHS returns a point that holds exactly."""
        form = self.form
        if not form.n_columns:
            value = form.value(tier, np.zeros(0))
            return TierAnswer(np.zeros(0), value, Stop.PROVED)
        bound = math.inf
        while True:
            answer = _Solve(self, tier, floors, start, report).answer()
            bound = min(bound, math.inf if answer.bound is None else answer.bound)
            proved = None if bound == math.inf else bound
            if answer.vector is None:
                return TierAnswer(None, proved, answer.stop, answer.detail, answer.statistics)
            vector = rounded(form, answer.vector)
            broken = broken_rows(form, vector)
            covers = [found for row in broken if (found := cover(form, row, vector)) is not None]
            if len(covers) < len(broken):
                row = form.row_names[broken[0]]
                detail = f"HiGHS returned a point that breaks the row {row[0]}[{row[1]}]"
                return TierAnswer(None, proved, Stop.ERROR, detail, answer.statistics)
            if not broken:
                stop = answer.stop
                if stop is Stop.PROVED and not settled(form.value(tier, vector), bound, 0.0):
                    stop = Stop.GAP_LIMIT if self.limits.gap > 0 else Stop.CONVERGED
                return TierAnswer(vector, proved, stop, answer.detail, answer.statistics)
            self.covers += covers
            if stopped := self.limits.reached():
                return TierAnswer(None, proved, stopped, answer.detail, answer.statistics)


class _Solve:
    """One run of HiGHS on one tier."""

    def __init__(
        self, engine: HighsEngine, tier: int, floors: Sequence[tuple[int, float]],
        start: Floats | None, report: Report,
    ) -> None:  # fmt: skip
        self.engine, self.form, self.limits = engine, engine.form, engine.limits
        self.tier, self.floors, self.start, self.report = tier, floors, start, report
        costs = self.form.objectives[tier]
        self.scale = power_of_two(costs)
        self.told_to_stop = False
        self.progress: queue.SimpleQueue[tuple[float | None, float | None]] = queue.SimpleQueue()
        self.incumbent: Floats | None = None
        self.last_bound: float | None = None

    # ---- the model ---------------------------------------------------------------------

    def _model(self) -> Any:
        import highspy
        from scipy.sparse import csr_array, vstack

        form, n = self.form, self.form.n_columns
        blocks: list[Any] = [_scaled(form.rows)]
        scales = _row_scales(form.rows)
        lower, upper = [form.row_lower * scales], [form.row_upper * scales]
        for tier, least in self.floors:
            costs = form.objectives[tier]
            scale = power_of_two(costs)
            slack = 1e-9 * max(1.0, abs(least))
            blocks.append(csr_array((costs * scale)[None, :]))
            lower.append(np.array([(least - form.offsets[tier] - slack) * scale]))
            upper.append(np.array([math.inf]))
        rows = vstack(blocks, format="csr")
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = n, rows.shape[0]
        lp.col_cost_ = form.objectives[self.tier] * self.scale
        lp.col_lower_, lp.col_upper_ = form.column_lower, form.column_upper
        lp.row_lower_, lp.row_upper_ = np.concatenate(lower), np.concatenate(upper)
        lp.sense_ = highspy.ObjSense.kMaximize
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = rows.indptr, rows.indices
        lp.a_matrix_.value_ = rows.data
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in self.engine.integer]
        return lp

    def _prepare(self) -> Any:
        import highspy

        new: Any = highspy.Highs  # typed in some versions only
        solver = new()
        options = {
            "output_flag": False,
            "log_to_console": False,
            "threads": self.limits.threads,
            "random_seed": self.limits.seed,
            "mip_rel_gap": self.limits.gap,
            "mip_abs_gap": 0.0,
            "mip_feasibility_tolerance": TOLERANCE,
        }
        if self.engine.effort is not None:
            options["mip_heuristic_effort"] = self.engine.effort
        for name, value in options.items():
            solver.setOptionValue(name, value)
        solver.passModel(self._model())
        for found in self.engine.covers:
            _add_cover(solver, found, self.form.column_upper)
        if self.start is not None:
            solution = highspy.HighsSolution()
            padding = np.zeros(solver.getNumCol() - self.form.n_columns)
            solution.col_value = np.concatenate([self.start, padding]).tolist()
            solver.setSolution(solution)
        solver.cbMipInterrupt.subscribe(self._interrupt)
        solver.cbSimplexInterrupt.subscribe(self._interrupt)
        solver.cbMipImprovingSolution.subscribe(self._improve)
        solver.cbMipLogging.subscribe(self._log)
        return solver

    # ---- callbacks, in the solver's thread -----------------------------------------------

    def _interrupt(self, event: Any) -> None:
        if self.told_to_stop:
            event.data_in.user_interrupt = 1

    def _improve(self, event: Any) -> None:
        self.incumbent = np.array(event.data_out.mip_solution, dtype=float)
        self._log(event)

    def _log(self, event: Any) -> None:
        bound = self._value(event.data_out.mip_dual_bound)
        self.last_bound = bound if bound is not None else self.last_bound
        self.progress.put((self._value(event.data_out.mip_primal_bound), bound))

    def _value(self, scaled: float) -> float | None:
        if not math.isfinite(scaled):
            return None
        return float(scaled) / self.scale + float(self.form.offsets[self.tier])

    # ---- the run -----------------------------------------------------------------------

    def answer(self) -> TierAnswer:
        import highspy

        solver = self._prepare()
        ran: list[Any] = []

        def work() -> None:
            if math.isfinite(self.limits.deadline):
                solver.setOptionValue("time_limit", self.limits.remaining())
            ran.append(solver.run())
            # The scheduler belongs to this thread: the next solve may use other threads.
            highspy.Highs.resetGlobalScheduler(False)

        if not run_watched(work, self._stop, self.limits, self._tick):
            stop = statuses.stopped(Stop.TIME_LIMIT, self.limits)
            vector = None if self.incumbent is None else self.incumbent[: self.form.n_columns]
            return TierAnswer(vector, self.last_bound, stop, "HiGHS did not stop in time")
        self._tick()
        return self._read(solver, ran[0])

    def _stop(self) -> None:
        self.told_to_stop = True

    def _tick(self) -> None:
        while not self.progress.empty():
            self.report(*self.progress.get())

    def _read(self, solver: Any, ran: Any) -> TierAnswer:
        import highspy

        status, info = solver.getModelStatus(), solver.getInfo()
        stop = statuses.stopped(statuses.HIGHS[status.name], self.limits)
        statistics = {
            "nodes": max(0, int(info.mip_node_count)),
            "simplex_iterations": max(0, int(info.simplex_iteration_count)),
            "cover_cuts": len(self.engine.covers),
        }
        if stop is Stop.ERROR:
            text = solver.modelStatusToString(status)
            detail = f"HiGHS ended with status '{text}' ({ran.name}): try another seed or solver"
            return TierAnswer(None, None, stop, detail, statistics)
        if stop is Stop.INFEASIBLE:
            return TierAnswer(None, None, stop, "", statistics)
        vector = None
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            vector = np.array(solver.getSolution().col_value, dtype=float)[: self.form.n_columns]
        bound = self._value(info.mip_dual_bound)
        return TierAnswer(vector, bound, stop, "", statistics)


def power_of_two(costs: Floats) -> float:
    """Return the power of two that brings the largest coefficient between 1 and 2."""
    largest = float(np.abs(costs).max(initial=0.0))
    return 2.0 ** -math.floor(math.log2(largest)) if largest > 0 else 1.0


def _row_scales(rows: Any) -> Floats:
    """Return powers of two that bring rows with large coefficients down to 1024."""
    largest = np.zeros(rows.shape[0])
    filled = np.flatnonzero(np.diff(rows.indptr))
    if len(filled):
        largest[filled] = np.maximum.reduceat(np.abs(rows.data), rows.indptr[filled])
    scales = np.ones(rows.shape[0])
    large = largest > 1024
    scales[large] = 2.0 ** -np.floor(np.log2(largest[large]) - 10)
    return scales


def _scaled(rows: Any) -> Any:
    scales = np.repeat(_row_scales(rows), np.diff(rows.indptr))
    scaled = rows.copy()
    scaled.data = rows.data * scales
    return scaled


def _add_cover(solver: Any, found: Cover, upper: Floats) -> None:
    """Forbid that all columns of a cover reach their levels.

    A column that may exceed 1 gets a binary that is 1 when it reaches its level.
    """
    import highspy

    columns = []
    for column, level in zip(found.columns.tolist(), found.levels.tolist(), strict=True):
        if upper[column] <= 1:
            columns.append(column)
            continue
        reached = solver.getNumCol()
        solver.addCol(0.0, 0.0, 1.0, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
        solver.changeColIntegrality(reached, highspy.HighsVarType.kInteger)
        more = float(upper[column]) - level + 1
        pair = np.array([column, reached], dtype=np.int32)
        solver.addRow(-highspy.kHighsInf, level - 1.0, 2, pair, np.array([1.0, -more]))
        columns.append(reached)
    index = np.array(columns, dtype=np.int32)
    solver.addRow(-highspy.kHighsInf, len(index) - 1.0, len(index), index, np.ones(len(index)))
