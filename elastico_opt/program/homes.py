"""Where running jobs are now, by index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from elastico_opt.plan import current_assignment, device_ids
from elastico_opt.program.arrays import Home
from elastico_opt.snapshot import Current, Job, Node


class Map(NamedTuple):
    """Indices of nodes and devices by name."""

    nodes: Mapping[str, Node]
    node: Mapping[str, int]
    device: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, nodes: tuple[Node, ...]) -> Map:
        """Return the map that numbers nodes and devices in order."""
        devices = [(node.name, gpu) for node in nodes for gpu in device_ids(node)]
        return cls(
            nodes={node.name: node for node in nodes},
            node={node.name: n for n, node in enumerate(nodes)},
            device={device: g for g, device in enumerate(devices)},
        )


def home_of(job: Job, current: Current, places: Map) -> tuple[Home, list[str]]:
    """Return the home of a running job, and what the user should know about it."""
    held = current_assignment(current, places.nodes)
    devices, cpu_nodes = held.places()
    warnings = []
    gone = [d for d in devices if d not in places.device]
    gone += [(n, "") for n in cpu_nodes if n not in places.node]
    if gone:
        place = f"GPU '{gone[0][1]}' of " if gone[0][1] else ""
        warnings.append(
            f"job '{job.name}' runs on {place}node '{gone[0][0]}', which is gone: it must move"
        )
    names = [profile.name for profile in job.profiles]
    if held.profile not in names:
        warnings.append(f"job '{job.name}' runs profile '{held.profile}', which it no longer has")
    home = Home(
        profile=names.index(held.profile) if held.profile in names else -1,
        devices=tuple(sorted(places.device[d] for d in devices if d in places.device)),
        cpu_nodes=tuple(sorted(places.node[n] for n in cpu_nodes if n in places.node)),
        intact=not gone,
    )
    return home, warnings
