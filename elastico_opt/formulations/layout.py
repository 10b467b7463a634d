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

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elastico_opt.program import Program
from elastico_opt.program.arrays import Bools, Floats, Ints

ELSEWHERE = -1


@dataclass(frozen=True)
class Items:
    """Workers that may sit on a device, one per (worker, pool or site); arrays of length I."""

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
        """Return C."""
        return len(self.class_jobs)

    @property
    def n_pools(self) -> int:
        """Return K."""
        return len(self.pool_class)

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
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
        from elastico_opt.formulations.layout_builder import LayoutBuilder

        return LayoutBuilder(program, frozenset(split)).layout()


def node_coupled(program: Program) -> bool:
    """Whether devices of one node are tied together by host resources or multi-device tasks."""
    return bool(program.host_resources) or bool((program.group_gpus > 1).any())


__all__ = ["ELSEWHERE", "Items", "Layout", "StaticColumns", "node_coupled"]
