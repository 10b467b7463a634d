"""The independent check of a plan: whether it is feasible, and what it is worth.

Everything is read from the snapshot in exact rational arithmetic. This module imports nothing
from the formulations or the solvers, and shares no coefficient with them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from elastico_opt.errors import VerificationError
from elastico_opt.plan import Assignment, Plan, current_assignment, device_ids, eligible
from elastico_opt.snapshot import Gpu, Job, Node, Profile, Snapshot, Task

Device = tuple[str, str]
Resident = tuple[Job, Profile, Task]

_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True, slots=True)
class _Placed:
    """An assignment that names a job and a profile of it, with the profile's tasks one by one."""

    job: Job
    profile: Profile
    tasks: tuple[Task, ...]
    devices: frozenset[Device]
    moved: bool  # True, too, when the job does not run yet
    home: Assignment | None


@dataclass(frozen=True, slots=True)
class JobValue:
    """What one job contributes to the objective.

    Attributes
    ----------
    value : float
        The job's share of the objective, costs included.
    throughput : float
        ``T / slowdown``, in the job's own unit per second; 0 when not placed.
    slowdown : float
        The largest over the job's devices; 1 when alone, 0 when not placed.
    terms : dict
        ``throughput``, ``interference``, ``switching``, ``migration``, ``eviction``, summing to
        ``value`` up to rounding.
    """

    value: float
    throughput: float
    slowdown: float
    terms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The value of a plan: in all, by term, by priority tier and by job."""

    objective: float
    terms: Mapping[str, float]
    tiers: Mapping[int, float]
    jobs: Mapping[str, JobValue]


#: Relative error granted to figures that were printed and read back; and to a bound.
_ROUNDING, _CLOSE = 1e-9, 1e-6
TERMS = ("throughput", "interference", "switching", "migration", "eviction")


def verify(snapshot: Snapshot, plan: object) -> None:
    """Check a plan against the snapshot, exactly; of a result its claims as well.

    Raises
    ------
    VerificationError
        With every violation, one line each.
    """
    checker = _Checker(snapshot, _plan_of(plan))
    if violations := list(checker.violations()) or _false_claims(plan, checker):
        raise VerificationError(violations)


def evaluate(snapshot: Snapshot, plan: object) -> Evaluation:
    """Value a plan from the snapshot alone.

    Each term of each job is an exact rational, rounded once; sums are correctly rounded.
    """
    return _Checker(snapshot, _plan_of(plan)).evaluation()


def check(snapshot: Snapshot, plan: object) -> Evaluation:
    """Verify a plan, then value it: both in one go, which is faster than one after the other.

    Raises
    ------
    VerificationError
        With every violation, one line each.
    """
    checker = _Checker(snapshot, _plan_of(plan))
    if violations := list(checker.violations()):
        raise VerificationError(violations)
    return checker.evaluation()


def _false_claims(result: object, checker: _Checker) -> list[str]:
    """Name the figures of a result that its own plan does not bear out."""
    placements = getattr(result, "placements", None)
    if placements is None:
        return []
    values, claims = checker.evaluation(), []
    names = Counter(placement.job for placement in placements)
    claims += [f"job '{name}' is placed {n} times" for name, n in names.items() if n > 1]
    stated = [("objective", getattr(result, "objective", None), values.objective)]
    for placement in placements:
        true = values.jobs[placement.job]
        where = f"job '{placement.job}': "
        stated += [
            (where + "value", placement.value, true.value),
            (where + "throughput", placement.throughput, true.throughput),
            (where + "slowdown", placement.slowdown, true.slowdown),
        ]
    for what, claimed, true_value in stated:
        if claimed is None or abs(claimed - true_value) > _ROUNDING * max(1.0, abs(true_value)):
            claims.append(f"{what} is {true_value:.12g}, claimed is {claimed}")
    bound = getattr(result, "bound", None)
    if bound is not None and bound < values.objective - _CLOSE * max(1.0, abs(values.objective)):
        claims.append(f"bound {bound} is below the objective {values.objective:.12g}")
    return claims


def _plan_of(plan: object) -> Plan:
    """Return a plan, or the plan of a result; anything else must not pass for an empty plan."""
    found = plan if isinstance(plan, Plan) else getattr(plan, "plan", plan)
    if found is None:
        raise VerificationError(["there is no plan to check: the result holds none"])
    if not isinstance(found, Plan):
        raise TypeError(f"expected a Plan or a Result, got {type(plan).__name__}")
    return found


class SlowdownTable:
    """Pair slowdowns by workload, exact; `lookup` is symmetric as the contract says."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._known = snapshot.interference is not None
        self._pairs = snapshot.interference.pairs if snapshot.interference else {}
        self._default = snapshot.interference.default if snapshot.interference else Fraction(1)

    def lookup(self, victim: str, other: str) -> Fraction | None:
        """Return the slowdown `victim` suffers beside `other`; None = never together."""
        if not self._known:
            return _ONE
        return self._pairs.get((victim, other), self._default)


def workload_key(job: Job, profile: Profile) -> str:
    """Return the key of a profile in the interference table."""
    return profile.workload if profile.workload is not None else f"{job.name}/{profile.name}"


def slowdown_limit(snapshot: Snapshot, job: Job) -> Fraction | None:
    """Return the largest slowdown a job tolerates (τ), None for any."""
    limits = [x for x in (job.max_slowdown, snapshot.policy.max_slowdown) if x is not None]
    return min(limits) if limits else None


class _Checker:
    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.plan = plan
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.jobs = {job.name: job for job in snapshot.jobs}
        self.table = SlowdownTable(snapshot)
        self.gpus: dict[Device, tuple[Node, Gpu]] = {
            (node.name, gpu.id): (node, gpu) for node in snapshot.nodes for gpu in node.devices()
        }
        self.placed = {
            name: found
            for name, assignment in plan.items()
            if (found := self._find(name, assignment)) is not None
        }
        self.residents: dict[Device, list[Resident]] = defaultdict(list)
        self.host_load: dict[str, dict[str, Fraction]] = defaultdict(dict)
        self.slowdowns: dict[str, Fraction | None] = {}
        for name, placed in self.placed.items():
            for task, place in zip(placed.tasks, plan[name].tasks, strict=False):
                for gpu in place.gpus:
                    self.residents[place.node, gpu].append((placed.job, placed.profile, task))
                _add(self.host_load[place.node], task.host)

    def _find(self, name: str, assignment: Assignment) -> _Placed | None:
        job = self.jobs.get(name)
        for profile in job.profiles if job is not None else ():
            if job is not None and profile.name == assignment.profile:
                home = current_assignment(job.current, self.nodes) if job.current else None
                moved = home is None or home.places() != assignment.places()
                devices = assignment.devices()
                return _Placed(job, profile, _expand(profile), devices, moved, home)
        return None

    # ---- feasibility -------------------------------------------------------------------

    def violations(self) -> Iterator[str]:
        for name, assignment in self.plan.items():
            yield from self._check_assignment(name, assignment)
        for job in self.snapshot.jobs:
            if job.name not in self.plan:
                if job.must_place:
                    yield f"job '{job.name}' must be placed and is not"
                elif job.current is not None and not job.preemptible:
                    yield f"job '{job.name}' is running, not preemptible, and not placed"
        for device, residents in self.residents.items():
            if device in self.gpus:
                yield from self._check_device(device, residents)
        for name, load in self.host_load.items():
            if name in self.nodes:
                yield from _over(f"node '{name}'", load, self.nodes[name].host)

    def _check_assignment(self, name: str, assignment: Assignment) -> Iterator[str]:
        if name not in self.jobs:
            yield f"no job '{name}' in the snapshot"
            return
        if name not in self.placed:
            yield f"job '{name}' has no profile '{assignment.profile}'"
            return
        tasks = self.placed[name].tasks
        if len(tasks) != len(assignment.tasks):
            given = len(assignment.tasks)
            yield f"job '{name}': {given} tasks placed, its profile has {len(tasks)}"
            return
        held = [(t.node, gpu) for t in assignment.tasks for gpu in t.gpus]
        if len(set(held)) < len(held):
            yield f"job '{name}' takes one device twice"
        for task, place in zip(tasks, assignment.tasks, strict=True):
            if place.node not in self.nodes:
                yield f"job '{name}': no node '{place.node}' in the snapshot"
            elif len(place.gpus) != task.gpus:
                yield f"job '{name}': a task takes {len(place.gpus)} GPUs, it needs {task.gpus}"
            elif missing := [gpu for gpu in place.gpus if (place.node, gpu) not in self.gpus]:
                yield f"job '{name}': node '{place.node}' has no GPU '{missing[0]}'"
        yield from self._check_rules(self.placed[name], assignment)

    def _check_rules(self, placed: _Placed, assignment: Assignment) -> Iterator[str]:
        job, profile, home = placed.job, placed.profile, placed.home
        if home is not None and placed.moved and not job.movable:
            yield f"job '{job.name}' is not movable and moved"
        home_nodes = (
            {(t.node, gpu) for t in home.tasks for gpu in t.gpus or ("",)} if home else set()
        )
        for place in assignment.tasks:
            node = self.nodes.get(place.node)
            if node is None:
                continue
            stays = all((place.node, gpu) in home_nodes for gpu in place.gpus or ("",))
            if not eligible(job, node):
                yield f"job '{job.name}' is not eligible for node '{node.name}'"
            if not node.schedulable and not stays:
                yield f"job '{job.name}' starts on node '{node.name}', which is cordoned"
        types = {self._type(device) for device in placed.devices if device in self.gpus}
        if len(types) > 1:
            yield f"job '{job.name}' mixes GPU types {sorted(types)}"
        rate = profile.rate(min(types, default=None))
        if rate == 0:
            where = sorted(types) or "CPU"
            yield f"job '{job.name}': profile '{profile.name}' cannot run on {where}"
        if job.min_throughput is not None and rate < job.min_throughput:
            yield f"job '{job.name}': profile '{profile.name}' is below the throughput floor"
        limit = slowdown_limit(self.snapshot, job)
        slowdown = self._slowdown(placed)
        if slowdown is None or (limit is not None and slowdown > limit):
            shown = "infinite" if slowdown is None else f"{float(slowdown):.6g}"
            yield f"job '{job.name}': slowdown {shown} exceeds its limit {limit and float(limit)}"

    def _check_device(self, device: Device, residents: list[Resident]) -> Iterator[str]:
        where = f"GPU '{device[1]}' of node '{device[0]}'"
        gpu = self.gpus[device][1]
        gpu_type = self.snapshot.gpu_types[self._type(device)]
        load: dict[str, Fraction] = {}
        for _, _, task in residents:
            _add(load, task.gpu)
        yield from _over(where, load, {**gpu_type.capacity, **(gpu.capacity or {})})
        if gpu_type.max_residents is not None and len(residents) > gpu_type.max_residents:
            yield f"{where}: {len(residents)} residents, at most {gpu_type.max_residents}"
        if len(residents) > 1 and any(task.exclusive for _, _, task in residents):
            yield f"{where}: an exclusive task is not alone"

    def _type(self, device: Device) -> str:
        node, gpu = self.gpus[device]
        return gpu.type or node.gpu_type or ""

    def _slowdown(self, placed: _Placed) -> Fraction | None:
        """Return the largest slowdown over the job's devices; None when infinite."""
        name = placed.job.name
        if name not in self.slowdowns:
            self.slowdowns[name] = self._worst(placed.job, placed.devices)
        return self.slowdowns[name]

    def _worst(self, job: Job, devices: frozenset[Device]) -> Fraction | None:
        worst = _ONE
        for device in devices:
            here = self.residents[device]
            if len(here) < 2:
                continue
            mine = next((profile for other, profile, _ in here if other.name == job.name), None)
            if mine is None:
                continue
            total = _ONE
            for other, profile, _ in here:
                if other.name == job.name:
                    continue
                pair = self.table.lookup(workload_key(job, mine), workload_key(other, profile))
                if pair is None:
                    return None
                if pair != 1:
                    total += pair - 1
            worst = max(worst, total)
        return worst

    # ---- value -------------------------------------------------------------------------

    def evaluation(self) -> Evaluation:
        jobs = {job.name: self._job_value(job) for job in self.snapshot.jobs}
        tiers: dict[int, list[float]] = defaultdict(list)
        for job in self.snapshot.jobs:
            tiers[job.priority].append(jobs[job.name].value)
        return Evaluation(
            objective=math.fsum(value.value for value in jobs.values()),
            terms={t: math.fsum(value.terms[t] for value in jobs.values()) for t in TERMS},
            tiers={p: math.fsum(values) for p, values in sorted(tiers.items(), reverse=True)},
            jobs=jobs,
        )

    def _job_value(self, job: Job) -> JobValue:
        policy = self.snapshot.policy
        assignment = self.plan.get(job.name)
        if assignment is None:
            evicted = job.weight * policy.eviction_cost if job.current else _ZERO
            return _job_value({"eviction": -evicted}, _ZERO, _ZERO)
        placed = self.placed[job.name]
        types = {self._type(device) for device in placed.devices}
        rate = placed.profile.rate(min(types, default=None))
        slowdown = self._slowdown(placed) or _ONE
        reward = job.weight * rate
        if policy.objective == "normalised":
            reward /= job.top_rate
        terms = {"throughput": reward}
        if slowdown != 1:
            if policy.coupling == "penalty":
                loss = job.weight * policy.interference_penalty * (slowdown - 1)
            else:
                loss = reward - reward / slowdown
            terms["interference"] = -loss
            rate /= slowdown
        if placed.home is not None:
            if placed.home.profile != assignment.profile:
                terms["switching"] = -job.weight * policy.switch_cost
            if placed.moved:
                terms["migration"] = -job.weight * policy.migration_cost
        return _job_value(terms, rate, slowdown)


def _job_value(terms: Mapping[str, Fraction], rate: Fraction, slowdown: Fraction) -> JobValue:
    rounded = {term: float(terms[term]) + 0.0 if term in terms else 0.0 for term in TERMS}
    value = rounded[next(iter(terms))] if len(terms) == 1 else float(sum(terms.values(), _ZERO))
    return JobValue(value, float(rate), float(slowdown), rounded)


def _expand(profile: Profile) -> tuple[Task, ...]:
    return tuple(task for task in profile.task_list() for _ in range(task.count))


def _add(load: dict[str, Fraction], demand: Mapping[str, Fraction]) -> None:
    for resource, amount in demand.items():
        load[resource] = load[resource] + amount if resource in load else amount


def _over(
    where: str, load: Mapping[str, Fraction], capacity: Mapping[str, Fraction]
) -> Iterator[str]:
    for resource, amount in load.items():
        room = capacity.get(resource, _ZERO)
        if amount > room:
            yield f"{where}: {resource} {_number(amount)} used, capacity {_number(room)}"


def _number(amount: Fraction) -> str:
    return str(amount) if amount.denominator == 1 else f"{float(amount):.12g}"


__all__ = [
    "Evaluation",
    "JobValue",
    "SlowdownTable",
    "check",
    "device_ids",
    "evaluate",
    "slowdown_limit",
    "verify",
    "workload_key",
]
