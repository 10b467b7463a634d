"""Why a job is not placed: a stable code, one line, and the numbers behind it.

Everything is computed from the snapshot and the plan, in exact arithmetic. Codes:

``no_nodes``
    The snapshot has no nodes.
``ineligible``
    No node matches the job's selector or its list of nodes.
``cordoned``
    It fits, but only on nodes where nothing may start.
``cannot_run``
    No profile has a throughput (or reaches the job's floor) on the GPUs it may use.
``never_fits``
    It does not fit even when nothing else is placed.
``short_of_<resource>``
    It fits the empty cluster; under this plan a GPU or host resource (or ``gpus``, whole free
    GPUs) is short.
``residents``, ``exclusive``, ``interference``
    The GPUs it would fit on are full by their number of jobs, held by exclusive tasks, or held by
    jobs whose slowdowns exclude each other.
``gang_partial``
    Some of its tasks fit under this plan, not all.
``immovable``
    It runs, may not move, and no profile of it fits just where it is.
``outbid``
    It fits, and placing it would cost at least as much as it brings.
``not_tried``
    It fits and would add to the objective: the solve ended before an optimum was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elastico_opt.plan import Assignment, Plan, current_assignment, eligible
from elastico_opt.reasons.cluster import Cluster, State
from elastico_opt.reasons.fit import Attempt, attempt
from elastico_opt.reasons.gain import describe_gain
from elastico_opt.reasons.options import Allowed, Group, Option
from elastico_opt.reasons.wording import describe_attempt, listed
from elastico_opt.result import Unplaced
from elastico_opt.verification import slowdown_limit, workload_key

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Profile, Snapshot, Task

#: Codes that hold whatever else is placed.
STATIC = frozenset({"no_nodes", "ineligible", "cordoned", "cannot_run", "never_fits"})

Finding = tuple[str, str, dict[str, Any]]
_IMMOVABLE: Finding = (
    "immovable", "it may not move, and no profile of it fits just where it runs now", {}
)  # fmt: skip


def explain_unplaced(snapshot: Snapshot, plan: Plan) -> list[Unplaced]:
    """Return one row per job that the plan does not place, in the snapshot's order.

    Parameters
    ----------
    snapshot : Snapshot
    plan : Plan
        A plan that passes `verify`.
    """
    jobs = [job for job in snapshot.jobs if job.name not in plan]
    if not jobs:
        return []
    if not snapshot.nodes:
        return [Unplaced(job.name, "no_nodes", "the snapshot has no nodes") for job in jobs]
    explainer = _Explainer(snapshot, plan)
    return [Unplaced(job.name, *explainer.explain(job)) for job in jobs]


class _Explainer:
    """Answers for one snapshot and plan; equal jobs share an answer."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.snapshot, self.plan = snapshot, plan
        self.cluster = Cluster(snapshot, plan)
        self._eligible: dict[Any, Any] = {}
        self._findings: dict[Any, Finding | Attempt] = {}
        self._gains: dict[Any, Finding] = {}
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._schedulable = np.array([node.schedulable for node in snapshot.nodes], dtype=bool)

    def explain(self, job: Job) -> Finding:
        key = self._key(job)
        found = self._findings.get(key)
        if found is None:
            found = self._findings[key] = self._find(job)
        if not isinstance(found, Attempt):
            return found
        assignment = found.assignment(self.cluster)
        home = self._home(job)
        if home is not None and not job.movable and assignment.places() != home.places():
            return _IMMOVABLE
        worth = key, job.weight, job.priority
        if worth not in self._gains:
            self._gains[worth] = describe_gain(self.cluster, self.plan, job, assignment)
        return self._gains[worth]

    def _key(self, job: Job) -> Any:
        """Return what the answer depends on, besides the weight."""
        shapes = tuple(_shape(profile, self.cluster.tasks(profile)) for profile in job.profiles)
        workloads: Any = ()
        if self.snapshot.interference is not None:
            keys = tuple(workload_key(job, profile) for profile in job.profiles)
            workloads = (keys, slowdown_limit(self.snapshot, job))
        home = job.name if job.current is not None else None
        return _rule(job), shapes, job.min_throughput, workloads, home

    # ---- the search for a reason -------------------------------------------------------

    def _find(self, job: Job) -> Finding | Attempt:
        matching = self._matching(job)
        if not matching.any():
            return "ineligible", _ineligible(job), {}
        allowed, with_cordoned = self._allowed(job, matching)
        options = list(self._options(job, allowed))
        if not options:
            if job.current is not None and not job.movable:
                return _IMMOVABLE
            if allowed.nodes.any():
                return self._no_option(job, allowed, with_cordoned)
            names = [self.snapshot.nodes[n].name for n in np.flatnonzero(matching)]
            return "cordoned", f"{listed('node', names)} may start nothing (cordoned)", {
                "nodes": names
            }  # fmt: skip
        alone = [self._alone(option, allowed) for option in options]
        possible = [o for o, a in zip(options, alone, strict=True) if a.shortage is None]
        if possible:
            now = [self._attempt(self.cluster.now, option, allowed) for option in possible]
            best = min(now, key=lambda a: a.distance)
            if best.shortage is None:
                return best
        if cordoned := self._on_cordoned(job, allowed, with_cordoned, bool(possible)):
            return cordoned
        if not possible:
            best = min(alone, key=lambda a: a.distance)
            return describe_attempt(self.cluster, best, never=True)
        return describe_attempt(self.cluster, best, never=False)

    def _alone(self, option: Option, allowed: Allowed) -> Attempt:
        """Try an option on the empty cluster; a shortage is a proof that it never fits.

        Of unlike tasks, a failure counts only if equal ones among them fail by themselves.
        """
        option = replace(option, groups=_merged(option.groups))
        found = self._attempt(self.cluster.empty, option, allowed)
        if found.shortage is None or len(option.groups) == 1:
            return found
        for group in option.groups:
            single = replace(option, groups=(group,))
            part = self._attempt(self.cluster.empty, single, allowed)
            if part.shortage is not None:
                return part
        return Attempt(option, 0, (), None)

    def _attempt(self, state: State, option: Option, allowed: Allowed) -> Attempt:
        slowdowns = self.cluster.slowdowns
        refused = slowdowns.refused(option.job, option.profile)
        harm = slowdowns.harm(option.job, option.profile)
        return attempt(self.cluster, state, option, allowed, refused, harm)

    def _on_cordoned(
        self, job: Job, allowed: Allowed, with_cordoned: Allowed, possible: bool
    ) -> Finding | None:
        """Return the finding that the job would fit where nothing may start."""
        if (with_cordoned.nodes == allowed.nodes).all():
            return None
        state = self.cluster.now if possible else self.cluster.empty
        for option in self._options(job, with_cordoned):
            found = self._attempt(state, option, with_cordoned)
            if found.shortage is None:
                nodes = dict.fromkeys(self.snapshot.nodes[n].name for n, _ in found.devices)
                names = [n for n in nodes if not allowed.nodes[self.cluster.node_index[n]]]
                if names:
                    message = f"it fits only on {listed('node', names)} (cordoned)"
                    return "cordoned", message, {"nodes": names}
        return None

    def _no_option(self, job: Job, allowed: Allowed, with_cordoned: Allowed) -> Finding:
        """Say why no profile can run on the GPUs that the job may use."""
        types = np.unique(self.cluster.device_type[allowed.devices])
        if any(True for _ in self._options(job, with_cordoned)):
            barred = with_cordoned.nodes & ~allowed.nodes  # a home may be open, its GPUs not
            barred[self.cluster.device_node[with_cordoned.devices & ~allowed.devices]] = True
            names = [self.snapshot.nodes[n].name for n in np.flatnonzero(barred)]
            return "cordoned", f"it can run only on cordoned nodes, such as {names[0]!r}", {
                "nodes": names
            }  # fmt: skip
        if not len(types) and all(profile.workers() for profile in job.profiles):
            need = min(max(t.gpus for t in p.task_list()) for p in job.profiles)
            message = f"it needs {need} GPU{'s' * (need > 1)} on a node; its nodes have none"
            return "never_fits", message, {
                "resource": "gpus", "of": "cluster", "needs": need, "largest_free": 0,
                "total_free": 0, "short_by": need,
            }  # fmt: skip
        return _cannot_run(job, [self.cluster.types[k] for k in types])

    # ---- what the job may use ----------------------------------------------------------

    def _home(self, job: Job) -> Assignment | None:
        """Return what a running job holds."""
        if job.current is None:
            return None
        return current_assignment(job.current, self._nodes)

    def _matching(self, job: Job) -> Any:
        rule = _rule(job)
        if rule not in self._eligible:
            self._eligible[rule] = np.array(
                [eligible(job, node) for node in self.snapshot.nodes], dtype=bool
            )
        return self._eligible[rule]

    def _allowed(self, job: Job, matching: Any) -> tuple[Allowed, Allowed]:
        """Return where the job may go (its home, open nodes if it may move), and with cordons."""
        cluster = self.cluster
        home_devices = np.zeros(cluster.n_devices, dtype=bool)
        home_nodes = np.zeros(cluster.n_nodes, dtype=bool)
        home = self._home(job)
        if home is not None:
            for task in home.tasks:
                for gpu in task.gpus:
                    if (task.node, gpu) in cluster.index:
                        home_devices[cluster.index[task.node, gpu]] = True
                if not task.gpus and task.node in cluster.node_index:
                    home_nodes[cluster.node_index[task.node]] = True
        found = []
        for open_nodes in (matching & self._schedulable, matching):
            if not job.movable and home is not None:
                open_nodes = np.zeros_like(matching)
            devices = (open_nodes | False)[cluster.device_node] | (
                home_devices & matching[cluster.device_node]
            )
            nodes_ok = open_nodes | (home_nodes & matching)
            found.append(Allowed(devices, nodes_ok))
        return found[0], found[1]

    def _options(self, job: Job, allowed: Allowed) -> Iterator[Option]:
        """Yield each profile with each GPU type on which it may and can run."""
        cluster = self.cluster
        types = [int(k) for k in np.unique(cluster.device_type[allowed.devices])]
        home = None if job.movable else self._home(job)
        for profile in job.profiles:
            workers = profile.workers()
            if not workers and not allowed.nodes.any():
                continue
            if home is not None and not _same_size(profile, home):
                continue
            groups = tuple(
                Group(
                    task,
                    np.array(
                        cluster.device_resources.row(task.gpu if task.gpus else {}),
                        dtype=cluster.device_resources.dtype,
                    ),
                    np.array(
                        cluster.host_resources.row(task.host), dtype=cluster.host_resources.dtype
                    ),
                )
                for task in cluster.tasks(profile)
            )
            for k in types if workers else [-1]:
                rate = profile.rate(cluster.types[k] if workers else None)
                if rate and not (job.min_throughput is not None and rate < job.min_throughput):
                    yield Option(job, profile, k, groups)


def _same_size(profile: Profile, home: Assignment) -> bool:
    """Whether a profile could hold just the devices, and run as many tasks without, as now."""
    devices, cpu_nodes = home.places()
    without = sum(task.count for task in profile.task_list() if not task.gpus)
    return profile.workers() == len(devices) and without == len(cpu_nodes)


def _merged(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return groups of equal tasks, however the profile lists them."""
    counts: dict[Any, int] = {}
    of: dict[Any, Group] = {}
    for group in groups:
        task = group.task
        key = (
            task.gpus, task.exclusive, frozenset(task.gpu.items()), frozenset(task.host.items())
        )  # fmt: skip
        counts[key] = counts.get(key, 0) + task.count
        of.setdefault(key, group)
    return tuple(
        replace(group, task=group.task.model_copy(update={"count": counts[key]}))
        for key, group in of.items()
    )


def _rule(job: Job) -> Any:
    return frozenset(job.node_selector.items()), job.eligible_nodes


def _shape(profile: Profile, tasks: tuple[Task, ...]) -> Any:
    """Return a profile's tasks and throughputs as a key; knobs and names do not matter."""
    rates = profile.throughput
    return (
        profile.name,
        tuple(sorted(rates.items())) if isinstance(rates, dict) else rates,
        tuple(
            (t.count, t.gpus, t.exclusive, frozenset(t.gpu.items()), frozenset(t.host.items()))
            for t in tasks
        ),
    )


def _ineligible(job: Job) -> str:
    rules = [f"{label}={value}" for label, value in job.node_selector.items()]
    parts = []
    if rules:
        parts.append(f"the selector {', '.join(rules)}")
    if job.eligible_nodes is not None:
        parts.append(f"the list of {len(job.eligible_nodes)} nodes")
    return f"no node of the snapshot matches {' and '.join(parts)}"


def _cannot_run(job: Job, types: list[str]) -> Finding:
    rates = [
        (float(profile.rate(k)), profile.name, k)
        for profile in job.profiles
        for k in (types if profile.workers() else [None])
    ]
    rate, profile, gpu_type = max(rates, key=lambda item: item[0], default=(0.0, "", None))
    where = listed("GPU type", types) if types else "nodes without GPUs"
    if rate == 0 or job.min_throughput is None:
        return "cannot_run", f"no profile has a throughput on {where}", {"gpu_types": types}
    floor = float(job.min_throughput)
    on = f" on '{gpu_type}'" if gpu_type else ""
    message = f"its floor is {floor:.6g}; the fastest profile, '{profile}', gives {rate:.6g}{on}"
    return "cannot_run", message, {
        "gpu_types": types, "needs": floor, "largest": rate, "short_by": floor - rate,
    }  # fmt: skip


__all__ = ["STATIC", "explain_unplaced"]
