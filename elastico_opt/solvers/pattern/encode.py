"""From a plan to the columns it uses: how an incumbent enters the master."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program import Placement
from elastico_opt.solvers.pattern.integer import Selection

ItemKey = tuple[int, int, int, int, int, bool]
StaticKey = tuple[str, int, int, int, int, int, bool]


class Encoder:
    """Looks up items and static columns by where a worker or task sits; built once per layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        items, static = layout.items, layout.static
        columns = (items.pool, items.site, items.job_class, items.option, items.group, items.stays)
        keys = zip(*(column.tolist() for column in columns), strict=True)
        self._item: dict[ItemKey, int] = {key: i for i, key in enumerate(keys)}
        columns = (
            static.job_class, static.option, static.group, static.node_pool, static.node,
            static.stays,
        )  # fmt: skip
        named = zip(static.kind, *(column.tolist() for column in columns), strict=True)
        self._static: dict[StaticKey, int] = {key: i for i, key in enumerate(named)}
        self._class_of = {j: c for c, jobs in enumerate(layout.class_jobs) for j in jobs}
        self._site_of = {int(g): s for s, g in enumerate(layout.site_device)}

    def patterns(self, placements: Mapping[int, Placement]) -> Patterns:
        """Return the patterns of a plan, without repeats."""
        return self.selection(placements).patterns

    def selection(self, placements: Mapping[int, Placement]) -> Selection:
        """Return the integer point of a plan: how often it uses each column."""
        residents: dict[int, list[int]] = defaultdict(list)
        static = np.zeros(len(self.layout.static), dtype=np.int64)
        for j, placement in placements.items():
            for device, item in self._workers(j, placement):
                residents[device].append(item)
            for column in self._columns(j, placement):
                static[column] += 1
        rows = Counter(
            (self._device_site(items), int(self.layout.device_pool[g]), tuple(sorted(items)))
            for g, items in residents.items()
        )
        width = max((len(items) for _, _, items in rows), default=1)
        ordered = sorted(rows)
        padded = [[*items, *[-1] * (width - len(items))] for _, _, items in ordered]
        patterns = Patterns(
            np.array([pool for _, pool, _ in ordered], dtype=np.int64),
            np.array([site for site, _, _ in ordered], dtype=np.int64),
            np.array(padded, dtype=np.int64).reshape(len(ordered), width),
        )
        counts = np.array([rows[row] for row in ordered], dtype=np.int64)
        return Selection(static, patterns, counts)

    def _device_site(self, items: list[int]) -> int:
        return max(int(self.layout.items.site[item]) for item in items)

    def _option(self, j: int, placement: Placement) -> tuple[int, int, bool]:
        """Return a job's class, the class's option, and whether the job stays."""
        p, layout = self.layout.program, self.layout
        c = self._class_of[j]
        shift = placement.option - int(p.option_start[j])
        return c, int(p.option_start[layout.class_jobs[c][0]]) + shift, self._stays(j, placement)

    def _tasks(
        self, option: int, placement: Placement
    ) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield the group, node and devices of each task."""
        p = self.layout.program
        groups = [q for q in p.groups_of(option) for _ in range(int(p.group_count[q]))]
        for q, (node, devices) in zip(groups, placement.tasks, strict=True):
            yield q, node, devices

    def _workers(self, j: int, placement: Placement) -> Iterator[tuple[int, int]]:
        """Yield the device and the item of each worker."""
        p, layout = self.layout.program, self.layout
        c, option, stays = self._option(j, placement)
        for q, _, devices in self._tasks(option, placement):
            for g in devices:
                free = bool(p.node_schedulable[p.device_node[g]]) and not stays
                site = ELSEWHERE if free else self._site_of.get(g, ELSEWHERE)
                yield g, self._item[int(layout.device_pool[g]), site, c, option, q, stays]

    def _columns(self, j: int, placement: Placement) -> Iterator[int]:
        """Yield the static column of the choice, if there is one, and of each task with one."""
        p, layout = self.layout.program, self.layout
        c, option, stays = self._option(j, placement)
        choice = self._static.get(("choice", c, option, -1, -1, -1, stays))
        if choice is not None:
            yield choice
        for q, node, devices in self._tasks(option, placement):
            if len(devices) == 1:
                continue
            kind = "task" if devices else "cpu"
            free = not stays and (bool(devices) or bool(p.node_schedulable[node]))
            pool, tied = int(layout.node_pool[node]), -1 if free else node
            yield self._static[kind, c, option, q, pool, tied, stays]

    def _stays(self, j: int, placement: Placement) -> bool:
        """Whether a job whose home matters is exactly where it was."""
        return bool(self.layout.tied[j]) and self.layout.program.stays(j, placement)
