"""The rows of the aggregated program: what each pool has of each resource, and what options take.

The pool of a device resource is a GPU type; of a host resource, all nodes or the nodes that hold a
GPU type. Capacities count all that some job may use, demands what every placement takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastico_opt.program import Program
from elastico_opt.program.arrays import UNLIMITED, Bools, Floats
from elastico_opt.solvers.lagrangian.candidates import per_option

#: Name of the resource that counts residents of a device, and of the pool of all nodes.
RESIDENTS, ALL_NODES = "residents", "all nodes"


@dataclass(frozen=True, slots=True)
class Row:
    """One resource of one pool.

    Attributes
    ----------
    kind : {"gpu", "residents", "host"}
    pool : str
        A GPU type; for host resources ``nodes of <GPU type>`` or ``all nodes``.
    resource : str
    """

    kind: str
    pool: str
    resource: str


@dataclass(frozen=True)
class Rows:
    """Some rows: (O, M) demands of options, (M,) capacities, both in quanta."""

    rows: tuple[Row, ...]
    demand: Floats
    capacity: Floats


def usable(program: Program) -> tuple[Bools, Bools]:
    """Return (D,), (N,): devices and nodes that some job may use, now or after moving."""
    p = program
    nodes = p.node_schedulable & p.eligibility.any(axis=0)
    devices = nodes[p.device_node]
    for home in p.homes:
        if home is not None:
            devices[list(home.devices)] = True
            nodes[list(home.cpu_nodes)] = True
    nodes[p.device_node[devices]] = True
    return devices, nodes


def device_rows(program: Program, devices: Bools) -> Rows:
    """Return the rows of device resources and residents, per GPU type."""
    p = program
    there = np.bincount(p.device_class[devices], minlength=len(p.class_type))
    needed = _per_device(p, there > 0) * (p.group_count * p.group_gpus)[:, None]
    taken = per_option(p, needed)  # (O, R + 1)
    rows, demands, capacities = [], [], []
    for k, name in enumerate(p.gpu_types):
        classes = np.flatnonzero((p.class_type == k) & (there > 0))
        mine = p.option_type == k
        for r, resource in enumerate((*p.device_resources, RESIDENTS)):
            most = p.class_residents if resource is RESIDENTS else p.class_capacity[:, r]
            if resource is RESIDENTS and (most[classes] == UNLIMITED).any():
                continue
            # Python's integers: sums of large capacities overflow 64 bits.
            capacity = sum(int(there[a]) * int(most[a]) for a in classes)
            rows.append(Row("residents" if resource is RESIDENTS else "gpu", name, resource))
            demands.append(np.where(mine, taken[:, r], 0.0))
            capacities.append(float(capacity))
    return _rows(p, rows, demands, capacities)


def _per_device(p: Program, there: Bools) -> Floats:
    """Return (Q, R + 1): what one worker of a group takes of its device, residents last.

    An exclusive worker leaves nothing of its device: at least the least capacity among the device
    classes that it fits.
    """
    per_device = np.ones((len(p.group_option), p.group_demand.shape[1] + 1))
    per_device[:, :-1] = p.group_demand
    alone = np.flatnonzero(p.group_exclusive)
    if not len(alone):
        return per_device
    least = np.full((len(alone), per_device.shape[1]), np.inf)
    kind = p.option_type[p.group_option[alone]]
    for a in np.flatnonzero(there):
        fits = (kind == p.class_type[a]) & (p.group_demand[alone] <= p.class_capacity[a]).all(1)
        whole = np.append(p.class_capacity[a], max(1, p.class_residents[a])).astype(float)
        least[fits] = np.minimum(least[fits], whole)
    least[np.isinf(least)] = 0.0
    per_device[alone] = np.maximum(per_device[alone], least)
    return per_device


def host_rows(program: Program, devices: Bools, nodes: Bools) -> Rows:
    """Return the rows of host resources: of all usable nodes, and of those with a GPU type."""
    p = program
    rows: list[Row] = []
    demands: list[Floats] = []
    capacities: list[float] = []
    everything = _pool_host(p, nodes)
    per_task = p.group_host * p.group_count[:, None].astype(float)
    total = per_option(p, per_task)
    beside = per_option(p, per_task * (p.group_gpus > 0)[:, None])
    for h, resource in enumerate(p.host_resources):
        rows.append(Row("host", ALL_NODES, resource))
        demands.append(total[:, h])
        capacities.append(everything[h])
    for k, name in enumerate(p.gpu_types):
        mine = devices & (p.class_type[p.device_class] == k)
        holds = np.zeros(p.n_nodes, dtype=bool)
        holds[p.device_node[mine]] = True
        for h, most in enumerate(_pool_host(p, holds & nodes)):
            if most < everything[h]:
                rows.append(Row("host", f"nodes of {name}", p.host_resources[h]))
                demands.append(np.where(p.option_type == k, beside[:, h], 0.0))
                capacities.append(most)
    return _rows(p, rows, demands, capacities)


def _pool_host(p: Program, nodes: Bools) -> list[float]:
    """Return what some nodes have of each host resource, summed exactly."""
    return [float(sum(column)) for column in p.node_host[nodes].T.tolist()]


def _rows(p: Program, rows: list[Row], demands: list[Floats], capacities: list[float]) -> Rows:
    demand = np.stack(demands, axis=1) if rows else np.zeros((p.n_options, 0))
    return Rows(tuple(rows), demand, np.array(capacities, dtype=float))


__all__ = ["ALL_NODES", "RESIDENTS", "Row", "Rows", "device_rows", "host_rows", "usable"]
