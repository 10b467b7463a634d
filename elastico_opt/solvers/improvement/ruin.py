"""Ruin and recreate: empty a few devices, let jobs compete for them again, keep what is better.

The general improvement of a plan, for every rule of the contract, since `placing` keeps them all.
Emptying one device and filling it again re-profiles, relocates or replaces its jobs; two devices
give swaps; a node makes room for a gang. After G. Schrimpf et al., *Record breaking optimization
results using the ruin and recreate principle*, J. Comput. Phys. 159 (2000), and J. Christiaens and
G. Vanden Berghe, *Slack induction by string removals*, Transport. Sci. 54 (2020): neighbouring
places are emptied together, and the best place is skipped now and then.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from elastico_opt.solvers import placing
from elastico_opt.solvers.placing import (
    BLINK,
    BY,
    CHOSEN,
    COUNT,
    ENTRY,
    FIRST,
    GROUPS,
    HEAD,
    HOME,
    KIND,
    MOVABLE,
    MUST,
    NODE,
    ON,
    OPEN,
    OPTIONS,
    OWNER,
    PARTS,
    TASK,
    TIER,
    TYPE,
    WEIGHING,
    State,
    Tables,
    also,
    draw,
    fill,
    insert,
    place,
    remove,
    tasks_on,
)

#: One in a million: options skipped in a recreation that takes chances.
_BLINKS = 50_000
#: Most jobs removed, and most that compete, in one move.
MOST = 96
# `mark` of a job: neither, or in the move in hand.
ABSENT, TOUCHED = range(2)


class Search(NamedTuple):
    """What the search remembers from move to move, and room for one move."""

    density: Any  # (J, divisors) value per share
    order: Any  # (J,) placed jobs are those after `size[0]`; position in `place`
    at: Any  # (J,) position of a job in `order`
    size: Any  # (1,) jobs that are not placed
    fixed: Any  # (F,) jobs with tasks without devices
    runs: Any  # (R,) jobs that run
    touched: Any  # (J,) whether a job is in the move in hand
    move: Any  # (3, 3 * MOST) removed, competing jobs, order
    key: Any  # (3 * MOST,)
    old_option: Any  # (J,) where a removed job was: option, devices, nodes
    old_device: Any  # (W,)
    old_node: Any  # (T,)
    best: Any  # (J + W + T,) the best plan: options, devices, nodes
    above: Any  # (1 + tiers,) how much the best plan is above the present one
    total: Any  # (1 + tiers,) how much the best plan gained so far
    count: Any  # (4,) moves tried, accepted, improved; whether the present plan is the best one


def start(t: Tables, s: State, z: Search, order: Any, window: int) -> int:
    """Place the jobs that `old_option` places, then those in `order`; return how many failed."""
    for j in range(len(z.at)):
        if z.old_option[j] >= 0:
            restore(s, z, j)
            place(t, s, j, z.old_option[j], 0)
            z.old_option[j] = -1
    failed = fill(t, s, order, z.old_option, window)
    for j in range(len(z.at)):
        file(z, j, s.job[j, CHOSEN] < 0)
    return failed


def improve(t: Tables, s: State, z: Search, moves: int, warm: float, cool: float) -> None:
    """Make so many moves; a loss is accepted as if at a temperature from `warm` to `cool`."""
    for i in range(moves):
        heat = warm * (cool / warm) ** (i / moves) if warm > 0.0 else 0.0
        s.delta[:] = 0.0
        removed = ruin(t, s, z)
        competing = compete(t, s, z, removed)
        failed = False
        for k in range(competing):
            j = z.move[1, z.move[2, k]]
            if not insert(t, s, j, -1) and s.job[j, MUST] and z.old_option[j] >= 0:
                failed = True  # it had a place: no move may cost it
                break
        accepted = not failed and agree(s, z, heat)
        z.count[0] += 1
        settle(t, s, z, removed, competing, accepted)
    s.note[BLINK] = 0


def restore(s: State, z: Search, j: int) -> None:
    """Take the former places of a job in hand."""
    first = s.job[j, TASK]
    for i in range(first, s.job[j + 1, TASK]):
        s.hand[0, i - first] = z.old_node[i]
    first = s.job[j, ENTRY]
    for i in range(first, s.job[j + 1, ENTRY]):
        s.hand[1, i - first] = z.old_device[i]


def agree(s: State, z: Search, heat: float) -> bool:
    """Whether the move in hand is accepted: the first tier that changes decides."""
    for k in range(len(s.delta)):
        change = s.delta[k]
        if abs(change) <= 1e-9:
            continue
        if change > 0.0:
            return True
        if k == 0 or heat <= 0.0:
            return False
        return bool(change >= heat * math.log((1 + draw(s.note, 1_000_000)) / 1_000_001))
    return True


def settle(t: Tables, s: State, z: Search, removed: int, competing: int, accepted: bool) -> None:
    """Keep the move in hand, or undo it."""
    if accepted:
        better, same = False, True
        for k in range(len(s.delta)):
            if same and abs(s.delta[k] - z.above[k]) > 1e-9:
                better, same = s.delta[k] > z.above[k], False
        worse = False
        for k in range(len(s.delta)):
            if abs(s.delta[k]) > 1e-9:
                worse = s.delta[k] < 0.0
                break
        if z.count[3] and worse:
            keep_best(s, z, removed)
            z.count[3] = 0
        for k in range(len(s.delta)):
            z.above[k] -= s.delta[k]
        if better:
            for k in range(len(s.delta)):
                z.total[k] -= z.above[k]
                z.above[k] = 0.0
            z.count[3] = 1
            z.count[2] += 1
        z.count[1] += 1
    else:
        for k in range(competing):
            if s.job[z.move[1, k], CHOSEN] >= 0:
                remove(t, s, z.move[1, k])
        for k in range(removed):
            j = z.move[0, k]
            restore(s, z, j)
            place(t, s, j, z.old_option[j], 0)
    for k in range(competing):
        j = z.move[1, k]
        z.touched[j] = 0
        z.old_option[j] = -1
        file(z, j, s.job[j, CHOSEN] < 0)


def keep_best(s: State, z: Search, removed: int) -> None:
    """Write down the plan as it was before the move in hand."""
    n, w = len(z.at), len(z.old_device)
    for j in range(n):
        o = s.job[j, CHOSEN]
        before = z.touched[j] > 0
        z.best[j] = z.old_option[j] if before else o
        for i in range(s.job[j, ENTRY], s.job[j + 1, ENTRY]):
            z.best[n + i] = z.old_device[i] if before else s.entry[i, ON]
        for i in range(s.job[j, TASK], s.job[j + 1, TASK]):
            z.best[n + w + i] = z.old_node[i] if before else s.task[i]


def file(z: Search, j: int, absent: bool) -> None:
    """Keep jobs that are not placed in front of `order`."""
    here, border = z.at[j], z.size[0]
    if absent == (here < border):
        return
    z.size[0] += 1 if absent else -1
    there = border if absent else border - 1
    other = z.order[there]
    z.order[here], z.order[there] = other, j
    z.at[other], z.at[j] = here, there


# ---- ruin --------------------------------------------------------------------------------------


def ruin(t: Tables, s: State, z: Search) -> int:
    """Empty a few devices around a random one; return how many jobs were removed.

    The nodes concerned are the ones that competing jobs look at.
    """
    n_devices, n_nodes = len(s.device), len(s.host)
    for k in range(len(t.kind)):
        t.kind[k, 0] = t.kind[k, 1] = 0
    removed, wish = 0, draw(s.note, 16)
    if n_devices == 0 or (wish == 0 and len(z.fixed)):
        n = draw(s.note, n_nodes)
        t.where[0] = n
        nodes = 1
    else:
        g = draw(s.note, n_devices)
        if wish == 1 and len(z.runs):  # a running job that is away may want to go home
            j = z.runs[draw(s.note, len(z.runs))]
            if s.job[j + 1, HOME] > s.job[j, HOME]:
                g = t.home[s.job[j, HOME]]
            if s.job[j, CHOSEN] >= 0:
                removed = take(t, s, z, j, removed)
        n = s.device[g, NODE]
        t.where[0] = n
        nodes = 1
        first, held = s.node[n, FIRST], s.node[n + 1, FIRST] - s.node[n, FIRST]
        if wish < 8:
            near = 1 + draw(s.note, 2)  # neighbours
        elif wish < 10:
            near = min(held, 8)
        else:
            near = 1 + draw(s.note, 2)
        for i in range(near):
            removed = empty(t, s, z, first + (g - first + i) % held, removed)
        for _ in range(draw(s.note, 3) if wish >= 8 else 0):  # and others of the type elsewhere
            other = draw(s.note, n_devices)
            if s.device[other, TYPE] == s.device[g, TYPE]:
                nodes = also(t.where, nodes, 0, s.device[other, NODE])
                removed = empty(t, s, z, other, removed)
    for _ in range(2 if len(z.fixed) else 0):
        j = z.fixed[draw(s.note, len(z.fixed))]
        o = s.job[j, CHOSEN]
        if o >= 0 and (wish < 2 or tasks_on(t.option, t.group, s.task, o, s.job[j, TASK], n)):
            removed = take(t, s, z, j, removed)
    for k in range(removed):
        j = z.move[0, k]
        if nodes + s.job[j + 1, TASK] - s.job[j, TASK] < MOST:
            for i in range(tasks_of(t.option, t.group, z.old_option[j])):
                nodes = also(t.where, nodes, 0, z.old_node[s.job[j, TASK] + i])
            if k == 0:
                for i in range(s.job[j, HOME], s.job[j + 1, HOME]):
                    nodes = also(t.where, nodes, 0, s.device[t.home[i], NODE])
    for _ in range(draw(s.note, 3)):  # nodes with room left
        n = draw(s.note, n_nodes)
        if s.node[n, OPEN] > 0 or len(z.fixed):
            nodes = also(t.where, nodes, 0, n)
    for k in range(len(t.kind)):
        t.kind[k, 1] = nodes
    return removed


def empty(t: Tables, s: State, z: Search, g: int, removed: int) -> int:
    """Remove the jobs on a device."""
    while s.device[g, HEAD] >= 0:
        before = removed
        j = t.option[s.entry[s.device[g, HEAD], BY], OWNER]
        removed = take(t, s, z, j, removed)
        if removed == before:
            break
    return removed


def take(t: Tables, s: State, z: Search, j: int, removed: int) -> int:
    """Remove one job and note where it was."""
    if removed >= MOST or s.job[j, CHOSEN] < 0:
        return removed
    z.old_option[j] = s.job[j, CHOSEN]
    for i in range(s.job[j, ENTRY], s.job[j + 1, ENTRY]):
        z.old_device[i] = s.entry[i, ON]
    for i in range(s.job[j, TASK], s.job[j + 1, TASK]):
        z.old_node[i] = s.task[i]
    remove(t, s, j)
    z.touched[j] = 1
    z.move[0, removed] = z.move[1, removed] = j
    return removed + 1


def tasks_of(option: Any, group: Any, o: int) -> int:
    """Return how many tasks an option has."""
    found = 0
    for q in range(option[o, GROUPS], option[o + 1, GROUPS]):
        found += group[q, COUNT]
    return int(found)


# ---- recreate ----------------------------------------------------------------------------------


def compete(t: Tables, s: State, z: Search, removed: int) -> int:
    """Choose the jobs that compete, and the order in which they choose; return how many."""
    competing, waiting = removed, z.size[0]
    n = t.where[0]
    kind = s.device[s.node[n, FIRST], TYPE] if s.node[n, FIRST] < s.node[n + 1, FIRST] else -1
    weighing = draw(s.note, z.density.shape[1])
    s.note[WEIGHING] = weighing
    s.note[BLINK] = _BLINKS * max(0, draw(s.note, 6) - 1)
    level = draw(s.note, 4) == 0  # tiers in any order; what that costs a higher one is not accepted
    for _ in range(min(waiting, 4 + removed, MOST)):
        j = z.order[draw(s.note, waiting)]
        other = z.order[draw(s.note, waiting)]
        if z.density[other, weighing] > z.density[j, weighing]:
            j = other
        if z.touched[j] == 0 and runs_on(t.option, s.job[j, OPTIONS], s.job[j + 1, OPTIONS], kind):
            z.touched[j] = 1
            z.move[1, competing] = j
            competing += 1
    favour = draw(s.note, 2)  # one of those that wait comes first
    spread = 0.1 + 0.2 * draw(s.note, 4)
    for k in range(competing):
        j = z.move[1, k]
        noise = 1.0 + spread * (draw(s.note, 1_000_000) / 1e6 - 0.5)
        key = z.density[j, weighing] * noise
        if k == removed and favour:
            key = math.inf
        # first those that must be placed, of these the ones that cannot move, then by tier
        rank = (0 if s.job[j, MOVABLE] else 1) + (2 if s.job[j, MUST] else 0)
        at = k
        while at > 0:
            other = z.move[1, z.move[2, at - 1]]
            if not ahead(s.job, j, rank, key, other, z.key[at - 1], level):
                break
            z.move[2, at], z.key[at] = z.move[2, at - 1], z.key[at - 1]
            at -= 1
        z.move[2, at], z.key[at] = k, key
    return competing


def runs_on(option: Any, first: int, last: int, kind: int) -> bool:
    """Whether any of these options runs on a GPU type, or needs none."""
    for o in range(first, last):  # noqa: SIM110 (numba compiles no generators)
        if option[o, KIND] == kind or option[o, KIND] < 0:
            return True
    return False


def ahead(
    job: Any, j: int, rank: int, key: float, other: int, its_key: float, level: bool
) -> bool:  # fmt: skip
    """Whether a job chooses before another one."""
    its_rank = (0 if job[other, MOVABLE] else 1) + (2 if job[other, MUST] else 0)
    if rank != its_rank:
        return rank > its_rank
    if not level and job[j, TIER] != job[other, TIER]:
        return bool(job[j, TIER] < job[other, TIER])
    return key > its_key


_OWN = (
    start, improve, agree, restore, settle, keep_best, file, ruin, empty, take, tasks_of, compete,
    ahead, runs_on,
)  # fmt: skip


@cache
def compiled() -> Callable[[Tables, State, Search, Any, int, int, float, float], int]:
    """Return `start` and `improve` as machine code, from numba's cache after the first time."""
    from numba import njit
    from numba.extending import register_jitable

    for part in (*PARTS, *_OWN):
        register_jitable(part)
    # numba's cache looks at this file and at captured values: what `placing` says is one of them
    source = zlib.crc32(Path(placing.__file__).read_bytes())

    @njit(cache=True, nogil=True, error_model="numpy")
    def run(
        t: Any, s: Any, z: Any, order: Any, window: int, moves: int, warm: float, cool: float
    ) -> int:
        failed = 0
        if source >= 0 and window >= 0:
            failed = start(t, s, z, order, window)
        improve(t, s, z, moves, warm, cool)
        return failed

    function: Callable[[Tables, State, Search, Any, int, int, float, float], int] = run
    return function
