"""What an option is worth at most, and whether it could run anywhere."""

from __future__ import annotations

import numpy as np

from elastico_opt.program import Program
from elastico_opt.program.arrays import UNLIMITED, Bools, Floats, Ints

_NO_TYPE, _MIXED = -1, -2


def option_values(program: Program) -> tuple[Floats, Bools]:
    """Return (O,) values and whether the option is possible at all.

    The value is the reward less the costs that every placement pays: the switch where the profile
    changes, the move where the option's shape cannot be the one the job has now.
    """
    p = program
    job = p.option_job
    running = np.array([home is not None for home in p.homes], dtype=bool)
    if not running.any():
        return p.option_reward.copy(), np.ones(p.n_options, dtype=bool)
    held = np.array([-2 if home is None else home.profile for home in p.homes], dtype=np.int64)
    changes = running[job] & (held[job] != p.option_profile)
    moves = running[job] & ~_can_stay(p)
    weight = p.job_weight[job]
    value = p.option_reward - p.switch_cost * weight * changes - p.migration_cost * weight * moves
    return value, ~(moves & ~p.job_movable[job])


def _can_stay(p: Program) -> Bools:
    """Return (O,) whether a running job could take the option where it is."""
    shape = np.full((p.n_jobs, 3), -9, dtype=np.int64)  # devices, tasks without, GPU type
    for j, home in enumerate(p.homes):
        if home is None or not home.intact:
            continue
        eligible = p.eligibility[p.job_eligibility[j]]
        devices = list(home.devices)
        if all(eligible[p.device_node[devices]]) and all(eligible[n] for n in home.cpu_nodes):
            types = set(p.class_type[p.device_class[devices]].tolist())
            kind = types.pop() if len(types) == 1 else _MIXED if types else _NO_TYPE
            shape[j] = len(devices), len(home.cpu_nodes), kind
    cpu_tasks = per_option(p, np.where(p.group_gpus == 0, p.group_count, 0))
    asked = np.stack([p.option_workers, cpu_tasks, p.option_type], axis=1)
    alike: Bools = (asked == shape[p.option_job]).all(axis=1)
    return alike


def per_option(p: Program, amounts: Ints | Floats | Bools) -> Floats:
    """Sum amounts of groups by option, along the first axis."""
    if not p.n_options:
        return np.zeros((0, *amounts.shape[1:]))
    total: Floats = np.add.reduceat(amounts.astype(float), p.group_start[:-1], axis=0)
    return total


def option_fits(program: Program, devices: Bools, nodes: Bools) -> Bools:
    """Return (O,) whether each task of the option fits some empty device and node it may use.

    Never False for an option that can be placed: any home counts as open to every job.

    Parameters
    ----------
    devices, nodes : (D,), (N,) bools
        What any job may use.
    """
    p = program
    job = p.option_job[p.group_option]
    kind = p.option_type[p.group_option]
    needs = p.group_gpus > 0
    ok = ~needs
    for a, open_to in enumerate(_open(p, devices)):
        fits = (kind == p.class_type[a]) & (p.group_demand <= p.class_capacity[a]).all(axis=1)
        if p.class_residents[a] >= 1:
            ok |= fits & open_to[p.job_eligibility[job]]
    most = _most_together(p, devices)
    ok &= ~needs | (p.group_gpus <= most[kind])
    if p.host_resources:
        ok &= (p.group_host <= p.node_host[nodes].max(axis=0, initial=0)).all(axis=1)
    barred = per_option(p, ~ok)
    return np.asarray(barred == 0, dtype=bool)


def _open(p: Program, devices: Bools) -> Bools:
    """Return (A, E): whether a usable device of the class is on a node of the eligibility row."""
    there = np.zeros((len(p.class_type), p.n_nodes), dtype=bool)
    there[p.device_class[devices], p.device_node[devices]] = True
    return np.asarray(there.astype(np.float32) @ p.eligibility.T.astype(np.float32) > 0)


def _most_together(p: Program, devices: Bools) -> Ints:
    """Return per GPU type the most usable devices of it that one node has."""
    counts = np.zeros((len(p.gpu_types) + 1, p.n_nodes), dtype=np.int64)
    np.add.at(counts, (p.class_type[p.device_class[devices]], p.device_node[devices]), 1)
    most: Ints = counts.max(axis=1, initial=0)
    most[-1] = UNLIMITED
    return most
