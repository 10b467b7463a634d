"""Every plan of a tiny snapshot, one after the other: the answer that everything else must give.

Written from the contract alone. It reads the fields of the snapshot and nothing else: no program,
formulation, solver or check. Feasibility and value are computed here, in exact fractions, so that
`verify` and `evaluate` are tested against it too. Three things keep it quick, and none changes the
answer: capacity and slowdown limits are tested job by job; a partial plan that is another one with
equal devices swapped is dropped; and so is one that could not beat the best plan even if all later
jobs ran undisturbed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

from elastico_opt.plan import Assignment, Plan, TaskPlacement
from elastico_opt.snapshot import Job, Node, Profile, Snapshot, Task

ZERO, ONE = Fraction(0), Fraction(1)
Spot = tuple[int, tuple[int, ...]]  # a task's node and devices
Values = tuple[Fraction, ...]  # per tier, highest first


@dataclass(frozen=True)
class Answer:
    """The lexicographic optimum, or that there is no plan at all."""

    status: str
    objective: Fraction | None = None
    tiers: dict[int, Fraction] = field(default_factory=dict)
    plan: Plan | None = None
    visited: int = 0


@dataclass(frozen=True)
class _Device:
    node: int
    id: str
    type: str
    capacity: dict[str, Fraction]
    most: int | None


@dataclass(frozen=True)
class _Option:
    """A profile on one GPU type (None: on no GPU)."""

    profile: Profile
    type: str | None
    tasks: list[tuple[int, Task]]  # number of the entry in the profile's list, and the task
    reward: Fraction
    workload: str


def brute_force(snapshot: Snapshot) -> Answer:
    """Enumerate all plans; return the best one, first by the highest tier, then the next."""
    return _Search(snapshot).answer()


class _Search:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.policy = snapshot.policy
        self.jobs = sorted(snapshot.jobs, key=lambda job: (-job.priority, not _must(job)))
        self.priorities = sorted({job.priority for job in self.jobs}, reverse=True)
        self.tier = [self.priorities.index(job.priority) for job in self.jobs]
        self.node_index = {node.name: n for n, node in enumerate(snapshot.nodes)}
        self.devices = _devices(snapshot)
        self.homes = [_home(job, snapshot) for job in self.jobs]
        self.options = [self._options(job) for job in self.jobs]
        self.device_class, self.node_class = self._classes()
        self.slow: dict[tuple[str, str], Fraction | None] = {}
        for row in snapshot.interference.table if snapshot.interference else ():
            self.slow[row.a, row.b], self.slow[row.b, row.a] = row.slowdown
        self.hopes = self._hopes()

        self.residents: list[list[tuple[int, int, int]]] = [[] for _ in self.devices]
        self.hosted: list[list[tuple[int, int, int]]] = [[] for _ in snapshot.nodes]
        self.spots: list[tuple[int, list[Spot]] | None] = [None] * len(self.jobs)
        self.seen: list[set[object]] = [set() for _ in self.jobs]
        self.best: Values | None = None
        self.best_plan = Plan({})
        self.visited = 0

    def answer(self) -> Answer:
        self._place(0)
        if self.best is None:
            return Answer("infeasible", visited=self.visited)
        tiers = dict(zip(self.priorities, self.best, strict=True))
        total = sum(self.best, ZERO)
        return Answer("optimal", total, tiers, self.best_plan, self.visited)

    # ---- what there is to choose from ----------------------------------------------------

    def _options(self, job: Job) -> list[_Option]:
        top = max(_all_rates(job)) if self.policy.objective == "normalised" else ONE
        found = []
        for profile in job.profiles:
            tasks = [
                (e, task) for e, task in enumerate(_entries(profile)) for _ in range(task.count)
            ]
            needs_gpus = any(task.gpus for _, task in tasks)
            workload = profile.workload
            if workload is None:
                workload = f"{job.name}/{profile.name}"
            for gpu_type in sorted({d.type for d in self.devices}) if needs_gpus else [None]:
                rate = profile.throughput
                if isinstance(rate, dict):
                    rate = rate.get(gpu_type or "", ZERO)
                if rate > 0 and rate >= (job.min_throughput or ZERO):
                    reward = job.weight * rate / top
                    found.append(_Option(profile, gpu_type, tasks, reward, workload))
        return found

    def _classes(self) -> tuple[list[object], list[object]]:
        """Return what tells a device from others of its node, and a node from other nodes."""
        devices: list[object] = []
        nodes: list[object] = []
        for g, device in enumerate(self.devices):
            owners = tuple(j for j, home in enumerate(self.homes) if home and g in home[1])
            capacity = tuple(sorted(device.capacity.items()))
            devices.append(
                (device.type, capacity, -1 if device.most is None else device.most, owners)
            )
        for n, node in enumerate(self.snapshot.nodes):
            admitted = tuple(_admits(job, node) for job in self.jobs)
            owners = tuple(home[2].count(n) if home else 0 for home in self.homes)
            host = tuple(sorted(node.host.items()))
            nodes.append((host, admitted, owners, node.schedulable))
        return devices, nodes

    def _hopes(self) -> list[Values]:
        """Return, per job, a ceiling on what it and all later jobs can add to each tier."""
        hopes = [tuple(ZERO for _ in self.priorities)]
        for j in reversed(range(len(self.jobs))):
            values = [
                option.reward - self._switch(j, o) for o, option in enumerate(self.options[j])
            ]
            if not _must(self.jobs[j]):
                values.append(self._absent(j))
            row = list(hopes[0])
            row[self.tier[j]] += max(values, default=ZERO)
            hopes.insert(0, tuple(row))
        return hopes

    # ---- the search ----------------------------------------------------------------------

    def _place(self, j: int) -> None:
        self.visited += 1
        values = self._values(j)
        ceiling = tuple(v + hope for v, hope in zip(values, self.hopes[j], strict=True))
        if self.best is not None and ceiling <= self.best:
            return
        if j == len(self.jobs):
            self.best, self.best_plan = values, self._plan()
            return
        for o, option in enumerate(self.options[j]):
            for spots in self._ways(j, option, []):
                self._put(j, o, spots)
                key = self._key()
                if key not in self.seen[j] and self._in_limits(spots):
                    self._place(j + 1)
                self.seen[j].add(key)
                self._take_back(j, o, spots)
        if not _must(self.jobs[j]):
            self._place(j + 1)

    def _ways(self, j: int, option: _Option, chosen: list[Spot]) -> Iterator[list[Spot]]:
        """Yield the places of all tasks that capacity and the rules of the job allow."""
        if len(chosen) == len(option.tasks):
            if self._may_stand(j, chosen):
                yield list(chosen)
            return
        entry, task = option.tasks[len(chosen)]
        twin = bool(chosen) and option.tasks[len(chosen) - 1][0] == entry
        for n, node in enumerate(self.snapshot.nodes):
            if not _admits(self.jobs[j], node) or not self._has_room(n, task, option, chosen):
                continue
            taken = {g for _, devices in chosen for g in devices}
            free = [
                g
                for g, device in enumerate(self.devices)
                if device.node == n and g not in taken and self._fits(j, g, task, option)
            ]
            if not task.gpus and not node.schedulable and not self._at_home(j, n):
                continue
            for devices in combinations(free, task.gpus):
                if not twin or (n, devices) >= chosen[-1]:  # equal tasks: in one order only
                    yield from self._ways(j, option, [*chosen, (n, devices)])

    def _fits(self, j: int, g: int, task: Task, option: _Option) -> bool:
        device, here = self.devices[g], self.residents[g]
        home = self.homes[j]
        if device.type != option.type:
            return False
        if not self.snapshot.nodes[device.node].schedulable and not (home and g in home[1]):
            return False
        if device.most is not None and len(here) + 1 > device.most:
            return False
        others = [self._task(resident) for resident in here]
        if others and (task.exclusive or any(other.exclusive for other in others)):
            return False
        return all(
            amount + sum((other.gpu.get(r, ZERO) for other in others), ZERO)
            <= device.capacity.get(r, ZERO)
            for r, amount in task.gpu.items()
        )

    def _has_room(self, n: int, task: Task, option: _Option, chosen: list[Spot]) -> bool:
        tasks = [self._task(hosted) for hosted in self.hosted[n]]
        tasks += [option.tasks[i][1] for i, spot in enumerate(chosen) if spot[0] == n]
        return all(
            amount + sum((other.host.get(r, ZERO) for other in tasks), ZERO)
            <= self.snapshot.nodes[n].host.get(r, ZERO)
            for r, amount in task.host.items()
        )

    def _at_home(self, j: int, n: int) -> bool:
        home = self.homes[j]
        return home is not None and n in home[2]

    def _may_stand(self, j: int, spots: list[Spot]) -> bool:
        return self.homes[j] is None or self.jobs[j].movable or not self._moved(j, spots)

    def _moved(self, j: int, spots: list[Spot]) -> bool:
        home = self.homes[j]
        assert home is not None
        intact, devices, cpu_nodes = home
        mine = {g for _, gpus in spots for g in gpus}
        return not (
            intact and mine == devices and sorted(n for n, gpus in spots if not gpus) == cpu_nodes
        )

    def _put(self, j: int, o: int, spots: list[Spot]) -> None:
        self.spots[j] = (o, spots)
        for (entry, _), (n, devices) in zip(self.options[j][o].tasks, spots, strict=True):
            self.hosted[n].append((j, o, entry))
            for g in devices:
                self.residents[g].append((j, o, entry))

    def _take_back(self, j: int, o: int, spots: list[Spot]) -> None:
        self.spots[j] = None
        for n, devices in spots:
            self.hosted[n] = [hosted for hosted in self.hosted[n] if hosted[0] != j]
            for g in devices:
                self.residents[g].pop()

    def _task(self, resident: tuple[int, int, int]) -> Task:
        j, o, entry = resident
        return next(task for e, task in self.options[j][o].tasks if e == entry)

    def _key(self) -> object:
        """Return the partial plan up to a swap of like devices and of like nodes."""
        per_node: list[list[object]] = [[] for _ in self.snapshot.nodes]
        for g, device in enumerate(self.devices):
            per_node[device.node].append((self.device_class[g], tuple(sorted(self.residents[g]))))
        count = Counter(
            (self.node_class[n], tuple(sorted(self.hosted[n])), tuple(sorted(devices)))  # type: ignore[type-var]
            for n, devices in enumerate(per_node)
        )
        return frozenset(count.items())

    # ---- slowdown and value --------------------------------------------------------------

    def _slowdown(self, j: int) -> Fraction | None:
        """Return the largest slowdown on the job's devices; None if it may not stand there."""
        spot = self.spots[j]
        assert spot is not None
        worst = ONE
        for g in (g for _, devices in spot[1] for g in devices):
            total = ONE
            for i, o, _ in self.residents[g]:
                if i != j:
                    pair = self._pair(
                        self.options[j][spot[0]].workload, self.options[i][o].workload
                    )
                    if pair is None:
                        return None
                    total += pair - 1
            worst = max(worst, total)
        return worst

    def _pair(self, victim: str, other: str) -> Fraction | None:
        if self.snapshot.interference is None:
            return ONE
        return self.slow.get((victim, other), self.snapshot.interference.default)

    def _in_limits(self, spots: list[Spot]) -> bool:
        for j in {i for _, devices in spots for g in devices for i, _, _ in self.residents[g]}:
            slowdown = self._slowdown(j)
            if slowdown is None:
                return False
            for limit in (self.jobs[j].max_slowdown, self.policy.max_slowdown):
                if limit is not None and slowdown > limit:
                    return False
        return True

    def _values(self, decided: int) -> Values:
        values = [ZERO for _ in self.priorities]
        for j in range(decided):
            values[self.tier[j]] += self._value(j)
        return tuple(values)

    def _value(self, j: int) -> Fraction:
        spot = self.spots[j]
        if spot is None:
            return self._absent(j)
        o, spots = spot
        slowdown = self._slowdown(j)
        assert slowdown is not None
        reward, weight = self.options[j][o].reward, self.jobs[j].weight
        if self.policy.coupling == "throughput":
            value = reward / slowdown
        else:
            value = reward - weight * self.policy.interference_penalty * (slowdown - 1)
        if self.homes[j] is not None and self._moved(j, spots):
            value -= weight * self.policy.migration_cost
        return value - self._switch(j, o)

    def _switch(self, j: int, o: int) -> Fraction:
        job = self.jobs[j]
        same = job.current is None or job.current.profile == self.options[j][o].profile.name
        return ZERO if same else job.weight * self.policy.switch_cost

    def _absent(self, j: int) -> Fraction:
        job = self.jobs[j]
        return -job.weight * self.policy.eviction_cost if job.current else ZERO

    def _plan(self) -> Plan:
        found = {}
        for j, spot in enumerate(self.spots):
            if spot is not None:
                tasks = tuple(
                    TaskPlacement(
                        self.snapshot.nodes[n].name, tuple(self.devices[g].id for g in devices)
                    )
                    for n, devices in spot[1]
                )
                profile = self.options[j][spot[0]].profile
                found[self.jobs[j].name] = Assignment(profile.name, tasks)
        return Plan(found)


def _must(job: Job) -> bool:
    return job.must_place or (job.current is not None and not job.preemptible)


def _admits(job: Job, node: Node) -> bool:
    if job.eligible_nodes is not None and node.name not in job.eligible_nodes:
        return False
    return all(
        label in node.labels and node.labels[label] == value
        for label, value in job.node_selector.items()
    )


def _entries(profile: Profile) -> list[Task]:
    if profile.tasks is not None:
        return list(profile.tasks)
    return [
        Task(
            gpus=1 if profile.gpus is None else profile.gpus,
            gpu=profile.gpu or {},
            host=profile.host or {},
            exclusive=bool(profile.exclusive),
        )
    ]


def _all_rates(job: Job) -> list[Fraction]:
    rates: list[Fraction] = []
    for profile in job.profiles:
        given = profile.throughput
        rates += given.values() if isinstance(given, dict) else [given]
    return [rate for rate in rates if rate > 0] or [ONE]


def _devices(snapshot: Snapshot) -> list[_Device]:
    found = []
    for n, node in enumerate(snapshot.nodes):
        own: list[tuple[str, str | None, dict[str, Fraction]]]
        if isinstance(node.gpus, int):
            own = [(str(i), node.gpu_type, {}) for i in range(node.gpus)]
        else:
            own = [(gpu.id, gpu.type or node.gpu_type, gpu.capacity or {}) for gpu in node.gpus]
        for name, type_name, capacity in own:
            assert type_name is not None
            gpu_type = snapshot.gpu_types[type_name]
            found.append(
                _Device(
                    n, name, type_name, {**gpu_type.capacity, **capacity}, gpu_type.max_residents
                )
            )
    return found


def _home(job: Job, snapshot: Snapshot) -> tuple[bool, set[int], list[int]] | None:
    """Return whether all a job holds still exists, its devices, and the nodes of its CPU tasks."""
    if job.current is None:
        return None
    names = [node.name for node in snapshot.nodes]
    devices = _devices(snapshot)
    intact, held, cpu_nodes = True, set(), []
    for task in job.current.tasks:
        n = names.index(task.node) if task.node in names else None
        here = [g for g, device in enumerate(devices) if device.node == n]
        if n is None:
            intact = False
        elif not task.gpus:
            cpu_nodes.append(n)
        for gpu in task.gpus:
            by_id = [g for g in here if devices[g].id == str(gpu)]
            if isinstance(gpu, int):
                found = here[gpu : gpu + 1]
            elif by_id:
                found = by_id
            else:
                found = here[int(gpu) : int(gpu) + 1] if gpu.isdecimal() else []
            intact = intact and bool(found)
            held.update(found)
    return intact, held, sorted(cpu_nodes)
