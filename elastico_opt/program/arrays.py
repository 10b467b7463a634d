"""The coefficients of the joint configuration-allocation program, as arrays.

Index sets: devices g (D of them), nodes n (N), device classes a (devices with equal type,
capacity and resident limit), jobs j (J), **options** o (a profile of a job on one GPU type, or on
none for a CPU-only profile), **groups** q (the equal tasks of one option), workloads v (rows of
the slowdown table), tiers (distinct priorities, highest first).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elastico_opt.plan import Assignment, Plan, TaskPlacement, device_ids

if TYPE_CHECKING:
    from elastico_opt.snapshot import Snapshot

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Excess slowdown of two workloads that must never share a device.
NEVER = -1
#: Stands for "no limit" where a count or a slowdown limit is expected.
UNLIMITED = np.int64(2**62)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a running job is now.

    Attributes
    ----------
    profile : int
        Index among the job's profiles, or -1 when the job no longer has that profile.
    devices : tuple of int
        Devices it holds that still exist, ascending.
    cpu_nodes : tuple of int
        Nodes of its tasks without devices, one entry per task, ascending.
    intact : bool
        Whether every device and node it holds still exists; if not, any placement is a move.
    """

    profile: int
    devices: tuple[int, ...]
    cpu_nodes: tuple[int, ...]
    intact: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """One job placed: its option, and per task of the option the node and the devices."""

    option: int
    tasks: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Program:
    """Integer demands and capacities, rewards, eligibility, homes and slowdowns; see the module.

    Demands and capacities of one resource are whole numbers of ``quantum[resource]``, the largest
    unit that divides every demand; capacities are rounded down to it, which loses nothing.
    """

    snapshot: Snapshot
    device_resources: tuple[str, ...]
    host_resources: tuple[str, ...]
    gpu_types: tuple[str, ...]
    warnings: tuple[str, ...]
    missing_pairs: int

    device_node: Ints  # (D,)
    device_class: Ints  # (D,)
    class_type: Ints  # (A,) index into gpu_types
    class_capacity: Ints  # (A, R) quanta
    class_residents: Ints  # (A,) most residents, or UNLIMITED
    node_host: Ints  # (N, H) quanta
    node_schedulable: Bools  # (N,)

    job_weight: Floats  # (J,)
    job_tier: Ints  # (J,) 0 = highest priority
    job_must: Bools  # (J,) must be placed
    job_limit: Ints  # (J,) largest excess slowdown tolerated, in slowdown quanta, or UNLIMITED
    job_eligibility: Ints  # (J,) row of `eligibility`
    eligibility: Bools  # (E, N) selector and node list admit the node
    homes: tuple[Home | None, ...]  # (J,)
    job_movable: Bools  # (J,) False: a running job that keeps its places
    priorities: tuple[int, ...]  # per tier

    option_job: Ints  # (O,) ascending
    option_profile: Ints  # (O,) index among the job's profiles
    option_type: Ints  # (O,) index into gpu_types, -1 for CPU only
    option_reward: Floats  # (O,) w·t (or w·T)
    option_workers: Ints  # (O,) W
    option_workload: Ints  # (O,) index into excess
    option_start: Ints  # (J+1,) options of job j are option_start[j]:option_start[j+1]

    group_option: Ints  # (Q,) ascending
    group_count: Ints  # (Q,) equal tasks
    group_gpus: Ints  # (Q,) devices per task
    group_demand: Ints  # (Q, R) per device
    group_host: Ints  # (Q, H) per task
    group_exclusive: Bools  # (Q,)
    group_start: Ints  # (O+1,)

    excess: Ints  # (V, V) quanta that the row's workload suffers beside the column's, or NEVER
    excess_unit: float  # one slowdown quantum

    penalty: float  # α
    throughput_coupling: bool
    switch_cost: float  # γ0, share of the job's weight
    migration_cost: float  # m
    eviction_cost: float  # e

    # ---- sizes and slices --------------------------------------------------------------

    @property
    def n_jobs(self) -> int:
        """Number of jobs (J)."""
        return len(self.job_weight)

    @property
    def n_devices(self) -> int:
        """Number of devices (D)."""
        return len(self.device_node)

    @property
    def n_nodes(self) -> int:
        """Number of nodes (N)."""
        return len(self.node_schedulable)

    @property
    def n_options(self) -> int:
        """Number of options (O)."""
        return len(self.option_job)

    def options_of(self, job: int) -> range:
        """Return the options of a job."""
        return range(int(self.option_start[job]), int(self.option_start[job + 1]))

    def groups_of(self, option: int) -> range:
        """Return the task groups of an option."""
        return range(int(self.group_start[option]), int(self.group_start[option + 1]))

    @cached_property
    def node_devices(self) -> tuple[Ints, ...]:
        """Devices of each node, in order."""
        order = np.argsort(self.device_node, kind="stable")
        counts = np.bincount(self.device_node, minlength=self.n_nodes)
        return tuple(np.split(order, np.cumsum(counts)[:-1])) if self.n_nodes else ()

    # ---- rules -------------------------------------------------------------------------

    def allowed_devices(self, job: int) -> Ints:
        """Return the devices job `j` may hold: eligible, not cordoned or its home, not moved."""
        home = self.homes[job]
        mine = np.array(home.devices if home else (), dtype=np.int64)
        eligible = self.eligibility[self.job_eligibility[job]]
        stay: Ints = mine[eligible[self.device_node[mine]]]
        if not self.job_movable[job]:
            return stay
        nodes = eligible & self.node_schedulable
        allowed = nodes[self.device_node] if self.n_devices else np.zeros(0, dtype=bool)
        allowed[stay] = True
        return np.flatnonzero(allowed)

    def allowed_cpu_nodes(self, job: int) -> Ints:
        """Return the nodes where tasks of job `j` without devices may sit."""
        home = self.homes[job]
        eligible = self.eligibility[self.job_eligibility[job]]
        stay = np.zeros(self.n_nodes, dtype=bool)
        stay[list(home.cpu_nodes if home else ())] = True
        free = (
            self.node_schedulable if self.job_movable[job] else np.zeros(self.n_nodes, dtype=bool)
        )
        return np.flatnonzero(eligible & (free | stay))

    def fits(self, group: int, device_class: int) -> bool:
        """Whether one worker of a group fits an empty device of a class."""
        return bool(
            self.class_residents[device_class] >= 1
            and (self.group_demand[group] <= self.class_capacity[device_class]).all()
        )

    def compatible(self, one: int, other: int) -> bool:
        """Whether workers of two options of different jobs may share a device as a pair."""
        a, b = self.option_workload[one], self.option_workload[other]
        mine, theirs = self.excess[a, b], self.excess[b, a]
        return bool(
            mine != NEVER
            and theirs != NEVER
            and mine <= self.job_limit[self.option_job[one]]
            and theirs <= self.job_limit[self.option_job[other]]
        )

    # ---- value -------------------------------------------------------------------------

    def loss(self, option: int, excess: int) -> float:
        """Return what an option loses to an excess slowdown given in quanta."""
        slowdown = excess * self.excess_unit
        if self.throughput_coupling:
            return float(self.option_reward[option]) * slowdown / (1 + slowdown)
        return float(self.job_weight[self.option_job[option]]) * self.penalty * slowdown

    def change_costs(self, job: int) -> tuple[float, float, float]:
        """Return what switching, moving and evicting a job cost; zeros unless it runs."""
        if self.homes[job] is None:
            return 0.0, 0.0, 0.0
        weight = float(self.job_weight[job])
        return weight * self.switch_cost, weight * self.migration_cost, weight * self.eviction_cost

    def stays(self, job: int, placement: Placement) -> bool:
        """Whether a placement is exactly where the job is now; True for jobs that do not run."""
        home = self.homes[job]
        if home is None:
            return True
        devices = tuple(sorted(g for _, gpus in placement.tasks for g in gpus))
        nodes = tuple(sorted(n for n, gpus in placement.tasks if not gpus))
        return home.intact and devices == home.devices and nodes == home.cpu_nodes

    def switches(self, option: int) -> bool:
        """Whether choosing the option changes a running job's profile."""
        home = self.homes[self.option_job[option]]
        return home is not None and home.profile != self.option_profile[option]

    # ---- plans -------------------------------------------------------------------------

    def to_plan(self, placements: Mapping[int, Placement]) -> Plan:
        """Write placements by job index as a plan with names."""
        nodes = self.snapshot.nodes
        first = np.searchsorted(self.device_node, np.arange(self.n_nodes))
        ids: dict[int, Sequence[str]] = {}
        assignments = {}
        for j in sorted(placements):
            job, placement = self.snapshot.jobs[j], placements[j]
            tasks = []
            for n, devices in placement.tasks:
                names = ids.setdefault(n, device_ids(nodes[n]))
                tasks.append(
                    TaskPlacement(nodes[n].name, tuple(names[g - first[n]] for g in devices))
                )
            profile = job.profiles[int(self.option_profile[placement.option])]
            assignments[job.name] = Assignment(profile.name, tuple(tasks))
        return Plan(assignments)

    def from_plan(self, plan: Plan) -> dict[int, Placement]:
        """Read a plan back; assignments that name unknown things are left out."""
        node_index = {node.name: n for n, node in enumerate(self.snapshot.nodes)}
        first = np.searchsorted(self.device_node, np.arange(self.n_nodes)).tolist()
        ids = [device_ids(node) for node in self.snapshot.nodes]
        placements = {}
        for j, job in enumerate(self.snapshot.jobs):
            if job.name not in plan:
                continue
            assignment = plan[job.name]
            tasks = []
            for task in assignment.tasks:
                n = node_index.get(task.node, -1)
                names = ids[n] if n >= 0 else ()
                if n < 0 or any(gpu not in names for gpu in task.gpus):
                    break
                tasks.append((n, tuple(first[n] + names.index(gpu) for gpu in task.gpus)))
            else:
                option = self._option(j, assignment.profile, tasks)
                if option is not None:
                    placements[j] = Placement(option, tuple(tasks))
        return placements

    def _option(
        self, job: int, profile: str, tasks: Sequence[tuple[int, tuple[int, ...]]]
    ) -> int | None:
        types = {int(self.class_type[self.device_class[g]]) for _, gpus in tasks for g in gpus} or {
            -1
        }
        for o in self.options_of(job):
            if self.snapshot.jobs[job].profiles[int(self.option_profile[o])].name == profile:
                shape = [
                    int(self.group_gpus[q])
                    for q in self.groups_of(o)
                    for _ in range(int(self.group_count[q]))
                ]
                if {int(self.option_type[o])} == types and shape == [
                    len(gpus) for _, gpus in tasks
                ]:
                    return o
        return None
