"""From a plan, or from none, to a better plan: which search runs when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from elastico_opt.program import Placement, Program
from elastico_opt.program.arrays import Floats
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.improvement.general import GeneralSearch
from elastico_opt.solvers.improvement.pairs import PairValues, single_options
from elastico_opt.solvers.improvement.swapping import ExchangeSearch
from elastico_opt.solvers.improvement.worth import better, rank

#: Chains looked at per job at effort 1: where they are all there is, and between ruins; and at
#: least.
_CHAINS, _MORE_CHAINS, _LEAST_CHAINS = 5, 60, 300
#: Jobs from which chains cost more, since pair values are computed when asked, and chains per job.
_HUGE, _FEW_CHAINS = 5_000, 1.0
#: Ruins per job at effort 1: of the first jobs, how many these are, and of the others.
_RUINS, _FIRST_JOBS, _LATER_RUINS = 240, 200, 20
#: Chains, and ruins, between two looks at the clock.
_BURST_CHAINS, _BURST_RUINS = 2_000, 100
#: Rounds of ruin and recreate, each followed by chains.
_ROUNDS = 3
#: Temperatures at which ruins begin and end, in mean values of a job.
_WARM, _COOL = 0.03, 0.0005
#: Priorities that pair values can express in one number.
_MOST_TIERS = 2


@dataclass(frozen=True)
class Improved:
    """A plan and how it was found.

    Attributes
    ----------
    placements : dict of int to Placement
    values : list of float
        The objective of each tier, highest priority first.
    complete : bool
        Whether all jobs that must be placed are.
    pairs : PairValues or None
        The pair values, to be handed to the next call for a similar program.
    statistics : dict
    """

    placements: dict[int, Placement]
    values: list[float]
    complete: bool
    pairs: PairValues | None
    statistics: dict[str, int] = field(default_factory=dict)


def improve(
    program: Program,
    placements: Mapping[int, Placement] | None = None,
    limits: Limits | None = None,
    *,
    seed: int = 0,
    prices: Floats | None = None,
    costs: Floats | None = None,
    effort: float = 1.0,
    pairs: PairValues | None = None,
) -> Improved:
    """Improve a plan; never return one that is lexicographically worse.

    The work is counted in moves, so that the same arguments give the same plan unless the
    deadline of `limits` ends it.

    Parameters
    ----------
    program : Program
    placements : mapping of int to Placement, optional
        A feasible plan, perhaps of some jobs only. Default: begin with none.
    limits : Limits, optional
        Deadline and cancellation; looked at between bursts of moves.
    seed : int
    prices : (J,) floats, optional
        What each job is worth at present prices (its dual), to order the search.
    costs : (O,) floats, optional
        What each option takes of the cluster, at the prices of the resources.
    effort : float
        How much work: moves are in proportion to the number of jobs and to this.
    pairs : PairValues, optional
        Of an earlier, similar program: only what changed is computed.
    """
    return _Run(program, limits or Limits(), seed, prices, costs, effort, pairs).run(placements)


def is_pair_form(program: Program) -> bool:
    """Whether chains alone can express the program: one device each, two residents, one tier."""
    p = program
    used = np.zeros(len(p.class_type), dtype=bool)
    used[p.device_class] = True
    most = p.group_host.max(axis=0, initial=0)
    devices = np.bincount(p.device_node, minlength=p.n_nodes)
    if (2 * devices[:, None] * most > p.node_host).any():
        return False  # host resources could run short
    return bool(
        len(p.priorities) <= 1 and single_options(p).all() and (p.class_residents[used] <= 2).all()
    )


class _Run:
    """One call."""

    def __init__(
        self, program: Program, limits: Limits, seed: int, prices: Floats | None,
        costs: Floats | None, effort: float, pairs: PairValues | None,
    ) -> None:  # fmt: skip
        self.p, self.limits, self.seed, self.effort = program, limits, seed, effort
        self.prices, self.costs, self.before = prices, costs, pairs
        self.pairs: PairValues | None = None
        self.best: dict[int, Placement] = {}
        self.rank = rank(program, {})
        self.statistics = {"chains": 0, "ruins": 0}

    def run(self, placements: Mapping[int, Placement] | None) -> Improved:
        if placements is not None:
            self.best, self.rank = dict(placements), rank(self.p, placements)
        if single_options(self.p).any() and self.p.n_devices:
            self.pairs = PairValues.build(self.p, self.before)
        chains_suffice = is_pair_form(self.p)
        if chains_suffice:
            if placements is None:
                self._offer(first_fit(self.p, once=True))
            self._chains(self._per_job(alone=True))
        if not chains_suffice or self._lacking():
            if placements is None:
                self._offer(first_fit(self.p))
            for number in range(_ROUNDS):
                if self.limits.reached():
                    break
                self._chains(self._per_job())
                self._ruins(number)
            self._chains(self._per_job())
        values = list(self.rank[1:])
        return Improved(self.best, values, not self._lacking(), self.pairs, self.statistics)

    def _per_job(self, alone: bool = False) -> float:
        if self.p.n_jobs > _HUGE:
            return _FEW_CHAINS
        return _MORE_CHAINS if self.p.n_jobs <= _FIRST_JOBS and not alone else _CHAINS

    def _lacking(self) -> bool:
        return bool(self.rank[0] < self.p.job_must.sum())

    def _offer(self, placements: dict[int, Placement] | None) -> None:
        if placements is not None:
            found = rank(self.p, placements)
            if better(found, self.rank):
                self.best, self.rank = placements, found

    def _chains(self, per_job: float) -> None:
        if self.pairs is None or len(self.p.priorities) > _MOST_TIERS or self.limits.reached():
            return
        search = ExchangeSearch(self.p, self.pairs, self.best, self.seed, self.prices)
        left = int(max(per_job * len(search.jobs), _LEAST_CHAINS) * self.effort)
        while left > 0 and len(search.devices) and not self.limits.reached():
            search.run(min(left, _BURST_CHAINS))
            left -= _BURST_CHAINS
        self.statistics["chains"] += search.statistics["chains"]
        self._offer(search.placements())

    def _ruins(self, number: int) -> None:
        if not self.p.n_jobs or not self.p.n_nodes:
            return
        search = GeneralSearch(self.p, self.best, self.seed + number, self.costs)
        first = min(self.p.n_jobs, _FIRST_JOBS)
        ruins = _RUINS * first + _LATER_RUINS * (self.p.n_jobs - first)
        moves = max(1, int(ruins / _ROUNDS * self.effort))
        scale = float(np.abs(self.p.option_reward).mean()) if self.p.n_options else 0.0
        bursts = -(-moves // _BURST_RUINS)
        for burst in range(bursts):
            if self.limits.reached():
                break
            heats = [scale * _WARM * (_COOL / _WARM) ** (at / bursts) for at in (burst, burst + 1)]
            search.run(min(_BURST_RUINS, moves - burst * _BURST_RUINS), *heats)
        self.statistics["ruins"] += search.moves
        self._offer(search.placements())
