"""Ruin and recreate over a program: the state, bursts of moves, and the plan they end in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from elastico_opt.program import Placement, Program
from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.greedy import job_density
from elastico_opt.solvers.improvement.rates import option_costs
from elastico_opt.solvers.improvement.ruin import MOST, Search, compiled
from elastico_opt.solvers.occupancy import Occupancy, make_tables, read_placements
from elastico_opt.solvers.placing import ENTRY, RANDOM, TASK, seeded

#: Powers of a profile's share of the cluster that its value is divided by, in turns.
_WEIGHTS = (0.5, 1.0, 0.0)


class GeneralSearch:
    """Improves a plan by ruin and recreate, burst by burst; keeps the best plan.

    Parameters
    ----------
    program : Program
    placements : mapping of int to Placement
        A feasible plan, perhaps a partial one: jobs left out are placed first, as far as they
        gain and fit.
    seed : int
        Same seed, same moves.
    costs : (O,) floats, optional
        What each option takes, at the prices of the resources. Default: at rough prices.
    """

    def __init__(
        self, program: Program, placements: Mapping[int, Placement], seed: int = 0,
        costs: Floats | None = None,
    ) -> None:  # fmt: skip
        self.p = program
        cost = option_costs(program) if costs is None else costs
        typical = float(cost.mean()) if len(cost) else 0.0
        share = cost / typical + 0.05 if typical > 0.0 else np.ones(program.n_options)
        tables = make_tables(program, share, *_WEIGHTS)
        priced = np.column_stack([tables.worth, -np.maximum(cost, 1e-12)])
        self.occupancy = Occupancy(program, tables._replace(worth=priced))
        self.state, self.tables = self.occupancy.state, self.occupancy.tables
        self.state.note[RANDOM] = seeded(seed)
        self.search = self._search(share, cost)
        self._load(placements)
        gaps = [j for j in range(program.n_jobs) if j not in placements]
        self._start(np.array(gaps, dtype=np.int64))
        self.start_values = self._totals()

    def run(self, moves: int, warm: float, cool: float) -> None:
        """Make so many moves; `warm` and `cool` are temperatures in units of the objective."""
        none = np.zeros(0, dtype=np.int64)
        compiled()(self.tables, self.state, self.search, none, -1, moves, warm, cool)

    @property
    def gained(self) -> list[float]:
        """What the best plan gained so far over the start, per tier."""
        return [float(x) for x in self.search.total[1:]]

    @property
    def moves(self) -> int:
        """Moves tried so far."""
        return int(self.search.count[0])

    def placements(self) -> dict[int, Placement]:
        """Return the best plan found."""
        s, z, p = self.state, self.search, self.p
        n, w = p.n_jobs, len(z.old_device)
        if z.count[3]:  # the present plan is the best one
            return self.occupancy.placements()
        return read_placements(p, s, z.best[:n], z.best[n + w :], z.best[n : n + w])

    # ---- set-up ------------------------------------------------------------------------

    def _search(self, share: Floats, cost: Floats) -> Search:
        p, s = self.p, self.state
        no_gpus = np.unique(p.option_job[p.group_option[p.group_gpus == 0]])
        running = [j for j, home in enumerate(p.homes) if home is not None and home.intact]
        n, w, tasks = p.n_jobs, len(s.entry), len(s.task)
        tiers = len(p.priorities)
        low = float((p.option_reward - cost).min(initial=0.0))
        left = np.full(n, low)
        np.maximum.at(left, p.option_job, p.option_reward - cost)
        density = [job_density(p, share, weight) for weight in _WEIGHTS]
        return Search(
            density=np.stack([*density, left - low], axis=1),
            order=np.arange(n),
            at=np.arange(n),
            size=np.array([n]),
            fixed=no_gpus.astype(np.int64),
            runs=np.array(running, dtype=np.int64),
            touched=np.zeros(n, dtype=np.int64),
            move=np.zeros((3, 3 * MOST), dtype=np.int64),
            key=np.zeros(3 * MOST),
            old_option=np.full(n, -1, dtype=np.int64),
            old_device=np.zeros(w, dtype=np.int64),
            old_node=np.zeros(tasks, dtype=np.int64),
            best=np.full(n + w + tasks, -1, dtype=np.int64),
            above=np.zeros(1 + tiers),
            total=np.zeros(1 + tiers),
            count=np.array([0, 0, 0, 1], dtype=np.int64),
        )

    def _load(self, placements: Mapping[int, Placement]) -> None:
        z, job = self.search, self.state.job
        for j, placement in placements.items():
            z.old_option[j] = placement.option
            task, worker = int(job[j, TASK]), int(job[j, ENTRY])
            for n, devices in placement.tasks:
                z.old_node[task] = n
                z.old_device[worker : worker + len(devices)] = devices
                task, worker = task + 1, worker + len(devices)

    def _start(self, gaps: Ints) -> None:
        p = self.p
        density = self.search.density[gaps, 0]
        bound = p.job_must[gaps] & ~p.job_movable[gaps]
        order = gaps[np.lexsort((-density, p.job_tier[gaps], ~bound, ~p.job_must[gaps]))]
        window = self.occupancy.window
        compiled()(self.tables, self.state, self.search, order, window, 0, 0.0, 0.0)

    def _totals(self) -> list[float]:
        """Return each tier's value of the start plan."""
        p = self.p
        values = [float(x) for x in self.state.delta[1:]]
        for j in range(p.n_jobs):
            if p.homes[j] is not None:
                values[int(p.job_tier[j])] -= p.change_costs(j)[2]
        return values
