"""The joint configuration-allocation program, stated once, in Pyomo.

Every coefficient comes from `Program`; every index set from `Places`. Components:

=================  ==========================================================================
``x[o]``           option o (a profile of a job on a GPU type) is chosen
``u[q,g]``         a worker of task group q sits on device g
``z[q,n]``         tasks of group q on node n (only groups that a node must hold together)
``pair[a,b,g]``    kinds a and b (profiles of two jobs) share device g
``excess[j]``      slowdown of job j minus 1 (penalty coupling)
``loss[j]``        value job j loses to sharing (throughput coupling)
``moved[j]``       running job j changes its devices or nodes
``value[t]``       the objective of priority tier t, highest first
=================  ==========================================================================

With two residents per device ``pair`` is exact and tight: a device with two residents holds one
pair, and only pairs that may share exist. With more, every two residents are a pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from elastico_opt.formulations.places import Places
from elastico_opt.formulations.sharing import (
    Row,
    Terms,
    coupling_rows,
    integer_row,
    pair_rows,
    refuse_three,
    worst_excess,
)
from elastico_opt.formulations.symmetry import symmetric_devices
from elastico_opt.program import Program

if TYPE_CHECKING:
    import pyomo.environ as pyo


def build(program: Program, places: Places | None = None) -> pyo.ConcreteModel:
    """State the joint program of a compiled snapshot.

    Parameters
    ----------
    program : Program
    places : Places, optional
        The index sets, when the caller has them already.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With one objective per priority tier, ``objective[t]``, of which the first is active.

    Raises
    ------
    UnsupportedError
        With throughput coupling where a device could hold three residents that slow each other.
    """
    from pyomo.common.gc_manager import PauseGC

    with PauseGC():
        return _Joint(program, places or Places(program)).model


class _Joint:
    """Writes the model; one method per family of constraints."""

    def __init__(self, program: Program, places: Places) -> None:
        import pyomo.environ as pyo
        from pyomo.core.expr import LinearExpression

        self.pyo, self.linear = pyo, LinearExpression
        self.p, self.places, self.sites = program, places, places.sites
        self.model = pyo.ConcreteModel(name=program.snapshot.name)
        refuse_three(program, self.sites)
        self._variables()
        self._choice()
        self._devices()
        self._sharing()
        self._moves()
        self._symmetry()
        self._objective()

    # ---- writing -----------------------------------------------------------------------

    def _var(
        self, name: str, keys: Sequence[Any], domain: Any, upper: Callable[..., Any] | None = None
    ) -> dict[Any, Any]:
        bounds = None if upper is None else lambda _, *key: (0, upper(*key))
        var = self.pyo.Var(keys, domain=domain, bounds=bounds)
        self.model.add_component(name, var)
        return {key: var[key] for key in keys}

    def _constraint(self, name: str, rows: Mapping[Any, Row]) -> None:
        def rule(_: Any, *key: Any) -> Any:
            lower, terms, upper = rows[key if len(key) > 1 else key[0]]
            return (lower, self._sum(terms), upper)

        self.model.add_component(name, self.pyo.Constraint(list(rows), rule=rule))

    def _sum(self, terms: Terms, constant: float = 0.0) -> Any:
        return self.linear(
            constant=constant, linear_coefs=[c for c, _ in terms], linear_vars=[v for _, v in terms]
        )

    # ---- variables ---------------------------------------------------------------------

    def _variables(self) -> None:
        p, pyo, places = self.p, self.pyo, self.places
        self.x = self._var("x", range(p.n_options), pyo.Binary)
        uses = [(int(q), int(g)) for q, g in np.argwhere(places.may_use)]
        self.u = self._var("u", uses, pyo.Binary)
        room = {
            (q, n): int(rooms[n])
            for q, rooms in places.node_room.items()
            for n in np.flatnonzero(rooms).tolist()
        }
        self.z = self._var("z", list(room), pyo.Integers, lambda q, n: room[q, n])
        together = [(a, b, g) for site in self.sites for g in site.devices for a, b in site.pairs]
        self.pair = self._var("pair", together, pyo.Binary)
        self.excess: dict[int, Any] = {}
        self.loss: dict[int, Any] = {}
        most = worst_excess(places)
        if p.throughput_coupling:
            self.loss = self._var("loss", list(most), pyo.NonNegativeReals, lambda j: most[j])
        elif p.penalty > 0:
            hurt = {j: e * p.excess_unit for j, e in most.items() if p.job_weight[j] > 0}
            self.excess = self._var("excess", list(hurt), pyo.NonNegativeReals, lambda j: hurt[j])
        moving = [
            j
            for j in range(p.n_jobs)
            if p.homes[j] is not None and (p.change_costs(j)[1] > 0 or not p.job_movable[j])
        ]
        self.moved = self._var("moved", moving, pyo.Binary, lambda j: 1 if p.job_movable[j] else 0)

    # ---- a job as a whole --------------------------------------------------------------

    def _choice(self) -> None:
        p = self.p
        choose: dict[int, Row] = {}
        must: dict[int, Row] = {}
        for j in range(p.n_jobs):
            terms: Terms = [(1.0, self.x[o]) for o in p.options_of(j)]
            if p.job_must[j]:
                must[j] = (1.0, terms or [(1.0, self._nothing())], 1.0)
            elif len(terms) > 0:
                choose[j] = (None, terms, 1.0)
        self._constraint("choose", choose)
        self._constraint("must", must)
        self._gangs()

    def _nothing(self) -> Any:
        """Return a variable that is always 0: the options of a job that has none."""
        if self.model.component("nothing") is None:
            self.model.nothing = self.pyo.Var(domain=self.pyo.Binary, bounds=(0, 0))
        return self.model.nothing

    def _gangs(self) -> None:
        p, on_node = self.p, self.places.on_node
        devices: dict[int, list[int]] = defaultdict(list)
        for q, g in self.u:
            devices[q].append(g)
        nodes: dict[int, list[int]] = defaultdict(list)
        for q, n in self.z:
            nodes[q].append(n)
        gang: dict[int, Row] = {}
        together: dict[Any, Row] = {}
        once: dict[Any, Row] = {}
        for q in range(len(p.group_option)):
            o = int(p.group_option[q])
            needed = [(-float(p.group_count[q]), self.x[o])]
            if not on_node[q]:
                gang[q] = (0.0, [(1.0, self.u[q, g]) for g in devices[q]] + needed, 0.0)
                continue
            gang[q] = (0.0, [(1.0, self.z[q, n]) for n in nodes[q]] + needed, 0.0)
            if gpus := int(p.group_gpus[q]):
                for n in nodes[q]:
                    together[q, n] = (0.0, [(-float(gpus), self.z[q, n])], 0.0)
                for g in devices[q]:
                    together[q, int(p.device_node[g])][1].append((1.0, self.u[q, g]))
        for o in np.flatnonzero(p.option_workers > 1).tolist():
            for q in p.groups_of(o):
                for g in devices[q]:
                    row = once.setdefault((o, g), (None, [(-1.0, self.x[o])], 0.0))
                    row[1].append((1.0, self.u[q, g]))
        self._constraint("gang", gang)
        self._constraint("task_devices", together)
        self._constraint("one_worker", once)

    # ---- a device or node as a whole ---------------------------------------------------

    def _devices(self) -> None:
        p = self.p
        capacity: dict[Any, Row] = {}
        residents: dict[int, Row] = {}
        for site in self.sites:
            groups = np.array(site.groups)
            n_jobs = len(np.unique(self.places.group_job[groups]))
            alone = {q for q in site.groups if p.group_exclusive[q] and n_jobs > 1}
            weights = [float(site.residents if q in alone else 1) for q in site.groups]
            limited = bool(alone) or site.residents < n_jobs
            capacity_here = p.class_capacity[site.device_class]
            rows = [
                integer_row(p.group_demand[groups, r], int(capacity_here[r]))
                for r in range(len(p.device_resources))
            ]
            for g in site.devices:
                here = [self.u[q, g] for q in site.groups]
                if limited:
                    row = list(zip(weights, here, strict=True))
                    residents[g] = (None, row, float(site.residents))
                for r, (amounts, room) in enumerate(rows):
                    terms = [(float(c), v) for c, v in zip(amounts, here, strict=True) if c]
                    if terms:
                        capacity[g, r] = (None, terms, float(room))
        self._constraint("residents", residents)
        self._constraint("device_capacity", capacity)
        host: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
        for (q, n), var in self.z.items():
            for r in np.flatnonzero(p.group_host[q]).tolist():
                host[n, r].append((int(p.group_host[q, r]), var))
        rows_of_nodes: dict[Any, Row] = {}
        for (n, r), demands in host.items():
            amounts, room = integer_row(
                [c for c, _ in demands], int(p.node_host[n, r]), [var.ub for _, var in demands]
            )
            terms = [(float(c), v) for c, (_, v) in zip(amounts, demands, strict=True)]
            rows_of_nodes[n, r] = (None, terms, float(room))
        self._constraint("host_capacity", rows_of_nodes)

    # ---- who shares a device -----------------------------------------------------------

    def _sharing(self) -> None:
        hurt = self.loss if self.p.throughput_coupling else self.excess
        pairs = pair_rows(self.places, self.u, self.pair)
        coupling = coupling_rows(self.places, self.pair, hurt)
        for name, rows in {**vars(pairs), **vars(coupling)}.items():
            self._constraint(name, rows)

    # ---- running jobs ------------------------------------------------------------------

    def _moves(self) -> None:
        """Let ``moved`` be 1 unless each device and node of the home is held as it was."""
        p = self.p
        rows: dict[Any, Row] = {}
        for j, moved in self.moved.items():
            home = p.homes[j]
            assert home is not None
            placed: Terms = [(-1.0, self.x[o]) for o in p.options_of(j)]
            stays = [o for o in p.options_of(j) if home.intact and same_shape(p, o)]
            groups = [q for o in stays for q in p.groups_of(o)]
            for g in home.devices if stays else ():
                held = [(1.0, self.u[q, g]) for q in groups if (q, g) in self.u]
                rows[j, "device", g] = (0.0, [(1.0, moved), *placed, *held], None)
            for n in sorted(set(home.cpu_nodes)) if stays else ():
                times = float(home.cpu_nodes.count(n))
                cpu = [q for q in groups if not p.group_gpus[q] and (q, n) in self.z]
                sit: Terms = [(1.0, self.z[q, n]) for q in cpu]
                there = [(times * c, v) for c, v in placed]
                rows[j, "node", n] = (0.0, [(times, moved), *there, *sit], None)
            if not stays and placed:
                rows[j, "shape", 0] = (0.0, [(1.0, moved), *placed], None)
        self._constraint("move", rows)

    # ---- symmetry and objective --------------------------------------------------------

    def _symmetry(self) -> None:
        """Order alike devices by their first job; see `elastico_opt.formulations.symmetry`."""
        p, places = self.p, self.places
        rows: dict[Any, Row] = {}
        for devices in symmetric_devices(places):
            groups = np.flatnonzero(places.may_use[:, devices[0]]).tolist()
            for before, after in pairwise(devices):
                earlier: Terms = []
                for j in sorted({int(places.group_job[q]) for q in groups}):
                    mine = [q for q in groups if places.group_job[q] == j]
                    here = [(1.0, self.u[q, after]) for q in mine]
                    there = [(-1.0, self.u[q, before]) for q in mine]
                    wide = any(p.option_workers[o] > 1 for o in p.options_of(j))
                    rows[j, after] = (None, here + earlier + (there if wide else []), 0.0)
                    earlier = earlier + there
        self._constraint("symmetry", rows)

    def _objective(self) -> None:
        p, pyo = self.p, self.pyo
        tiers: dict[int, Terms] = {t: [] for t in range(len(p.priorities))}
        offset = dict.fromkeys(tiers, 0.0)
        for j in range(p.n_jobs):
            terms, lost = tiers[int(p.job_tier[j])], p.change_costs(j)
            for o in p.options_of(j):
                gain = float(p.option_reward[o]) + lost[2] - (lost[0] if p.switches(o) else 0.0)
                terms.append((gain, self.x[o]))
            offset[int(p.job_tier[j])] -= lost[2]
            if j in self.excess:
                terms.append((-float(p.job_weight[j]) * p.penalty, self.excess[j]))
            if j in self.loss:
                terms.append((-1.0, self.loss[j]))
            if j in self.moved and lost[1] > 0:
                terms.append((-lost[1], self.moved[j]))
        m = self.model
        m.value = pyo.Expression(list(tiers), rule=lambda _, t: self._sum(tiers[t], offset[t]))
        m.objective = pyo.Objective(list(tiers), rule=lambda _, t: m.value[t], sense=pyo.maximize)
        for t in list(tiers)[1:]:
            m.objective[t].deactivate()


def same_shape(program: Program, option: int) -> bool:
    """Whether an option needs as many devices and CPU places as its running job holds."""
    home = program.homes[program.option_job[option]]
    if home is None:
        return False
    cpu = sum(
        int(program.group_count[q]) for q in program.groups_of(option) if not program.group_gpus[q]
    )
    return int(program.option_workers[option]) == len(home.devices) and cpu == len(home.cpu_nodes)
