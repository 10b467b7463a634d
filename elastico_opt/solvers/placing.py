"""The inner loops of the greedy plan: where the next job goes, and what that changes.

Plain functions over arrays. They run as they stand for small programs, and compiled by numba for
large ones (`compiled`), where loading the compiler pays. The compiler's time grows with the number
of arrays that functions hand on, so columns share a table; `job[j, TIER]` reads a field. All of it
is in one file, because numba's cache notices a change only in the file of the outermost function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

#: Of two places with equal losses the one with less left over wins: GPUs that the host resources
#: of the node no longer serve count fully, what is left of the device and of the node this much.
_DEVICE_LEFT, _NODE_LEFT = 0.1, 0.05
#: Windows that a job looks at before it gives up.
_WINDOWS = 4

# Columns of `job`; the first five are starts, ended by the next row's.
OPTIONS, HOME, SEATS, ENTRY, TASK, MUST, MOVABLE, TIER, LIMIT, ROW, INTACT, WORST, CHOSEN = range(
    13
)
# Columns of `option`, of which GROUPS is a start; RANKED lists a job's options, best first.
GROUPS, OWNER, KIND, LOAD, RANKED = range(5)
NET, REWARD, DIVISOR = range(3)  # of `worth`; there may be more divisors
RATE, MOVE = range(2)  # of `cost`
COUNT, GPUS, ALONE = range(3)  # of `group`
# Columns of `device` and of `share`; from MARK on they are notes while an option is in hand.
NODE, TYPE, FREE_SEATS, CLOSED, RESIDENTS, HEAD, MARK, TAKEN, FOUND = range(9)
ROOM, LOSS, LEFT = range(3)
FIRST, OPEN, CHAIRS, HAVE, USED = range(5)  # of `node`; FIRST is a start, OPEN counts devices
BY, ON, NEXT, SUFFERS = range(4)  # of `entry`
WEIGHING, BLINK, RANDOM = range(3)  # of `note`: column after DIVISOR; one in a million; generator


class Tables(NamedTuple):
    """What a pass over the jobs never changes; sizes as in `elastico_opt.program.arrays`."""

    option: Any  # (O+1, 5)
    worth: Any  # (O, 3 or more) gain over not being placed, reward, divisors of the gain
    cost: Any  # (J, 2) value lost per quantum of excess, and by moving
    group: Any  # (Q, 3)
    demand: Any  # (Q, R)
    need: Any  # (Q, H)
    access: Any  # (E, N) 0 = not eligible, 1 = cordoned, 2 = open
    home: Any  # devices held by running jobs
    seat: Any  # nodes of their tasks without devices
    span: Any  # (K+2,) start of a GPU type's nodes in `nodes`, then of the nodes for other tasks
    nodes: Any
    kind: Any  # (K+1, 2) start and end, in `where`, of the nodes to look at: like `span`
    where: Any
    capacity: Any  # (D, R) at least 1
    typical: Any  # (H,) host demand that usually goes with one device
    excess: Any  # (V, V) NEVER replaced by more than any limit
    unit: float  # of the excess
    throughput: bool  # coupling


class State(NamedTuple):
    """A partial plan, and room to think about the next job."""

    job: Any  # (J+1, 13)
    device: Any  # (D, 9)
    share: Any  # (D, 3)
    free: Any  # (D, R)
    node: Any  # (N+1, 5)
    room: Any  # (N,) devices' worth that is left
    host: Any  # (N, H)
    entry: Any  # (W, 4) workers
    task: Any  # (T,) node of each task
    hand: Any  # (4, longest) tasks and workers of the option in hand, then of the best so far
    failed: Any  # (J,) must-place jobs without a place
    delta: Any  # (1 + tiers,) change of must-place jobs placed and of the tiers' values
    cursor: Any  # (K+1,) where the next window begins in each part of `span`
    note: Any  # (3,)


def fill(t: Tables, s: State, order: Any, given: Any, window: int) -> int:
    """Place jobs in order, each where it gains most; return how many of `failed` are filled.

    `given` holds per job the option that a start plan chose, its places in `entry` and `task`,
    or -1. A job looks at no more than `window` nodes of each type with room; 0 = at all.
    """
    job, failed = s.job, 0
    for i in range(len(order)):
        j = order[i]
        kept = given[j] >= 0 and job[j, MOVABLE]
        tries, found = 0, False
        while not found:
            if window:
                look(t, s, j, window, given[j] if kept else -1)
            found = insert(t, s, j, given[j] if kept else -1)
            if kept:  # or else anywhere
                kept = False
                continue
            tries += 1
            if found or not window or tries * window >= len(t.nodes):
                break
            if not job[j, MUST] and tries >= _WINDOWS:
                break
            for k in range(len(s.cursor)):
                s.cursor[k] += window
        if not found and job[j, MUST]:
            s.failed[failed] = j
            failed += 1
    return failed


def look(t: Tables, s: State, j: int, window: int, given: int) -> None:
    """Let a job look at its home and at the next nodes with room of each type.

    With a given option it looks at the nodes of its places only.
    """
    at, last = 0, len(s.cursor) - 1
    for k in range(last + 1):
        first, n_nodes = t.span[k], t.span[k + 1] - t.span[k]
        begin = t.kind[k, 0] = 0 if given >= 0 else at
        if given >= 0:
            task, gpus = s.job[j, TASK], 0
            for q in range(t.option[given, GROUPS], t.option[given + 1, GROUPS]):
                gpus += t.group[q, COUNT]
            for i in range(task, task + gpus):
                at = also(t.where, at, begin, s.task[i])
            t.kind[k, 1] = at
            continue
        for i in range(s.job[j, HOME], s.job[j + 1, HOME]):
            if k < last and s.device[t.home[i], TYPE] == k:
                at = also(t.where, at, begin, s.device[t.home[i], NODE])
        for i in range(s.job[j, SEATS], s.job[j + 1, SEATS]):
            if k == last:
                at = also(t.where, at, begin, t.seat[i])
        homes, seen = at, 0
        while seen < n_nodes and at < homes + window:
            n = t.nodes[first + (s.cursor[k] + seen) % n_nodes]
            seen += 1
            if k == last or s.node[n, OPEN] > 0:
                t.where[at] = n
                at += 1
        if n_nodes and seen > 2 * window:  # the full nodes before it need no second look
            s.cursor[k] = (s.cursor[k] + seen - window) % n_nodes
        t.kind[k, 1] = at


def also(where: Any, at: int, first: int, n: int) -> int:
    """Append a node to `where` unless it is there; return the new end."""
    for i in range(first, at):
        if where[i] == n:
            return at
    where[at] = n
    return at + 1


def insert(t: Tables, s: State, j: int, given: int) -> bool:
    """Place a job where it gains most per share, if it gains or must be placed.

    With a given option it is placed where the start plan says or not at all.
    """
    job, worth, divisor = s.job, t.worth, DIVISOR + s.note[WEIGHING]
    best, best_score, best_fit = -1, -math.inf, math.inf
    if given >= 0:
        mark_given(t, s, j, given, True)
    else:
        mark_home(t, s, j, True)
    for rank in range(job[j, OPTIONS], job[j + 1, OPTIONS]):
        o = t.option[rank, RANKED]
        most = worth[o, NET]
        if given >= 0:
            if o != given:
                continue
        elif most > 0.0:
            most = weighed(most, worth[o, divisor])
        elif not job[j, MUST]:
            continue
        margin = 1e-12 * abs(best_score) if best >= 0 else 0.0
        if most < best_score - margin:
            continue
        if s.note[BLINK] and draw(s.note, 1_000_000) < s.note[BLINK]:
            continue
        for anywhere in (False, True):
            if given >= 0:
                if anywhere:
                    continue
            elif not (job[j, MOVABLE] if anywhere else job[j, INTACT]):
                continue
            fit = assign(t, s, j, o, anywhere)
            if fit == math.inf:
                continue
            score = gain_of(t, s, j, o, anywhere)
            if given >= 0:
                score = 1.0
            elif score > 0.0:
                score = weighed(score, worth[o, divisor])
            elif not job[j, MUST]:
                continue
            if s.note[BLINK]:
                fit = float(draw(s.note, 1_000_000))
            margin = 1e-12 * abs(best_score) if best >= 0 else 0.0
            if score > best_score + margin or (score >= best_score - margin and fit < best_fit):
                best, best_score, best_fit = o, score, fit
                for at in range(s.hand.shape[1]):
                    s.hand[2, at] = s.hand[0, at]
                    s.hand[3, at] = s.hand[1, at]
    if given >= 0:
        mark_given(t, s, j, given, False)
    else:
        mark_home(t, s, j, False)
    if best >= 0:
        place(t, s, j, best, 2)
    return best >= 0


def weighed(gain: float, divisor: float) -> float:
    """Return the gain per share, or less the price, which is given as a negative divisor."""
    return gain / divisor if divisor > 0.0 else gain + divisor


def seeded(seed: int) -> int:
    """Return the first state of the random numbers."""
    return 1 + (seed * 7919 + 12345) % 2147483646


def draw(note: Any, below: int) -> int:
    """Return a random number (Park and Miller's generator), 0 <= it < below < 2**31."""
    note[RANDOM] = note[RANDOM] * 48271 % 2147483647
    return int(note[RANDOM] * below // 2147483647)


def mark_home(t: Tables, s: State, j: int, wanted: bool) -> None:
    """Open the eligible devices and seats that a running job holds, or close them again."""
    row = s.job[j, ROW]
    for i in range(s.job[j, HOME], s.job[j + 1, HOME]):
        g = t.home[i]
        s.device[g, MARK] = wanted and t.access[row, s.device[g, NODE]] > 0
    for i in range(s.job[j, SEATS], s.job[j + 1, SEATS]):
        n = t.seat[i]
        if t.access[row, n]:
            s.node[n, CHAIRS] = s.node[n, CHAIRS] + 1 if wanted else 0


def mark_given(t: Tables, s: State, j: int, o: int, wanted: bool) -> None:
    """Open the places that a start plan gives a job where it may use them, or close them."""
    row, entry, task = s.job[j, ROW], s.job[j, ENTRY], s.job[j, TASK]
    for q in range(t.option[o, GROUPS], t.option[o + 1, GROUPS]):
        for _ in range(t.group[q, COUNT]):
            n = s.task[task]
            task += 1
            if t.group[q, GPUS] == 0:
                mine = False
                for i in range(s.job[j, SEATS], s.job[j + 1, SEATS]):
                    mine = mine or t.seat[i] == n
                if t.access[row, n] == 2 or (mine and t.access[row, n] == 1):
                    s.node[n, CHAIRS] = s.node[n, CHAIRS] + 1 if wanted else 0
            for _ in range(t.group[q, GPUS]):
                g = s.entry[entry, ON]
                entry += 1
                mine = False
                for i in range(s.job[j, HOME], s.job[j + 1, HOME]):
                    mine = mine or t.home[i] == g
                access = t.access[row, s.device[g, NODE]]
                s.device[g, MARK] = wanted and (access == 2 or (mine and access == 1))


# ---- one option ------------------------------------------------------------------------------


def assign(t: Tables, s: State, j: int, o: int, anywhere: bool) -> float:
    """Find a node and devices for every task of an option, into `hand`; infinite: there are none.

    Only marked devices and chairs count, or with `anywhere` those of all open nodes too. Returned
    is how badly the tasks fit, 0 = nothing is left over or stranded.
    """
    n_tasks, n_workers, total = 0, 0, 0.0
    for q in range(t.option[o, GROUPS], t.option[o + 1, GROUPS]):
        gpus = t.group[q, GPUS]
        if gpus:
            scan(t, s, j, o, q, anywhere)
        for _ in range(t.group[q, COUNT]):
            n, fit = pick_devices(t, s, o, q) if gpus else pick_chair(t, s, j, q, anywhere)
            total += fit
            if n < 0:
                break
            s.hand[0, n_tasks] = n
            n_tasks += 1
            for h in range(s.host.shape[1]):
                s.host[n, h] -= t.need[q, h]
            begin = s.node[n, FIRST] + s.node[n, USED]
            for i in range(begin, begin + gpus):
                s.hand[1, n_workers] = s.device[i, FOUND]
                s.device[s.device[i, FOUND], TAKEN] = 1
                n_workers += 1
            if gpus:
                s.node[n, USED] += gpus
            elif not anywhere:
                s.node[n, CHAIRS] -= 1
        if total == math.inf:
            break
    for i in range(n_workers):
        s.device[s.hand[1, i], TAKEN] = 0
    task = 0
    for q in range(t.option[o, GROUPS], t.option[o + 1, GROUPS]):
        for _ in range(min(t.group[q, COUNT], n_tasks - task)):
            n = s.hand[0, task]
            task += 1
            for h in range(s.host.shape[1]):
                s.host[n, h] += t.need[q, h]
            if t.group[q, GPUS] == 0 and not anywhere:
                s.node[n, CHAIRS] += 1
    return total


def scan(t: Tables, s: State, j: int, o: int, q: int, anywhere: bool) -> None:
    """List per node the devices that a group could use: least loss, then least left over."""
    device, share, free, demand = s.device, s.share, s.free, t.demand
    gpus, alone, kind = t.group[q, GPUS], t.group[q, ALONE], t.option[o, KIND]
    keep, row = t.group[q, COUNT] * gpus, s.job[j, ROW]
    for i in range(t.kind[kind, 0], t.kind[kind, 1]):
        n = t.where[i]
        s.node[n, HAVE] = s.node[n, USED] = 0
        is_open = anywhere and t.access[row, n] == 2
        if s.node[n, OPEN] == 0 or not has_host(t.need, s.host, q, n):
            continue
        first, have = s.node[n, FIRST], 0
        for g in range(first, s.node[n + 1, FIRST]):
            if not (is_open or device[g, MARK]) or device[g, FREE_SEATS] <= 0:
                continue
            if device[g, CLOSED] or device[g, TAKEN] or device[g, TYPE] != kind:
                continue
            left = 0.0 if alone or device[g, FREE_SEATS] == 1 else 1.0
            fits = not alone or device[g, RESIDENTS] == 0
            for r in range(free.shape[1]):
                rest = free[g, r] - demand[q, r]
                fits = fits and rest >= 0
                left = min(left, rest / t.capacity[g, r])
            if not fits:
                continue
            loss = 0.0
            if device[g, RESIDENTS]:
                lost, own = beside(
                    t.option, t.worth, t.cost, t.excess, t.unit, t.throughput,
                    s.job, s.entry, device[g, HEAD], j, o,
                )  # fmt: skip
                if own < 0:
                    continue
                loss = lost + loss_of(t.worth, t.cost, t.unit, t.throughput, j, o, own)
            at = first + have
            while at > first and (
                loss < share[at - 1, LOSS]
                or (loss == share[at - 1, LOSS] and left < share[at - 1, LEFT])
            ):
                at -= 1
            if at >= first + keep:
                continue
            have = min(have + 1, keep)
            for b in range(first + have - 1, at, -1):
                device[b, FOUND] = device[b - 1, FOUND]
                share[b, LOSS] = share[b - 1, LOSS]
                share[b, LEFT] = share[b - 1, LEFT]
            device[at, FOUND] = g
            share[at, LOSS] = loss
            share[at, LEFT] = left
        s.node[n, HAVE] = have


def pick_devices(t: Tables, s: State, o: int, q: int) -> tuple[int, float]:
    """Return the node where the next task loses least, then fits best, and its fit; or -1."""
    best, best_loss, best_fit = -1, math.inf, math.inf
    kind, gpus = t.option[o, KIND], t.group[q, GPUS]
    for i in range(t.kind[kind, 0], t.kind[kind, 1]):
        n = t.where[i]
        if s.node[n, HAVE] - s.node[n, USED] < gpus:
            continue
        begin = s.node[n, FIRST] + s.node[n, USED]
        loss, left, taken = 0.0, 0.0, 0.0
        for b in range(begin, begin + gpus):
            loss += s.share[b, LOSS]
            left += s.share[b, LEFT]
            taken += s.share[s.device[b, FOUND], ROOM] - s.share[b, LEFT]
        margin = 1e-12 * abs(best_loss) if best >= 0 else 0.0
        if loss > best_loss + margin or not has_host(t.need, s.host, q, n):
            continue
        fit = stranded(t.need, t.typical, s.host, s.room, q, n, taken)
        fit += _DEVICE_LEFT * left + _NODE_LEFT * s.room[n]
        if loss < best_loss - margin or fit < best_fit:
            best, best_loss, best_fit = n, loss, fit
    return best, best_fit


def pick_chair(t: Tables, s: State, j: int, q: int, anywhere: bool) -> tuple[int, float]:
    """Return the node where a task without devices fits best, and its fit; or -1."""
    best, best_fit, last = -1, math.inf, len(t.kind) - 1
    for i in range(t.kind[last, 0], t.kind[last, 1]):
        n = t.where[i]
        is_open = anywhere and t.access[s.job[j, ROW], n] == 2
        if not (is_open or s.node[n, CHAIRS] > 0) or not has_host(t.need, s.host, q, n):
            continue
        fit = stranded(t.need, t.typical, s.host, s.room, q, n, 0.0) + _NODE_LEFT * s.room[n]
        if fit < best_fit:
            best, best_fit = n, fit
    return best, best_fit


def has_host(need: Any, host: Any, q: int, n: int) -> bool:
    """Whether a node has the host resources of one task left."""
    for h in range(host.shape[1]):  # noqa: SIM110 (numba compiles no generators)
        if need[q, h] > host[n, h]:
            return False
    return True


def stranded(
    need: Any, typical: Any, host: Any, room: Any, q: int, n: int, taken: float
) -> float:  # fmt: skip
    """Return how much a node loses of what it can still serve.

    That is the harmonic mean of its free GPUs and of the GPUs its free host resources would
    serve: what is scarce on the node counts most.
    """
    before, after = 1.0 / max(room[n], 1e-9), 1.0 / max(room[n] - taken, 1e-9)
    for h in range(host.shape[1]):
        if typical[h] > 0.0:
            before += typical[h] / max(host[n, h], 1e-9)
            after += typical[h] / max(host[n, h] - need[q, h], 1e-9)
    loss: float = 1.0 / before - 1.0 / after
    return loss


# ---- values ----------------------------------------------------------------------------------


def beside(
    option: Any, worth: Any, cost: Any, excess: Any, unit: float, throughput: bool, job: Any,
    entry: Any, head: int, j: int, o: int,
) -> tuple[float, int]:  # fmt: skip
    """Return what the residents of a device lose and the excess of an option; -1: not there.

    A job that need not be placed never costs a resident of a higher tier anything.
    """
    own, lost, load = 0, 0.0, option[o, LOAD]
    e = head
    while e >= 0:
        other = entry[e, BY]
        owner, beside_it = option[other, OWNER], option[other, LOAD]
        own += excess[load, beside_it]
        after = entry[e, SUFFERS] + excess[beside_it, load]
        if own > job[j, LIMIT] or after > job[owner, LIMIT]:
            return 0.0, -1
        if after > job[owner, WORST]:
            more = loss_of(worth, cost, unit, throughput, owner, other, after)
            more -= loss_of(worth, cost, unit, throughput, owner, other, job[owner, WORST])
            if more > 0.0 and job[owner, TIER] < job[j, TIER] and not job[j, MUST]:
                return 0.0, -1
            lost += more
        e = entry[e, NEXT]
    return lost, own


def loss_of(
    worth: Any, cost: Any, unit: float, throughput: bool, j: int, o: int, excess: int
) -> float:
    """Return what an option of a job loses to an excess."""
    if throughput:
        slowdown = excess * unit
        return float(worth[o, REWARD] * slowdown / (1.0 + slowdown))
    return float(cost[j, RATE] * excess)


def gain_of(t: Tables, s: State, j: int, o: int, anywhere: bool) -> float:
    """Return what placing an option as in `hand` adds to the objective.

    Found among the marked devices and chairs only, it stays if it takes all that the job holds.
    """
    n_workers, n_seats = 0, 0
    for q in range(t.option[o, GROUPS], t.option[o + 1, GROUPS]):
        n_workers += t.group[q, COUNT] * t.group[q, GPUS]
        n_seats += t.group[q, COUNT] * (t.group[q, GPUS] == 0)
    same = n_workers == s.job[j + 1, HOME] - s.job[j, HOME]
    same = same and n_seats == s.job[j + 1, SEATS] - s.job[j, SEATS]
    gain, worst = t.worth[o, NET], 0.0
    if anywhere or not same:
        gain -= t.cost[j, MOVE]
    for i in range(n_workers):
        g = s.hand[1, i]
        if s.device[g, RESIDENTS]:
            lost, own = beside(
                t.option, t.worth, t.cost, t.excess, t.unit, t.throughput,
                s.job, s.entry, s.device[g, HEAD], j, o,
            )  # fmt: skip
            gain -= lost
            worst = max(worst, loss_of(t.worth, t.cost, t.unit, t.throughput, j, o, own))
    return float(gain - worst)


# ---- changes ---------------------------------------------------------------------------------


def place(t: Tables, s: State, j: int, o: int, hand: int) -> None:
    """Add a job where `hand` (0 or 2) says; the caller has checked that it fits."""
    s.job[j, CHOSEN] = o
    worker, task = 0, 0
    for q in range(t.option[o, GROUPS], t.option[o + 1, GROUPS]):
        for _ in range(t.group[q, COUNT]):
            n = s.hand[hand, task]
            s.task[s.job[j, TASK] + task] = n
            task += 1
            for h in range(s.host.shape[1]):
                s.host[n, h] -= t.need[q, h]
            for _ in range(t.group[q, GPUS]):
                sit(t, s, j, o, q, s.hand[hand + 1, worker], s.job[j, ENTRY] + worker)
                worker += 1
    s.delta[0] += s.job[j, MUST]
    s.delta[1 + s.job[j, TIER]] += value_of(t, s, j)


def remove(t: Tables, s: State, j: int) -> None:
    """Take a placed job away: the exact reverse of `place`."""
    o, task, worker = s.job[j, CHOSEN], s.job[j, TASK], s.job[j, ENTRY]
    s.delta[0] -= s.job[j, MUST]
    s.delta[1 + s.job[j, TIER]] -= value_of(t, s, j)
    for q in range(t.option[o, GROUPS], t.option[o + 1, GROUPS]):
        for _ in range(t.group[q, COUNT]):
            for h in range(s.host.shape[1]):
                s.host[s.task[task], h] += t.need[q, h]
            task += 1
            for _ in range(t.group[q, GPUS]):
                stand(t, s, o, q, worker)
                worker += 1
    s.job[j, CHOSEN], s.job[j, WORST] = -1, 0


def value_of(t: Tables, s: State, j: int) -> float:
    """Return what a placed job adds over not being placed."""
    o = s.job[j, CHOSEN]
    value = t.worth[o, NET]
    value -= loss_of(t.worth, t.cost, t.unit, t.throughput, j, o, s.job[j, WORST])
    if t.cost[j, MOVE] != 0.0 and not stays(t, s, j):
        value -= t.cost[j, MOVE]
    return float(value)


def stays(t: Tables, s: State, j: int) -> bool:
    """Whether a placed job holds exactly what it held."""
    if not s.job[j, INTACT]:
        return False
    homes, seats = s.job[j + 1, HOME] - s.job[j, HOME], s.job[j + 1, SEATS] - s.job[j, SEATS]
    o, task, worker = s.job[j, CHOSEN], s.job[j, TASK], s.job[j, ENTRY]
    for q in range(t.option[o, GROUPS], t.option[o + 1, GROUPS]):
        for _ in range(t.group[q, COUNT]):
            if t.group[q, GPUS] == 0:
                seats -= 1
                # as many tasks as seats on this node, for every node: equal multisets
                mine = tasks_on(t.option, t.group, s.task, o, s.job[j, TASK], s.task[task])
                for i in range(s.job[j, SEATS], s.job[j + 1, SEATS]):
                    mine -= t.seat[i] == s.task[task]
                if mine != 0:
                    return False
            task += 1
            for _ in range(t.group[q, GPUS]):
                homes -= 1
                found = False
                for i in range(s.job[j, HOME], s.job[j + 1, HOME]):
                    found = found or t.home[i] == s.entry[worker, ON]
                if not found:
                    return False
                worker += 1
    return bool(homes == 0 and seats == 0)


def tasks_on(option: Any, group: Any, tasks: Any, o: int, first: int, n: int) -> int:
    """Count the tasks of an option without devices on a node; its tasks begin at `first`."""
    found = 0
    for q in range(option[o, GROUPS], option[o + 1, GROUPS]):
        for _ in range(group[q, COUNT]):
            found += group[q, GPUS] == 0 and tasks[first] == n
            first += 1
    return found


def sit(t: Tables, s: State, j: int, o: int, q: int, g: int, at: int) -> None:
    """Add one worker to a device."""
    device, entry, job = s.device, s.entry, s.job
    left = 0.0 if t.group[q, ALONE] or device[g, FREE_SEATS] <= 1 else 1.0
    for r in range(s.free.shape[1]):
        s.free[g, r] -= t.demand[q, r]
        left = min(left, s.free[g, r] / t.capacity[g, r])
    s.room[device[g, NODE]] += left - s.share[g, ROOM]
    s.share[g, ROOM] = left
    device[g, FREE_SEATS] -= 1
    device[g, RESIDENTS] += 1
    device[g, CLOSED] = t.group[q, ALONE]
    if device[g, CLOSED] or device[g, FREE_SEATS] == 0:
        s.node[device[g, NODE], OPEN] -= 1
    own, load = 0, t.option[o, LOAD]
    e = device[g, HEAD]
    while e >= 0:
        other = t.option[entry[e, BY], LOAD]
        owner = t.option[entry[e, BY], OWNER]
        own += t.excess[load, other]
        entry[e, SUFFERS] += t.excess[other, load]
        if entry[e, SUFFERS] > job[owner, WORST]:
            suffer(t, s, owner, entry[e, SUFFERS])
        e = entry[e, NEXT]
    job[j, WORST] = max(job[j, WORST], own)
    entry[at, BY] = o
    entry[at, ON] = g
    entry[at, SUFFERS] = own
    entry[at, NEXT] = device[g, HEAD]
    device[g, HEAD] = at


def stand(t: Tables, s: State, o: int, q: int, at: int) -> None:
    """Take one worker away from its device."""
    device, entry, g = s.device, s.entry, s.entry[at, ON]
    if device[g, CLOSED] or device[g, FREE_SEATS] == 0:
        s.node[device[g, NODE], OPEN] += 1
    device[g, FREE_SEATS] += 1
    device[g, RESIDENTS] -= 1
    device[g, CLOSED] = 0
    left = 1.0
    for r in range(s.free.shape[1]):
        s.free[g, r] += t.demand[q, r]
        if device[g, RESIDENTS]:
            left = min(left, s.free[g, r] / t.capacity[g, r])
    s.room[device[g, NODE]] += left - s.share[g, ROOM]
    s.share[g, ROOM] = left
    if device[g, HEAD] == at:
        device[g, HEAD] = entry[at, NEXT]
    e = device[g, HEAD]
    while e >= 0:
        if entry[e, NEXT] == at:
            entry[e, NEXT] = entry[at, NEXT]
        other, owner = entry[e, BY], t.option[entry[e, BY], OWNER]
        before = entry[e, SUFFERS]
        entry[e, SUFFERS] -= t.excess[t.option[other, LOAD], t.option[o, LOAD]]
        if before > entry[e, SUFFERS] and before == s.job[owner, WORST]:
            worst, first = 0, s.job[owner, ENTRY]
            for i in range(first, first + workers_of(t.option, t.group, other)):
                worst = max(worst, entry[i, SUFFERS])
            suffer(t, s, owner, worst)
        e = entry[e, NEXT]


def suffer(t: Tables, s: State, j: int, worst: int) -> None:
    """Change the excess that a placed job suffers."""
    o, job = s.job[j, CHOSEN], s.job
    before = loss_of(t.worth, t.cost, t.unit, t.throughput, j, o, job[j, WORST])
    after = loss_of(t.worth, t.cost, t.unit, t.throughput, j, o, worst)
    s.delta[1 + job[j, TIER]] += before - after
    job[j, WORST] = worst


def workers_of(option: Any, group: Any, o: int) -> int:
    """Return how many devices an option takes."""
    found = 0
    for q in range(option[o, GROUPS], option[o + 1, GROUPS]):
        found += group[q, COUNT] * group[q, GPUS]
    return int(found)


#: All that `fill`, or another search over the same state, calls.
PARTS = (
    fill, look, also, insert, weighed, draw, mark_home, mark_given, assign, scan, pick_devices,
    pick_chair, has_host, stranded, beside, loss_of, gain_of, place, remove, value_of, stays,
    tasks_on, sit, stand, suffer, workers_of,
)  # fmt: skip


@cache
def compiled() -> Callable[[Tables, State, Any, Any, int], int]:
    """Return `fill` as machine code, from numba's cache on disk after the first time."""
    from numba import njit
    from numba.extending import register_jitable

    for part in PARTS:
        register_jitable(part)
    function: Callable[[Tables, State, Any, Any, int], int] = njit(
        cache=True, nogil=True, error_model="numpy"
    )(fill)
    return function
