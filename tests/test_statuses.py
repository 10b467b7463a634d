"""Every status of every back end has one meaning here."""

from __future__ import annotations

import threading

import highspy
import pytest

from elastico_opt.solvers.base import Limits, Stop
from elastico_opt.solvers.statuses import CPSAT, HIGHS, stopped


def test_every_status_of_highs_is_in_the_table() -> None:
    assert set(highspy.HighsModelStatus.__members__) <= set(HIGHS)


def test_every_status_of_cpsat_is_in_the_table() -> None:
    from ortools.sat import cp_model_pb2

    assert len(cp_model_pb2.CpSolverStatus.keys()) >= 5
    assert set(cp_model_pb2.CpSolverStatus.keys()) == set(CPSAT)


@pytest.mark.parametrize("table", [HIGHS, CPSAT])
def test_only_one_status_proves_and_only_honest_ones_refute(table: dict[str, Stop]) -> None:
    proofs = {name for name, stop in table.items() if stop is Stop.PROVED}
    assert proofs <= {"kOptimal", "kModelEmpty", "OPTIMAL"}
    refuted = {name for name, stop in table.items() if stop is Stop.INFEASIBLE}
    assert refuted <= {"kInfeasible", "kUnboundedOrInfeasible", "INFEASIBLE"}


def test_who_stopped_the_solver_decides_between_clock_and_interrupt() -> None:
    cancelled = threading.Event()
    limits = Limits(cancelled=cancelled)
    assert stopped(Stop.INTERRUPTED, limits) is Stop.TIME_LIMIT
    cancelled.set()
    assert stopped(Stop.TIME_LIMIT, limits) is Stop.INTERRUPTED
    assert stopped(Stop.PROVED, limits) is Stop.PROVED
