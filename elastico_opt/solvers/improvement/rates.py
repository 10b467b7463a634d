"""Rough prices of devices and host resources, for ordering a search when none are given."""

from __future__ import annotations

import numpy as np

from elastico_opt.program import Program
from elastico_opt.program.arrays import Floats
from elastico_opt.solvers.greedy import device_shares

_STEPS = 60


def option_costs(program: Program) -> Floats:
    """Return, per option, the price of what it takes, in units of the objective.

    Projected subgradient on the aggregated program: devices per GPU type and the cluster's host
    resources have a price, each job takes the option with most left. Only an order comes of it,
    no bound.
    """
    p = program
    use, room = _uses(p), _room(p)
    if not p.n_options:
        return np.zeros(0)
    price = np.zeros(len(room))
    mean = np.zeros(len(room))
    scale = float(p.option_reward.sum() / max(p.n_options, 1)) * p.n_jobs / max(p.n_devices, 1)
    first = p.option_start[:-1][np.diff(p.option_start) > 0]
    for step in range(_STEPS):
        left = p.option_reward - use @ price
        best = np.maximum.reduceat(left, first)
        taken = (left == np.repeat(best, np.diff(np.append(first, p.n_options)))) & (left > 0)
        slack = use[taken].sum(axis=0) / room - 1.0
        stride = scale / np.sqrt(step + 1.0)
        price = np.maximum(0.0, price + 0.3 * stride * np.clip(slack, -1.0, 1.0))
        if step >= _STEPS // 2:
            mean += price
    cost: Floats = use @ mean / (_STEPS - _STEPS // 2)
    return cost


def _uses(p: Program) -> Floats:
    """Return what each option takes: devices of each type, host resources in devices' worth."""
    types = len(p.gpu_types)
    use = np.zeros((p.n_options, types + p.group_host.shape[1]))
    on_device = np.flatnonzero(p.option_type >= 0)
    use[on_device, p.option_type[on_device]] = device_shares(p)[on_device]
    total = np.maximum(p.node_host.sum(axis=0), 1)
    host = p.group_host * p.group_count[:, None] / total * p.n_devices
    np.add.at(use[:, types:], p.group_option, host)
    return use


def _room(p: Program) -> Floats:
    """Return how many devices there are of each type, and in the cluster for host resources."""
    devices = np.bincount(p.class_type[p.device_class], minlength=len(p.gpu_types))
    host = np.full(p.group_host.shape[1], float(max(p.n_devices, 1)))
    return np.concatenate([np.maximum(devices, 1e-3), host]).astype(float)
