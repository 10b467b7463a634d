"""The state of a plan in hand: what is removed leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.program import Program, compile_program
from elastico_opt.solvers.greedy import first_fit
from elastico_opt.solvers.improvement.general import GeneralSearch
from elastico_opt.solvers.occupancy import Occupancy
from elastico_opt.solvers.placing import (
    BY,
    CHOSEN,
    CLOSED,
    FREE_SEATS,
    HEAD,
    NEXT,
    OPEN,
    RESIDENTS,
    SUFFERS,
    WORST,
    remove,
)

QUICK = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def residents(occupancy: Occupancy) -> list[set[tuple[int, int]]]:
    """Return, per device, its workers' options and what they suffer."""
    s, found = occupancy.state, []
    for head in s.device[:, HEAD].tolist():
        here, e = set(), head
        while e >= 0:
            here.add((int(s.entry[e, BY]), int(s.entry[e, SUFFERS])))
            e = int(s.entry[e, NEXT])
        found.append(here)
    return found


def same(one: Occupancy, other: Occupancy) -> None:
    """Compare all that a state says about who sits where and what is left."""
    a, b = one.state, other.state
    assert residents(one) == residents(other)
    assert np.array_equal(a.job[:, [CHOSEN, WORST]], b.job[:, [CHOSEN, WORST]])
    columns = [FREE_SEATS, CLOSED, RESIDENTS]
    assert np.array_equal(a.device[:, columns], b.device[:, columns])
    assert np.array_equal(a.free, b.free)
    assert np.array_equal(a.host, b.host)
    assert np.array_equal(a.node[:, OPEN], b.node[:, OPEN])
    assert a.room == pytest.approx(b.room, abs=1e-9)


def total(program: Program, occupancy: Occupancy) -> list[float]:
    """Return the value per tier as the state's own book-keeping has it."""
    values = occupancy.state.delta[1:].copy()
    for j in range(program.n_jobs):
        values[program.job_tier[j]] -= program.change_costs(j)[2]
    return [float(value) for value in values]


@QUICK
@given(snapshots(), st.data())
def test_removing_and_placing_again_leaves_the_state_as_if_built_from_scratch(
    given: Snapshot, data: st.DataObject
) -> None:
    program = compile_program(given)
    found = first_fit(program)
    if not found:
        return
    worked = Occupancy(program)
    present: set[int] = set()
    jobs = st.lists(st.sampled_from(sorted(found)), max_size=12)
    for j in [*found, *data.draw(jobs)]:
        if j in present:
            remove(worked.tables, worked.state, j)
            present.remove(j)
        else:
            worked.place(j, found[j])
            present.add(j)
    scratch = Occupancy(program)
    for j in sorted(present):
        scratch.place(j, found[j])
    same(worked, scratch)
    assert total(program, worked) == pytest.approx(scratch.tier_values(), abs=1e-9, rel=1e-9)


@QUICK
@given(snapshots(), st.integers(0, 5))
def test_ruins_keep_the_state_exact_and_count_what_they_gain(given: Snapshot, seed: int) -> None:
    """After many moves, undone or not: the state of its own plan, built anew."""
    program = compile_program(given)
    found = first_fit(program)
    if found is None:
        return
    search = GeneralSearch(program, found, seed)
    search.run(60, 0.0, 0.0)
    rebuilt = Occupancy(program)
    best = search.placements()
    for j in sorted(best):
        rebuilt.place(j, best[j])
    same(search.occupancy, rebuilt)
    counted = [a + b for a, b in zip(search.start_values, search.gained, strict=True)]
    assert counted == pytest.approx(rebuilt.tier_values(), abs=1e-7, rel=1e-7)
