"""Model files: any reader gets the same optimum, and every name finds its owner."""

from __future__ import annotations

import json
from pathlib import Path

import highspy
import pyomo.environ as pyo
import pytest
from small import snapshot

from elastico_opt import Snapshot
from elastico_opt.errors import InputError
from elastico_opt.formulations.export import lp_lines, mps_lines, name_form, write_model
from elastico_opt.formulations.matrix import MatrixForm, lower
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.registry import get_solver

SUFFIXES = (".mps", ".lp")

AWKWARD = snapshot(
    {"gpu node 1": 1, "gpu_node_1": 1},
    {
        "a b": {"gpu": {"memory": 6}},
        "a_b": {"weight": 2, "gpu": {"memory": 6}},
        "a/b": {"weight": 3, "gpu": {"memory": 6}},
        "A B": {"weight": 0.5, "gpu": {"memory": 4}},
        "e1": {"weight": 0.25, "gpu": {"memory": 10}},
        "Gerät \u2028 7": {"weight": 0.125},
        "long" * 100: {"weight": 0.0625},
    },
)


def read(path: Path) -> tuple[highspy.Highs, float]:
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return solver, solver.getInfo().objective_function_value


def optimum(given: Snapshot) -> list[float]:
    outcome = get_solver("highs").solve(compile_program(given), Limits())
    assert outcome.bound is not None
    return [float(bound or 0) for bound in outcome.tier_bounds]


CASES = {
    "awkward names": AWKWARD,
    "lucidlike": generate("lucidlike", 6, 2),
    "running jobs, gangs and hosts": generate("mixed", 8, 6, running=0.5, tiers=1, seed=3),
    "three residents": generate("triples", 6, 2),
    "nothing": snapshot({"n": 1}, {}),
    "nothing fits": snapshot({"n": 1}, {"a": {"gpu": {"memory": 11}}}),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("case", CASES)
def test_highs_reads_the_file_and_finds_the_same_optimum(
    case: str, suffix: str, tmp_path: Path
) -> None:
    given = CASES[case]
    path = tmp_path / f"model{suffix}"
    write_model(compile_program(given), path)
    _, value = read(path)
    assert value == pytest.approx(sum(optimum(given)), abs=1e-6)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_are_safe_distinct_and_kept_by_the_reader(suffix: str, tmp_path: Path) -> None:
    """HiGHS drops all names when two are equal, and breaks at spaces."""
    path = tmp_path / f"model{suffix}"
    names = json.loads(write_model(compile_program(AWKWARD), path).read_text("utf-8"))
    solver, _ = read(path)
    found = {solver.getColName(i)[1] for i in range(solver.getNumCol())}
    assert found - {"constant_one"} == set(names["columns"])
    assert len({name.lower() for name in found}) == len(found)
    assert all(len(name) <= 210 and name.isascii() and " " not in name for name in found)
    labels = {entry["label"] for entry in names["columns"].values() if entry["component"] == "x"}
    assert {"x[a b/p]", "x[a_b/p]", "x[a/b/p]", "x[A B/p]"} <= labels
    rows = {solver.getRowName(i)[1] for i in range(solver.getNumRow())}
    assert rows == set(names["rows"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_lower_tier_is_exported_with_the_tiers_above_kept(suffix: str, tmp_path: Path) -> None:
    given = snapshot(
        {"n": 1},
        {
            "high": {"priority": 1, "weight": 0.1, "gpu": {"memory": 6}},
            "low": {"weight": 5, "gpu": {"memory": 6}},
            "fits": {"weight": 2, "gpu": {"memory": 4}},
        },
    )
    program = compile_program(given)
    path = tmp_path / f"model{suffix}"
    assert optimum(given) == pytest.approx([0.1, 2.0])
    write_model(program, path)
    assert read(path)[1] == pytest.approx(0.1)
    write_model(program, path, tier=1, floors=[(0, 0.1)])
    assert read(path)[1] == pytest.approx(2.0)
    write_model(program, path, tier=1)
    assert read(path)[1] == pytest.approx(7.0)
    with pytest.raises(InputError, match="tier 2 does not exist: use 0 to 1"):
        write_model(program, path, tier=2)


def odd() -> MatrixForm:
    """Ranges, free and negative columns, an integer without bounds, tiny and huge numbers."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.Integers, bounds=(None, None))
    m.y = pyo.Var(bounds=(-3, -1))
    m.z = pyo.Var(bounds=(None, 2.5))
    m.w = pyo.Var(domain=pyo.Integers, bounds=(0, 7))
    m.between = pyo.Constraint(expr=(-2, m.x + m.y + 0.1 * m.z, 9.25))
    m.big = pyo.Constraint(expr=(2.0**40 + 1) * m.w + m.x <= 3.0 * 2.0**40 + 0.5)
    m.low = pyo.Constraint(expr=m.z >= -1e-7)
    m.value = pyo.Objective(expr=m.x + 2 * m.w - 1e-3 * m.y + m.z - 11.5, sense=pyo.maximize)
    return lower(m)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_kind_of_bound_survives(suffix: str, tmp_path: Path) -> None:
    form = odd()
    lines = {".mps": mps_lines, ".lp": lp_lines}[suffix](name_form(form))
    path = tmp_path / f"odd{suffix}"
    path.write_text("\n".join(lines) + "\n", "ascii")
    _, value = read(path)
    # w = 2; x = 12 with y = -3, z = 2.5
    assert value == pytest.approx(12 + 4 + 0.003 + 2.5 - 11.5)


def test_every_column_has_both_bounds_and_the_sense_is_stated(tmp_path: Path) -> None:
    program = compile_program(AWKWARD)
    path = tmp_path / "model.mps"
    names = json.loads(write_model(program, path).read_text("utf-8"))
    lines = path.read_text("ascii").splitlines()
    assert lines[lines.index("OBJSENSE") + 1].strip() == "MAX"
    bounds = [line.split() for line in lines[lines.index("BOUNDS") + 1 : -1]]
    assert {name for kind, _, name, *_ in bounds if kind in ("LO", "MI")} >= set(names["columns"])
    assert {name for kind, _, name, *_ in bounds if kind in ("UP", "PL")} >= set(names["columns"])


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in \.mps or \.lp"):
        write_model(compile_program(AWKWARD), tmp_path / "model.txt")
