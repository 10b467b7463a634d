"""Interchangeable devices, and the one order of them that the joint program keeps.

Devices that nothing tells apart are ordered by the first job (lowest index) that each holds, the
empty ones last. Of the many equal plans that differ by swapping such devices, one is left. A
start plan has to be put into that order before it satisfies the model: `canonical`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

import numpy as np

from elastico_opt.formulations.places import Places
from elastico_opt.program import Placement


def symmetric_devices(places: Places) -> list[list[int]]:
    """Return the sets of two or more interchangeable devices, each ascending.

    Devices are interchangeable when they have one class, the same groups may use them, no
    running job holds them, and swapping them splits no task: they are on one node, or on nodes
    that hold one device each and are alike, or nothing depends on nodes at all.
    """
    p = places.program
    held = {g for home in p.homes if home for g in home.devices}
    homes = {n for home in p.homes if home for n in home.cpu_nodes}
    size = np.bincount(p.device_node, minlength=p.n_nodes)
    nodes_matter = bool(places.on_node.any())
    room = [(int(q), rooms) for q, rooms in places.node_room.items()]
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for site_index, site in enumerate(places.sites):
        for g in site.devices:
            n = int(p.device_node[g])
            if g in held:
                continue
            where: Hashable = None
            if nodes_matter and (size[n] > 1 or n in homes):
                where = n
            elif nodes_matter:
                where = (tuple(p.node_host[n].tolist()), tuple(int(r[n]) for _, r in room))
            alike[site_index, where].append(g)
    return [sorted(devices) for devices in alike.values() if len(devices) > 1]


def canonical(places: Places, placements: Mapping[int, Placement]) -> dict[int, Placement]:
    """Rename interchangeable devices so that the plan satisfies the model's order."""
    p = places.program
    first: dict[int, int] = {}
    for j in sorted(placements, reverse=True):
        for _, held in placements[j].tasks:
            first.update(dict.fromkeys(held, j))
    device = np.arange(p.n_devices)
    node = np.arange(p.n_nodes)
    for devices in symmetric_devices(places):
        order = sorted(devices, key=lambda g: (first.get(g, p.n_jobs), g))
        device[order] = devices
        if not (p.device_node[order] == p.device_node[order[0]]).all():
            node[p.device_node[order]] = p.device_node[devices]
    renamed = {}
    for j, placement in placements.items():
        tasks = []
        for n, gpus in placement.tasks:
            moved = tuple(sorted(int(device[g]) for g in gpus))
            tasks.append((int(p.device_node[moved[0]]) if moved else int(node[n]), moved))
        renamed[j] = Placement(placement.option, tuple(tasks))
    return renamed
