"""A proof needs every pattern that could matter; stopping anywhere must never look like one.

Also the anytime promise: whenever the solver is stopped, it holds a plan that passes `verify` and
a bound that holds, or says that it has none.
"""

from __future__ import annotations

import math
import random
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from brute_force import Answer, brute_force
from hypothesis import given, settings, strategies as st
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot, solve, verify
from elastico_opt.formulations.columns import empty_patterns
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import TOLERANCE, Event, Limits, Outcome, Stop
from elastico_opt.solvers.pattern import PatternSolver, solver as solver_module, standing
from elastico_opt.solvers.pattern.generation import Generation
from elastico_opt.solvers.pattern.pairs import Pairing
from elastico_opt.solvers.pattern.pricing import Priced, Pricer
from elastico_opt.verification import evaluate


class After(threading.Event):
    """A cancellation that comes when it has been asked for so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@dataclass
class Log:
    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)


def run(given: Snapshot, limits: Limits) -> tuple[Outcome, list[Event]]:
    log = Log()
    return PatternSolver().solve(compile_program(given), limits, None, log), log.events


def honest(given: Snapshot, outcome: Outcome, answer: Answer) -> None:
    """What must hold of any outcome, however the solver was stopped."""
    if outcome.stop is Stop.INFEASIBLE:
        assert answer.status == "infeasible"
        return
    if outcome.plan is not None:
        verify(given, outcome.plan)
        assert answer.status == "optimal"
    if answer.objective is None:
        return
    scale = max(1.0, abs(float(answer.objective)))
    best = [float(value) for value in answer.tiers.values()]
    have = None
    if outcome.plan is not None:
        have = list(evaluate(given, outcome.plan).tiers.values())
    for t, bound in enumerate(outcome.tier_bounds):
        if bound is not None:
            assert bound >= best[t] - TOLERANCE * scale
        if have is None or abs(have[t] - best[t]) > TOLERANCE * scale:
            assert outcome.stop is not Stop.PROVED, "a plan below the optimum called proved"
            break
    if outcome.stop is Stop.PROVED:
        assert outcome.bound == pytest.approx(float(answer.objective), abs=2 * TOLERANCE * scale)


# ---- restricted masters are no proof ---------------------------------------------------------

#: In the optimum of these GPUs are shared, which no starved run finds out.
TRAPS = [generate("lucidlike", 7, 3, profiles=2, seed=1), generate("triples", 6, 2, seed=1)]


def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pricing finds nothing, though it bounds rightly; and nothing can be listed."""
    price = Pricer.price

    def barren(self: Pricer, *args: Any, **more: Any) -> Priced | None:
        found = price(self, *args, **more)
        return found and Priced(empty_patterns(), found.excess, found.complete)

    monkeypatch.setattr(Pricer, "price", barren)
    monkeypatch.setattr(Pricer, "enumerate", lambda *_: None)


def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master stops after its first round, and nothing can be listed."""

    def once(self: Generation, start: Any, on_round: Any, _: float = 1) -> None:
        self.master.add(start)
        self.master.add(self.pricer.singletons())
        solved = self.master.solve(self.limits)
        if solved is not None:
            self._price(solved[1])
            on_round()

    monkeypatch.setattr(Generation, "run", once)
    monkeypatch.setattr(Pairing, "run", lambda *_: False)
    monkeypatch.setattr(Pricer, "enumerate", lambda *_: None)


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pricing looks at few partial patterns, and nothing can be listed."""
    price = Pricer.price
    monkeypatch.setattr(
        Pricer, "price", lambda self, *args, **more: price(self, *args, **{**more, "budget": 2})
    )
    monkeypatch.setattr(Pricer, "enumerate", lambda *_: None)


@pytest.mark.parametrize("starve", [no_columns, one_round, blind])
@pytest.mark.parametrize("trap", [0, 1])
def test_a_starved_master_is_not_called_a_proof(
    trap: int, starve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The integer optimum over the columns at hand says nothing about the others."""
    answer = brute_force(TRAPS[trap])
    starve(monkeypatch)
    monkeypatch.setattr(solver_module, "first_fit", lambda _: {})
    result = solve(TRAPS[trap], solver="pattern")
    assert answer.objective is not None
    best = float(answer.objective)
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound >= best - 1e-9
    assert result.objective < best - 1e-3, "the trap must catch, or this tests nothing"
    assert result.status == "feasible"
    assert result.stop in ("memory_limit", "error")


@pytest.mark.parametrize("trap", [0, 1])
@pytest.mark.parametrize("slack", [1e-9, None])
def test_the_traps_are_solved_when_nothing_is_starved(
    trap: int, slack: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with tiny first lists: the proof then needs many turns, never a wrong one."""
    if slack is not None:
        monkeypatch.setattr(standing, "FIRST_SLACK", slack)
        monkeypatch.setattr(solver_module, "FEW_PATTERNS", 0)
    result = solve(TRAPS[trap], solver="pattern")
    assert result.status == "optimal"
    assert result.objective == pytest.approx(float(brute_force(TRAPS[trap]).objective or 0))


@settings(max_examples=60)
@given(snapshots(max_devices=3), st.sampled_from([no_columns, one_round, blind]))
def test_no_starved_run_claims_too_much(given: Snapshot, starve: Any) -> None:
    """On random snapshots of every feature: proved means proved, bounds hold."""
    with pytest.MonkeyPatch.context() as patch:
        starve(patch)
        outcome, _ = run(given, Limits())
    honest(given, outcome, brute_force(given))


# ---- stopped anywhere ------------------------------------------------------------------------


def check_events(events: list[Event]) -> None:
    """Within a run the incumbent only rises and the bound only falls, one above the other."""
    for name, sign in (("objective", 1), ("bound", -1)):
        seen = [value for event in events if (value := getattr(event, name)) is not None]
        for before, after in pairwise(seen):
            assert sign * (after - before) >= -1e-9 * max(1.0, abs(before)), name
    for event in events:
        if event.objective is not None and event.bound is not None:
            assert event.objective <= event.bound + TOLERANCE * max(1.0, abs(event.bound))


@settings(max_examples=100)
@given(snapshots(), st.integers(0, 80))
def test_an_interrupt_at_any_moment_leaves_what_is_held(given: Snapshot, moment: int) -> None:
    """Cancelled when the solver asks for the n-th time: a checked plan and a bound, or neither."""
    outcome, events = run(given, Limits(cancelled=After(moment)))
    honest(given, outcome, brute_force(given))
    if len({job.priority for job in given.jobs}) == 1:
        check_events(events)
    if outcome.stop is Stop.INTERRUPTED and outcome.plan is None:
        assert events == [] or all(event.objective is None for event in events)


def test_interrupts_of_a_larger_run() -> None:
    """Enough rounds, cuts and lists that the moments fall between all of them."""
    given = generate("lucidlike", 24, 10, seed=3)
    best = solve(given, solver="pattern")
    assert best.status == "optimal"
    assert best.objective is not None
    for moment in range(0, 60, 4):
        outcome, events = run(given, Limits(cancelled=After(moment)))
        check_events(events)
        if outcome.plan is None:
            assert outcome.stop is Stop.INTERRUPTED
            continue
        verify(given, outcome.plan)
        value = evaluate(given, outcome.plan).objective
        assert outcome.bound is None or outcome.bound >= best.objective - 1e-6
        assert outcome.stop is not Stop.PROVED or value == pytest.approx(best.objective, abs=1e-5)


def test_no_time_at_all_is_no_solution() -> None:
    """Time limit 0: nothing is claimed, nothing unchecked is printed."""
    result = solve(TRAPS[0], solver="pattern", time_limit=0)
    assert (result.status, result.objective, result.bound) == ("no_solution", None, None)


@settings(max_examples=25)
@given(snapshots(), st.floats(0, 0.02))
def test_a_tiny_time_limit_is_honest(given: Snapshot, seconds: float) -> None:
    """Wherever the clock stops the solver."""
    deadline = time.monotonic() + seconds
    outcome, events = run(given, Limits(deadline=deadline))
    honest(given, outcome, brute_force(given))
    if len({job.priority for job in given.jobs}) == 1:
        check_events(events)


def crowd() -> Snapshot:
    """Two hundred small jobs, twenty to a GPU: no search over its patterns ever ends."""
    rng = random.Random(0)
    jobs = {
        f"j{i}": {
            "weight": rng.randint(500, 2000) / 1000,
            "profiles": [
                {
                    "name": f"p{c}",
                    "gpu": {"memory": rng.randint(1, 12), "sm": rng.randint(1, 20)},
                    "throughput": rng.randint(500, 1000) * (c + 1),
                }
                for c in range(2)
            ],
        }
        for i in range(200)
    }
    types = {"A": {"capacity": {"memory": 80, "sm": 100}}}
    return snapshot({"n0": 4, "n1": 4}, jobs, types=types)


@pytest.mark.parametrize("seconds", [0.3, 1.5])
def test_the_time_limit_reaches_the_compiled_search(seconds: float) -> None:
    """It once ran for a minute more. What it had found by then still is a bound."""
    given = crowd()
    program = compile_program(given)
    began = time.monotonic()
    outcome = PatternSolver().solve(program, Limits(deadline=began + seconds))
    assert time.monotonic() - began <= 45  # kernels may have to be compiled first
    assert outcome.stop is Stop.TIME_LIMIT
    assert outcome.plan is not None
    verify(given, outcome.plan)
    if outcome.bound is not None:
        assert outcome.bound >= evaluate(given, outcome.plan).objective


def test_an_interrupt_reaches_the_compiled_search() -> None:
    """Ctrl-C sets an event from another thread while the search runs outside Python."""
    program = compile_program(crowd())
    cancelled = threading.Event()
    threading.Timer(0.5, cancelled.set).start()
    began = time.monotonic()
    outcome = PatternSolver().solve(program, Limits(cancelled=cancelled))
    assert outcome.stop is Stop.INTERRUPTED
    assert time.monotonic() - began <= 45


def test_events_of_a_whole_run_are_monotone() -> None:
    """From the first event on there is an incumbent; the last one says what the result says."""
    given = generate("gangs", 12, 8, tiers=1)
    outcome, events = run(given, Limits())
    check_events(events)
    assert all(event.objective is not None for event in events)
    assert events[-1].objective == pytest.approx(evaluate(given, outcome.plan).objective)
    assert events[-1].bound == pytest.approx(outcome.bound)
    assert math.isfinite(events[0].time)


@settings(max_examples=60)
@given(snapshots(tiers=False))
def test_events_of_random_runs_are_monotone(given: Snapshot) -> None:
    """Also when pools are split. (With tiers the sum may fall: a higher tier comes first.)"""
    _, events = run(given, Limits())
    check_events(events)


# ---- found by review -------------------------------------------------------------------------


@st.composite
def slowed_gangs(draw: st.DrawFn) -> Snapshot:
    """Gangs beside jobs that can run calmer: the best profile for the mean is not for the maximum.

    A heavy penalty and jobs that must be placed make values far below zero common.
    """
    level, share = st.sampled_from([1, 1.1, 1.4, 1.6]), st.sampled_from([3, 4, 6])
    jobs: dict[str, Any] = {}
    for i in range(draw(st.integers(2, 4))):
        if draw(st.booleans()):
            job: Any = {"tasks": [{"count": 2, "gpu": {"memory": draw(share)}}]}
        else:
            job = {"profiles": [
                {"name": f"p{c}", "throughput": rate, "gpus": 1, "gpu": {"memory": draw(share)}}
                for c, rate in enumerate((1, 0.8))
            ]}  # fmt: skip
        jobs[f"j{i}"] = {**job, "must_place": draw(st.booleans()) and i < 2}
    work = [
        (name, f"{name}/{p}")
        for name, job in jobs.items()
        for p in (("p0", "p1") if "profiles" in job else ("p",))
    ]
    table = [
        {"a": a, "b": b, "slowdown": [draw(level), draw(level)]}
        for x, (one, a) in enumerate(work) for other, b in work[x + 1 :] if one != other
    ]  # fmt: skip
    policy = {"interference_penalty": draw(st.sampled_from([1, 8]))}
    return snapshot({"n": 2}, jobs, interference={"table": table}, policy=policy)


@settings(max_examples=120)
@given(slowed_gangs())
def test_gangs_beside_calmer_profiles_and_values_below_zero(given: Snapshot) -> None:
    """The list of patterns must hold those that only the maximum makes best, at any value."""
    outcome, _ = run(given, Limits())
    honest(given, outcome, brute_force(given))
