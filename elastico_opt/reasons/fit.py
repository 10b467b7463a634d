"""Whether a profile fits, and if not, what is missing where it comes closest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from elastico_opt.plan import Assignment, TaskPlacement
from elastico_opt.reasons.cluster import Cluster, State

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Profile, Task

#: Most orders in which unlike tasks of one profile are tried.
_ORDERS = 6


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where a job may go: its devices (D,), and the nodes (N,) for tasks without devices."""

    devices: Any
    nodes: Any


@dataclass(frozen=True, slots=True)
class Group:
    """Equal tasks of a profile, in quanta."""

    task: Task
    demand: Any
    host: Any

    @property
    def count(self) -> int:
        """Return how many tasks there are."""
        return self.task.count

    @property
    def gpus(self) -> int:
        """Return how many devices each takes."""
        return self.task.gpus


@dataclass(frozen=True, slots=True)
class Option:
    """A profile on one GPU type (-1: on none)."""

    job: Job
    profile: Profile
    type: int
    groups: tuple[Group, ...]

    @property
    def tasks(self) -> int:
        """Return the number of tasks of all groups."""
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True)
class Cause:
    """What blocks: a resource of a device or host, or a rule.

    Attributes
    ----------
    kind : str
        ``gpu`` or ``host`` (a resource is short), ``gpus`` (too few free devices),
        ``residents``, ``exclusive``, ``interference``.
    resource : int
        Index of the resource, -1 for a rule.
    """

    kind: str
    resource: int = -1


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why one task of a group has no place, and where it comes closest.

    Attributes
    ----------
    node : int or None
        The nearest node; None when no node has a device the job may use.
    causes : tuple of Cause
        What is short on that node, the one that decides first.
    distance : float
        0 = fits, 1 = nothing of what it needs is there.
    largest, total : int
        Of the deciding cause: the largest free piece (among pieces where all else fits, if
        there are any), and all that is free, over the nodes the job may use.
    needs, free : int
        What the task needs of it, and what the nearest node has. Quanta, or a number of GPUs.
    """

    option: Option
    group: Group
    node: int | None
    causes: tuple[Cause, ...]
    distance: float
    needs: int
    free: int
    largest: int
    total: int


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


# ---- where it comes closest ----------------------------------------------------------------


def nearest(
    cluster: Cluster, state: State, option: Option, group: Group, allowed: Allowed, refused: Any
) -> Shortage:
    """Return what one more task of a group lacks on the node that comes closest.

    Closest is the node with fewest kinds of shortage, then the smallest one relative to the need.
    """
    host = _host_ratios(state, group)
    kinds = (host > 0).sum(axis=1)
    distance = host.max(axis=1, initial=0.0)
    candidates = allowed.nodes
    devices: _Devices | None = None
    if group.gpus:
        devices = _Devices(cluster, state, option, group, allowed, refused)
        kinds = kinds + (devices.ratio > 0)
        distance = np.maximum(distance, devices.ratio)
        candidates = devices.present
    if not candidates.any():
        return Shortage(option, group, None, (Cause("gpus"),), 1.0, group.gpus, 0, 0, 0)
    order = np.lexsort((distance, kinds, ~candidates))
    node = int(order[0])
    causes = [(float(host[node, h]), Cause("host", int(h))) for h in np.flatnonzero(host[node])]
    if devices is not None and devices.ratio[node] > 0:
        worst = float(devices.ratio[node]) + 1e-9  # of equals, the device comes first
        causes += [(worst, cause) for cause in devices.causes_at(node)]
    names = tuple(cause for _, cause in sorted(causes, key=lambda item: -item[0]))
    if names[0].kind == "host":
        return _host_shortage(
            state, option, group, node, names, candidates, host, devices, float(distance[node])
        )
    assert devices is not None
    host_fits = host.max(axis=1, initial=0.0) == 0
    return devices.shortage(node, names, host_fits, float(distance[node]))


def _host_ratios(state: State, group: Group) -> Any:
    """Return (N, H) how much of each host resource is short, relative to the need."""
    need = np.where(group.host > 0, group.host, 1).astype(float)
    short = np.where(group.host > 0, group.host - state.host, 0)
    return np.maximum(short, 0).astype(float) / need


def _host_shortage(
    state: State, option: Option, group: Group, node: int, causes: tuple[Cause, ...],
    candidates: Any, host: Any, devices: _Devices | None, distance: float,
) -> Shortage:  # fmt: skip
    h = causes[0].resource
    others = np.delete(host, h, axis=1).max(axis=1, initial=0.0) == 0
    if devices is not None:
        others &= devices.ratio == 0
    free = state.host[:, h]
    among = candidates & others if (candidates & others).any() else candidates
    return Shortage(
        option, group, node, causes, distance, needs=int(group.host[h]), free=int(free[node]),
        largest=int(max(free[among])), total=int(np.maximum(free[candidates], 0).sum()),
    )  # fmt: skip


class _Devices:
    """How far each device is from taking one worker, and each node from taking one task.

    Attributes
    ----------
    ratio : (N,) float
        Mean shortage of the nearest `gpus` devices of each node, a missing device counting 1.
    present : (N,) bool
        Nodes with a device that the job may use.
    """

    def __init__(
        self, cluster: Cluster, state: State, option: Option, group: Group, allowed: Allowed,
        refused: Any,
    ) -> None:  # fmt: skip
        self.cluster, self.state, self.option, self.group = cluster, state, option, group
        self.causes, self.blocked = _blocks(cluster, state, group, refused)
        mine = allowed.devices & (cluster.device_type == option.type)
        self.mine = np.flatnonzero(mine)
        blocked = self.blocked[self.mine]
        kinds = (blocked > 0).sum(axis=1)
        worst = blocked.max(axis=1, initial=0.0)
        node = cluster.device_node[self.mine]
        order = np.lexsort((blocked.sum(axis=1), worst, kinds, node))
        self.mine, node, worst = self.mine[order], node[order], worst[order]
        first = np.searchsorted(node, np.arange(cluster.n_nodes))
        rank = np.arange(len(node)) - first[node]
        best = rank < group.gpus
        found = np.bincount(node[best], minlength=cluster.n_nodes)
        short = np.bincount(node[best], weights=worst[best], minlength=cluster.n_nodes)
        self.ratio = (short + (group.gpus - found)) / group.gpus
        self.present = found > 0
        self.usable = np.bincount(node[worst == 0], minlength=cluster.n_nodes)
        self._node, self._worst, self._best = node, worst, best

    def causes_at(self, node: int) -> list[Cause]:
        """Return what blocks the nearest device of a node that one task would still need."""
        devices = self.mine[(self._node == node) & self._best & (self._worst > 0)]
        if not len(devices):
            return [Cause("gpus")]
        blocked = self.blocked[devices[0]]
        order = np.argsort(-blocked, kind="stable")
        causes = [self.causes[c] for c in order if blocked[c] > 0]
        if causes[0].kind == "gpu" and self.usable.any():
            return [Cause("gpus")]  # some devices would do: what is short is their number
        return causes

    def shortage(
        self, node: int, causes: tuple[Cause, ...], host_fits: Any, distance: float
    ) -> Shortage:
        """Return the shortage of devices, largest piece and total over nodes whose host fits.

        Where whole devices are counted, the node with most of them is named.
        """
        cause, group = causes[0], self.group
        among = self.present & host_fits if (self.present & host_fits).any() else self.present
        if cause.kind != "gpu":
            if among[node]:
                node = int(np.lexsort((self.ratio, -self.usable, ~among))[0])
            return Shortage(
                self.option, group, node, causes, distance, needs=group.gpus,
                free=int(self.usable[node]), largest=int(max(self.usable[among])),
                total=int(self.usable.sum()),
            )  # fmt: skip
        column = self.causes.index(cause)
        rest = np.delete(self.blocked[self.mine], column, axis=1).max(axis=1, initial=0.0) == 0
        rest &= among[self._node]
        free = self.state.free[self.mine, cause.resource]
        here = (self._node == node) & self._best & (self._worst > 0)
        return Shortage(
            self.option, group, node, causes, distance,
            needs=int(group.demand[cause.resource]), free=int(max(free[here])),
            largest=int(max(free[rest] if rest.any() else free)),
            total=int(np.maximum(free, 0).sum()),
        )  # fmt: skip


def _blocks(cluster: Cluster, state: State, group: Group, refused: Any) -> tuple[list[Cause], Any]:
    """Return the causes that can block a device, and (D, causes) how much each does (0 to 1)."""
    causes: list[Cause] = []
    columns: list[Any] = []
    for r in np.flatnonzero(group.demand):
        causes.append(Cause("gpu", int(r)))
        short = np.maximum(group.demand[r] - state.free[:, r], 0)
        columns.append(short.astype(float) / float(group.demand[r]))
    occupied, full = state.residents > 0, state.residents >= cluster.slots
    whole = full & (cluster.slots == 1) & occupied
    if group.task.exclusive:
        whole = whole | occupied
    rules: Sequence[tuple[str, Any]] = (
        ("gpus", whole | state.taken),
        ("residents", full & ~whole),
        ("exclusive", state.locked & ~whole),
        ("interference", refused & occupied & ~whole & ~state.locked),
    )
    for kind, blocks in rules:
        causes.append(Cause(kind))
        columns.append(blocks.astype(float))
    return causes, np.stack(columns, axis=1)


__all__ = ["Allowed", "Attempt", "Cause", "Group", "Option", "Shortage", "attempt", "nearest"]
