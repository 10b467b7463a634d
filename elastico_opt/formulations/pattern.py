"""The pattern program over a given set of columns, stated in Pyomo.

The Dantzig-Wolfe reformulation of `elastico_opt.formulations.joint`: a device runs one pattern, a
set of workers that may share it. Its index sets are those of
`elastico_opt.formulations.layout.Layout`. Components:

=================  ==========================================================================
``y[p]``           devices that run pattern p
``x[kind,i]``      static column i: gangs that make a ``choice``, ``task`` s of a choice on a node
                   pool, ``cpu`` tasks on a node pool
``job_class[c]``   at most as many placements as the class has jobs
``link[i]``        what a choice or task needs, workers or tasks, is provided
``pool[k]``        at most as many patterns as the pool has devices
``site[s]``        at most one pattern on a device that a running job calls home
``host[n,h]``      host resource h of node pool n
``value[t]``       the objective of stage t: must-place jobs placed (where there are any), then
                   the value of each priority tier, highest first
=================  ==========================================================================

The optimum over all patterns bounds every plan. It is a plan's value where no node border is
aggregated away and no gang could be slowed on some of its devices only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from elastico_opt.formulations.columns import Patterns, static_upper
from elastico_opt.formulations.layout import ELSEWHERE, Layout

if TYPE_CHECKING:
    import pyomo.environ as pyo

Terms = list[tuple[float, Any]]


def build(layout: Layout, patterns: Patterns) -> pyo.ConcreteModel:
    """State the pattern program over the static columns and the given patterns.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With one objective per stage of the layout, ``objective[t]``, of which the first is
        active.
    """
    from pyomo.common.gc_manager import PauseGC

    with PauseGC():
        return _Pattern(layout, patterns).model


def build_tiers(layout: Layout, patterns: Patterns) -> pyo.ConcreteModel:
    """State the pattern program with one objective per tier.

    That all must-place jobs are placed is the row ``must`` then, not a stage.
    """
    from pyomo.common.gc_manager import PauseGC

    with PauseGC():
        return _Pattern(layout, patterns, must_row=True).model


class _Pattern:
    """Writes the model; one method per family of constraints."""

    def __init__(self, layout: Layout, patterns: Patterns, must_row: bool = False) -> None:
        import pyomo.environ as pyo
        from pyomo.core.expr import LinearExpression

        self.pyo, self.linear = pyo, LinearExpression
        self.p, self.layout, self.patterns = layout.program, layout, patterns
        self.residents = [[i for i in row if i >= 0] for row in patterns.items.tolist()]
        self.model = pyo.ConcreteModel(name=self.p.snapshot.name)
        self._variables()
        self._jobs()
        self._links()
        self._devices()
        self._hosts()
        self._objective(must_row)

    def _constraint(self, name: str, rows: Mapping[Any, tuple[Terms, float]]) -> None:
        def rule(_: Any, *key: Any) -> Any:
            terms, upper = rows[key if len(key) > 1 else key[0]]
            return (None, self._sum(terms), upper)

        filled = [key for key, (terms, _) in rows.items() if terms]
        self.model.add_component(name, self.pyo.Constraint(filled, rule=rule))

    def _sum(self, terms: Terms, constant: float = 0.0) -> Any:
        return self.linear(
            constant=constant, linear_coefs=[c for c, _ in terms], linear_vars=[v for _, v in terms]
        )

    # ---- variables ---------------------------------------------------------------------

    def _variables(self) -> None:
        pyo, static = self.pyo, self.layout.static
        most = static_upper(self.layout)
        keys = [(kind, i) for i, kind in enumerate(static.kind)]
        self.model.x = pyo.Var(
            keys, domain=pyo.Integers, bounds=lambda _, kind, i: (0, float(most[i]))
        )
        self.model.y = pyo.Var(
            range(len(self.patterns)), domain=pyo.Integers, bounds=lambda _, p: (0, self._most(p))
        )
        self.x = [self.model.x[key] for key in keys]
        self.y = [self.model.y[p] for p in range(len(self.patterns))]

    def _most(self, p: int) -> float:
        """Return how many devices could run a pattern, by each row that limits it."""
        layout, items = self.layout, self.layout.items
        pool = int(self.patterns.pool[p])
        most = 1 if self.patterns.site[p] != ELSEWHERE else len(layout.pool_devices[pool])
        single = Counter(int(items.job_class[i]) for i in self.residents[p] if not items.linked[i])
        for c, count in single.items():
            most = min(most, len(layout.class_jobs[c]) // count)
        for h, amount in self._host(p).items():
            most = min(most, int(self._host_room(int(layout.pool_node_pool[pool]), h) // amount))
        return float(most)

    # ---- jobs --------------------------------------------------------------------------

    def _jobs(self) -> None:
        layout, items, static = self.layout, self.layout.items, self.layout.static
        rows: list[Terms] = [[] for _ in layout.class_jobs]
        for p, residents in enumerate(self.residents):
            single = [int(items.job_class[i]) for i in residents if not items.linked[i]]
            for c, count in Counter(single).items():
                rows[c].append((float(count), self.y[p]))
        for i, c in enumerate(static.job_class.tolist()):
            if static.places[i]:
                rows[c].append((1.0, self.x[i]))
        sizes = [float(len(jobs)) for jobs in layout.class_jobs]
        self._constraint("job_class", dict(enumerate(zip(rows, sizes, strict=True))))

    def _links(self) -> None:
        layout, items = self.layout, self.layout.items
        rows: dict[int, Terms] = defaultdict(list)
        for row, column, need in zip(*layout.static.entries, strict=True):
            if layout.n_classes <= row < layout.first_pool_row:
                rows[int(row) - layout.n_classes].append((float(need), self.x[column]))
        for p, residents in enumerate(self.residents):
            provided: Counter[int] = Counter()
            for i in residents:
                serves = (items.row[i], items.row2[i]) if items.linked[i] else (items.row2[i],)
                provided.update(int(row) - layout.n_classes for row in serves if row >= 0)
            for link, count in provided.items():
                rows[link].append((-float(count), self.y[p]))
        self._constraint("link", {link: (rows[link], 0.0) for link in sorted(rows)})

    # ---- devices and nodes -------------------------------------------------------------

    def _devices(self) -> None:
        layout = self.layout
        pools: list[Terms] = [[] for _ in layout.pool_devices]
        sites: list[Terms] = [[] for _ in layout.site_device]
        places = zip(self.patterns.pool.tolist(), self.patterns.site.tolist(), strict=True)
        for p, (pool, site) in enumerate(places):
            pools[pool].append((1.0, self.y[p]))
            if site != ELSEWHERE:
                sites[site].append((1.0, self.y[p]))
        sizes = [float(len(devices)) for devices in layout.pool_devices]
        self._constraint("pool", dict(enumerate(zip(pools, sizes, strict=True))))
        self._constraint("site", {s: (terms, 1.0) for s, terms in enumerate(sites)})

    def _hosts(self) -> None:
        """State host rows in parts of a quantum: a worker has a share of its task's demand."""
        p, layout, static = self.p, self.layout, self.layout.static
        rows: dict[tuple[int, int], Terms] = {
            (n, h): [] for n in range(len(layout.pool_nodes)) for h in range(len(p.host_resources))
        }
        for i, kind in enumerate(static.kind):
            if kind == "cpu":
                for h, amount in enumerate(p.group_host[static.group[i]].tolist()):
                    if amount:
                        units = float(amount * layout.host_units)
                        rows[int(static.node_pool[i]), h].append((units, self.x[i]))
        for t in range(len(self.patterns)):
            n = int(layout.pool_node_pool[self.patterns.pool[t]])
            for h, units in self._host(t).items():
                rows[n, h].append((float(units), self.y[t]))
        self._constraint(
            "host", {(n, h): (terms, self._host_room(n, h)) for (n, h), terms in rows.items()}
        )

    def _host(self, pattern: int) -> Counter[int]:
        """Return the units that a pattern takes of each host resource."""
        p, units = self.p, self.layout.host_units
        taken: Counter[int] = Counter()
        for i in self.residents[pattern]:
            q = int(self.layout.items.group[i])
            for h, amount in enumerate(p.group_host[q].tolist()):
                if amount:
                    taken[h] += amount * units // int(p.group_gpus[q])
        return taken

    def _host_room(self, node_pool: int, resource: int) -> float:
        nodes = list(self.layout.pool_nodes[node_pool])
        return float(self.p.node_host[nodes, resource].sum()) * self.layout.host_units

    # ---- objective ---------------------------------------------------------------------

    def _objective(self, must_row: bool) -> None:
        layout, static, pyo = self.layout, self.layout.static, self.pyo
        stages: dict[int, Terms] = {t: [] for t in range(layout.n_stages)}
        for i, c in enumerate(static.job_class.tolist()):
            if static.value[i]:
                stages[int(layout.class_stage[c])].append((float(static.value[i]), self.x[i]))
            if static.places[i] and layout.n_must and layout.class_must[c]:
                stages[0].append((1.0, self.x[i]))
        for p, residents in enumerate(self.residents):
            for t, worth in self._worth(residents).items():
                stages[t].append((worth, self.y[p]))
        m = self.model
        if must_row and layout.n_must:
            self._must(stages.pop(0))
        # what evicting every running job would cost
        shift = int(layout.n_must > 0)
        offsets = {t + shift: float(cost) for t, cost in enumerate(layout.offset)}
        m.value = pyo.Expression(
            list(stages), rule=lambda _, t: self._sum(stages[t], offsets.get(t, 0.0))
        )
        m.objective = pyo.Objective(list(stages), rule=lambda _, t: m.value[t], sense=pyo.maximize)
        for t in list(stages)[1:]:
            m.objective[t].deactivate()

    def _must(self, placed: Terms) -> None:
        if not placed:  # no column places them: a variable that is 0 makes the row infeasible
            self.model.nothing = self.pyo.Var(domain=self.pyo.Binary, bounds=(0, 0))
            placed = [(1.0, self.model.nothing)]
        must = (float(self.layout.n_must), self._sum(placed), None)
        self.model.must = self.pyo.Constraint(rule=lambda _: must)

    def _worth(self, residents: list[int]) -> dict[int, float]:
        """Return what a pattern adds to each stage: rewards less what residents lose."""
        p, layout, items = self.p, self.layout, self.layout.items
        worth: dict[int, float] = defaultdict(float)
        for position, i in enumerate(residents):
            c, option = int(items.job_class[i]), int(items.option[i])
            others = [other for at, other in enumerate(residents) if at != position]
            excess = sum(int(p.excess[items.workload[i], items.workload[b]]) for b in others)
            lost = p.loss(option, excess) / int(p.option_workers[option])
            worth[int(layout.class_stage[c])] += float(items.value[i]) - lost
            if not items.linked[i] and layout.n_must and layout.class_must[c]:
                worth[0] += 1.0
        return worth
