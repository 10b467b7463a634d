"""Every status of every back end, and what it means here: one total table each."""

from __future__ import annotations

from elastico_opt.solvers.base import Limits, Stop

#: By the name of a `highspy.HighsModelStatus`. All columns have bounds, so "unbounded or
#: infeasible" is infeasible. Statuses this package never asks for are errors.
HIGHS: dict[str, Stop] = {
    "kNotset": Stop.ERROR,
    "kLoadError": Stop.ERROR,
    "kModelError": Stop.ERROR,
    "kPresolveError": Stop.ERROR,
    "kSolveError": Stop.ERROR,
    "kPostsolveError": Stop.ERROR,
    "kModelEmpty": Stop.PROVED,
    "kOptimal": Stop.PROVED,
    "kInfeasible": Stop.INFEASIBLE,
    "kUnboundedOrInfeasible": Stop.INFEASIBLE,
    "kUnbounded": Stop.ERROR,
    "kObjectiveBound": Stop.ERROR,
    "kObjectiveTarget": Stop.ERROR,
    "kTimeLimit": Stop.TIME_LIMIT,
    "kIterationLimit": Stop.ITERATION_LIMIT,
    "kUnknown": Stop.ERROR,
    "kSolutionLimit": Stop.ITERATION_LIMIT,
    "kInterrupt": Stop.INTERRUPTED,
    "kMemoryLimit": Stop.MEMORY_LIMIT,
    "kHighsInterrupt": Stop.INTERRUPTED,
}

#: By the name of a `CpSolverStatus`. CP-SAT does not say which limit ended a search.
CPSAT: dict[str, Stop] = {
    "UNKNOWN": Stop.TIME_LIMIT,
    "MODEL_INVALID": Stop.ERROR,
    "FEASIBLE": Stop.TIME_LIMIT,
    "INFEASIBLE": Stop.INFEASIBLE,
    "OPTIMAL": Stop.PROVED,
}


def stopped(stop: Stop, limits: Limits) -> Stop:
    """Tell an interrupt by the caller from one by the clock, whatever the back end calls it."""
    if stop not in (Stop.TIME_LIMIT, Stop.INTERRUPTED):
        return stop
    return Stop.INTERRUPTED if limits.cancelled.is_set() else Stop.TIME_LIMIT
