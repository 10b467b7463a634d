"""Solvers run in a thread of their own; limits, failures and Ctrl-C reach the caller."""

from __future__ import annotations

import threading
import time

import pytest

from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers import background, lexicographic
from elastico_opt.solvers.background import run_watched
from elastico_opt.solvers.base import Limits, Stop
from elastico_opt.solvers.registry import get_solver
from elastico_opt.verification import verify


class Worker:
    """Works until told to stop, or longer if it is stubborn."""

    def __init__(self, stubborn: bool = False) -> None:
        self.told, self.ended = threading.Event(), threading.Event()
        self.stubborn = stubborn

    def work(self) -> None:
        (self.ended if self.stubborn else self.told).wait(30)


def test_the_clock_stops_the_work() -> None:
    worker = Worker()
    assert run_watched(worker.work, worker.told.set, Limits(deadline=time.monotonic() + 0.05))
    assert worker.told.is_set()


def test_an_interrupt_stops_the_work() -> None:
    worker, limits = Worker(), Limits()
    threading.Timer(0.05, limits.cancelled.set).start()
    assert run_watched(worker.work, worker.told.set, limits)


def test_work_that_does_not_stop_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "GRACE", 0.1)
    worker = Worker(stubborn=True)
    began = time.monotonic()
    ended = run_watched(worker.work, worker.told.set, Limits(deadline=began + 0.05))
    worker.ended.set()
    assert not ended
    assert time.monotonic() - began < 5


def test_a_failure_in_the_work_is_raised_here() -> None:
    def fail() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        run_watched(fail, lambda: None, Limits())


def test_ctrl_c_stops_the_work_and_is_raised() -> None:
    def press() -> None:
        raise KeyboardInterrupt

    worker = Worker()
    with pytest.raises(KeyboardInterrupt):
        run_watched(worker.work, worker.told.set, Limits(), press)
    assert worker.told.is_set()


@pytest.mark.parametrize("name", ["highs", "cpsat"])
def test_a_solver_left_behind_still_gives_a_plan(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the back end were stuck in its presolve."""
    monkeypatch.setattr(background, "GRACE", 0.0)
    given = generate("lucidlike", 18, 6, profiles=5, residents=4)
    began = time.monotonic()
    outcome = get_solver(name).solve(compile_program(given), Limits(deadline=began + 1.0))
    assert time.monotonic() - began < 4
    assert outcome.stop in (Stop.TIME_LIMIT, Stop.PROVED)
    assert outcome.plan is not None and outcome.bound is not None
    verify(given, outcome.plan)
    for thread in threading.enumerate():  # let it end before the next test
        if thread.name == "elastico-solver":
            thread.join(60)


@pytest.mark.parametrize("name", ["highs", "cpsat"])
def test_what_is_too_large_to_build_is_not_built(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The greedy plan and a simple bound are returned, and the reason."""
    given = generate("lucidlike", 12, 5)
    program = compile_program(given)
    monkeypatch.setattr(lexicographic, "MOST_NONZEROS", 1000)
    outcome = get_solver(name).solve(program, Limits())
    assert outcome.stop is Stop.MEMORY_LIMIT
    assert "use --solver pattern" in outcome.detail
    assert outcome.plan is not None and outcome.bound is not None
    verify(given, outcome.plan)
    monkeypatch.undo()
    monkeypatch.setattr(lexicographic, "BUILD_SECONDS", 1.0)
    outcome = get_solver(name).solve(program, Limits(deadline=time.monotonic() + 5))
    assert outcome.stop is Stop.TIME_LIMIT
    assert outcome.plan is not None
