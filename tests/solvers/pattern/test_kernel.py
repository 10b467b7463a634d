"""The compiled search against plain enumeration: every set of items, one by one, from the rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog

from elastico_opt.solvers.pattern.kernel import NEVER, search, shadow_prices

HUGE = 10**9
Found = dict[tuple[int, ...], float]


@dataclass(frozen=True)
class Case:
    """Items that may share one device; the fields are those of `search`."""

    base: list[float]
    loss: list[float]
    demand: list[list[int]]
    workload: list[int]
    limit: list[int]
    exclusive: list[bool]
    owner: list[int]
    copies: list[int]
    capacity: list[int]
    excess: list[list[int]]
    throughput: bool
    slots: int
    shadow: list[float]
    slot_price: float
    unit: float = 0.25

    def worth(self, members: tuple[int, ...]) -> float | None:
        """Return the value of a set of items, None where a rule forbids it."""
        for r, room in enumerate(self.capacity):
            if sum(self.demand[i][r] for i in members) > room:
                return None
        if len(members) > 1 and any(self.exclusive[i] for i in members):
            return None
        count = Counter(self.owner[i] for i in members)
        if any(count[c] > self.copies[c] for c in count):
            return None
        total = 0.0
        for at, i in enumerate(members):
            beside = [self.workload[m] for b, m in enumerate(members) if b != at]
            suffered = [self.excess[self.workload[i]][w] for w in beside]
            if NEVER in suffered or sum(suffered) > self.limit[i]:
                return None
            slowdown = sum(suffered) * self.unit
            if self.throughput:
                slowdown = slowdown / (1 + slowdown)
            total += self.base[i] - self.loss[i] * slowdown
        return total

    def every(self, roots: range, partners: int) -> Found:
        """Return all feasible sets that start at a root, with their values."""
        n, found = len(self.base), {}
        for size in range(1, self.slots + 1):
            for members in combinations_with_replacement(range(n), size):
                rest = members[1:]
                if members[0] in roots and all(i >= partners for i in rest):
                    worth = self.worth(members)
                    if worth is not None:
                        found[members] = worth
        return found


#: Any prices make a valid bound, so that they need not be good ones here.
PRICES = st.sampled_from([0.0, 0.1, 0.5, 2.0])


@st.composite
def cases(draw: st.DrawFn, slots: int | None = None) -> Case:
    """Small grids, so that exact fits, equal values and limits that just hold are common."""
    n, kinds = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    resources, classes = draw(st.integers(0, 2)), draw(st.integers(1, n))
    few = st.integers(0, 3)
    excess = draw(st.lists(st.sampled_from([0, 0, 1, 2, 4, NEVER]),
                           min_size=kinds * kinds, max_size=kinds * kinds))  # fmt: skip
    each = {"min_size": n, "max_size": n}
    return Case(
        base=draw(st.lists(st.sampled_from([1.0, 0.5, 2.25, -0.5, 0.0, 1.7]), **each)),
        loss=draw(st.lists(st.sampled_from([0.0, 1.0, 0.3, 2.0]), **each)),
        demand=[draw(st.lists(few, min_size=resources, max_size=resources)) for _ in range(n)],
        workload=draw(st.lists(st.integers(0, kinds - 1), **each)),
        limit=draw(st.lists(st.sampled_from([0, 1, 2, 3, HUGE]), **each)),
        exclusive=draw(st.lists(st.integers(0, 7).map(lambda x: x == 7), **each)),
        owner=draw(st.lists(st.integers(0, classes - 1), **each)),
        copies=draw(st.lists(st.sampled_from([1, 1, 2, 5]), min_size=classes, max_size=classes)),
        capacity=draw(st.lists(st.integers(0, 6), min_size=resources, max_size=resources)),
        excess=[excess[v * kinds : (v + 1) * kinds] for v in range(kinds)],
        throughput=draw(st.booleans()),
        slots=slots or draw(st.integers(1, 4)),
        shadow=draw(st.lists(PRICES, min_size=resources, max_size=resources)),
        slot_price=draw(PRICES),
    )


@dataclass(frozen=True)
class Ran:
    best: float
    listed: int
    left: float
    nodes: int
    found: Found
    top_value: Any
    top_items: Any


def run(
    case: Case, cutoff: float = -np.inf, keep: int = 0, room: int = 10_000, budget: int = HUGE,
    focus: bool = False, first: int = 0, roots: int | None = None, partners: int = 0,
    fair: bool = False,
) -> Ran:  # fmt: skip
    n, classes = len(case.base), len(case.copies)
    top_value = np.full((classes, keep), -np.inf)
    top_items = np.full((classes, keep, case.slots), -1, dtype=np.int64)
    out_value = np.empty(room)
    out_items = np.empty((room, case.slots), dtype=np.int64)
    stop = np.zeros(1, dtype=bool)
    best, listed, left, nodes = search(
        np.array(case.base), np.array(case.loss),
        np.array(case.demand, dtype=np.int64).reshape(n, len(case.capacity)),
        np.array(case.workload), np.array(case.limit, dtype=np.int64), np.array(case.exclusive),
        np.array(case.owner), np.arange(classes) * 7 + 3, np.array(case.copies),
        np.array(case.capacity, dtype=np.int64), np.array(case.shadow), case.slot_price,
        np.array(case.excess, dtype=np.int64),
        case.unit, case.throughput, first, n if roots is None else roots, partners, case.slots,
        cutoff, focus, top_value, top_items, out_value, out_items, budget, fair, stop,
    )  # fmt: skip
    found = {
        _members(row): value for row, value in zip(out_items[:listed], out_value, strict=False)
    }
    assert listed < 0 or len(found) == listed, "a set is listed once"
    return Ran(best, listed, left, nodes, found, top_value, top_items)


def _members(row: Any) -> tuple[int, ...]:
    return tuple(sorted(int(i) for i in row if i >= 0))


def as_sets(found: Found) -> Found:
    return {tuple(sorted(members)): value for members, value in found.items()}


@settings(max_examples=300)
@given(cases())
def test_every_feasible_set_is_listed_with_its_value(case: Case) -> None:
    """Any number of residents, both couplings, capacities, limits, exclusive items, copies."""
    expected = case.every(range(len(case.base)), 0)
    ran = run(case)
    assert ran.left == -np.inf
    assert ran.found == pytest.approx(expected)
    assert ran.best == pytest.approx(max(expected.values(), default=-np.inf))


@settings(max_examples=200)
@given(cases(), st.sampled_from([-0.5, 0.0, 0.5, 1.0, 2.3]))
def test_the_list_above_a_cutoff_is_complete(case: Case, cutoff: float) -> None:
    """Bounds may only cut what is worth no more than the cutoff: enumeration is a proof."""
    expected = {
        members: value
        for members, value in case.every(range(len(case.base)), 0).items()
        if value > cutoff + 1e-9
    }
    ran = run(case, cutoff)
    listed = {members: value for members, value in ran.found.items() if value > cutoff + 1e-9}
    assert listed == pytest.approx(expected)
    assert all(value > cutoff for value in ran.found.values())
    if expected:
        assert ran.best == pytest.approx(max(expected.values()))


@settings(max_examples=150)
@given(cases(), st.data())
def test_sets_start_at_the_roots_and_go_on_with_the_partners(case: Case, data: Any) -> None:
    """A site's patterns start from items tied to it; two-sided searches meet only partners."""
    n = len(case.base)
    roots = data.draw(st.integers(0, n))
    first = data.draw(st.integers(0, roots))
    partners = data.draw(st.sampled_from([0, roots]))
    ran = run(case, first=first, roots=roots, partners=partners)
    expected = case.every(range(first, roots), partners)
    assert ran.found == pytest.approx(as_sets(expected))


@settings(max_examples=200)
@given(cases(), st.integers(1, 60), st.sampled_from([-np.inf, 0.0, 1.0]), st.booleans())
def test_a_search_cut_short_still_bounds_what_it_left_out(
    case: Case, budget: int, cutoff: float, fair: bool
) -> None:
    """Pricing that may miss columns must say how good the missed ones could be."""
    best = max(case.every(range(len(case.base)), 0).values(), default=-np.inf)
    ran = run(case, cutoff, budget=budget, fair=fair)
    assert max(ran.best, ran.left, cutoff) >= best - 1e-9
    assert ran.nodes <= budget + 1
    if ran.nodes <= budget and not fair:
        assert ran.left == -np.inf


@settings(max_examples=200)
@given(cases(), st.integers(1, 3), st.booleans(), st.sampled_from([-np.inf, 0.0, 1.0]))
def test_the_best_per_class_are_real_and_the_best_of_all_is_exact(
    case: Case, keep: int, focus: bool, cutoff: float
) -> None:
    """`focus` cuts what no list needs; it must not touch the best value, which makes the bound."""
    every = case.every(range(len(case.base)), 0)
    above = {members: value for members, value in every.items() if value > cutoff}
    ran = run(case, cutoff, keep=keep, room=0, focus=focus)
    if above:
        assert ran.best == pytest.approx(max(above.values()))
    for c, values in enumerate(ran.top_value):
        for k in np.flatnonzero(values > -np.inf):
            members = _members(ran.top_items[c, k])
            assert case.worth(members) == pytest.approx(values[k])
            assert c in {case.owner[i] for i in members}
        mine = [v for members, v in above.items() if c in {case.owner[i] for i in members}]
        if mine and not focus:
            assert values.max() == pytest.approx(max(mine))


def test_a_full_list_says_so() -> None:
    """The caller must give more room, never take a part for the whole."""
    items = 4
    case = Case(
        base=[1.0] * items, loss=[0.0] * items, demand=[[1]] * items, workload=[0] * items,
        limit=[HUGE] * items, exclusive=[False] * items, owner=list(range(items)),
        copies=[1] * items, capacity=[2], excess=[[0]], throughput=False, slots=3,
        shadow=[0.0], slot_price=0.0,
    )  # fmt: skip
    assert run(case, room=10).listed == 10
    assert run(case, room=9).listed == -1


@pytest.mark.parametrize(("limit", "most"), [(0, 1), (1, 2), (2, 3)])
def test_slowdowns_of_three_residents_add_up(limit: int, most: int) -> None:
    """Each suffers one quantum from each other, so the limit decides how many may meet."""
    case = Case(
        base=[1.0] * 3, loss=[0.0] * 3, demand=[[]] * 3, workload=[0] * 3, limit=[limit] * 3,
        exclusive=[False] * 3, owner=[0, 1, 2], copies=[1] * 3, capacity=[], excess=[[1]],
        throughput=False, slots=3, shadow=[], slot_price=0.0,
    )  # fmt: skip
    assert max(map(len, run(case).found)) == most


@pytest.mark.parametrize("seed", range(6))
def test_shadow_prices_are_near_the_duals_of_the_lp(seed: int) -> None:
    """Any prices bound; these should bound about as well as the knapsack's own LP.

    The LP picks items fractionally: one of each class, as often as it has jobs, within the
    capacity and the slots.
    """
    rng = np.random.default_rng(seed)
    n, resources = 120, seed % 3 + 1
    slots = int(rng.integers(4, 40))
    base, demand = rng.random(n) * 2 - 0.3, rng.integers(0, 20, (n, resources))
    owner, copies = np.arange(n) // 2, rng.integers(1, 3, n // 2)
    capacity = rng.integers(60, 120, resources)
    shadow, slot_price = shadow_prices(base, demand, owner, copies, capacity, slots, 100)
    assert (shadow >= 0).all()
    assert slot_price >= 0
    profit = np.zeros(n // 2)
    np.maximum.at(profit, owner, base - demand @ shadow - slot_price)
    bound = shadow @ capacity + slot_price * slots + copies @ profit
    member = (owner == np.arange(n // 2)[:, None]).astype(float)
    rows = np.vstack([demand.T, np.ones(n), member])
    lp = linprog(-base, A_ub=rows, b_ub=np.concatenate([capacity, [slots], copies]))
    assert -lp.fun - 1e-9 <= bound <= -lp.fun * 1.03
