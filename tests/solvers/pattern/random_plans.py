"""Feasible plans without any search for the best: what bounds and encodings are tested against."""

from __future__ import annotations

import random
from collections.abc import Iterator

from elastico_opt import Snapshot, verify
from elastico_opt.errors import VerificationError
from elastico_opt.program import Placement, Program


def free_to_choose(snapshot: Snapshot) -> Snapshot:
    """The same snapshot where any job may be left out."""
    return snapshot.replace(
        jobs=tuple(job.replace(must_place=False, preemptible=True) for job in snapshot.jobs)
    )


def random_plan(program: Program, seed: int) -> dict[int, Placement]:
    """Place jobs in random order at random places, running ones often at home.

    Whether a place holds is asked of `verify`, so that the plan owes nothing to the solver. Jobs
    that must be placed may be missing.
    """
    rng = random.Random(seed)
    free = free_to_choose(program.snapshot)
    plan: dict[int, Placement] = {}
    for j in rng.sample(range(program.n_jobs), program.n_jobs):
        for placement in _guesses(program, j, rng):
            attempt = {**plan, j: placement}
            try:
                verify(free, program.to_plan(attempt))
            except VerificationError:
                continue
            plan = attempt
            break
    return plan


def _guesses(p: Program, j: int, rng: random.Random) -> Iterator[Placement]:
    options = list(p.options_of(j))
    home = p.homes[j]
    for _ in range(6):
        if not options or rng.random() < 0.1:
            return
        option = rng.choice(options)
        at_home = home is not None and rng.random() < 0.5
        groups = [q for q in p.groups_of(option) for _ in range(int(p.group_count[q]))]
        tasks: list[tuple[int, tuple[int, ...]]] = []
        taken: set[int] = set()
        for q in groups:
            gpus = int(p.group_gpus[q])
            if not gpus:
                nodes = home.cpu_nodes if at_home and home else range(p.n_nodes)
                if nodes:
                    tasks.append((rng.choice(list(nodes)), ()))
                continue
            pool = home.devices if at_home and home else range(p.n_devices)
            by_node: dict[int, list[int]] = {}
            for g in pool:
                if g not in taken and p.class_type[p.device_class[g]] == p.option_type[option]:
                    by_node.setdefault(int(p.device_node[g]), []).append(g)
            wide = [n for n, devices in by_node.items() if len(devices) >= gpus]
            if wide:
                n = rng.choice(wide)
                held = tuple(sorted(rng.sample(by_node[n], gpus)))
                taken.update(held)
                tasks.append((n, held))
        if len(tasks) == len(groups):
            yield Placement(option, tuple(tasks))
