"""The pattern program as stated in Pyomo: the solver's arrays number by number, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest
from brute_force import brute_force
from hypothesis import given, settings
from small import snapshot
from strategies import snapshots

from elastico_opt import Snapshot
from elastico_opt.errors import InputError
from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.enumeration import all_patterns
from elastico_opt.formulations.export import write_model
from elastico_opt.formulations.layout import Layout
from elastico_opt.formulations.matrix import lower
from elastico_opt.formulations.pattern import build, build_tiers
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.pattern.integer import matrix_form

#: Running jobs with homes, gangs, CPU tasks, host rows, tiers and a must-place job, on few GPUs.
RICH = snapshot(
    {
        "n1": {"gpus": 2, "host": {"cpu": 12}},
        "n2": {"gpus": 2, "host": {"cpu": 12}},
        "n3": {"gpus": 1, "host": {"cpu": 7}, "schedulable": False},
    },
    {
        "a": {
            "weight": 2,
            "current": {"profile": "p1", "tasks": [{"node": "n3", "gpus": [0]}]},
            "profiles": [
                {"name": "p1", "gpu": {"memory": 4}, "throughput": 3},
                {"name": "p2", "gpu": {"memory": 6}, "throughput": 4},
            ],
        },
        "b": {
            "priority": 1,
            "tasks": [
                {"count": 2, "gpus": 1, "gpu": {"memory": 6}, "host": {"cpu": 4}},
                {"count": 1, "gpus": 0, "host": {"cpu": 2}},
            ],
        },
        "c": {"gpus": 2, "gpu": {"memory": 2}, "host": {"cpu": 3}, "must_place": True},
        "d": {"gpu": {"memory": 8}, "exclusive": True},
        **{f"e{i}": {"gpu": {"memory": 4}} for i in range(3)},
        "f": {"gpus": 0, "host": {"cpu": 3}},
    },
    interference={
        "table": [{"a": "a/p1", "b": "c/p", "slowdown": [1.25, 1.5]}],
        "default": 1.125,
    },
    policy={"interference_penalty": 0.5, "migration_cost": 0.25, "eviction_cost": 0.5},
)


def layouts(given: Snapshot) -> list[Layout]:
    program = compile_program(given)
    return [Layout.build(program), Layout.build(program, split=range(program.n_nodes))]


def same_numbers(layout: Layout, patterns: Patterns) -> None:
    """Compare the lowered statement with the solver's arrays, name by name."""
    stated, arrays = lower(build(layout, patterns)), matrix_form(layout, patterns)
    assert set(stated.columns) == set(arrays.columns)
    assert not stated.constants
    at = {name: i for i, name in enumerate(stated.columns)}
    column = np.array([at[name] for name in arrays.columns], dtype=np.int64)
    filled = np.flatnonzero(np.diff(arrays.rows.indptr))
    assert (arrays.row_upper >= 0).all(), "a row without columns must hold"
    names = [arrays.row_names[r] for r in filled]
    assert set(stated.row_names) == set(names)
    where = {name: r for r, name in enumerate(stated.row_names)}
    row = np.array([where[name] for name in names], dtype=np.int64)
    dense = stated.rows.toarray()[row][:, column] if len(column) else np.zeros((0, 0))
    np.testing.assert_array_equal(dense, arrays.rows.toarray()[filled])
    np.testing.assert_array_equal(stated.row_upper[row], arrays.row_upper[filled])
    np.testing.assert_array_equal(stated.row_lower[row], arrays.row_lower[filled])
    for mine, theirs in (
        (stated.column_lower, arrays.column_lower),
        (stated.column_upper, arrays.column_upper),
        (stated.integer, arrays.integer),
    ):
        np.testing.assert_array_equal(mine[column], theirs)
    np.testing.assert_allclose(
        stated.objectives[:, column], arrays.objectives, rtol=1e-12, atol=1e-12
    )
    shift = int(layout.n_must > 0)
    assert stated.offsets[shift : shift + len(layout.offset)].tolist() == layout.offset.tolist()
    assert not arrays.offsets.any()


def test_the_rich_snapshot_has_everything_that_the_program_knows() -> None:
    """Else the comparison below would compare less than it says."""
    layout = layouts(RICH)[0]
    form = lower(build(layout, all_patterns(layout)))
    assert set(form.groups) == {"job_class", "link", "pool", "site", "host"}
    kinds = {index[0] for name, index in form.columns if name == "x"}
    assert kinds == {"choice", "task", "cpu"}
    assert layout.n_stages == 3
    assert max(map(len, layout.class_jobs)) == 3
    assert {s for s in all_patterns(layout).site} == {-1, 0}


@pytest.mark.parametrize("split", [0, 1])
def test_statement_and_arrays_are_equal_number_by_number(split: int) -> None:
    """The model that is read and the arrays that are solved cannot drift apart."""
    layout = layouts(RICH)[split]
    same_numbers(layout, all_patterns(layout))


@settings(max_examples=80)
@given(snapshots())
def test_statement_and_arrays_are_equal_on_random_snapshots(given: Snapshot) -> None:
    """The same, with every feature mixed, pooled and split into nodes."""
    for layout in layouts(given):
        same_numbers(layout, all_patterns(layout))


def test_a_subset_of_the_columns_can_be_stated() -> None:
    """A restricted master is a program too; no columns at all is the smallest."""
    layout = layouts(RICH)[0]
    every = all_patterns(layout)
    same_numbers(layout, every.select(np.arange(0, len(every), 3)))
    same_numbers(layout, every.select(np.arange(0)))


def test_one_objective_per_stage_of_which_the_first_is_active() -> None:
    """First the must-place jobs are counted, then the tiers are valued."""
    layout = layouts(RICH)[0]
    model = build(layout, all_patterns(layout))
    assert [model.objective[t].active for t in range(3)] == [True, False, False]
    tiers = build_tiers(layout, all_patterns(layout))
    assert sorted(tiers.objective) == [1, 2]
    assert tiers.objective[1].active
    assert pyo.value(tiers.must.lower) == 1


# ---- files ---------------------------------------------------------------------------------


def optimum(path: Path) -> float | None:
    """What HiGHS finds in the file: None when there is no point."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_a_file_holds_the_optimum_of_the_highest_tier(suffix: str, tmp_path: Path) -> None:
    """Constants, must-place rows and names survive the way through another reader."""
    path = tmp_path / f"model{suffix}"
    write_model(compile_program(RICH), path, formulation="pattern")
    answer = brute_force(RICH)
    assert optimum(path) == pytest.approx(float(answer.tiers[1]))
    write_model(compile_program(RICH), path, 1, [(0, answer.tiers[1])], formulation="pattern")
    assert optimum(path) == pytest.approx(float(answer.tiers[0]))


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_a_must_place_job_without_a_column_makes_the_file_infeasible(
    suffix: str, tmp_path: Path
) -> None:
    """Not an error of a writer or reader: the program simply has no point."""
    given = snapshot({"n": 1}, {"a": {"must_place": True, "gpu": {"memory": 11}}, "b": {}})
    path = tmp_path / f"model{suffix}"
    write_model(compile_program(given), path, formulation="pattern")
    assert optimum(path) is None


@settings(max_examples=60)
@given(snapshots(interference=False))
def test_files_have_the_optimum_of_the_brute_force(tmp_path_factory: Any, given: Snapshot) -> None:
    """Without interference nothing is relaxed: the file's optimum is the plan's."""
    path = tmp_path_factory.mktemp("model") / "model.mps"
    write_model(compile_program(given), path, formulation="pattern")
    answer, found = brute_force(given), optimum(path)
    if answer.status == "infeasible":
        assert found is None
    else:
        best = float(next(iter(answer.tiers.values())))
        assert found == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_names_say_who_runs_beside_whom(tmp_path: Path) -> None:
    """A reader of the file should not need our indices."""
    import json

    names = write_model(compile_program(RICH), tmp_path / "m.lp", formulation="pattern")
    found = json.loads(names.read_text("utf-8"))
    columns = {entry["label"] for entry in found["columns"].values()}
    rows = {entry["label"] for entry in found["rows"].values()}
    assert {"y[n1:A:e0/p+e0/p]", "y[n3:0:a/p1(stays)]", "x[cpu,f/p,n2]"} <= columns
    assert {"x[choice,b/p]", "x[task,c/p,n1]", "x[cpu,b/p:1,n1]"} <= columns
    assert {"job_class[e0+2]", "pool[n2:A]", "site[n3:0]", "host[n1,cpu]", "must"} <= rows
    assert len(found["columns"]) == len(set(found["columns"]))


def test_pools_of_several_nodes_are_named_by_their_first_node(tmp_path: Path) -> None:
    """Where nodes do not matter they stay pooled, and the name says how many there are."""
    import json

    given = snapshot({f"n{i}": 2 for i in range(4)}, {"a": {}, "b": {"weight": 2}})
    names = write_model(compile_program(given), tmp_path / "m.lp", formulation="pattern")
    labels = {e["label"] for e in json.loads(names.read_text("utf-8"))["columns"].values()}
    assert labels == {"y[n0+3:A:a/p]", "y[n0+3:A:b/p]", "y[n0+3:A:a/p+b/p]"}


def test_too_many_patterns_are_refused_with_a_remedy() -> None:
    """Enumeration grows with the power of the residents: say so before the disk is full."""
    layout = Layout.build(compile_program(generate("lucidlike", 30, 8)))
    count = len(all_patterns(layout))
    assert len(all_patterns(layout, count)) == count
    with pytest.raises(InputError, match=r"more than 100 patterns: use fewer jobs .* 'joint'"):
        all_patterns(layout, 100)
