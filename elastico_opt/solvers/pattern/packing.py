"""Seat chosen patterns into nodes: host resources, and tasks of several devices on one node.

The pattern program may have aggregated nodes into pools. This packing keeps as much of the chosen
value as node borders allow; it keeps all of it exactly when the choice can be realised.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from elastico_opt.formulations.columns import pattern_values, static_values
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.pattern.integer import Selection

if TYPE_CHECKING:
    from elastico_opt.solvers.pattern.realise import Seats

#: Pattern-node pairs beyond which packing is not tried.
MOST_PAIRS = 20_000
#: Values are counted in this share of the largest.
_GRAIN = 1e-7
#: CP-SAT's own measure of work, about seconds.
_EFFORT = 2.0


def pack_nodes(layout: Layout, chosen: Selection, stage: int, limits: Limits) -> Seats | None:
    """Return seats for as much of the choice as fits, or None when it is too large to pack."""
    pairs = sum(
        len(layout.pool_nodes[layout.pool_node_pool[k]])
        for k, s in zip(chosen.patterns.pool, chosen.patterns.site, strict=True)
        if s == ELSEWHERE
    )
    if pairs > MOST_PAIRS or limits.reached():
        return None
    return _Packing(layout, chosen, stage).seats(limits)


class _Packing:
    def __init__(self, layout: Layout, chosen: Selection, stage: int) -> None:
        from ortools.sat.python import cp_model

        self.layout, self.chosen, self.stage = layout, chosen, stage
        self.model = cp_model.CpModel()
        self.solver = cp_model.CpSolver()
        self._seat_patterns()
        self._seat_cpu_tasks()
        self._gather_gangs()
        self._host()
        self._value()

    # ---- variables ---------------------------------------------------------------------

    def _seat_patterns(self) -> None:
        """``seat[t, n]``: copies of pattern t on node n; site patterns are where they are."""
        layout, chosen, p = self.layout, self.chosen, self.layout.program
        self.seat: dict[tuple[int, int], Any] = {}
        self.kept: list[Any] = []
        used: dict[tuple[int, int], list[Any]] = defaultdict(list)
        for t, (pool, site, count) in enumerate(
            zip(
                chosen.patterns.pool.tolist(),
                chosen.patterns.site.tolist(),
                chosen.counts.tolist(),
                strict=True,
            )
        ):
            nodes = layout.pool_nodes[layout.pool_node_pool[pool]]
            if site != ELSEWHERE:
                nodes = (int(p.device_node[layout.site_device[site]]),)
            for n in nodes:
                self.seat[t, n] = self.model.new_int_var(0, count, "")
                used[n, pool].append(self.seat[t, n])
            self.kept.append(sum(self.seat[t, n] for n in nodes))
            self.model.add(self.kept[-1] <= count)
        for (n, pool), seats in used.items():
            room = int(np.count_nonzero(layout.device_pool[p.node_devices[n]] == pool))
            self.model.add(sum(seats) <= room)

    def _seat_cpu_tasks(self) -> None:
        layout, static = self.layout, self.layout.static
        self.cpu: dict[tuple[int, int], Any] = {}
        for i, count in enumerate(self.chosen.static.tolist()):
            if static.kind[i] == "cpu" and count:
                node = int(static.node[i])
                nodes = layout.pool_nodes[static.node_pool[i]] if node < 0 else (node,)
                for n in nodes:
                    self.cpu[i, n] = self.model.new_int_var(0, count, "")
                self.model.add(sum(self.cpu[i, n] for n in nodes) <= count)

    def _gather_gangs(self) -> None:
        """``gangs[x]``: complete gangs of a choice; ``tasks[x, q, n]``: its tasks on a node."""
        from elastico_opt.solvers.pattern.realise import _cpu_choice

        layout, p, static = self.layout, self.layout.program, self.layout.static
        workers: dict[tuple[int, int, int], list[Any]] = defaultdict(list)
        for (t, n), seat in self.seat.items():
            for i in self._items(t):
                if layout.items.linked[i]:
                    x = int(layout.link_choice[layout.items.row[i]])
                    workers[x, int(layout.items.group[i]), n].append(seat)
        cpu_choice = _cpu_choice(layout)
        for (i, n), count in self.cpu.items():
            if not static.places[i]:
                workers[cpu_choice[i], int(static.group[i]), n].append(count)
        self.gangs: dict[int, Any] = {}
        self.tasks: dict[tuple[int, int, int], Any] = {}
        by_group: dict[tuple[int, int], list[int]] = defaultdict(list)
        for x, q, n in workers:
            by_group[x, q].append(n)
        for x, count in enumerate(self.chosen.static.tolist()):
            if static.kind[x] != "choice" or not count:
                continue
            self.gangs[x] = self.model.new_int_var(0, count, "")
            for q in p.groups_of(int(static.option[x])):
                each, gpus = int(p.group_count[q]), int(p.group_gpus[q])
                for n in by_group[x, q]:
                    self.tasks[x, q, n] = self.model.new_int_var(0, each * count, "")
                    self.model.add(max(1, gpus) * self.tasks[x, q, n] <= sum(workers[x, q, n]))
                self.model.add(
                    sum(self.tasks[x, q, n] for n in by_group[x, q]) == each * self.gangs[x]
                )

    # ---- rows --------------------------------------------------------------------------

    def _host(self) -> None:
        layout, p, static = self.layout, self.layout.program, self.layout.static
        load: dict[int, list[tuple[int, Any]]] = defaultdict(list)
        for (t, n), seat in self.seat.items():
            for i in self._items(t):
                if not layout.items.linked[i]:
                    load[n].append((int(layout.items.group[i]), seat))
        for (i, n), count in self.cpu.items():
            if static.places[i]:
                load[n].append((int(static.group[i]), count))
        for (_, q, n), count in self.tasks.items():
            load[n].append((q, count))
        for n, parts in load.items():
            for h in range(len(p.host_resources)):
                terms = [int(p.group_host[q, h]) * var for q, var in parts if p.group_host[q, h]]
                if terms:
                    self.model.add(sum(terms) <= int(p.node_host[n, h]))

    def _value(self) -> None:
        """Maximise the value kept in the present stage; earlier stages must keep theirs."""
        layout, static = self.layout, self.layout.static
        pattern_worth, static_worth = (
            pattern_values(layout, self.chosen.patterns),
            static_values(layout),
        )
        parts: list[tuple[np.ndarray[Any, Any], Any, int]] = [
            (pattern_worth[t], kept, int(self.chosen.counts[t])) for t, kept in enumerate(self.kept)
        ]
        parts += [
            (static_worth[x], gangs, int(self.chosen.static[x])) for x, gangs in self.gangs.items()
        ]
        for i in {i for i, _ in self.cpu}:
            if static.places[i]:
                kept = sum(var for (column, _), var in self.cpu.items() if column == i)
                parts.append((static_worth[i], kept, int(self.chosen.static[i])))
        for s in range(self.stage + 1):
            largest = max((abs(worth[s]) for worth, _, _ in parts), default=0.0) or 1.0
            whole = [
                (math.floor(worth[s] / (largest * _GRAIN)), var, full) for worth, var, full in parts
            ]
            if s == self.stage:
                self.model.maximize(sum(weight * var for weight, var, _ in whole))
            else:
                self.model.add(
                    sum(weight * var for weight, var, _ in whole)
                    >= sum(weight * full for weight, _, full in whole)
                )

    # ---- the run -----------------------------------------------------------------------

    def seats(self, limits: Limits) -> Seats | None:
        from ortools.sat.python import cp_model

        from elastico_opt.solvers.pattern.realise import Seats

        self.solver.parameters.num_workers = 1
        # its own handler of Ctrl-C aborts the process when the signal meets another thread
        self.solver.parameters.catch_sigint_signal = False
        self.solver.parameters.random_seed = limits.seed % 2**31
        # of the two only the first is the same on every run
        self.solver.parameters.max_deterministic_time = _EFFORT
        self.solver.parameters.max_time_in_seconds = limits.remaining()
        status = self.solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        layout, p = self.layout, self.layout.program
        seats = Seats()
        taken = {
            int(layout.site_device[self.chosen.patterns.site[t]])
            for (t, _), seat in self.seat.items()
            if self.chosen.patterns.site[t] != ELSEWHERE and self.solver.value(seat)
        }
        free: dict[tuple[int, int], list[int]] = defaultdict(list)
        for g in range(p.n_devices - 1, -1, -1):
            if g not in taken:
                free[int(p.device_node[g]), int(layout.device_pool[g])].append(g)
        for (t, n), seat in self.seat.items():
            site, pool = int(self.chosen.patterns.site[t]), int(self.chosen.patterns.pool[t])
            for _ in range(self.solver.value(seat)):
                device = int(layout.site_device[site]) if site != ELSEWHERE else free[n, pool].pop()
                seats.devices.append((device, self._items(t)))
        for (i, n), count in self.cpu.items():
            seats.cpu[i] += [n] * self.solver.value(count)
        for (x, q, n), count in self.tasks.items():
            seats.tasks.setdefault((x, q), Counter())[n] = self.solver.value(count)
        return seats

    def _items(self, t: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.chosen.patterns.items[t] if i >= 0)
