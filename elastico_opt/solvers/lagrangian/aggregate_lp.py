"""The linear relaxation of the aggregated program, on HiGHS.

The price loop tends to this value and to these duals. It is solved for the report only: the
**price gap** is the loop's bound less this value, the **relaxation gap** this value less the bound
of the pattern form. HiGHS works with tolerances, so `AggregateLP.bound` is what the duals prove by
`Problem.bounds`, not what HiGHS says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.lagrangian.problem import Problem
from elastico_opt.solvers.lagrangian.relaxation import BARRED, Relaxation


@dataclass(frozen=True)
class AggregateLP:
    """The solved linear relaxation.

    Attributes
    ----------
    value : float
        As HiGHS has it.
    bound : float
        What the duals prove.
    shares : (M,) floats
        Duals, as prices of whole rows.
    fractions : (J, C) floats
        The solution.
    """

    value: float
    bound: float
    shares: Floats
    fractions: Floats


def solve_aggregate(
    relaxation: Relaxation, limits: Limits | None = None, tier: int | None = None
) -> AggregateLP | None:
    """Solve the linear relaxation; None when out of time or infeasible.

    Infeasible means that the jobs which must be placed do not fit, so that no plan exists.
    """
    import highspy

    limits = limits or Limits()
    value = relaxation.value if tier is None else relaxation.values_of(tier)
    job, choice = np.nonzero(value > BARRED)
    matrix = _matrix(relaxation, job, choice)
    n_jobs, n_rows = len(value), len(relaxation.capacity)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(job), n_jobs + n_rows
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = value[job, choice]
    lp.col_lower_, lp.col_upper_ = np.zeros(len(job)), np.ones(len(job))
    lp.row_lower_ = np.concatenate([np.ones(n_jobs), np.full(n_rows, -highspy.kHighsInf)])
    lp.row_upper_ = np.ones(n_jobs + n_rows)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = matrix.data
    highs = highspy.Highs()
    options: dict[str, object] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": limits.seed % 2**31,
    }
    if limits.remaining() < np.inf:
        options["time_limit"] = limits.remaining()
    for name, setting in options.items():
        highs.setOptionValue(name, setting)
    highs.passModel(lp)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    shares = np.maximum(np.array(solution.row_dual)[n_jobs:], 0.0)
    fractions = np.zeros(value.shape)
    fractions[job, choice] = solution.col_value
    bound = float(Problem.of(relaxation, tier=tier).bounds(shares)[0])
    found = float(highs.getInfo().objective_function_value)
    return AggregateLP(found, bound, shares, fractions)


def _matrix(relaxation: Relaxation, job: Ints, choice: Ints) -> sparse.csc_matrix:
    """Return job rows, then resource rows in shares of their capacity."""
    columns = np.arange(len(job))
    jobs = sparse.csc_matrix(
        (np.ones(len(job)), (job, columns)), shape=(len(relaxation.value), len(job))
    )
    shares = relaxation.usage[job, choice] / relaxation.capacity
    return sparse.vstack([jobs, sparse.csc_matrix(shares.T)], format="csc")
