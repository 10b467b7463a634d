"""What one task lacks on the node that comes closest to taking it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from elastico_opt.reasons.cluster import Cluster, State
from elastico_opt.reasons.options import Allowed, Cause, Group, Option, Shortage


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
