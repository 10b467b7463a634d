"""What every registered solver must do; one suite, run on each.

A solver is held to the capabilities it claims. A new solver is added to SOLVERS: a test fails
until it is. `--solvers` chooses some.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
import registered
from brute_force import brute_force
from known_answers import KNOWN, Known

from elastico_opt import Snapshot, parse_snapshot
from elastico_opt.errors import InputError, UnsupportedError
from elastico_opt.instances.generate import generate
from elastico_opt.plan import Assignment, Plan, TaskPlacement
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Capability, Event, Limits, Outcome, Solver, Stop
from elastico_opt.solvers.registry import get_solver, solver_names
from elastico_opt.solvers.TEMPLATE import TemplateSolver
from elastico_opt.verification import evaluate, verify

SOLVERS = ("pattern", "highs", "cpsat", "lagrangian", "greedy")
TOLERANCE = 1e-6

every_solver = pytest.mark.parametrize("name", [*registered.available(), "template"])


def solver_of(name: str) -> Solver:
    return TemplateSolver() if name == "template" else get_solver(name)


def run(name: str, snapshot: Snapshot, limits: Limits | None = None, **more: object) -> Outcome:
    program = compile_program(snapshot)
    return solver_of(name).solve(program, limits or Limits(), **more)  # type: ignore[arg-type]


def value_of(snapshot: Snapshot, outcome: Outcome) -> tuple[float, ...]:
    """Check the plan and return its value per priority, highest first."""
    assert outcome.plan is not None
    verify(snapshot, outcome.plan)
    return tuple(evaluate(snapshot, outcome.plan).tiers.values())


def slack(value: float) -> float:
    return TOLERANCE * max(1.0, abs(value))


def check_bounds(name: str, outcome: Outcome, values: tuple[float, ...]) -> None:
    """The first bound holds for every plan, the others for plans equal above."""
    bounds = outcome.tier_bounds
    assert len(bounds) == len(values)
    if Capability.BOUND in solver_of(name).capabilities:
        assert all(bound is not None for bound in bounds)
    for bound, value in zip(bounds, values, strict=True):
        assert bound is None or bound >= value - slack(value)


def test_the_suite_runs_on_every_registered_solver() -> None:
    assert set(solver_names()) <= set(SOLVERS), "add the new solver to SOLVERS"


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_the_known_answers_are_those_of_brute_force(known: Known) -> None:
    answer = brute_force(known.snapshot)
    if known.tiers is None:
        assert answer.objective is None
    else:
        values = [float(value) for _, value in sorted(answer.tiers.items(), reverse=True)]
        assert values == pytest.approx(known.tiers, abs=1e-9)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
@every_solver
def test_known_answers(name: str, known: Known) -> None:
    """An exact solver finds and proves each optimum; the others stay below it."""
    capabilities = solver_of(name).capabilities
    try:
        outcome = run(name, known.snapshot)
    except UnsupportedError:
        assert not known.needs <= capabilities
        return
    if known.tiers is None:
        assert outcome.plan is None
        if Capability.EXACT in capabilities:
            assert outcome.stop is Stop.INFEASIBLE
        return
    if outcome.plan is None:
        assert Capability.EXACT not in capabilities
        return
    values = value_of(known.snapshot, outcome)
    check_bounds(name, outcome, known.tiers)
    if Capability.EXACT in capabilities:
        assert outcome.stop is Stop.PROVED
        assert values == pytest.approx(known.tiers, abs=1e-9)
        for bound, value in zip(outcome.tier_bounds, values, strict=True):
            assert bound is not None and bound <= value + slack(value)
    else:
        assert values <= tuple(value + slack(value) for value in known.tiers)


NOTHING = {
    "no jobs": {"nodes": [{"name": "n", "gpu_type": "A", "gpus": 2}], "jobs": []},
    "no nodes": {
        "nodes": [],
        "jobs": [{"name": "a", "profiles": [{"name": "p", "throughput": 1}]}],
    },
    "no devices": {
        "nodes": [{"name": "n"}],
        "jobs": [{"name": "a", "profiles": [{"name": "p", "throughput": 1}]}],
    },
    "nothing": {"nodes": [], "jobs": []},
}


@pytest.mark.parametrize("case", NOTHING)
@every_solver
def test_nothing_to_do(name: str, case: str) -> None:
    data = {"schema": "elastico-opt/snapshot@1", "gpu_types": {"A": {}}, **NOTHING[case]}
    snapshot = parse_snapshot(data)
    outcome = run(name, snapshot)
    assert outcome.plan == Plan({})
    assert all(bound in (None, 0.0) for bound in outcome.tier_bounds)
    if Capability.EXACT in solver_of(name).capabilities:
        assert outcome.stop is Stop.PROVED
        assert outcome.bound == 0.0


def lucidlike(jobs: int = 8, gpus: int = 3, **dials: object) -> Snapshot:
    return generate("lucidlike", jobs, gpus, profiles=5, **dials)  # type: ignore[arg-type]


@every_solver
def test_a_limit_of_zero_gives_no_plan(name: str) -> None:
    outcome = run(name, lucidlike(), Limits(deadline=time.monotonic()))
    assert outcome.plan is None
    assert outcome.stop is Stop.TIME_LIMIT
    assert list(outcome.tier_bounds) == [None]


@every_solver
def test_an_interrupt_before_the_start(name: str) -> None:
    cancelled = threading.Event()
    cancelled.set()
    outcome = run(name, lucidlike(), Limits(cancelled=cancelled))
    assert outcome.plan is None
    assert outcome.stop is Stop.INTERRUPTED


def hard() -> Snapshot:
    """More than a second of work for the joint form: four residents that slow each other."""
    return lucidlike(18, 6, residents=4)


@pytest.mark.parametrize("how", ["interrupt", "clock"])
@every_solver
def test_stopped_in_the_middle(name: str, how: str) -> None:
    """The plan at hand is returned soon, with a bound that holds, and the true reason."""
    snapshot, cancelled = hard(), threading.Event()
    program = compile_program(snapshot)
    began = time.monotonic()
    limits = Limits(cancelled=cancelled)
    if how == "clock":
        limits = replace(limits, deadline=began + 1.0)
    else:
        threading.Timer(1.0, cancelled.set).start()
    outcome = solver_of(name).solve(program, limits)
    assert time.monotonic() - began < 45  # kernels may have to be compiled first
    reasons = {"interrupt": Stop.INTERRUPTED, "clock": Stop.TIME_LIMIT}
    assert outcome.stop in (reasons[how], Stop.PROVED, Stop.CONVERGED)
    if Capability.ANYTIME in solver_of(name).capabilities:
        check_bounds(name, outcome, value_of(snapshot, outcome))


@every_solver
def test_threads_one_two_one_in_one_process(name: str) -> None:
    """HiGHS refuses a second solve with another number of threads, if one does not take care."""
    snapshot = lucidlike()
    values = [value_of(snapshot, run(name, snapshot, Limits(threads=t))) for t in (1, 2, 1)]
    assert values[1] == pytest.approx(values[0], abs=TOLERANCE)
    assert values[2] == pytest.approx(values[0], abs=TOLERANCE)


@every_solver
def test_one_thread_and_one_seed_repeat_exactly(name: str) -> None:
    snapshot = lucidlike(seed=1)
    limits = Limits(seed=7)
    assert run(name, snapshot, limits).plan == run(name, snapshot, limits).plan


@every_solver
def test_seeds_and_the_order_of_jobs_do_not_change_the_optimum(name: str) -> None:
    if Capability.EXACT not in solver_of(name).capabilities:
        pytest.skip("not exact")
    snapshot = lucidlike(seed=2)
    expected = value_of(snapshot, run(name, snapshot))
    for other in (
        snapshot.replace(jobs=snapshot.jobs[::-1]),
        snapshot.replace(nodes=snapshot.nodes[::-1], jobs=snapshot.jobs[3:] + snapshot.jobs[:3]),
    ):
        found = value_of(other, run(name, other, Limits(seed=3)))
        assert found == pytest.approx(expected, abs=TOLERANCE)


@every_solver
def test_two_solves_at_once(name: str) -> None:
    """Two threads with unlike settings do not disturb each other."""
    snapshot = lucidlike(6, 2)
    expected = value_of(snapshot, run(name, snapshot))
    outcomes: dict[int, Outcome] = {}

    def work(threads: int) -> None:
        outcomes[threads] = run(name, snapshot, Limits(threads=threads))

    workers = [threading.Thread(target=work, args=(threads,)) for threads in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for outcome in outcomes.values():
        assert value_of(snapshot, outcome) == pytest.approx(expected, abs=TOLERANCE)
    assert len(outcomes) == 2


@every_solver
def test_a_gap_limit_ends_early_and_says_so(name: str) -> None:
    if not {Capability.EXACT, Capability.BOUND} <= solver_of(name).capabilities:
        pytest.skip("no bound to compare with")
    snapshot = lucidlike(10, 4)
    outcome = run(name, snapshot, Limits(gap=0.25))
    (value,), (bound,) = value_of(snapshot, outcome), outcome.tier_bounds
    assert bound is not None
    assert value <= bound + slack(value)
    assert bound - value <= 0.25 * bound + slack(value)
    if outcome.stop is Stop.PROVED:
        assert bound <= value + slack(value)
    else:
        assert outcome.stop is Stop.GAP_LIMIT


@every_solver
def test_a_start_never_changes_the_optimum(name: str) -> None:
    """Not a good one, not a stale one, not one that breaks every rule."""
    snapshot = lucidlike(6, 2)
    cold = run(name, snapshot)
    expected = value_of(snapshot, cold)
    profile = snapshot.jobs[0].profiles[0].name
    node = snapshot.nodes[0].name
    everyone = {
        job.name: Assignment(job.profiles[0].name, (TaskPlacement(node, ("0",)),))
        for job in snapshot.jobs
    }
    stale = Assignment(profile, (TaskPlacement("gone", ("0",)),))
    for start in (cold.plan, Plan(everyone), Plan({snapshot.jobs[0].name: stale})):
        outcome = run(name, snapshot, start=start)
        values = value_of(snapshot, outcome)
        if Capability.EXACT in solver_of(name).capabilities:
            assert values == pytest.approx(expected, abs=TOLERANCE)
            assert outcome.stop is Stop.PROVED


@every_solver
def test_a_good_start_is_kept_when_time_is_short(name: str) -> None:
    """A start better than what a moment finds must not be lost."""
    if Capability.WARM_START not in solver_of(name).capabilities:
        pytest.skip("takes no start")
    snapshot = lucidlike(10, 4)
    best = run("highs", snapshot)
    limits = Limits(deadline=time.monotonic() + 1.5)
    outcome = run(name, snapshot, limits, start=best.plan)
    assert value_of(snapshot, outcome) >= tuple(
        value - slack(value) for value in value_of(snapshot, best)
    )


@every_solver
def test_progress_is_told_in_order_and_from_the_callers_thread(name: str) -> None:
    events: list[Event] = []
    callers: set[int] = set()

    def listen(event: Event) -> None:
        events.append(event)
        callers.add(threading.get_ident())

    snapshot = lucidlike(10, 4)
    outcome = run(name, snapshot, on_event=listen)
    (value,) = value_of(snapshot, outcome)
    assert events
    assert callers == {threading.get_ident()}
    times = [event.time for event in events]
    assert times == sorted(times)
    for event in events:
        assert event.objective is None or event.objective <= value + slack(value)
        if event.bound is not None and Capability.EXACT in solver_of(name).capabilities:
            assert event.bound >= value - slack(value)


@every_solver
def test_a_listener_that_fails_ends_the_solve(name: str) -> None:
    class Stopped(Exception):
        pass

    def listen(_: Event) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        run(name, lucidlike(10, 4), on_event=listen)


@every_solver
def test_nothing_is_printed(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    run(name, lucidlike(6, 2))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""


@every_solver
def test_the_class_describes_itself(name: str) -> None:
    solver = solver_of(name)
    assert solver.name == name
    assert solver.formulation in ("joint", "pattern", "priced")
    assert all(isinstance(capability, Capability) for capability in solver.capabilities)
    assert solver.available() is True


def test_an_unknown_solver_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="solver 'higs' is unknown; did you mean 'highs'"):
        get_solver("higs")
