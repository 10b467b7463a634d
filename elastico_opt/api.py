"""`solve`: from a snapshot to a checked result."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from elastico_opt.assemble import assemble
from elastico_opt.certify import Certificate, certify, must_stay
from elastico_opt.errors import InputError, UnsupportedError
from elastico_opt.plan import Plan
from elastico_opt.provenance import provenance
from elastico_opt.result import Infeasibility, Result, Status
from elastico_opt.solvers.base import Capability, Limits, Outcome, Stop
from elastico_opt.start import keep_start, usable_start
from elastico_opt.verification import evaluate

if TYPE_CHECKING:
    from elastico_opt.program import Program
    from elastico_opt.snapshot import Snapshot
    from elastico_opt.solvers.base import Listener, Solver

log = logging.getLogger(__name__)

#: What ``auto`` tries, in order: the first that is there and can express the snapshot.
AUTO = ("pattern", "highs", "cpsat")
#: Nonzeros of the joint form up to which ``auto`` lets it close what the pattern form leaves open.
SECOND_TRY = 200_000
FORMULATIONS = ("auto", "joint", "pattern", "priced")
#: Above this HiGHS and CP-SAT spend minutes on starting threads, or refuse.
MOST_THREADS = 256


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
    solver_options: Mapping[str, Any] | None = None,
) -> Result:
    """Plan a cluster and bound what any other plan could gain.

    Parameters
    ----------
    snapshot : Snapshot
    solver : str
        ``auto``, or a name from `elastico_opt.solvers.registry.solver_names`.
    formulation : str
        ``auto``, ``joint``, ``pattern`` or ``priced``; must be the one the solver works on.
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
    solver_options : dict, optional
        Options of the solver that is named, such as ``{"bound": "pattern"}`` for ``lagrangian``.

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
    if not hasattr(snapshot, "jobs"):
        kind = type(snapshot).__name__
        raise TypeError(f"solve takes a Snapshot, got {kind}: use read_snapshot or parse_snapshot")
    options = _check_options(solver, formulation, time_limit, gap, seed, threads)
    options |= {"solver_options": dict(solver_options)} if solver_options else {}
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
    candidates = choose(solver, formulation, solver_options or {})
    if not snapshot.jobs or not snapshot.nodes:
        return run.trivial()
    return run.solve(candidates, usable_start(snapshot, start, run.warnings), on_event)


def choose(solver: str, formulation: str, options: Mapping[str, Any] | None = None) -> list[Solver]:
    """Return the solvers to try, best first.

    Raises
    ------
    InputError
        For an unknown name or option, or a solver that works on another formulation.
    """
    from elastico_opt.solvers.registry import get_solver, solver_names

    if solver == "auto":
        if options:
            raise InputError("solver options need a solver by name: 'auto' may take any")
        order = (*AUTO, "lagrangian") if formulation == "priced" else AUTO
        fitting = [found for found in _loaded(order) if formulation in ("auto", found.formulation)]
        if not fitting:
            raise InputError(f"no solver is installed for the formulation '{formulation}'")
        return fitting
    chosen = get_solver(solver, **(options or {}))
    if formulation not in ("auto", chosen.formulation):
        others = [
            found.name for found in _loaded(solver_names()) if found.formulation == formulation
        ]
        hint = f", or a solver for it: {_listed(others)}" if others else ""
        raise InputError(
            f"solver '{solver}' works on the formulation '{chosen.formulation}', not "
            f"'{formulation}': leave the formulation at 'auto'{hint}"
        )
    if not chosen.available():
        raise InputError(f"solver '{solver}' needs a package that is not installed: use 'auto'")
    return [chosen]


def _loaded(names: Iterable[str]) -> list[Solver]:
    """Return the solvers among `names` that are registered and can run."""
    from elastico_opt.solvers.registry import get_solver, solver_names

    known = set(solver_names())
    found = []
    for name in names:
        try:
            solver = get_solver(name) if name in known else None
        except InputError as error:
            log.warning("%s", error)
            continue
        if solver is not None and solver.available():
            found.append(solver)
    return found


def _check_options(
    solver: str, formulation: str, time_limit: float | None, gap: float | None,
    seed: int, threads: int,
) -> dict[str, Any]:  # fmt: skip
    if formulation not in FORMULATIONS:
        raise InputError(f"formulation '{formulation}' is unknown: use {_listed(FORMULATIONS)}")
    check_limits(time_limit, gap, seed, threads)
    return {
        "solver": solver, "formulation": formulation, "time_limit": time_limit, "gap": gap,
    }  # fmt: skip


def check_limits(time_limit: object, gap: object, seed: object, threads: object) -> None:
    """Refuse limits that no solver could keep.

    Raises
    ------
    InputError
        Naming the limit.
    """
    if time_limit is not None and not _from_zero(time_limit):
        raise InputError(f"time_limit is a number of seconds of at least 0, got {time_limit}")
    if gap is not None and not _from_zero(gap):
        raise InputError(f"gap is a fraction of at least 0 (0.01 is one percent), got {gap}")
    if not isinstance(threads, Integral) or not 1 <= int(threads) <= MOST_THREADS:
        raise InputError(f"threads is a number from 1 to {MOST_THREADS}, got {threads}")
    if not isinstance(seed, Integral) or not 0 <= int(seed) < 2**31:
        raise InputError(f"seed is a whole number from 0 to 2^31 − 1, got {seed}")


def _from_zero(value: object) -> bool:
    return isinstance(value, Real) and 0 <= float(value) < math.inf


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


class _Clock:
    """Wall time by stage, in seconds."""

    def __init__(self, started: float | None = None) -> None:
        self.first = self.last = started or time.monotonic()
        self.stages: dict[str, float] = {}
        self.mark("read")

    def mark(self, stage: str) -> None:
        """Count the time since the last mark as spent on a stage."""
        now = time.monotonic()
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self.last
        self.last = now

    def timing(self) -> dict[str, float]:
        """Return seconds by stage, and in all."""
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
        if outcome.detail and (outcome.stop is Stop.ERROR or certificate.plan is None):
            self.warnings.append(f"solver '{solver.name}': {outcome.detail}")
        return self._result(
            certificate, solver.name, solver.formulation, outcome=outcome, conflict=conflict
        )

    def _ask(
        self, candidates: Sequence[Solver], program: Program, start: Plan | None,
        on_event: Listener | None,
    ) -> tuple[Solver, Outcome]:  # fmt: skip
        """Run the first candidate that can express the program.

        Where its form only bounds (it ended without a proof and without reaching a limit), the
        next one closes a snapshot that is small enough for it.
        """
        for i, solver in enumerate(candidates[:-1]):
            try:
                outcome = solver.solve(program, self.limits, start, on_event)
            except UnsupportedError as error:
                log.info("solver %s cannot express this snapshot: %s", solver.name, error)
                continue
            if outcome.stop is Stop.CONVERGED and _small(program):
                try:
                    rest = self._ask(candidates[i + 1 :], program, outcome.plan, on_event)
                except UnsupportedError:
                    return solver, outcome
                if rest[1].stop in (Stop.PROVED, Stop.INFEASIBLE):
                    return rest
            return solver, outcome
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
        found = assemble(self.snapshot, certificate, solver, formulation, outcome, conflict)
        self.clock.mark("explain")
        self._note_overrun()
        return replace(
            found,
            missing_pairs=self.missing_pairs,
            warnings=tuple(dict.fromkeys((*self.warnings, *found.warnings))),
            provenance=provenance(self.snapshot, self.options, self.limits),
            timing=self.clock.timing(),
        )

    def _note_overrun(self) -> None:
        """Own up to a time limit that was passed by more than a second and a tenth of it."""
        limit, over = self.options["time_limit"], time.monotonic() - self.limits.deadline
        if limit is not None and over > 1 + 0.1 * limit:
            stages = ", ".join(
                f"{name} {s:.1f} s" for name, s in self.clock.stages.items() if s > 0.1
            )
            self.warnings.append(f"took {limit + over:.1f} s, the limit was {limit:g} s ({stages})")


def _small(program: Program) -> bool:
    """Whether the joint form of a program is small enough to be worth a second try."""
    from elastico_opt.formulations.places import Places

    return Places(program).nonzeros() <= SECOND_TRY


__all__ = ["AUTO", "FORMULATIONS", "check_limits", "choose", "solve"]
