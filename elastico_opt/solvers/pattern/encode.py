"""From a plan to the patterns it uses: how an incumbent enters the master."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from elastico_opt.formulations.columns import Patterns, empty_patterns
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.program import Placement

Key = tuple[int, int, int, int, int, bool]


class Encoder:
    """Looks up items by where a worker sits; built once per layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        items = layout.items
        columns = (items.pool, items.site, items.job_class, items.option, items.group, items.stays)
        keys = zip(*(column.tolist() for column in columns), strict=True)
        self._item: dict[Key, int] = {key: i for i, key in enumerate(keys)}
        self._class_of = {j: c for c, jobs in enumerate(layout.class_jobs) for j in jobs}
        self._site_of = {int(g): s for s, g in enumerate(layout.site_device)}

    def patterns(self, placements: Mapping[int, Placement]) -> Patterns:
        """Return the patterns of a plan, without repeats."""
        residents: dict[int, list[int]] = defaultdict(list)
        for j, placement in placements.items():
            for device, item in self._workers(j, placement):
                residents[device].append(item)
        rows = {(self._device_site(items), int(self.layout.device_pool[g]), tuple(sorted(items)))
                for g, items in residents.items()}
        if not rows:
            return empty_patterns()
        width = max(len(items) for _, _, items in rows)
        ordered = sorted(rows)
        return Patterns(
            np.array([pool for _, pool, _ in ordered], dtype=np.int64),
            np.array([site for site, _, _ in ordered], dtype=np.int64),
            np.array([[*items, *[-1] * (width - len(items))] for _, _, items in ordered], dtype=np.int64),
        )

    def _device_site(self, items: list[int]) -> int:
        return max(int(self.layout.items.site[item]) for item in items)

    def _workers(self, j: int, placement: Placement) -> list[tuple[int, int]]:
        p, layout = self.layout.program, self.layout
        c = self._class_of[j]
        shift = placement.option - int(p.option_start[j])
        option = int(p.option_start[layout.class_jobs[c][0]]) + shift
        stays = self._stays(j, placement)
        found = []
        groups = [q for q in p.groups_of(option) for _ in range(int(p.group_count[q]))]
        for q, (_, devices) in zip(groups, placement.tasks, strict=True):
            for g in devices:
                free = bool(p.node_schedulable[p.device_node[g]]) and not stays
                site = ELSEWHERE if free else self._site_of.get(g, ELSEWHERE)
                key = (int(layout.device_pool[g]), site, c, option, q, stays)
                found.append((g, self._item[key]))
        return found

    def _stays(self, j: int, placement: Placement) -> bool:
        """Whether a job whose home matters is exactly where it was."""
        home = self.layout.program.homes[j]
        if home is None or not home.intact or not self.layout.tied[j]:
            return False
        devices = tuple(sorted(g for _, gpus in placement.tasks for g in gpus))
        cpu_nodes = tuple(sorted(n for n, gpus in placement.tasks if not gpus))
        return devices == home.devices and cpu_nodes == home.cpu_nodes
