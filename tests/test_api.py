"""`solve` around any solver: choosing it, limits, start plans, trivial cases, provenance."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import ClassVar

import pytest
from small import plan, snapshot

import elastico_opt as eo
from elastico_opt import api
from elastico_opt.plan import Plan
from elastico_opt.solvers.base import Capability, Event, Limits, Outcome, Price, Stop

ONE_FITS = snapshot(
    {"n": 1}, {"a": {"gpu": {"memory": 6}}, "b": {"gpu": {"memory": 6}, "weight": 2}}
)
A, B = plan(a=("n", "0")), plan(b=("n", "0"))


class Fake:
    """A solver that returns what a test tells it to."""

    name: ClassVar[str] = "fake"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT})

    def __init__(self, answer: Outcome | Callable[[Limits], Outcome]) -> None:
        self.answer = answer
        self.calls: list[tuple[Limits, Plan | None]] = []

    def available(self) -> bool:
        return True

    def solve(self, program, limits, start=None, on_event=None):  # type: ignore[no-untyped-def]
        self.calls.append((limits, start))
        if on_event is not None:
            on_event(Event(0.0, None, 2.0, "root"))
        return self.answer(limits) if callable(self.answer) else self.answer


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fake]:
    def install(answer: Outcome | Callable[[Limits], Outcome]) -> Fake:
        fake = Fake(answer)
        monkeypatch.setattr(api, "choose", lambda *names: [fake])
        return fake

    return install


def test_the_result_of_a_proved_plan(use: Callable[..., Fake]) -> None:
    """Every part of the contract is filled in, and the plan passes the public check."""
    prices = [
        Price("A", "memory", 0.2, "value per unit", "LP"),
        Price("A", "x", math.nan, "", "LP"),
    ]
    use(Outcome(B, (2.0,), Stop.PROVED, prices=prices))
    result = eo.solve(ONE_FITS)
    eo.verify(ONE_FITS, result)
    assert (result.status, result.stop, result.objective, result.gap) == ("optimal", "proved", 2, 0)
    assert [(p.job, p.profile, p.tasks[0].node, p.tasks[0].gpus) for p in result.placements] == [
        ("b", "p", "n", (0,))
    ]
    assert [row.job for row in result.unplaced] == ["a"]
    assert [price.resource for price in result.prices] == ["memory"]
    assert result.terms["throughput"] == 2
    assert {"compile", "solve", "check", "total"} <= set(result.timing)
    assert result.provenance["libraries"]["numpy"]
    assert result.provenance["snapshot_hash"].startswith("sha256:")
    assert result.provenance["options"]["solver"] == "auto"
    assert eo.Result.from_json(result.to_json()) == result


def test_devices_are_named_as_the_snapshot_names_them(use: Callable[..., Fake]) -> None:
    """Ids on a node that lists its devices, even when they look like numbers."""
    cluster = snapshot({"n": {"gpus": [{"id": "7"}]}}, {"a": {}})
    use(Outcome(plan(a=("n", "7")), (1.0,), Stop.PROVED))
    result = eo.solve(cluster)
    assert result.placements[0].tasks[0].gpus == ("7",)
    eo.verify(cluster, eo.Result.from_json(result.to_json()))


def test_limits_reach_the_solver(use: Callable[..., Fake]) -> None:
    """The deadline counts from the start of the caller's clock, reading included."""
    fake = use(Outcome(B, (2.0,), Stop.PROVED))
    begun = time.monotonic() - 5
    events: list[Event] = []
    eo.solve(
        ONE_FITS, time_limit=60, gap=0.1, seed=7, threads=2, started=begun, on_event=events.append
    )
    limits = fake.calls[0][0]
    assert limits.deadline == begun + 60
    assert (limits.gap, limits.seed, limits.threads) == (0.1, 7, 2)
    assert events[0].bound == 2.0


def test_time_limit_zero_is_no_solution(use: Callable[..., Fake]) -> None:
    """Zeros returned at the limit are not a plan; nothing is built, nothing is claimed."""
    fake = use(Outcome(Plan({}), (0.0,), Stop.PROVED))
    result = eo.solve(ONE_FITS, time_limit=0)
    assert (result.status, result.stop) == ("no_solution", "time_limit")
    assert (result.objective, result.bound, result.gap, result.plan) == (None, None, None, None)
    assert fake.calls == []
    spent = eo.solve(ONE_FITS, time_limit=1, started=time.monotonic() - 2)
    assert spent.status == "no_solution"


def test_an_interrupt_returns_what_is_held(use: Callable[..., Fake]) -> None:
    cancelled = threading.Event()

    def answer(limits: Limits) -> Outcome:
        limits.cancelled.set()
        return Outcome(A, (2.0,), limits.reached() or Stop.PROVED)

    use(answer)
    result = eo.solve(ONE_FITS, cancelled=cancelled)
    assert cancelled.is_set()
    assert (result.status, result.stop, result.gap) == ("feasible", "interrupted", 0.5)


@pytest.mark.parametrize("limit", [None, 0])
def test_no_jobs_is_solved_by_looking(limit: float | None) -> None:
    """Nothing to place is optimal at 0 with gap 0, without any solver or time."""
    for nodes in ({}, {"n": 1}):
        result = eo.solve(snapshot(nodes, {}), time_limit=limit)
        assert (result.status, result.objective, result.bound, result.gap) == ("optimal", 0, 0, 0)


def test_no_nodes_leaves_all_unplaced_with_that_reason() -> None:
    running = {"current": {"profile": "p", "tasks": [{"node": "gone", "gpus": [0]}]}}
    cluster = snapshot(
        {}, {"a": {}, "b": running, "c": {"priority": 3}}, policy={"eviction_cost": 0.5}
    )
    result = eo.solve(cluster)
    assert (result.status, result.objective, result.bound) == ("optimal", -0.5, -0.5)
    assert {row.reason for row in result.unplaced} == {"no_nodes"}
    assert len(result.unplaced) == 3


def test_no_nodes_and_a_job_that_must_be_placed_is_infeasible() -> None:
    result = eo.solve(snapshot({}, {"a": {}, "b": {"must_place": True}}))
    assert result.status == "infeasible"
    assert result.infeasibility is not None
    assert result.infeasibility.jobs == ("b",)
    assert result.infeasibility.minimal


def test_a_start_plan_that_names_what_is_gone(use: Callable[..., Fake]) -> None:
    """A stale plan is repaired with a warning, and the optimum stays what it was."""
    fake = use(Outcome(B, (2.0,), Stop.PROVED))
    stale = Plan({
        **A, "ghost": A["a"],
        "b": eo.Assignment("p", (eo.TaskPlacement("gone", ("0",)),)),
    })  # fmt: skip
    result = eo.solve(ONE_FITS, start=stale)
    assert (result.status, result.objective) == ("optimal", 2)
    assert fake.calls[0][1] == A
    assert "'ghost' (no such job)" in result.warnings[0]
    assert "'b' (no node 'gone')" in result.warnings[0]


def test_a_result_is_a_start_plan(use: Callable[..., Fake]) -> None:
    fake = use(Outcome(B, (2.0,), Stop.PROVED))
    first = eo.solve(ONE_FITS)
    eo.solve(ONE_FITS, start=first)
    assert fake.calls[1][1] == B


def test_a_valid_start_plan_is_never_lost(use: Callable[..., Fake]) -> None:
    """A solver that finds nothing, or less, does not cost the caller the plan it came with."""
    use(Outcome(None, (2.0,), Stop.TIME_LIMIT))
    result = eo.solve(ONE_FITS, start=A)
    assert (result.status, result.objective, result.bound) == ("feasible", 1, 2)
    use(Outcome(A, (2.0,), Stop.TIME_LIMIT))
    assert eo.solve(ONE_FITS, start=B).status == "optimal"
    use(Outcome(None, (2.0,), Stop.TIME_LIMIT))
    assert eo.solve(ONE_FITS, start=Plan({**A, **B})).status == "no_solution"


def test_a_start_plan_that_refutes_the_bound_is_raised(use: Callable[..., Fake]) -> None:
    use(Outcome(A, (1.5,), Stop.TIME_LIMIT))
    with pytest.raises(eo.VerificationError, match="no plan is worth more"):
        eo.solve(ONE_FITS, start=B)


def test_a_failed_solver_is_an_error_with_its_words(use: Callable[..., Fake]) -> None:
    use(Outcome(None, (), Stop.ERROR, detail="Solve error"))
    result = eo.solve(ONE_FITS)
    assert (result.status, result.warnings) == ("error", ("solver 'fake': Solve error",))


def test_missing_pairs_are_counted(use: Callable[..., Fake]) -> None:
    """A pair without measured slowdown is a guess; the report says how many there are."""
    cluster = ONE_FITS.replace(interference=eo.Interference(default=2))
    use(Outcome(B, (2.0,), Stop.PROVED))
    assert eo.solve(cluster).missing_pairs == 1


@pytest.mark.parametrize(("options", "message"), [
    ({"formulation": "dual"}, "formulation 'dual' is unknown: use 'auto', 'joint', 'pattern'"),
    ({"time_limit": -1}, "time_limit"), ({"time_limit": math.nan}, "time_limit"),
    ({"gap": -0.1}, "gap"), ({"threads": 0}, "threads"), ({"threads": 257}, "threads"),
    ({"seed": -1}, "seed"),
])  # fmt: skip
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(eo.InputError, match=message):
        eo.solve(ONE_FITS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"a": 1}, [], "two-gpus", 5])
def test_what_is_no_plan_does_not_pass_for_an_empty_one(wrong: object) -> None:
    """`verify` of a list of placements once said nothing, which reads as "it holds"."""
    for judge in (eo.verify, eo.evaluate):
        with pytest.raises(TypeError, match="expected a Plan or a Result"):
            judge(ONE_FITS, wrong)
    with pytest.raises(TypeError, match="start is a Plan or a Result"):
        eo.solve(ONE_FITS, start=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="solve takes a Snapshot"):
        eo.solve(wrong)  # type: ignore[arg-type]


def test_a_result_without_a_plan_does_not_pass(use: Callable[..., Fake]) -> None:
    """Nothing was found, so nothing holds."""
    use(Outcome(None, [None], Stop.TIME_LIMIT))
    with pytest.raises(eo.VerificationError, match="the result holds none"):
        eo.verify(ONE_FITS, eo.solve(ONE_FITS))
