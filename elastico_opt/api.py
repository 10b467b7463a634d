"""`solve`: from a snapshot to a checked result."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from elastico_opt.certify import Certificate, certify, must_stay
from elastico_opt.errors import InputError, UnsupportedError, VerificationError
from elastico_opt.plan import Plan, device_label
from elastico_opt.result import (
    Infeasibility,
    JobPlacement,
    ResourcePrice,
    Result,
    Status,
    TaskPlace,
    Tier,
    Unplaced,
)
from elastico_opt.solvers.base import TOLERANCE, Capability, Limits, Outcome, Stop
from elastico_opt.verification import evaluate, verify

if TYPE_CHECKING:
    from elastico_opt.program import Program
    from elastico_opt.snapshot import Snapshot
    from elastico_opt.solvers.base import Listener, Solver
    from elastico_opt.verification import Evaluation

log = logging.getLogger(__name__)

#: What ``auto`` tries, in order: the first that is there and can express the snapshot.
AUTO = ("pattern", "highs", "cpsat")
FORMULATIONS = ("auto", "joint", "pattern")


def solve(
    snapshot: Snapshot,
    solver: str = "auto",
    formulation: str = "auto",
    time_limit: float | None = None,
    gap: float | None = None,
    seed: int = 0,
    threads: int = 1,
    start: Plan | Result | None = None,
    on_event: Listener | None = None,
    cancelled: threading.Event | None = None,
    started: float | None = None,
) -> Result:
    """Plan a cluster and bound what any other plan could gain.

    Parameters
    ----------
    snapshot : Snapshot
    solver : str
        ``auto``, or a name from `elastico_opt.solvers.registry.solver_names`.
    formulation : str
        ``auto``, ``joint`` or ``pattern``; must be the one the solver works on.
    time_limit : float, optional
        Seconds for building, solving and explaining; no limit by default.
    gap : float, optional
        Stop once the relative gap is this small. Such a plan is called ``optimal`` only if it
        also is within the tolerance. By default the optimum is proved.
    seed, threads : int
        For the solver. With one thread and no time limit, runs repeat exactly.
    start : Plan or Result, optional
        A plan to begin with. What no longer exists is left out, with a warning; it never
        changes the optimum.
    on_event : callable, optional
        Called with each `elastico_opt.solvers.base.Event`.
    cancelled : threading.Event, optional
        Set it from another thread to stop early and get what is held.
    started : float, optional
        ``time.monotonic()`` value from which the time limit counts, now by default.

    Returns
    -------
    Result
        Its plan has passed `verify`.

    Raises
    ------
    InputError
        For an unknown solver or option, or a snapshot the solver cannot express.
    VerificationError
        When a solver returns a plan or a bound that does not hold (a bug).
    """
    options = _check_options(solver, formulation, time_limit, gap, seed, threads)
    run = _Run(
        snapshot,
        limits=Limits(
            deadline=math.inf if time_limit is None else (started or time.monotonic()) + time_limit,
            gap=gap or 0.0, seed=seed, threads=threads,
            cancelled=cancelled or threading.Event(),
        ),
        options=options,
        clock=_Clock(started),
    )  # fmt: skip
    candidates = choose(solver, formulation)
    if not snapshot.jobs or not snapshot.nodes:
        return run.trivial()
    return run.solve(candidates, _start_plan(snapshot, start, run.warnings), on_event)


def choose(solver: str, formulation: str) -> list[Solver]:
    """Return the solvers to try, best first.

    Raises
    ------
    InputError
        For an unknown name, or a solver that works on another formulation.
    """
    from elastico_opt.solvers.registry import get_solver, solver_names

    if solver != "auto":
        chosen = get_solver(solver)
        if formulation not in ("auto", chosen.formulation):
            fitting = [n for n in solver_names() if get_solver(n).formulation == formulation]
            other = f", or one of the solvers {_listed(fitting)}" if fitting else ""
            raise InputError(
                f"solver '{solver}' works on the formulation '{chosen.formulation}', not "
                f"'{formulation}': use formulation '{chosen.formulation}' or 'auto'{other}"
            )
        if not chosen.available():
            raise InputError(f"solver '{solver}' is not installed here: use 'auto'")
        return [chosen]
    known = set(solver_names())
    found = [get_solver(name) for name in AUTO if name in known]
    fitting = [s for s in found if formulation in ("auto", s.formulation) and s.available()]
    if not fitting:
        raise InputError(f"no solver is installed for the formulation '{formulation}': use 'auto'")
    return fitting


def _check_options(
    solver: str, formulation: str, time_limit: float | None, gap: float | None,
    seed: int, threads: int,
) -> dict[str, Any]:  # fmt: skip
    if formulation not in FORMULATIONS:
        raise InputError(f"formulation '{formulation}' is unknown: use {_listed(FORMULATIONS)}")
    if time_limit is not None and not (time_limit >= 0 and math.isfinite(time_limit)):
        raise InputError(f"time_limit is a number of seconds of at least 0, got {time_limit}")
    if gap is not None and not (gap >= 0 and math.isfinite(gap)):
        raise InputError(f"gap is a fraction of at least 0 (0.01 is one percent), got {gap}")
    if threads < 1:
        raise InputError(f"threads is at least 1, got {threads}")
    if not 0 <= seed < 2**31:
        raise InputError(f"seed is a whole number from 0 to 2^31 − 1, got {seed}")
    return {
        "solver": solver, "formulation": formulation, "time_limit": time_limit, "gap": gap,
    }  # fmt: skip


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


class _Clock:
    """Wall time by stage, in seconds."""

    def __init__(self, started: float | None) -> None:
        self.first = self.last = started or time.monotonic()
        self.stages: dict[str, float] = {}
        self.mark("read")

    def mark(self, stage: str) -> None:
        now = time.monotonic()
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self.last
        self.last = now

    def timing(self) -> dict[str, float]:
        stages = {name: round(seconds, 6) for name, seconds in self.stages.items()}
        return {**stages, "total": round(time.monotonic() - self.first, 6)}


@dataclass
class _Run:
    """One call of `solve`: what is asked, and what has been noticed so far."""

    snapshot: Snapshot
    limits: Limits
    options: dict[str, Any]
    clock: _Clock
    warnings: list[str] = field(default_factory=list)
    missing_pairs: int = 0

    # ---- ways to an answer -------------------------------------------------------------

    def trivial(self) -> Result:
        """Without nodes or jobs there is one plan: nothing is placed."""
        musts = [job for job in self.snapshot.jobs if must_stay(job)]
        tiers = len({job.priority for job in self.snapshot.jobs})
        if musts:
            certificate = certify(self.snapshot, Outcome(None, (), Stop.INFEASIBLE))
            conflict = Infeasibility(
                (musts[0].name,), (), minimal=True,
                message=f"job '{musts[0].name}' must be placed, and the snapshot has no nodes",
            )  # fmt: skip
            return self._result(certificate, "none", "none", conflict=conflict)
        values = evaluate(self.snapshot, Plan({})).tiers.values()
        bounds = list(values) if tiers else []
        outcome = Outcome(Plan({}), bounds, Stop.PROVED)
        return self._result(certify(self.snapshot, outcome), "none", "none")

    def solve(
        self, candidates: Sequence[Solver], start: Plan | None, on_event: Listener | None
    ) -> Result:
        if stop := self.limits.reached():
            return self._unsolved(stop, candidates[0])
        from elastico_opt.program import compile_program

        program = compile_program(self.snapshot)
        self.warnings.extend(program.warnings)
        self.missing_pairs = program.missing_pairs
        self.clock.mark("compile")
        if stop := self.limits.reached():
            return self._unsolved(stop, candidates[0])
        solver, outcome = self._ask(candidates, program, start, on_event)
        self.clock.mark("solve")
        name = f"solver '{solver.name}'"
        certificate = certify(self.snapshot, outcome, name)
        certificate = keep_start(self.snapshot, certificate, outcome, start, name)
        self.clock.mark("check")
        conflict = None
        if certificate.status is Status.INFEASIBLE:
            conflict = self._conflict(solver)
        if outcome.stop is Stop.ERROR and outcome.detail:
            self.warnings.append(f"solver '{solver.name}': {outcome.detail}")
        return self._result(
            certificate, solver.name, solver.formulation, outcome=outcome, conflict=conflict
        )

    def _ask(
        self, candidates: Sequence[Solver], program: Program, start: Plan | None,
        on_event: Listener | None,
    ) -> tuple[Solver, Outcome]:  # fmt: skip
        """Run the first candidate that can express the program."""
        for solver in candidates[:-1]:
            try:
                return solver, solver.solve(program, self.limits, start, on_event)
            except UnsupportedError as error:
                log.info("solver %s cannot express this snapshot: %s", solver.name, error)
        return candidates[-1], candidates[-1].solve(program, self.limits, start, on_event)

    def _unsolved(self, stop: Stop, solver: Solver) -> Result:
        certificate = certify(self.snapshot, Outcome(None, (), stop))
        return self._result(certificate, solver.name, solver.formulation)

    def _conflict(self, solver: Solver) -> Infeasibility:
        from elastico_opt.conflict import find_conflict

        prover = solver if Capability.EXACT in solver.capabilities else choose("auto", "auto")[0]
        conflict = find_conflict(self.snapshot, prover, self.limits)
        self.clock.mark("conflict")
        return conflict

    # ---- the result --------------------------------------------------------------------

    def _result(
        self, certificate: Certificate, solver: str, formulation: str,
        outcome: Outcome | None = None, conflict: Infeasibility | None = None,
    ) -> Result:  # fmt: skip
        plan, evaluation = certificate.plan, certificate.evaluation
        placements, unplaced = _rows(self.snapshot, plan, evaluation)
        self.clock.mark("explain")
        return Result(
            status=certificate.status,
            stop=str(certificate.stop),
            objective=certificate.objective,
            bound=certificate.bound,
            gap=certificate.gap,
            tolerance=TOLERANCE,
            solver=solver,
            formulation=formulation,
            placements=placements,
            unplaced=unplaced,
            terms=dict(evaluation.terms) if evaluation else {},
            tiers=tuple(certificate.tiers),
            prices=_prices(outcome),
            missing_pairs=self.missing_pairs,
            warnings=tuple(dict.fromkeys((*self.warnings, *certificate.warnings))),
            infeasibility=conflict,
            provenance=_provenance(self.snapshot, self.options, self.limits),
            timing=self.clock.timing(),
        )


def _rows(
    snapshot: Snapshot, plan: Plan | None, evaluation: Evaluation | None
) -> tuple[tuple[JobPlacement, ...], tuple[Unplaced, ...]]:
    if plan is None or evaluation is None:
        return (), ()
    from elastico_opt.reasons import explain_unplaced

    nodes = {node.name: node for node in snapshot.nodes}
    placements = []
    for job in snapshot.jobs:
        if job.name in plan:
            assignment, worth = plan[job.name], evaluation.jobs[job.name]
            tasks = tuple(
                TaskPlace(t.node, tuple(device_label(nodes[t.node], gpu) for gpu in t.gpus))
                for t in assignment.tasks
            )
            placements.append(JobPlacement(
                job.name, assignment.profile, tasks, worth.throughput, worth.slowdown, worth.value
            ))  # fmt: skip
    return tuple(placements), tuple(explain_unplaced(snapshot, plan))


def _prices(outcome: Outcome | None) -> tuple[ResourcePrice, ...]:
    return tuple(
        ResourcePrice(p.pool, p.resource, float(p.price) + 0.0, p.unit, p.origin)
        for p in (outcome.prices if outcome else ()) if math.isfinite(p.price)
    )  # fmt: skip


def _provenance(snapshot: Snapshot, options: dict[str, Any], limits: Limits) -> dict[str, Any]:
    import platform

    from elastico_opt import __version__
    from elastico_opt.reading import snapshot_hash

    return {
        "elastico_opt": __version__,
        "python": platform.python_version(),
        "libraries": _library_versions(),
        "options": options,
        "seed": limits.seed,
        "threads": limits.threads,
        "snapshot": snapshot.name,
        "policy": {"objective": snapshot.policy.objective, "coupling": snapshot.policy.coupling},
        "snapshot_hash": f"sha256:{snapshot_hash(snapshot)}",
    }


_LIBRARIES = ("highspy", "ortools", "pyomo", "numpy", "scipy", "numba")


def _library_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _start_plan(
    snapshot: Snapshot, start: Plan | Result | None, warnings: list[str]
) -> Plan | None:
    """Return the usable part of a start plan, naming what was left out."""
    plan = start if isinstance(start, Plan) else getattr(start, "plan", None)
    if plan is None:
        return None
    nodes = {node.name: {gpu.id for gpu in node.devices()} for node in snapshot.nodes}
    jobs = {job.name: {profile.name for profile in job.profiles} for job in snapshot.jobs}
    kept, dropped = {}, []
    for name, assignment in plan.items():
        gone = _gone(name, assignment, nodes, jobs)
        if gone:
            dropped.append(f"job '{name}' ({gone})")
        else:
            kept[name] = assignment
    if dropped:
        more = f" and {len(dropped) - 3} more" if len(dropped) > 3 else ""
        warnings.append(f"start plan: left out {', '.join(dropped[:3])}{more}")
    return Plan(kept)


def keep_start(
    snapshot: Snapshot, certificate: Certificate, outcome: Outcome, start: Plan | None, solver: str
) -> Certificate:
    """Hold on to a valid start plan when the solver has found nothing better.

    With several priorities, bounds of lower ones hold for the solver's own plan only, so they
    are dropped, and a plan of the solver is never exchanged.
    """
    tiers = len(certificate.tiers)
    if start is None or certificate.status in (Status.OPTIMAL, Status.ERROR):
        return certificate
    if certificate.plan is not None and tiers > 1:
        return certificate
    try:
        verify(snapshot, start)
    except VerificationError:
        return certificate
    objective = certificate.objective
    if objective is not None and evaluate(snapshot, start).objective <= objective:
        return certificate
    bounds = [*outcome.tier_bounds[:1], *[None] * (tiers - 1)] if outcome.tier_bounds else []
    return certify(snapshot, replace(outcome, plan=start, tier_bounds=bounds), solver)


def _gone(
    name: str, assignment: Any, nodes: dict[str, set[str]], jobs: dict[str, set[str]]
) -> str | None:
    if name not in jobs:
        return "no such job"
    if assignment.profile not in jobs[name]:
        return f"no profile '{assignment.profile}'"
    for task in assignment.tasks:
        if task.node not in nodes:
            return f"no node '{task.node}'"
        if missing := [gpu for gpu in task.gpus if gpu not in nodes[task.node]]:
            return f"node '{task.node}' has no GPU '{missing[0]}'"
    return None


__all__ = ["AUTO", "FORMULATIONS", "Tier", "VerificationError", "choose", "solve"]
