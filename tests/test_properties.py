"""Every solver against the brute force, on random snapshots with all features mixed.

An exact solver must give the same status and the same value in every tier; any other solver a
plan that holds and is worth no more; and any bound must lie above the true optimum. A failure
prints the snapshot as JSON, already made small by hypothesis.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import registered
from brute_force import Answer, brute_force
from build import gang, job, node, profile, snapshot
from hypothesis import currently_in_test_context, given, settings, strategies as st
from pyomo.common.errors import InfeasibleConstraintException
from strategies import snapshots, twins

from elastico_opt import (
    Assignment,
    Plan,
    Result,
    Snapshot,
    TaskPlacement,
    UnsupportedError,
    compile_program,
    evaluate,
    snapshot_json,
    solve,
    verify,
)
from elastico_opt.plan import running_plan
from elastico_opt.solvers.base import Capability

EXACT = registered.exact()
HEURISTIC = [name for name in registered.available() if name not in EXACT]

_PLAIN = {"gangs": False, "host": False, "eligibility": False, "running": False, "tiers": False}
_CROWDED = {**_PLAIN, "crowded": True, "must_place": False, "max_nodes": 1}
FAMILIES = {
    "everything": snapshots(),
    "pairs on like GPUs": snapshots(
        **_PLAIN, max_jobs=5, max_nodes=1, must_place=False, max_residents=(2,)
    ),
    "three on a GPU": snapshots(**_CROWDED, max_jobs=5, max_devices=2, max_residents=(3, None)),
    "slowed gangs": snapshots(**_CROWDED | {"gangs": True}, max_devices=3, max_residents=(2, 3)),
    "gangs and hosts": snapshots(running=False, interference=False, tiers=False),
    "running jobs": snapshots(gangs=False, host=False, tiers=False),
    "running gangs": snapshots(max_jobs=3, tiers=False),
    "tiers": snapshots(host=False, limits=False, running=False, max_residents=(1, 2)),
    "equal jobs and nodes": twins(
        max_jobs=2, max_devices=2, max_nodes=2, max_profiles=2, tiers=False, interference=False
    ),
    "throughput, many residents": snapshots(
        **_PLAIN | {"running": True}, coupling="throughput", max_devices=2, max_residents=(3, None)
    ),
}


def note(text: str) -> None:
    """Show the text if the test fails."""
    if currently_in_test_context():
        hypothesis.note(text)


def event(text: str) -> None:
    """Count how often this happens, for ``--hypothesis-show-statistics``."""
    if currently_in_test_context():
        hypothesis.event(text)


def same(value: float | None, expected: object, scale: float) -> bool:
    return value is not None and abs(value - float(expected)) <= 1e-6 * max(1.0, abs(scale))  # type: ignore[arg-type]


def may_refuse(found: Snapshot, solver: str) -> bool:
    """Whether the snapshot has a feature that the solver does not claim.

    A loss that is not linear in the slowdown is exact in the joint form for two residents only.
    """
    residents = compile_program(found).class_residents
    crowded = found.policy.coupling == "throughput" and bool((residents > 2).any())
    tasks = [t for one in found.jobs for p in one.profiles for t in p.task_list()]
    asks = {
        Capability.THROUGHPUT: crowded,
        Capability.TIERS: len({one.priority for one in found.jobs}) > 1,
        Capability.GANG: any(task.count * task.gpus != 1 for task in tasks),
        Capability.HOST: any(task.host for task in tasks),
        Capability.RUNNING: any(one.current for one in found.jobs),
    }
    return any(asked and not registered.claims(solver, c) for c, asked in asks.items())


def gives_up(found: Snapshot, result: Result) -> bool:
    """Whether the pattern form rightly ends with a gap: a gang may be slowed on some of its GPUs.

    The gang runs at the pace of the slowest. Patterns know the mean: a valid bound, which no plan
    may meet.
    """
    wide = any(profile.workers() > 1 for one in found.jobs for profile in one.profiles)
    slowed = wide and found.interference is not None
    gap = result.formulation == "pattern" and result.stop == "converged" and slowed
    if gap:
        event("gives up")
        assert result.status == "feasible"
    return gap


def solve_or_none(found: Snapshot, solver: str, **options: Any) -> Result | None:
    note(snapshot_json(found))
    try:
        result = solve(found, solver=solver, **options)
    except UnsupportedError as error:
        event("refused")
        assert may_refuse(found, solver), error
        return None
    note(result.to_json())
    return result


def check_plan(found: Snapshot, result: Result, answer: Answer) -> None:
    """What holds for any solver that hands back a plan."""
    assert answer.objective is not None, "a plan where there is none"
    assert result.plan is not None
    assert result.objective is not None
    verify(found, result)
    assert evaluate(found, result).objective == result.objective
    scale = float(answer.objective)
    below = [
        tier.objective < float(answer.tiers[tier.priority]) - 1e-6 * max(1.0, abs(scale))
        for tier in result.tiers
        if tier.objective is not None
    ]
    above = [
        tier.objective > float(answer.tiers[tier.priority]) + 1e-6 * max(1.0, abs(scale))
        for tier in result.tiers
        if tier.objective is not None
    ]
    if True in above:  # lexicographic: better in a tier only after being worse in a higher one
        assert True in below
        assert below.index(True) < above.index(True)
    check_bound(result, answer)


def check_bound(result: Result, answer: Answer) -> None:
    """A bound lies above the optimum: of the first tier always, in all if the tiers above agree."""
    if answer.objective is None:
        return
    for tier in result.tiers:
        best = float(answer.tiers[tier.priority])
        scale = max(1.0, abs(float(answer.objective)))
        if tier.bound is not None:
            assert tier.bound >= best - 1e-6 * scale, f"bound {tier.bound} below optimum {best}"
        if tier.objective is None or abs(tier.objective - best) > 1e-6 * scale:
            break  # lower tiers are bounded for this plan's higher tiers, which are not the best


def check_exact(found: Snapshot, solver: str) -> None:
    result = solve_or_none(found, solver)
    if result is None:
        return
    answer = brute_force(found)
    event(answer.status)
    if gives_up(found, result):
        check_plan(found, result, answer)
        return
    assert result.status == answer.status, f"{result.status}, brute force: {answer}"
    if answer.objective is None:
        assert result.plan is None
        check_conflict(found, result)
        return
    check_plan(found, result, answer)
    assert same(result.objective, answer.objective, result.objective or 0.0), answer
    assert same(result.bound, answer.objective, result.objective or 0.0)
    assert [tier.priority for tier in result.tiers] == list(answer.tiers)
    for tier in result.tiers:
        assert same(tier.objective, answer.tiers[tier.priority], float(answer.objective)), answer


def check_conflict(found: Snapshot, result: Result) -> None:
    """The jobs named cannot all be placed, and if the set is called minimal, all but one can."""
    assert result.infeasibility is not None
    named = set(result.infeasibility.jobs)
    assert named

    def alone(names: set[str]) -> str:
        jobs = tuple(one for one in found.jobs if one.name in names)
        return brute_force(found.replace(jobs=jobs)).status

    assert alone(named) == "infeasible"
    if result.infeasibility.minimal:
        assert all(alone(named - {name}) == "optimal" for name in named)


def check_heuristic(found: Snapshot, solver: str) -> None:
    result = solve_or_none(found, solver)
    if result is None:
        return
    answer = brute_force(found)
    if result.plan is None:
        assert result.status in ("no_solution", "infeasible")
        assert result.status != "infeasible" or answer.status == "infeasible"
        check_bound(result, answer)
    else:
        check_plan(found, result, answer)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=80)
@given(draws=st.data())
def test_exact_solvers_find_the_optimum(solver: str, family: str, draws: st.DataObject) -> None:
    """Same status and value, in all and per tier, a bound that meets it, a true conflict."""
    check_exact(draws.draw(FAMILIES[family]), solver)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=1000)
@given(draws=st.data())
def test_exact_solvers_find_the_optimum_at_length(
    solver: str, family: str, draws: st.DataObject
) -> None:
    """The same, on many more snapshots."""
    check_exact(draws.draw(FAMILIES[family]), solver)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", HEURISTIC)
@settings(max_examples=80)
@given(draws=st.data())
def test_other_solvers_stay_below_it(solver: str, family: str, draws: st.DataObject) -> None:
    """A plan that holds and is worth no more than the optimum; a bound that is no less."""
    check_heuristic(draws.draw(FAMILIES[family]), solver)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", HEURISTIC)
@settings(max_examples=1000)
@given(draws=st.data())
def test_other_solvers_stay_below_it_at_length(
    solver: str, family: str, draws: st.DataObject
) -> None:
    """The same, on many more snapshots."""
    check_heuristic(draws.draw(FAMILIES[family]), solver)


LARGER = snapshots(max_jobs=9, max_devices=7, max_nodes=4)


@pytest.mark.slow
@settings(max_examples=150)
@given(found=LARGER)
def test_solvers_agree_where_enumeration_is_too_long(found: Snapshot) -> None:
    """No solver's plan is worth more than another's bound; proven optima are equal."""
    results = {}
    for solver in registered.available():
        result = solve_or_none(found, solver, time_limit=20)
        if result is not None:
            results[solver] = result
    statuses = {str(result.status) for result in results.values()}
    assert not ({"infeasible"} < statuses and statuses & {"optimal", "feasible"}), results
    best = [result.tiers[0] for result in results.values() if result.objective is not None]
    for result in results.values():
        if result.tiers[0].bound is not None:
            for tier in best:
                assert tier.objective is not None
                assert tier.objective <= result.tiers[0].bound + 1e-6 * max(1, tier.objective)
    proven = [r.objective for r in results.values() if r.status == "optimal"]
    assert all(same(value, proven[0], proven[0] or 0.0) for value in proven)


# ---- what must not change an answer ------------------------------------------------------------


@st.composite
def with_start(draw: st.DrawFn) -> tuple[Snapshot, Plan]:
    """A snapshot and a plan to start from: optimal, running, of another snapshot, or damaged."""
    found = draw(FAMILIES["everything"])
    source = draw(st.sampled_from(["best", "running", "other", "damaged"]))
    if source == "running":
        return found, running_plan(found)
    best = brute_force(draw(FAMILIES["everything"]) if source == "other" else found).plan or Plan()
    if source == "damaged" and best:
        name = draw(st.sampled_from(sorted(best)))
        gone = TaskPlacement(draw(st.sampled_from(["gone", "n0"])), ("0", "0"))
        best = Plan({**best, name: Assignment(best[name].profile, (gone,))})
    return found, best


@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=60)
@given(draw=with_start())
def test_a_start_never_changes_the_optimum(solver: str, draw: tuple[Snapshot, Plan]) -> None:
    """A good, stale or broken start plan may save time; the answer stays the same."""
    found, start = draw
    note(str(start))
    answer = brute_force(found)
    result = solve_or_none(found, solver, start=start)
    if result is not None and not gives_up(found, result):
        assert result.status == answer.status
        if answer.objective is not None:
            assert same(result.objective, answer.objective, result.objective or 0.0)
            verify(found, result)


@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=60)
@given(found=FAMILIES["everything"], gap=st.sampled_from([0.01, 0.2, 1.0]))
def test_a_gap_limit_is_honest(solver: str, found: Snapshot, gap: float) -> None:
    """Whatever gap is allowed, plan and bound hold, and `optimal` still means optimal."""
    result = solve_or_none(found, solver, gap=gap)
    if result is None:
        return
    answer = brute_force(found)
    assert (result.status == "infeasible") == (answer.status == "infeasible")
    if answer.objective is None:
        return
    check_plan(found, result, answer)
    if result.status == "optimal":
        assert same(result.objective, answer.objective, result.objective or 0.0)


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """A snapshot, and the same with its jobs, nodes and profiles in another order."""
    found = draw(FAMILIES["everything"])
    jobs = [
        one.replace(profiles=draw(st.permutations(one.profiles)))
        for one in draw(st.permutations(found.jobs))
    ]
    return found, found.replace(jobs=jobs, nodes=draw(st.permutations(found.nodes)))


@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=60)
@given(both=shuffled())
def test_order_does_not_matter(solver: str, both: tuple[Snapshot, Snapshot]) -> None:
    """The order of jobs, nodes and profiles in the file says nothing about the optimum."""
    one, other = (solve_or_none(found, solver) for found in both)
    if one is None or other is None:
        assert one is other
        return
    if gives_up(both[0], one) or gives_up(both[1], other):
        return
    assert one.status == other.status
    if one.objective is not None:
        assert same(other.objective, one.objective, one.objective)


@pytest.mark.parametrize("solver", registered.available())
@settings(max_examples=40)
@given(found=FAMILIES["everything"])
def test_runs_repeat_exactly(solver: str, found: Snapshot) -> None:
    """One thread, no time limit: the same snapshot gives the same result to the last digit."""
    one, other = (solve_or_none(found, solver) for _ in range(2))
    if one is None or other is None:
        assert one is other
        return
    assert one.plan == other.plan
    assert (one.objective, one.bound, one.tiers) == (other.objective, other.bound, other.tiers)


# ---- what random snapshots have brought to light -----------------------------------------------

REGRESSIONS = {
    "two CPU tasks of one group fit one node": snapshot(
        [node("n0", 1, host={"cpu": 2})], [job("j0", gang(2, 0, host={"cpu": 1}))]
    ),
    "an immovable job keeps all its places": snapshot(
        [node("n0", 2)],
        [
            job(
                "j0", profile("one"), gang(2, name="two", host={"cpu": 1}), movable=False,
                current={"profile": "two", "tasks": [{"node": "n0", "gpus": [g]} for g in (0, 1)]},
            )
        ],
    ),
    "CPU tasks of an immovable job, two here and one there": snapshot(
        [node("n0", 0, host={"cpu": 9}), node("n1", 0, host={"cpu": 9})],
        [
            job(
                "j0", gang(3, 0, host={"cpu": 1}), movable=False,
                current={"profile": "p", "tasks": [{"node": n} for n in ("n0", "n1", "n0")]},
            )
        ],
        policy={"eviction_cost": 1},
    ),
    "a home on a cordoned node whose other part is gone": snapshot(
        [node("n0", 1, schedulable=False)],
        [
            job(
                "j0", {"name": "p", "tasks": [{"gpus": 0}, {"gpus": 1}], "throughput": 1},
                current={"profile": "p", "tasks": [{"node": "n0"}, {"node": "gone", "gpus": [0]}]},
            )
        ],
    ),
    "a type closed to all": snapshot([node()], [job("j0")], {"G": {"max_residents": 0}}),
    "a profile that runs on no type": snapshot([node()], [job("j0", profile(throughput={}))]),
}  # fmt: skip


@pytest.mark.parametrize("name", REGRESSIONS)
@pytest.mark.parametrize("solver", registered.available())
def test_regressions(solver: str, name: str) -> None:
    """Snapshots on which something once was wrong."""
    if solver in EXACT:
        check_exact(REGRESSIONS[name], solver)
    else:
        check_heuristic(REGRESSIONS[name], solver)


@pytest.mark.parametrize("form", ["mps", "lp"])
@settings(max_examples=40)
@given(found=FAMILIES["everything"])
def test_exported_files_have_the_same_optimum(form: str, found: Snapshot) -> None:
    """What another solver reads from the file is the same program: its highest tier, at least."""
    import highspy

    from elastico_opt.formulations.export import lp_lines, mps_lines, name_form
    from elastico_opt.formulations.joint import build
    from elastico_opt.formulations.matrix import lower

    note(snapshot_json(found))
    program = compile_program(found)
    try:
        named = name_form(lower(build(program)), program=program)
    except (UnsupportedError, InfeasibleConstraintException):
        return
    lines = (mps_lines if form == "mps" else lp_lines)(named)
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", 0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model.{form}")
        path.write_text("\n".join(line.rstrip("\n") for line in lines) + "\n")
        assert model.readModel(str(path)) == highspy.HighsStatus.kOk
    model.run()
    answer = brute_force(found)
    if answer.status == "infeasible":
        assert model.getModelStatus() == highspy.HighsModelStatus.kInfeasible
    else:
        best = next(iter(answer.tiers.values()))
        assert same(model.getObjectiveValue(), best, float(best))
