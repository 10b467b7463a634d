"""Whether a profile fits, and with which devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any

import numpy as np

from elastico_opt.plan import Assignment, TaskPlacement
from elastico_opt.reasons.cluster import Cluster, State
from elastico_opt.reasons.nearest import nearest
from elastico_opt.reasons.options import Allowed, Group, Option, Shortage

#: Most orders in which unlike tasks of one profile are tried.
_ORDERS = 6


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far the tasks of an option get: all (`shortage` is None), or some."""

    option: Option
    placed: int
    devices: tuple[tuple[int, tuple[int, ...]], ...]
    shortage: Shortage | None

    def assignment(self, cluster: Cluster) -> Assignment:
        """Return the places of a fit with their names."""
        return Assignment(self.option.profile.name, tuple(
            TaskPlacement(cluster.nodes[n].name, tuple(cluster.device_id[g] for g in devices))
            for n, devices in self.devices
        ))  # fmt: skip

    @property
    def distance(self) -> float:
        """0 for a fit, else the tasks that are missing, the next one by how far it is."""
        if self.shortage is None:
            return 0.0
        return self.option.tasks - self.placed - 1 + self.shortage.distance


def attempt(
    cluster: Cluster, state: State, option: Option, allowed: Allowed, refused: Any, harm: Any
) -> Attempt:
    """Place an option's tasks where they fit, or say what is missing.

    Exact for one group of tasks. For several unlike ones a few orders are tried, and the attempt
    that gets most tasks in is returned.

    Parameters
    ----------
    refused : (D,) bool
        Devices that slowdown limits rule out.
    harm : (D,) float
        Devices with less of it are taken first.
    """
    orders = list(islice(permutations(range(len(option.groups))), _ORDERS))
    tight = [False, True] if len(orders) > 1 else [False]
    best: Attempt | None = None
    for order, best_fit in product(orders, tight):
        found = _in_order(cluster, state, option, allowed, refused, harm, order, best_fit)
        if found.shortage is None:
            return found
        if best is None or found.placed > best.placed:
            best = found
    assert best is not None
    return best


def _in_order(
    cluster: Cluster, state: State, option: Option, allowed: Allowed, refused: Any, harm: Any,
    order: Sequence[int], best_fit: bool,
) -> Attempt:  # fmt: skip
    """Place one group after the other, each on the nodes with least harm, then most room.

    With `best_fit`, then least room.
    """
    placed = 0
    places: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for index in order:
        group = option.groups[index]
        usable = usable_devices(cluster, state, option, group, allowed, refused)
        room = np.minimum(tasks_per_node(cluster, state, group, usable, allowed), group.count)
        node_harm = _node_harm(cluster, usable, harm, group.gpus)
        take = _fill(room, group.count, node_harm, best_fit)
        held: list[int] = []
        for n in np.flatnonzero(take):
            devices = _first_devices(cluster, usable, harm, int(n), int(take[n]) * group.gpus)
            held += devices
            for i in range(int(take[n])):
                part = devices[i * group.gpus : (i + 1) * group.gpus]
                places.setdefault(index, []).append((int(n), tuple(part)))
        state = state.with_tasks(held, take, group.host)
        placed += int(take.sum())
        if take.sum() < group.count:
            shortage = nearest(cluster, state, option, group, allowed, refused)
            return Attempt(option, placed, (), shortage)
    in_order = [place for index in sorted(places) for place in places[index]]
    return Attempt(option, placed, tuple(in_order), None)


def usable_devices(
    cluster: Cluster, state: State, option: Option, group: Group, allowed: Allowed, refused: Any
) -> Any:
    """Return the (D,) devices that one worker of a group could take."""
    if not group.gpus:
        return np.zeros(cluster.n_devices, dtype=bool)
    usable = allowed.devices & (cluster.device_type == option.type) & ~state.taken & ~state.locked
    usable &= (state.free >= group.demand).all(axis=1).astype(bool)
    usable &= state.residents < cluster.slots
    if group.task.exclusive:
        usable &= state.residents == 0
    return usable & ~(refused & (state.residents > 0))


def tasks_per_node(
    cluster: Cluster, state: State, group: Group, usable: Any, allowed: Allowed
) -> Any:
    """Return (N,) how many tasks of a group each node takes, at most the group's count."""
    if group.gpus:
        room = np.bincount(cluster.device_node[usable], minlength=cluster.n_nodes) // group.gpus
    else:
        room = np.where(allowed.nodes, group.count, 0)
    for h in np.flatnonzero(group.host):
        fits = np.maximum(state.host[:, h] // group.host[h], 0)
        room = np.minimum(room, np.minimum(fits, group.count).astype(np.int64))
    return room


def _fill(room: Any, count: int, harm: Any, best_fit: bool) -> Any:
    """Choose nodes for `count` tasks."""
    take = np.zeros(len(room), dtype=np.int64)
    open_nodes = np.flatnonzero(room > 0)
    size = room[open_nodes] if best_fit else -room[open_nodes]
    for n in open_nodes[np.lexsort((size, harm[open_nodes]))]:
        if count <= 0:
            break
        take[n] = min(int(room[n]), count)
        count -= int(take[n])
    return take


def _node_harm(cluster: Cluster, usable: Any, harm: Any, gpus: int) -> Any:
    if not gpus or not harm.any():
        return np.zeros(cluster.n_nodes)
    node_harm = np.full(cluster.n_nodes, np.inf)
    np.minimum.at(node_harm, cluster.device_node[usable], harm[usable])
    return node_harm


def _first_devices(cluster: Cluster, usable: Any, harm: Any, node: int, count: int) -> list[int]:
    first, last = cluster.node_start[node : node + 2]
    here = first + np.flatnonzero(usable[first:last])
    return [int(g) for g in here[np.argsort(harm[here], kind="stable")][:count]]
