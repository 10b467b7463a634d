"""The status is what the check finds, not what a solver says; a lie is raised."""

from __future__ import annotations

import math

import pytest
from small import plan, snapshot

from elastico_opt import VerificationError
from elastico_opt.certify import certify
from elastico_opt.result import Status
from elastico_opt.solvers.base import TOLERANCE, Outcome, Stop

TWO = snapshot({"n": 1}, {"a": {"gpu": {"memory": 6}}, "b": {"gpu": {"memory": 6}}})
BEST = plan(a=("n", "0"))


def outcome(*bounds: float | None, stop: Stop = Stop.PROVED, held: object = BEST) -> Outcome:
    return Outcome(held, bounds, stop)  # type: ignore[arg-type]


def test_a_bound_that_meets_the_value_proves_it() -> None:
    """The plain case: nothing else may be called optimal."""
    found = certify(TWO, outcome(1.0))
    assert (found.status, found.objective, found.bound, found.gap) == (Status.OPTIMAL, 1, 1, 0)


@pytest.mark.parametrize("stop", [Stop.TIME_LIMIT, Stop.CONVERGED, Stop.INTERRUPTED, Stop.ERROR])
def test_the_solvers_word_decides_nothing(stop: Stop) -> None:
    """A solver that runs out of time while its bound meets its plan holds an optimum."""
    assert certify(TWO, outcome(1.0, stop=stop)).status is Status.OPTIMAL
    assert certify(TWO, outcome(1.5, stop=stop)).status is Status.FEASIBLE
    assert certify(TWO, outcome(1.5, stop=stop)).stop is stop


def test_proved_without_a_matching_bound_is_not_optimal() -> None:
    """`Optimal` at a relative gap of 1e-4 is the usual lie of a solver with default options."""
    found = certify(TWO, outcome(1.0001))
    assert found.status is Status.FEASIBLE
    assert found.gap == pytest.approx(1e-4, rel=1e-3)
    assert "0.0001" in found.warnings[0]


@pytest.mark.parametrize(("excess", "status"), [
    (0.9 * TOLERANCE, Status.OPTIMAL), (1.1 * TOLERANCE, Status.FEASIBLE),
])  # fmt: skip
def test_the_tolerance_is_the_stated_one(excess: float, status: Status) -> None:
    """Optimal means bound − objective ≤ 1e-6 · max(1, |objective|), to the digit."""
    assert certify(TWO, outcome(1.0 + excess)).status is status


def test_the_tolerance_grows_with_the_objective() -> None:
    """A value of 2000 is held to 0.002; one of 0.001 still to 1e-6."""
    for weight, slack in ((2000, 1.9e-3), (0.001, 0.9e-6)):
        big = snapshot({"n": 1}, {"a": {"weight": weight}})
        assert certify(big, outcome(weight + slack)).status is Status.OPTIMAL
        assert certify(big, outcome(weight + 1.2 * slack)).status is Status.FEASIBLE


def test_a_bound_within_the_tolerance_below_the_value_is_lifted() -> None:
    """Rounding may leave the bound a hair below; the reader must not see bound < objective."""
    found = certify(TWO, outcome(1.0 - 0.5 * TOLERANCE))
    assert (found.status, found.bound, found.gap) == (Status.OPTIMAL, 1.0, 0.0)
    assert found.tiers[0].bound == 1.0


def test_a_bound_below_the_value_is_a_bug_and_is_raised() -> None:
    """A wrong side or sign of the bound must never be reported as gap 0."""
    for bound in (0.5, -1.0, -math.inf, 1.0 - 2 * TOLERANCE):
        if math.isfinite(bound):
            with pytest.raises(VerificationError, match="no plan is worth more"):
                certify(TWO, outcome(bound))
    assert certify(TWO, outcome(-math.inf)).bound is None


@pytest.mark.parametrize("bounds", [(), (None,), (math.inf,), (math.nan,)])
def test_a_missing_bound_is_none(bounds: tuple[float | None, ...]) -> None:
    """No bound is not a bound of 0, and infinity or NaN must not reach the result."""
    found = certify(TWO, outcome(*bounds))
    assert (found.status, found.bound, found.gap) == (Status.FEASIBLE, None, None)
    assert len(found.warnings) == (2 if bounds and math.isnan(bounds[0] or 0) else 1)


@pytest.mark.parametrize("corrupt", [
    plan(a=("n", "0"), b=("n", "0")),  # over capacity
    plan(a=("n", "7")),  # no such GPU
    plan(a=("m", "0")),  # no such node
    plan(z=("n", "0")),  # no such job
    plan(a=("n",)),  # no GPU at all
    plan(a=[("n", "0"), ("n", "0")]),  # one task too many
])  # fmt: skip
def test_a_corrupt_plan_is_never_returned(corrupt: object) -> None:
    """Whatever is wrong with a plan, certify raises instead of valuing it."""
    with pytest.raises(VerificationError, match="the plan of the solver breaks a rule"):
        certify(TWO, outcome(9.0, held=corrupt))


def test_no_plan_is_no_solution_and_keeps_the_bound() -> None:
    """Zeros are not a plan: without one there is no objective, but the bound still holds."""
    found = certify(TWO, outcome(1.5, stop=Stop.TIME_LIMIT, held=None))
    assert (found.status, found.objective, found.bound) == (Status.NO_SOLUTION, None, 1.5)
    assert found.gap is None


def test_an_error_without_a_plan_is_an_error() -> None:
    found = certify(TWO, outcome(stop=Stop.ERROR, held=None))
    assert (found.status, found.bound) == (Status.ERROR, None)


def test_infeasibility_is_believed_only_where_it_is_possible() -> None:
    """If no job must be placed, the empty plan refutes the claim."""
    claim = outcome(stop=Stop.INFEASIBLE, held=None)
    with pytest.raises(VerificationError, match="no job must be placed"):
        certify(TWO, claim)
    must = snapshot({"n": 1}, {"a": {"gpus": 2, "must_place": True}})
    assert certify(must, claim).status is Status.INFEASIBLE
    with pytest.raises(VerificationError, match="claims infeasibility and returns a plan"):
        certify(TWO, outcome(1.0, stop=Stop.INFEASIBLE))


TIERS = snapshot(
    {"n": 1}, {"a": {"priority": 5, "gpu": {"memory": 6}}, "b": {"gpu": {"memory": 6}}}
)


def test_each_priority_has_its_bound() -> None:
    """Tier bounds add up, and each is checked against its own tier."""
    found = certify(TIERS, outcome(1.0, 0.0))
    assert (found.status, found.bound) == (Status.OPTIMAL, 1.0)
    assert [(t.priority, t.objective, t.bound) for t in found.tiers] == [(5, 1, 1), (0, 0, 0)]
    assert certify(TIERS, outcome(1.0, None)).bound is None
    with pytest.raises(VerificationError, match="in priority 5"):
        certify(TIERS, outcome(0.0, 1.0))  # the sum alone would look right
    with pytest.raises(VerificationError, match="1 bounds for 2 priorities"):
        certify(TIERS, outcome(1.0))


def test_an_infinite_tier_bound_leaves_the_others() -> None:
    found = certify(TIERS, outcome(1.0, math.inf))
    assert [t.bound for t in found.tiers] == [1.0, None]
