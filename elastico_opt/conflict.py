"""Why no plan exists: a smallest set of jobs that must be placed and exclude each other.

Jobs that may stay out play no part: leaving them out never hurts the others. So a conflict is a
set of jobs that must be placed, and it is minimal when without any one of them the rest can be.
Feasibility is shown by a plan that passes `verify`; infeasibility is an exact solver's proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from elastico_opt.certify import must_stay
from elastico_opt.errors import UnsupportedError, VerificationError
from elastico_opt.plan import Plan, eligible
from elastico_opt.reasons import STATIC, explain_unplaced
from elastico_opt.reasons.wording import listed
from elastico_opt.result import Infeasibility
from elastico_opt.snapshot import Policy
from elastico_opt.solvers.base import Stop
from elastico_opt.verification import verify

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Snapshot
    from elastico_opt.solvers.base import Limits, Solver


class _Unknown(Exception):
    """A feasibility question that was not settled, and why."""


def find_conflict(snapshot: Snapshot, solver: Solver, limits: Limits) -> Infeasibility:
    """Return a minimal conflict of an infeasible snapshot.

    Parameters
    ----------
    solver : Solver
        An exact one; it is asked whether sets of jobs can all be placed.
    limits : Limits
        When they end the search, the smallest infeasible set so far is returned, with
        ``minimal`` False.

    Raises
    ------
    VerificationError
        When the snapshot is feasible after all.
    """
    search = _Search(snapshot, solver, limits)
    try:
        return search.describe(search.minimal(), minimal=True)
    except _Unknown as unknown:
        return search.describe(search.smallest, minimal=False, because=str(unknown))


class _Search:
    """The deletion filter, with bisection: about (conflict size) × log2(jobs) solves."""

    def __init__(self, snapshot: Snapshot, solver: Solver, limits: Limits) -> None:
        self.snapshot, self.solver = snapshot, solver
        self.limits = replace(limits, gap=0.0)
        self.jobs = {job.name: job for job in snapshot.jobs if must_stay(job)}
        self.smallest: Sequence[str] = list(self.jobs)
        self.witnesses: list[Plan] = []

    def minimal(self) -> list[str]:
        """Return a minimal infeasible set.

        Each round looks for the shortest prefix of the candidates that, with the members found
        so far, is infeasible: its last job is a member.
        """
        if alone := self._hopeless():
            return [alone]
        members: list[str] = []
        candidates = list(self.jobs)
        if self._feasible(candidates):
            raise VerificationError([
                f"solver '{self.solver.name}' claims infeasibility and then places every job that "
                "must be placed"
            ])  # fmt: skip
        while not members or self._feasible(members):
            low, high = 0, len(candidates)  # members + candidates[:low] fits, [:high] does not
            while high - low > 1:
                middle = (low + high) // 2
                if self._feasible(members + candidates[:middle]):
                    low = middle
                else:
                    high = middle
            members.append(candidates[high - 1])
            candidates = candidates[: high - 1]
        for member in members:
            self._witness([name for name in members if name != member])
        return members

    def _hopeless(self) -> str | None:
        """Return a job that fits nowhere by itself, if one is seen without search."""
        for row in explain_unplaced(self._reduced(self.jobs), Plan({})):
            if row.reason in STATIC and not self._feasible([row.job]):
                return row.job
        return None

    def _feasible(self, names: Sequence[str]) -> bool:
        """Whether these jobs can all be placed.

        Raises
        ------
        _Unknown
            When the solver does not settle it.
        """
        if any(all(name in plan for name in names) for plan in self.witnesses):
            return True
        if stop := self.limits.reached():
            raise _Unknown("the time limit" if stop is Stop.TIME_LIMIT else "interrupted")
        from elastico_opt.program import compile_program

        reduced = self._reduced(names)
        try:
            outcome = self.solver.solve(compile_program(reduced), self.limits)
        except UnsupportedError as error:
            raise _Unknown(f"solver '{self.solver.name}' cannot tell: {error}") from None
        if outcome.plan is not None:
            verify(reduced, outcome.plan)
            self.witnesses.append(outcome.plan)
            return True
        if outcome.stop is Stop.INFEASIBLE:
            if len(names) < len(self.smallest):
                self.smallest = list(names)
            return False
        raise _Unknown(
            "the time limit" if outcome.stop is Stop.TIME_LIMIT else f"the solver: {outcome.stop}"
        )

    def _reduced(self, names: Iterable[str]) -> Snapshot:
        """Return the snapshot with these jobs only, worth nothing: any plan of it is optimal."""
        policy = Policy(
            max_slowdown=self.snapshot.policy.max_slowdown, interference_penalty=Fraction(0)
        )
        plain = {"weight": Fraction(0), "priority": 0}
        jobs = tuple(self.jobs[name].model_copy(update=plain) for name in names)
        return self.snapshot.model_copy(update={"jobs": jobs, "policy": policy})

    def _witness(self, names: Sequence[str]) -> Plan:
        """Return a plan of these jobs, checked here; raise if none was found."""
        plan = next(p for p in self.witnesses if all(n in p for n in names)) if names else Plan({})
        part = Plan({name: plan[name] for name in names})
        verify(self._reduced(names), part)
        return part

    # ---- words -------------------------------------------------------------------------

    def describe(self, names: Sequence[str], minimal: bool, because: str = "") -> Infeasibility:
        """Return the conflict in the user's words."""
        jobs = [self.jobs[name] for name in names]
        nodes = [
            node.name
            for node in self.snapshot.nodes
            if any(eligible(job, node) and (node.schedulable or job.current) for job in jobs)
        ]
        if minimal:
            message = f"{_must(jobs)}{self._cause(names)}"
        else:
            message = f"{_must(jobs)}. This set may not be minimal ({because})"
        if len(names) > 1 and len(nodes) < len(self.snapshot.nodes):
            message += f". They may use only {listed('node', nodes)}"
        return Infeasibility(tuple(names), tuple(nodes), message, minimal)

    def _cause(self, names: Sequence[str]) -> str:
        """Return what the last of the jobs lacks when the others are placed."""
        *others, last = names
        row = explain_unplaced(self._reduced(names), self._witness(others))[0]
        if not others:
            return f": {row.message}"
        rest = "the other can" if len(names) == 2 else f"any {len(others)} of them can"
        return f"; {rest}. With the others placed in one way, '{last}' is left: {row.message}"


def _must(jobs: Sequence[Job]) -> str:
    names = listed("job", [job.name for job in jobs])
    every = "cannot be" if len(jobs) == 1 else "cannot all be"
    if all(job.must_place for job in jobs):
        return f"{names} must be placed and {every}"
    if not any(job.must_place for job in jobs):
        return f"{names} run and may not be stopped, and {every} kept"
    return f"{names} must be placed (or run and may not be stopped) and {every}"
