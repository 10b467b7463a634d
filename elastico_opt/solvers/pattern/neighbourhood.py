"""Improve a plan node group by node group: large neighbourhood search on sub-clusters.

A few nodes are emptied, and the jobs that were on them compete again with jobs that are not
placed. The sub-cluster is a snapshot of its own, so every rule of the contract holds in it by
construction, and the pattern form solves it to proof or to a short time limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from elastico_opt.plan import Plan
from elastico_opt.program import Placement, Program, compile_program
from elastico_opt.program.arrays import Ints
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.improvement.worth import better
from elastico_opt.verification import evaluate

#: Devices of a sub-cluster, unplaced jobs that compete for it, and seconds for its solution.
DEVICES, CANDIDATES, SECONDS = 24, 80, 2.0
#: Sub-clusters tried in a row without gain before the search ends.
FAILURES = 12

SubSolver = Callable[[Program, Plan, Limits], Plan | None]


class NodeSearch:
    """Re-solves sub-clusters of a plan, one after the other."""

    def __init__(self, program: Program, solve: SubSolver, limits: Limits) -> None:
        self.program, self.solve, self.limits = program, solve, limits
        self._random = np.random.default_rng(limits.seed)
        self._devices = np.bincount(program.device_node, minlength=program.n_nodes)

    def run(
        self,
        placements: Mapping[int, Placement],
        seconds: float,
        on_gain: Callable[[dict[int, Placement]], bool],
    ) -> dict[int, Placement]:
        """Improve until nothing gains or time is over.

        `on_gain` is told every better plan and says whether to go on.
        """
        best = dict(placements)
        if self.program.n_devices <= DEVICES:
            return best  # the only sub-cluster is the cluster, which is being solved already
        ends = min(self.limits.deadline, time.monotonic() + seconds)
        failures = 0
        while (
            failures < FAILURES and time.monotonic() < ends and not self.limits.cancelled.is_set()
        ):
            found = self._step(best, ends)
            failures = failures + 1 if found is None else 0
            if found is not None:
                best = found
                if not on_gain(best):
                    break
        return best

    def _step(self, placements: dict[int, Placement], ends: float) -> dict[int, Placement] | None:
        """Re-solve one random sub-cluster; return the better plan, or None."""
        nodes = self._nodes(placements)
        inside = [
            j for j, placement in placements.items() if all(n in nodes for n, _ in placement.tasks)
        ]
        waiting = np.array(
            [j for j in range(self.program.n_jobs) if j not in placements], dtype=np.int64
        )
        picked = self._random.permutation(waiting)[:CANDIDATES]
        jobs = sorted([*inside, *picked.tolist()])
        if not jobs or not nodes:
            return None
        snapshot = self.program.snapshot
        part = snapshot.replace(
            nodes=tuple(snapshot.nodes[n] for n in sorted(nodes)),
            jobs=tuple(snapshot.jobs[j] for j in jobs),
        )
        before = self.program.to_plan({j: placements[j] for j in inside})
        sub = compile_program(part)
        limits = replace(self.limits, deadline=min(ends, time.monotonic() + SECONDS))
        after = self.solve(sub, before, limits)
        if after is None or not _gains(part, after, before):
            return None
        kept = {j: placement for j, placement in placements.items() if j not in set(inside)}
        return {**kept, **self.program.from_plan(after)}

    def _nodes(self, placements: Mapping[int, Placement]) -> set[int]:
        """Draw nodes with about `DEVICES` devices; nodes shared with jobs outside are left out."""
        order: Ints = self._random.permutation(self.program.n_nodes)
        total = np.cumsum(np.maximum(self._devices[order], 1))
        chosen = set(order[: max(1, int(np.searchsorted(total, DEVICES, side="right")))].tolist())
        for placement in placements.values():
            held = {n for n, _ in placement.tasks}
            if held & chosen and not held <= chosen:
                chosen -= held
        return chosen


def _gains(snapshot: object, new: Plan, old: Plan) -> bool:
    """Whether a plan is lexicographically better than another."""
    one, other = evaluate(snapshot, new).tiers, evaluate(snapshot, old).tiers  # type: ignore[arg-type]
    return better(list(one.values()), list(other.values()))
