"""What the pattern form is made of: job classes, pools, sites, items, choices, rows.

Symmetry is removed before anything is solved. Equal jobs are one **class** with a multiplicity,
interchangeable devices one **pool**, alike nodes one **node pool**. A device that some running
job calls home is also a **site**: there the job may stay without a move cost.

An **item** is one worker that may sit on a device of one pool (or on one site). Items of
single-device profiles carry their reward and count in their job's *class row*; items of gangs
count in *link rows* of a **choice** (a gang's profile, staying or moving), which carries the
reward. A pattern is a set of items; `elastico_opt.formulations.pattern` states the program.

Aggregating nodes into pools forgets node borders, so host rows and the "one node per task" rule
are relaxed there: a valid bound. `Layout.build(program, split=nodes)` gives chosen nodes pools of
their own, which restores both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from elastico_opt.program import UNLIMITED, Program
from elastico_opt.program.arrays import Bools, Floats, Ints

ELSEWHERE = -1


@dataclass(frozen=True)
class Items:
    """Workers that may sit on a device, one entry per (worker, pool or site); arrays of length I."""

    pool: Ints
    site: Ints  # ELSEWHERE, or the site the worker is tied to
    job_class: Ints
    option: Ints  # representative option
    group: Ints  # representative task group
    row: Ints  # class row (coefficient +1) or link row (-1)
    row2: Ints  # second link row, or -1
    linked: Bools  # True: a gang's worker, counted in link rows
    stays: Bools  # True: counts towards the job staying where it is
    value: Floats  # reward and costs of a single-device job; 0 for linked items
    loss_weight: Floats  # scales the loss: w·α/W, or the reward/W under throughput coupling
    workload: Ints
    limit: Ints
    exclusive: Bools

    def __len__(self) -> int:
        return len(self.pool)


@dataclass(frozen=True)
class StaticColumns:
    """Columns that are always in the master: choices, tasks on node pools, CPU tasks."""

    kind: tuple[str, ...]  # "choice", "task", "cpu"
    job_class: Ints
    option: Ints
    group: Ints  # -1 for choices
    node_pool: Ints  # -1 for choices
    node: Ints  # node that a task which stays is tied to, or -1
    stays: Bools
    places: Bools  # True: one unit places one job of the class
    value: Floats
    upper: Floats
    entries: tuple[Ints, Ints, Floats]  # row, column, coefficient

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Layout:
    """The pattern form's index sets and rows; see the module.

    Rows come in blocks: ``C`` class rows, then link rows, pool rows, site rows, host rows.
    Every row reads ``activity <= row_upper``.

    **Stages** are what is maximised one after the other: first, if any job must be placed, the
    number of those that are, then the value of each priority tier.
    """

    program: Program
    class_jobs: tuple[tuple[int, ...], ...]
    class_tier: Ints
    tied: Bools  # (J,) it matters where the running job is now
    node_pool: Ints  # (N,)
    pool_nodes: tuple[tuple[int, ...], ...]
    device_pool: Ints  # (D,)
    pool_class: Ints  # (K,) device class
    pool_node_pool: Ints  # (K,)
    pool_devices: tuple[tuple[int, ...], ...]
    site_device: Ints  # (S,)
    site_pool: Ints  # (S,)
    items: Items
    static: StaticColumns
    row_upper: Floats
    first_pool_row: int
    first_site_row: int
    first_host_row: int
    link_choice: Ints  # (rows,) the choice a link row serves, or -1
    item_host: tuple[Ints, Ints, Floats]  # item, host row, units per worker
    host_units: int  # host rows count in 1/host_units of a quantum, so that shares are whole
    offset: Floats  # (tiers,) constant: what evicting every running job would cost

    @property
    def n_classes(self) -> int:
        return len(self.class_jobs)

    @property
    def n_pools(self) -> int:
        return len(self.pool_class)

    @property
    def n_rows(self) -> int:
        return len(self.row_upper)

    @cached_property
    def class_size(self) -> Ints:
        """(C,) jobs per class."""
        return np.array([len(jobs) for jobs in self.class_jobs], dtype=np.int64)

    @cached_property
    def pool_size(self) -> Ints:
        """(K,) devices per pool."""
        return np.array([len(devices) for devices in self.pool_devices], dtype=np.int64)

    @property
    def n_must(self) -> int:
        """How many jobs must be placed."""
        return int(self.program.job_must.sum())

    @property
    def n_stages(self) -> int:
        """Number of stages, at least one."""
        return max(1, len(self.program.priorities)) + (self.n_must > 0)

    @cached_property
    def class_must(self) -> Bools:
        """(C,) whether the jobs of a class must be placed."""
        return self.program.job_must[[jobs[0] for jobs in self.class_jobs]].astype(bool)

    @cached_property
    def class_stage(self) -> Ints:
        """(C,) the stage that counts the value of a class."""
        return self.class_tier + (self.n_must > 0)

    def by_stage(self, job_class: Ints, value: Floats, places: Bools) -> Floats:
        """Spread values of columns or items over the stages: (n, stages)."""
        table = np.zeros((len(job_class), self.n_stages))
        if len(job_class):
            table[np.arange(len(job_class)), self.class_stage[job_class]] = value
            if self.n_must:
                table[:, 0] = places & self.class_must[job_class]
        return table

    @cached_property
    def most_residents(self) -> Ints:
        """(K,) the most residents any device of the pool can have (limit, or number of jobs)."""
        limit = self.program.class_residents[self.pool_class]
        return np.minimum(limit, max(1, self.program.n_jobs))

    @property
    def node_coupled(self) -> bool:
        """Whether nodes matter: host resources, or tasks that take several devices of a node."""
        return node_coupled(self.program)

    @classmethod
    def build(cls, program: Program, split: Collection[int] = ()) -> Layout:
        """Group jobs, nodes and devices; `split` names nodes that get pools of their own."""
        return _Builder(program, frozenset(split)).layout()


def node_coupled(program: Program) -> bool:
    """Whether devices of one node are tied together by host resources or multi-device tasks."""
    return bool(program.host_resources) or bool((program.group_gpus > 1).any())


class _Builder:
    def __init__(self, program: Program, split: frozenset[int]) -> None:
        self.p = program
        self.split = split
        self.rows: list[float] = []
        self.items: list[tuple[Any, ...]] = []
        self.static: list[tuple[Any, ...]] = []
        self.entries: list[tuple[int, int, float]] = []
        self.item_host: list[tuple[int, int, float]] = []
        self.link_choice: dict[int, int] = {}
        # A worker carries 1/gpus of its task's host demand.
        self.host_units = math.lcm(*(int(gpus) for gpus in set(program.group_gpus.tolist()) if gpus))

    def layout(self) -> Layout:
        p = self.p
        self.class_jobs = self._classes()
        self.node_pool, self.pool_nodes = self._node_pools()
        self._device_pools()
        self._sites()
        for jobs in self.class_jobs:
            size = float(len(jobs))
            self.rows.append(size)
        for c, jobs in enumerate(self.class_jobs):
            for o in p.options_of(jobs[0]):
                self._option(c, o)
        first_pool = len(self.rows)
        self.rows += [float(len(devices)) for devices in self.pool_devices]
        first_site = len(self.rows)
        self.rows += [1.0] * len(self.site_device)
        first_host = len(self.rows)
        n_host = len(p.host_resources)
        for nodes in self.pool_nodes:
            total = p.node_host[list(nodes)].sum(axis=0) if n_host else ()
            self.rows += [float(amount) * self.host_units for amount in total]
        return Layout(
            program=p,
            class_jobs=self.class_jobs,
            class_tier=np.array([p.job_tier[jobs[0]] for jobs in self.class_jobs], dtype=np.int64),
            tied=np.array([self._tied(j) for j in range(p.n_jobs)], dtype=bool),
            node_pool=self.node_pool,
            pool_nodes=self.pool_nodes,
            device_pool=self.device_pool,
            pool_class=self.pool_class,
            pool_node_pool=self.pool_node_pool,
            pool_devices=self.pool_devices,
            site_device=self.site_device,
            site_pool=self.device_pool[self.site_device],
            items=self._item_arrays(),
            static=self._static_arrays(first_host),
            row_upper=np.array(self.rows, dtype=float),
            first_pool_row=first_pool,
            first_site_row=first_site,
            first_host_row=first_host,
            link_choice=np.array(
                [self.link_choice.get(row, -1) for row in range(len(self.rows))], dtype=np.int64
            ),
            item_host=_sparse(self.item_host, first_host),
            host_units=self.host_units,
            offset=self._offset(),
        )

    # ---- grouping ----------------------------------------------------------------------

    def _classes(self) -> tuple[tuple[int, ...], ...]:
        """Group jobs that no rule of the program can tell apart."""
        groups: dict[Any, list[int]] = defaultdict(list)
        for j in range(self.p.n_jobs):
            groups[self._job_signature(j)].append(j)
        return tuple(tuple(jobs) for jobs in groups.values())

    def _job_signature(self, j: int) -> Any:
        p = self.p
        if self._tied(j) or self._shares_with_itself(j):
            return ("alone", j)
        options = slice(p.option_start[j], p.option_start[j + 1])
        groups = slice(p.group_start[p.option_start[j]], p.group_start[p.option_start[j + 1]])
        switches = tuple(p.switches(o) for o in p.options_of(j)) if p.homes[j] else ()
        return (
            p.job_weight[j], p.job_tier[j], p.job_must[j], p.job_limit[j], p.job_eligibility[j],
            p.homes[j] is not None, switches,
            p.option_type[options].tobytes(), p.option_reward[options].tobytes(),
            p.option_workload[options].tobytes(),
            np.diff(p.group_start[p.option_start[j]:p.option_start[j + 1] + 1]).tobytes(),
            p.group_count[groups].tobytes(), p.group_gpus[groups].tobytes(),
            p.group_demand[groups].tobytes(), p.group_host[groups].tobytes(),
            p.group_exclusive[groups].tobytes(),
        )

    def _tied(self, j: int) -> bool:
        """Whether it matters where job j is now: a move costs, is barred, or a cordon binds."""
        home = self.p.homes[j]
        if home is None:
            return False
        if self.p.change_costs(j)[1] > 0 or not self.p.job_movable[j]:
            return True
        nodes = [*self.p.device_node[list(home.devices)], *home.cpu_nodes]
        return not self.p.node_schedulable[nodes].all()

    def _shares_with_itself(self, j: int) -> bool:
        """Whether two gangs equal to j could meet on one device.

        Such gangs are not grouped: handing the workers of one device to distinct gangs could
        fail, and then the grouped program would only bound.
        """
        p = self.p
        for o in p.options_of(j):
            if p.option_workers[o] < 2 or not p.compatible(o, o):
                continue
            shared = [q for q in p.groups_of(o) if p.group_gpus[q] and not p.group_exclusive[q]]
            for one, other in combinations_with_replacement(shared, 2):
                demand = p.group_demand[one] + p.group_demand[other]
                for k, capacity in enumerate(p.class_capacity):
                    if (
                        p.class_residents[k] >= 2 and p.class_type[k] == p.option_type[o]
                        and (demand <= capacity).all()
                    ):
                        return True
        return False

    def _node_pools(self) -> tuple[Ints, tuple[tuple[int, ...], ...]]:
        p = self.p
        coupled = node_coupled(p)
        groups: dict[Any, list[int]] = defaultdict(list)
        for n in range(p.n_nodes):
            key: tuple[Any, ...] = (p.eligibility[:, n].tobytes(), bool(p.node_schedulable[n]))
            if coupled:
                shape = np.sort(p.device_class[p.node_devices[n]]).tobytes()
                key = (*key, p.node_host[n].tobytes(), shape)
            groups[(n,) if n in self.split else key].append(n)
        pool = np.zeros(p.n_nodes, dtype=np.int64)
        for i, nodes in enumerate(groups.values()):
            pool[nodes] = i
        return pool, tuple(tuple(nodes) for nodes in groups.values())

    def _device_pools(self) -> None:
        p = self.p
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for g in range(p.n_devices):
            groups[int(self.node_pool[p.device_node[g]]), int(p.device_class[g])].append(g)
        self.pool_devices = tuple(tuple(devices) for devices in groups.values())
        self.pool_node_pool = np.array([key[0] for key in groups], dtype=np.int64)
        self.pool_class = np.array([key[1] for key in groups], dtype=np.int64)
        self.device_pool = np.zeros(p.n_devices, dtype=np.int64)
        for k, devices in enumerate(self.pool_devices):
            self.device_pool[list(devices)] = k

    def _sites(self) -> None:
        homes = {g for j in range(self.p.n_jobs) if self._tied(j) for g in self.p.homes[j].devices}  # type: ignore[union-attr]
        self.site_device = np.array(sorted(homes), dtype=np.int64)
        self.site_of = {int(g): s for s, g in enumerate(self.site_device)}

    def _offset(self) -> Floats:
        offset = np.zeros(len(self.p.priorities))
        for j in range(self.p.n_jobs):
            offset[self.p.job_tier[j]] -= self.p.change_costs(j)[2]
        return offset

    # ---- columns of one option of one class --------------------------------------------

    def _option(self, c: int, o: int) -> None:
        """Add the items and static columns of an option, moving and (where it can) staying."""
        p, j = self.p, self.class_jobs[c][0]
        switch, move, evict = p.change_costs(j)
        reward = float(p.option_reward[o]) + evict - (switch if p.switches(o) else 0.0)
        home = p.homes[j] if self._tied(j) else None
        if home is None or p.job_movable[j]:
            self._version(c, o, reward - (move if home is not None else 0.0), stays=False)
        if home is not None and self._can_stay(j, o):
            self._version(c, o, reward, stays=True)

    def _can_stay(self, j: int, o: int) -> bool:
        p, home = self.p, self.p.homes[j]
        if home is None or not home.intact:
            return False
        groups = p.groups_of(o)
        cpu_tasks = sum(int(p.group_count[q]) for q in groups if p.group_gpus[q] == 0)
        types = {int(p.class_type[p.device_class[g]]) for g in home.devices}
        eligible = p.eligibility[p.job_eligibility[j]]
        nodes = [*p.device_node[list(home.devices)], *home.cpu_nodes]
        return (
            int(p.option_workers[o]) == len(home.devices)
            and cpu_tasks == len(home.cpu_nodes)
            and types <= {int(p.option_type[o])}
            and bool(eligible[nodes].all())
        )

    def _version(self, c: int, o: int, reward: float, stays: bool) -> None:
        p = self.p
        groups = list(p.groups_of(o))
        single = len(groups) == 1 and p.group_count[groups[0]] == 1 and p.group_gpus[groups[0]] <= 1
        if single and p.group_gpus[groups[0]] == 1:
            self._device_items(c, o, groups[0], stays, rows=(c, -1), linked=False, value=reward)
            return
        if single:
            self._cpu_columns(c, o, groups[0], stays, row=c, sign=1.0, value=reward)
            return
        x = self._static("choice", c, o, -1, -1, -1, stays, True, reward, float(len(self.class_jobs[c])))
        self.entries.append((c, x, 1.0))
        home = p.homes[self.class_jobs[c][0]]
        device_groups = [q for q in groups if p.group_gpus[q]]
        if stays and home is not None and device_groups:
            self._staying_workers(c, o, x, device_groups, home.devices)
        for q in groups:
            if p.group_gpus[q] == 0:
                row = self._link(x, float(p.group_count[q]))
                self._cpu_columns(c, o, q, stays, row=row, sign=-1.0, value=0.0)
            elif not stays:
                self._moving_workers(c, o, x, q)

    def _staying_workers(
        self, c: int, o: int, x: int, groups: list[int], home: tuple[int, ...]
    ) -> None:
        """Every home device must run a worker of the gang, every task sit on one node."""
        p = self.p
        here = [self._link(x, 1.0) for _ in home]
        for q in groups:
            count, gpus = int(p.group_count[q]), int(p.group_gpus[q])
            nodes = p.device_node[list(home)].tolist()
            if gpus > 1:
                rows = self._task_rows(c, o, q, x, nodes)
            elif len(groups) > 1:
                rows = dict.fromkeys(nodes, self._link(x, float(count)))
            else:
                rows = dict.fromkeys(nodes, -1)
            for g, row, n in zip(home, here, nodes, strict=True):
                self._item(
                    c, o, q, int(self.device_pool[g]), self.site_of[g], (row, rows[n]),
                    linked=True, stays=True, value=0.0,
                )

    def _task_rows(self, c: int, o: int, q: int, x: int, nodes: list[int]) -> dict[int, int]:
        """Return per home node the row that its staying tasks of several devices fill."""
        p = self.p
        tasks = self._link(x, float(p.group_count[q]))
        rows = {}
        for n in sorted(set(nodes)):
            z = self._static("task", c, o, q, int(self.node_pool[n]), n, True, False, 0.0, np.inf)
            self.entries.append((tasks, z, -1.0))
            rows[n] = self._link(z, float(p.group_gpus[q]), choice=x)
        return rows

    def _moving_workers(self, c: int, o: int, x: int, q: int) -> None:
        p = self.p
        count, gpus = int(p.group_count[q]), int(p.group_gpus[q])
        if gpus == 1:
            self._device_items(c, o, q, False, rows=(self._link(x, float(count)), -1), linked=True, value=0.0)
            return
        tasks = self._link(x, float(count))
        for n in sorted({int(self.pool_node_pool[k]) for k, _ in self._places(c, q)}):
            z = self._static("task", c, o, q, n, -1, False, False, 0.0, np.inf)
            self.entries.append((tasks, z, -1.0))
            row = self._link(z, float(gpus), choice=x)
            self._device_items(c, o, q, False, rows=(row, -1), linked=True, value=0.0, only=n)

    def _link(self, column: int, coefficient: float, choice: int | None = None) -> int:
        """Add a row ``coefficient · column - Σ items <= 0``."""
        self.link_choice[len(self.rows)] = column if choice is None else choice
        self.rows.append(0.0)
        self.entries.append((len(self.rows) - 1, column, coefficient))
        return len(self.rows) - 1

    def _device_items(
        self, c: int, o: int, q: int, stays: bool, rows: tuple[int, int], linked: bool,
        value: float, only: int | None = None,
    ) -> None:
        if stays:
            g = self.p.homes[self.class_jobs[c][0]].devices[0]  # type: ignore[union-attr]
            self._item(c, o, q, int(self.device_pool[g]), self.site_of[g], rows, linked, True, value)
            return
        for k, site in self._places(c, q):
            if only is None or self.pool_node_pool[k] == only:
                self._item(c, o, q, k, site, rows, linked, False, value)

    def _places(self, c: int, q: int) -> Iterator[tuple[int, int]]:
        """Yield the (pool, site) where a worker of group q may go without staying.

        On a cordoned node only the job's own home devices are open to it, each as a site.
        """
        p, j = self.p, self.class_jobs[c][0]
        type_ = p.option_type[p.group_option[q]]
        eligible = p.eligibility[p.job_eligibility[j]]
        for k, device_class in enumerate(self.pool_class):
            node = self.pool_nodes[self.pool_node_pool[k]][0]
            if p.class_type[device_class] == type_ and eligible[node] and p.node_schedulable[node]:
                yield k, ELSEWHERE
        home = p.homes[j]
        for g in home.devices if home is not None else ():
            if (
                not p.node_schedulable[p.device_node[g]] and eligible[p.device_node[g]]
                and p.class_type[p.device_class[g]] == type_
            ):
                yield int(self.device_pool[g]), self.site_of[g]

    def _item(
        self, c: int, o: int, q: int, k: int, site: int, rows: tuple[int, int], linked: bool,
        stays: bool, value: float,
    ) -> None:
        p = self.p
        if not p.fits(q, int(self.pool_class[k])):
            return
        j = self.class_jobs[c][0]
        scale = float(p.option_reward[o]) if p.throughput_coupling else float(p.job_weight[j]) * p.penalty
        self.items.append((
            k, site, c, o, q, rows[0], rows[1], linked, stays, value,
            scale / max(1, int(p.option_workers[o])), p.option_workload[o], p.job_limit[j],
            p.group_exclusive[q],
        ))
        n = int(self.pool_node_pool[k]) * len(p.host_resources)
        for h, amount in enumerate(p.group_host[q]):
            if amount:
                self.item_host.append((len(self.items) - 1, n + h, float(amount * (self.host_units // p.group_gpus[q]))))

    def _cpu_columns(
        self, c: int, o: int, q: int, stays: bool, row: int, sign: float, value: float
    ) -> None:
        p, j = self.p, self.class_jobs[c][0]
        home = p.homes[j] if self._tied(j) else None
        nodes = set(home.cpu_nodes) if stays and home is not None else set()
        places = [(int(self.node_pool[n]), int(n)) for n in sorted(nodes)]
        if not stays:
            places = sorted({
                (int(self.node_pool[n]), -1 if p.node_schedulable[n] else int(n))
                for n in p.allowed_cpu_nodes(j)
            })
        for pool, node in places:
            most = float(home.cpu_nodes.count(node)) if stays and home is not None else np.inf
            column = self._static("cpu", c, o, q, pool, node, stays, sign > 0, value, most)
            self.entries.append((row, column, sign))
            for h, amount in enumerate(p.group_host[q]):
                if amount:
                    # Host rows are numbered after all others: mark them by a negative row.
                    self.entries.append((-1 - (pool * len(p.host_resources) + h), column, float(amount * self.host_units)))

    def _static(self, *columns: Any) -> int:
        self.static.append(columns)
        return len(self.static) - 1

    # ---- to arrays ---------------------------------------------------------------------

    def _item_arrays(self) -> Items:
        columns = list(zip(*self.items, strict=True)) or [()] * 14
        kinds = [np.int64] * 7 + [np.bool_] * 2 + [float] * 2 + [np.int64] * 2 + [np.bool_]
        return Items(*(np.array(c, dtype=kind) for c, kind in zip(columns, kinds, strict=True)))

    def _static_arrays(self, first_host: int) -> StaticColumns:
        columns = list(zip(*self.static, strict=True)) or [()] * 10
        ints = [np.array(column, dtype=np.int64) for column in columns[1:6]]
        row, column, value = _sparse(self.entries, 0)
        return StaticColumns(
            tuple(columns[0]), *ints,
            np.array(columns[6], dtype=bool), np.array(columns[7], dtype=bool),
            np.array(columns[8], dtype=float), np.array(columns[9], dtype=float),
            (np.where(row < 0, first_host - 1 - row, row), column, value),
        )


def _sparse(entries: list[tuple[int, int, float]], shift: int) -> tuple[Ints, Ints, Floats]:
    first, second, value = zip(*entries, strict=True) if entries else ((), (), ())
    return (
        np.array(first, dtype=np.int64), np.array(second, dtype=np.int64) + shift,
        np.array(value, dtype=float),
    )


__all__ = ["ELSEWHERE", "UNLIMITED", "Items", "Layout", "StaticColumns", "node_coupled"]
