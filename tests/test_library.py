"""The shipped instances: they read, they are what their names say, and their optima hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from brute_force import brute_force

import elastico_opt as eo
from elastico_opt import InputError, generate
from elastico_opt.instances.library import BestKnown, best_known, load, shipped
from elastico_opt.plan import running_plan
from elastico_opt.reading import snapshot_hash

ROOT = Path(__file__).parents[1]
EVERY = pytest.mark.parametrize("name", shipped())
#: Small enough to enumerate every plan; those that take long are marked.
ENUMERABLE = [
    "two-gpus",
    "triples-j8-g3-r3-l100-s01",
    pytest.param("lucidlike-j8-g3-r2-l110-s01", marks=pytest.mark.slow),
    pytest.param("identical-j10-g4-r2-l110-s01", marks=pytest.mark.slow),
]


@EVERY
def test_each_reads_and_carries_its_name(name: str) -> None:
    """Through the package's resources, and through the link at the top of the repository."""
    snapshot = load(name)
    assert snapshot.name == name
    assert eo.read_snapshot(ROOT / "instances/data" / f"{name}.json") == snapshot
    eo.verify(snapshot, running_plan(snapshot))


@EVERY
def test_generated_ones_can_be_generated(name: str) -> None:
    """The files are not a second source of truth: the generator still makes them."""
    snapshot = load(name)
    dials = snapshot.annotations.get("generated")
    if name == "two-gpus":
        assert dials is None
    else:
        assert snapshot_hash(generate(**dials)) == snapshot_hash(snapshot)


@pytest.mark.parametrize("solver", ["auto", pytest.param("highs", marks=pytest.mark.slow)])
@EVERY
def test_the_optimum_is_known_and_found(name: str, solver: str) -> None:
    """`=opt=` is a promise: solvers prove the same value, whatever the formulation."""
    known = best_known()[name]
    result = eo.solve(load(name), solver=solver, time_limit=120)
    assert (known.status, result.status) == ("optimal", "optimal")
    assert result.objective == pytest.approx(known.objective, rel=1e-6)


@pytest.mark.parametrize("name", ENUMERABLE)
def test_enumeration_agrees(name: str) -> None:
    """No solver, no formulation: every plan, one after the other."""
    answer = brute_force(load(name))
    assert float(answer.objective) == pytest.approx(best_known()[name].objective, rel=1e-12)


def test_every_instance_has_a_line_and_every_line_an_instance() -> None:
    assert set(best_known()) == set(shipped())


def test_two_gpus_shows_what_the_program_decides() -> None:
    """The first example: jobs share, two take a smaller profile, and one is left out."""
    snapshot = load("two-gpus")
    plan = brute_force(snapshot).plan
    residents = [gpu for job in plan.values() for task in job.tasks for gpu in task.gpus]
    assert sorted(residents) == ["0", "0", "1", "1"]
    assert (plan["llama"].profile, plan["resnet"].profile) == ("kv50", "b128-amp")
    assert "pretrain" not in plan
    assert plan["bert"] == running_plan(snapshot)["bert"]


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(InputError, match="no shipped instance 'two-gpu'; did you mean 'two-gpus'"):
        load("two-gpu")
    with pytest.raises(InputError, match="no shipped instance '@'; there are gangs-"):
        load("@")


def test_best_known_lines() -> None:
    """The three kinds of line; comments and blank lines; what is none of these."""
    text = "# all\n=opt= a 1.5 # proven\n\n=best= b 2\n=inf= c\n"
    assert best_known(text) == {
        "a": BestKnown("optimal", 1.5),
        "b": BestKnown("feasible", 2.0),
        "c": BestKnown("infeasible", None),
    }
    for line in ("=opt= a", "=opt= a one", "opt a 1", "=inf= c 1", "=opt= a 1 2"):
        with pytest.raises(InputError, match=r"line 1: .* is not '=opt= NAME VALUE'"):
            best_known(line)
