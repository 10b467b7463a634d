"""`Scheduler`: the warm epoch, called by another scheduler every few seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from elastico_opt.api import check_limits
from elastico_opt.assemble import assemble
from elastico_opt.certify import Certificate, certify
from elastico_opt.collector import paused_collector
from elastico_opt.errors import InputError
from elastico_opt.plan import Assignment, Plan, running_plan
from elastico_opt.solvers.base import Limits, Outcome, Price
from elastico_opt.transitions import Transition, transitions

if TYPE_CHECKING:
    from elastico_opt.result import Result
    from elastico_opt.snapshot import Job, Policy, Snapshot


@dataclass(frozen=True)
class Step:
    """One epoch: the checked plan and how to get there.

    Attributes
    ----------
    snapshot : Snapshot
        What was planned: as given, with the scheduler's policy and with what is taken to run.
    plan : Plan or None
        None when a job that must be placed found no place.
    objective, bound, gap : float or None
        As in `Result`.
    transitions : tuple of Transition
    prices : tuple of Price
    timing : dict
        Seconds by stage, and in all.
    """

    snapshot: Snapshot
    plan: Plan | None
    objective: float | None
    bound: float | None
    gap: float | None
    transitions: tuple[Transition, ...]
    prices: tuple[Price, ...]
    timing: Mapping[str, float]
    _certificate: Certificate = field(repr=False)
    _outcome: Outcome = field(repr=False)
    _solver: tuple[str, str] = field(repr=False)
    _options: tuple[Mapping[str, Any], Limits] = field(repr=False)
    _notes: tuple[int, tuple[str, ...]] = field(repr=False)

    @cached_property
    def result(self) -> Result:
        """The whole result: also a reason for every job that is not placed, and the provenance.

        Made when it is first asked for: reasons are derived from the snapshot by exact
        arithmetic, which takes longer than the epoch.
        """
        from dataclasses import replace

        from elastico_opt.provenance import provenance

        found = assemble(self.snapshot, self._certificate, *self._solver, self._outcome)
        return replace(
            found,
            provenance=provenance(self.snapshot, *self._options),
            timing=dict(self.timing),
            missing_pairs=self._notes[0],
            warnings=(*self._notes[1], *found.warnings),
        )


class Scheduler:
    """Plans one snapshot after the other and keeps what it learned.

    Prices, the plan and the values of pairs of jobs carry over; only jobs and nodes that are new
    objects are compiled. Running jobs keep their places unless a change gains more than it costs.

    Parameters
    ----------
    policy : Policy, optional
        Used in place of the policy of each snapshot.
    time_limit : float, optional
        Seconds for each step.
    seed, threads : int
        For the solver.
    adopt : bool
        Whether a job that the last plan placed, and that the snapshot does not say runs, is taken
        to run where the plan put it. Set it to False if you fill in `Job.current` yourself.
    options
        Further options of the priced solver; see
        `elastico_opt.solvers.lagrangian.LagrangianSolver`.

    Examples
    --------
    >>> import elastico_opt as eo
    >>> scheduler = eo.Scheduler(policy=eo.Policy(migration_cost="0.1"))
    >>> step = scheduler.step(eo.generate("lucidlike", jobs=6, gpus=2))
    >>> sorted({str(t.change) for t in step.transitions})
    ['start']
    >>> scheduler.step(step.snapshot).transitions
    ()
    """

    def __init__(
        self,
        policy: Policy | None = None,
        time_limit: float | None = None,
        seed: int = 0,
        threads: int = 1,
        adopt: bool = True,
        **options: Any,
    ) -> None:
        from elastico_opt.program.compile import Compiler
        from elastico_opt.solvers.registry import get_solver

        if policy is not None and not hasattr(policy, "migration_cost"):
            raise InputError(f"policy is a Policy, got {type(policy).__name__}")
        check_limits(time_limit, None, seed, threads)
        if time_limit == 0:
            raise InputError("time_limit is a number of seconds above 0, got 0")
        self.policy, self.time_limit, self.adopt = policy, time_limit, adopt
        self.seed, self.threads = seed, threads
        self._options = options
        self._compiler = Compiler()
        self._solver = get_solver("lagrangian", **options)
        self._plan = Plan({})
        self._adopted: dict[str, tuple[Job, Assignment, Job]] = {}

    def step(self, snapshot: Snapshot) -> Step:
        """Plan a snapshot, starting from the last step.

        Raises
        ------
        InputError
            For a snapshot that cannot be compiled; the scheduler stays as it was.
        VerificationError
            When the plan does not hold (a bug).
        """
        if not hasattr(snapshot, "jobs"):
            raise TypeError(f"step takes a Snapshot, got {type(snapshot).__name__}")
        with paused_collector():  # walking all jobs would take as long as planning them
            return self._step(snapshot)

    def _step(self, snapshot: Snapshot) -> Step:
        marks = [time.monotonic()]
        limit = math.inf if self.time_limit is None else marks[0] + self.time_limit
        limits = Limits(deadline=limit, seed=self.seed, threads=self.threads)
        snapshot = self._as_running(snapshot)
        program = self._compiler.compile(snapshot)
        marks.append(time.monotonic())
        start = Plan({**self._plan, **running_plan(snapshot)})
        outcome = self._solver.solve(program, limits, start)
        marks.append(time.monotonic())
        certificate = certify(snapshot, outcome, "the priced solver")
        plan = certificate.plan
        changes = () if plan is None else transitions(snapshot, plan)
        marks.append(time.monotonic())
        if plan is not None:
            self._plan = plan
        stages = dict(zip(("compile", "solve", "check"), _differences(marks), strict=True))
        return Step(
            snapshot=snapshot,
            plan=plan,
            objective=certificate.objective,
            bound=certificate.bound,
            gap=certificate.gap,
            transitions=changes,
            prices=tuple(outcome.prices),
            timing={**stages, "total": round(marks[-1] - marks[0], 6)},
            _certificate=certificate,
            _outcome=outcome,
            _solver=(self._solver.name, self._solver.formulation),
            _options=({"solver": self._solver.name, **self._options}, limits),
            _notes=(program.missing_pairs, program.warnings),
        )

    def _as_running(self, snapshot: Snapshot) -> Snapshot:
        """Put the scheduler's policy in, and the last plan where nothing else is known to run."""
        changes: dict[str, Any] = {}
        if self.policy is not None and snapshot.policy != self.policy:
            changes["policy"] = self.policy
        if self.adopt:
            jobs = self._adopt(snapshot)
            if any(one is not other for one, other in zip(jobs, snapshot.jobs, strict=True)):
                changes["jobs"] = jobs
        # Not `replace`: every part has been validated, and validating again takes milliseconds.
        return snapshot.model_copy(update=changes) if changes else snapshot

    def _adopt(self, snapshot: Snapshot) -> tuple[Job, ...]:
        """Return the jobs, those of the last plan as running; the same object while it stays."""
        found: dict[str, tuple[Job, Assignment, Job]] = {}
        jobs = []
        for job in snapshot.jobs:
            held = self._plan.get(job.name)
            if held is not None and job.current is None:
                known = self._adopted.get(job.name)
                if known is None or known[0] is not job or known[1] != held:
                    known = (job, held, _running(job, held))
                found[job.name] = known
                job = known[2]
            jobs.append(job)
        self._adopted = found
        return tuple(jobs)


def _running(job: Job, held: Assignment) -> Job:
    from elastico_opt.snapshot import Current, PlacedTask

    tasks = tuple(PlacedTask.model_construct(node=t.node, gpus=t.gpus) for t in held.tasks)
    current = Current.model_construct(profile=held.profile, tasks=tasks)
    return job.model_copy(update={"current": current})


def _differences(marks: list[float]) -> list[float]:
    return [round(b - a, 6) for a, b in pairwise(marks)]
