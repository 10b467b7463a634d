"""From groups to the items, static columns and rows of a layout, option by option."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from elastico_opt.formulations.grouping import Grouping
from elastico_opt.formulations.layout import ELSEWHERE, Items, Layout, StaticColumns
from elastico_opt.program import Program
from elastico_opt.program.arrays import Floats, Ints


class LayoutBuilder(Grouping):
    """Adds the columns and rows of every option to the groups of a program."""

    def __init__(self, program: Program, split: frozenset[int]) -> None:
        """Group the program; `layout` does the rest."""
        super().__init__(program, split)
        self.rows: list[float] = []
        self.items: list[tuple[Any, ...]] = []
        self.static: list[tuple[Any, ...]] = []
        self.entries: list[tuple[int, int, float]] = []
        self.item_host: list[tuple[int, int, float]] = []
        self.link_choice: dict[int, int] = {}
        # A worker carries 1/gpus of its task's host demand.
        self.host_units = math.lcm(
            *(int(gpus) for gpus in set(program.group_gpus.tolist()) if gpus)
        )

    def layout(self) -> Layout:
        """Return the layout."""
        p = self.p
        self.rows += [float(len(jobs)) for jobs in self.class_jobs]
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
        x = self._static(
            "choice", c, o, -1, -1, -1, stays, True, reward, float(len(self.class_jobs[c]))
        )
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
                    c,
                    o,
                    q,
                    int(self.device_pool[g]),
                    self.site_of[g],
                    (row, rows[n]),
                    linked=True,
                    stays=True,
                    value=0.0,
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
            self._device_items(
                c, o, q, False, rows=(self._link(x, float(count)), -1), linked=True, value=0.0
            )
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
        self,
        c: int,
        o: int,
        q: int,
        stays: bool,
        rows: tuple[int, int],
        linked: bool,
        value: float,
        only: int | None = None,
    ) -> None:
        if stays:
            g = self.p.homes[self.class_jobs[c][0]].devices[0]  # type: ignore[union-attr]
            self._item(
                c, o, q, int(self.device_pool[g]), self.site_of[g], rows, linked, True, value
            )
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
                not p.node_schedulable[p.device_node[g]]
                and eligible[p.device_node[g]]
                and p.class_type[p.device_class[g]] == type_
            ):
                yield int(self.device_pool[g]), self.site_of[g]

    def _item(
        self,
        c: int,
        o: int,
        q: int,
        k: int,
        site: int,
        rows: tuple[int, int],
        linked: bool,
        stays: bool,
        value: float,
    ) -> None:
        p = self.p
        if not p.fits(q, int(self.pool_class[k])):
            return
        j = self.class_jobs[c][0]
        scale = (
            float(p.option_reward[o])
            if p.throughput_coupling
            else float(p.job_weight[j]) * p.penalty
        )
        self.items.append(
            (
                k,
                site,
                c,
                o,
                q,
                rows[0],
                rows[1],
                linked,
                stays,
                value,
                scale / max(1, int(p.option_workers[o])),
                p.option_workload[o],
                p.job_limit[j],
                p.group_exclusive[q],
            )
        )
        n = int(self.pool_node_pool[k]) * len(p.host_resources)
        for h, amount in enumerate(p.group_host[q]):
            if amount:
                self.item_host.append(
                    (
                        len(self.items) - 1,
                        n + h,
                        float(amount * (self.host_units // p.group_gpus[q])),
                    )
                )

    def _cpu_columns(
        self, c: int, o: int, q: int, stays: bool, row: int, sign: float, value: float
    ) -> None:
        p, j = self.p, self.class_jobs[c][0]
        home = p.homes[j] if self._tied(j) else None
        nodes = set(home.cpu_nodes) if stays and home is not None else set()
        places = [(int(self.node_pool[n]), int(n)) for n in sorted(nodes)]
        if not stays:
            places = sorted(
                {
                    (int(self.node_pool[n]), -1 if p.node_schedulable[n] else int(n))
                    for n in p.allowed_cpu_nodes(j)
                }
            )
        for pool, node in places:
            most = float(home.cpu_nodes.count(node)) if stays and home is not None else np.inf
            column = self._static("cpu", c, o, q, pool, node, stays, sign > 0, value, most)
            self.entries.append((row, column, sign))
            for h, amount in enumerate(p.group_host[q]):
                if amount:
                    # Host rows are numbered after all others: mark them by a negative row.
                    self.entries.append(
                        (
                            -1 - (pool * len(p.host_resources) + h),
                            column,
                            float(amount * self.host_units),
                        )
                    )

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
            kind=tuple(columns[0]),
            job_class=ints[0],
            option=ints[1],
            group=ints[2],
            node_pool=ints[3],
            node=ints[4],
            stays=np.array(columns[6], dtype=bool),
            places=np.array(columns[7], dtype=bool),
            value=np.array(columns[8], dtype=float),
            upper=np.array(columns[9], dtype=float),
            entries=(np.where(row < 0, first_host - 1 - row, row), column, value),
        )


def _sparse(entries: list[tuple[int, int, float]], shift: int) -> tuple[Ints, Ints, Floats]:
    first, second, value = zip(*entries, strict=True) if entries else ((), (), ())
    return (
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64) + shift,
        np.array(value, dtype=float),
    )
