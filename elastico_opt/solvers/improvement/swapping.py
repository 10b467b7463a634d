"""Ejection chains over a program's single-device jobs; all others stay where they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from elastico_opt.program import Placement, Program
from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.improvement import exchange
from elastico_opt.solvers.improvement.exchange import Slots
from elastico_opt.solvers.improvement.pairs import TIER_SCALE, PairValues, single_options
from elastico_opt.solvers.placing import seeded

#: Devices that a job looks at in one step of a chain: all, or so many where there are more.
FEW, WINDOW = 256, 64
#: Jobs beyond which prices are estimated from fewer partners.
_LARGE = 20_000
_TRIES = 64


class ExchangeSearch:
    """Improves who shares a device with whom.

    Parameters
    ----------
    program : Program
    values : PairValues
        Of this program.
    placements : mapping of int to Placement
        A feasible plan, perhaps empty: chains also place jobs that are left out.
    seed : int
    prices : (J,) floats, optional
        What each job is worth where it goes next (its dual); else estimated.
    """

    def __init__(
        self, program: Program, values: PairValues, placements: Mapping[int, Placement],
        seed: int = 0, prices: Floats | None = None,
    ) -> None:  # fmt: skip
        self.p, self.values, self.given = program, values, placements
        self._single = single_options(program)
        self.jobs, self.devices, rows = self._participants()
        self.slots = self._slots(seed)
        p, s = values.pairs, self.slots
        exchange.load(p, s, rows)
        if prices is None:
            exchange.estimate(p, s, _TRIES if len(self.jobs) <= _LARGE else _TRIES // 4)
        else:
            s.price[:] = prices[self.jobs]
        self._queue()
        self.breadth = np.array([3])

    def run(self, chains: int) -> float:
        """Look at so many chains more; return what they gained, tiers scaled into one number."""
        return float(exchange.search(self.values.pairs, self.slots, chains, self.breadth))

    @property
    def statistics(self) -> dict[str, int]:
        """Chains looked at and applied, and kicks."""
        count = self.slots.count
        return {
            "chains": int(count[exchange.TRIED]),
            "applied": int(count[exchange.APPLIED]),
            "kicks": int(count[exchange.KICKS]),
        }

    def placements(self) -> dict[int, Placement]:
        """Return the plan."""
        mine = set(self.jobs.tolist())
        found = {j: placement for j, placement in self.given.items() if j not in mine}
        device, p = self.slots.device, self.p
        starts, option, node = p.option_start, self.values.option, p.device_node
        for at, row in ((exchange.ONE, exchange.ONE_OPTION), (exchange.TWO, exchange.TWO_OPTION)):
            used = np.flatnonzero(device[:, at] >= 0)
            jobs, devices = self.jobs[device[used, at]], self.devices[used]
            options = starts[jobs] + option[device[used, row]]
            for j, o, n, g in zip(
                jobs.tolist(), options.tolist(), node[devices].tolist(), devices.tolist(),
                strict=True,
            ):  # fmt: skip
                found[j] = Placement(o, ((n, (g,)),))
        return dict(sorted(found.items()))

    # ---- set-up ------------------------------------------------------------------------

    def _participants(self) -> tuple[Ints, Ints, Ints]:
        """Return jobs and devices that take part, and the latter's residents and options."""
        p, job_class = self.p, self.values.job_class
        held = np.zeros(p.n_devices, dtype=np.int64)
        fixed = np.zeros(p.n_devices, dtype=bool)
        resident: list[tuple[int, int]] = []
        for j, placement in self.given.items():
            if self._single[placement.option] and job_class[j] >= 0:
                resident.append((placement.tasks[0][1][0], j))
            else:
                for _, held_by in placement.tasks:
                    fixed[list(held_by)] = True
        where = np.array(resident, dtype=np.int64).reshape(-1, 2)
        np.add.at(held, where[:, 0], 1)
        free = ~fixed & (held <= 2) & (p.class_residents[p.device_class] >= 1)
        inside = free[where[:, 0]]
        placed = np.zeros(p.n_jobs, dtype=bool)
        placed[list(self.given)] = True
        takes = (job_class >= 0) & ~placed
        takes[where[inside, 1]] = True
        jobs: Ints = np.flatnonzero(takes)
        devices: Ints = np.flatnonzero(free)
        return jobs, devices, self._rows(jobs, devices, where[inside])

    def _rows(self, jobs: Ints, devices: Ints, where: Ints) -> Ints:
        """Return device, residents and options of each device in use."""
        p, values = self.p, self.values
        local_device = np.full(p.n_devices, -1, dtype=np.int64)
        local_device[devices] = np.arange(len(devices))
        local_job = np.full(p.n_jobs, -1, dtype=np.int64)
        local_job[jobs] = np.arange(len(jobs))
        types = len(p.class_type)
        rows: dict[int, list[int]] = {}
        for g, j in where.tolist():
            at = int(values.job_class[j]) * types + int(p.device_class[g])
            wanted = self.given[j].option - int(p.option_start[j])
            first, last = int(values.pairs.start[at]), int(values.pairs.start[at + 1])
            found = [i for i in range(first, last) if values.option[i] == wanted]
            # an option that another one beats was dropped: that one fits as well, -1 = find it
            row = rows.setdefault(g, [int(local_device[g]), -1, -1, -1, -1])
            slot = 1 if row[1] < 0 else 2
            row[slot], row[slot + 2] = int(local_job[j]), found[0] if found else -1
        for row in rows.values():
            if row[3] < 0 or (row[2] >= 0 and row[4] < 0):
                row[3] = row[4] = -1
        return np.array(list(rows.values()), dtype=np.int64).reshape(-1, 5)

    def _slots(self, seed: int) -> Slots:
        p, jobs, devices = self.p, self.jobs, self.devices
        n, local = len(jobs), np.full(p.n_devices, -1, dtype=np.int64)
        local[devices] = np.arange(len(devices))
        access = p.eligibility.astype(np.int64) * (1 + p.node_schedulable)
        job = np.zeros((n, 7), dtype=np.int64)
        job[:, exchange.KIND], job[:, exchange.ROW] = (
            self.values.job_class[jobs],
            p.job_eligibility[jobs],
        )
        job[:, exchange.MOVABLE], job[:, exchange.MUST] = p.job_movable[jobs], p.job_must[jobs]
        job[:, exchange.HOME] = job[:, exchange.AT] = -1
        move = np.zeros(n)
        scale = TIER_SCALE ** (p.job_tier.max(initial=0) - p.job_tier[jobs])
        for i, j in enumerate(jobs.tolist()):
            home = p.homes[j]
            if home is None:
                continue
            move[i] = p.change_costs(j)[1] * scale[i]
            if home.intact and len(home.devices) == 1 and not home.cpu_nodes:
                g = home.devices[0]
                if access[p.job_eligibility[j], p.device_node[g]]:
                    job[i, exchange.HOME] = local[g]
        device = np.full((len(devices), 7), -1, dtype=np.int64)
        device[:, exchange.SORT] = p.device_class[devices]
        device[:, exchange.NODE], device[:, exchange.SAVED] = p.device_node[devices], 0
        window = FEW if len(devices) <= FEW else WINDOW
        plain = not move.any() and bool((access == 2).all()) and bool(p.job_movable[jobs].all())
        return Slots(
            job=job, device=device, move=move, price=np.zeros(n), access=access,
            host=self._host_left(),
            queue=np.zeros(n, dtype=np.int64), worth=np.zeros(len(devices)),
            empty=np.zeros((len(p.class_type), len(devices) + 1), dtype=np.int64),
            journal=np.zeros((len(devices), 5), dtype=np.int64),
            count=np.array([0, 0, 0, seeded(seed), 0, 0, 0, plain, window]),
        )  # fmt: skip

    def _host_left(self) -> Ints:
        """Return what jobs that do not take part leave of the nodes' host resources."""
        p = self.p
        left = p.node_host.copy()
        if not self.values.pairs.shape[2]:
            return left[:, :0].copy()
        mine = set(self.jobs.tolist())
        for j, placement in self.given.items():
            if j in mine:
                continue
            groups = [q for q in p.groups_of(placement.option) for _ in range(p.group_count[q])]
            for q, (n, _) in zip(groups, placement.tasks, strict=True):
                left[n] -= p.group_host[q]
        return left

    def _queue(self) -> None:
        """Let jobs that are not placed come first, the most valuable ones before the others."""
        s, single = self.slots, self.values.pairs.single
        alone = single.max(axis=0, initial=-np.inf)[s.job[:, exchange.KIND]]
        order = np.lexsort((-alone, s.job[:, exchange.AT] >= 0))
        s.queue[:] = order
        s.job[:, exchange.QUEUED] = 1
        s.count[exchange.LENGTH] = len(order)
