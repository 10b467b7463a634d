"""`elastico-opt export`: files that another solver reads to the same optimum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import elastico_opt as eo

JOBS = ["a b", "a_b", "a/b"]
DATA: dict[str, Any] = {
    "schema": "elastico-opt/snapshot@1",
    "gpu_types": {"A": {"capacity": {"memory": 10}}},
    "nodes": [{"name": "gpu node 1", "gpu_type": "A", "gpus": 1}],
    "jobs": [
        {"name": name, "weight": weight,
         "profiles": [{"name": "p", "gpu": {"memory": 5}, "throughput": 1}]}
        for weight, name in enumerate(JOBS, 1)
    ],
}  # fmt: skip


def optimum(path: Path) -> float:
    highspy = pytest.importorskip("highspy")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.run()
    return float(solver.getInfo().objective_function_value)


@pytest.mark.parametrize("form", ["mps", "lp"])
def test_f20_names_that_break_other_tools(run: Any, write: Any, tmp_path: Path, form: str) -> None:
    """Re-read by a solver, the file has the same optimum; the map keeps the three jobs apart."""
    target = tmp_path / f"model.{form}"
    done = run("export", form, write(DATA), "-o", target)
    assert (done.exit_code, done.output) == (0, "")
    assert optimum(target) == pytest.approx(eo.solve(eo.parse_snapshot(DATA)).objective) == 5
    columns = json.loads((tmp_path / f"model.{form}.names.json").read_text())["columns"]
    chosen = {entry["label"] for entry in columns.values() if "[" in entry["label"]}
    assert all(any(f"{job}/p" in label for label in chosen) for job in JOBS)


def test_standard_output(run: Any, write: Any, tmp_path: Path) -> None:
    done = run("export", "lp", write(DATA))
    assert done.stdout.startswith("\\ elastico_opt\nMaximize\n")
    assert done.stdout.endswith("End\n")
    done = run("export", "mps", "-", "--names", "names.json", input=json.dumps(DATA))
    assert done.stdout.endswith("ENDATA\n")
    assert (tmp_path / "names.json").exists()


TIERS = {**DATA, "jobs": [{**job, "priority": i} for i, job in enumerate(DATA["jobs"])]}


def test_priorities(run: Any, write: Any, tmp_path: Path) -> None:
    """One objective a file: the highest, or the one asked for with others kept."""
    snapshot = write(TIERS)
    done = run("export", "lp", snapshot, "-o", "top.lp")
    assert "priority 2 only" in done.stderr
    assert optimum(tmp_path / "top.lp") == 3
    run("export", "lp", snapshot, "--priority", 0, "-o", "low.lp")
    assert optimum(tmp_path / "low.lp") == 1
    keep = ["--keep", "2=3", "--keep", "1=2"]
    run("export", "mps", snapshot, "--priority", 0, *keep, "-o", "kept.mps")
    assert optimum(tmp_path / "kept.mps") == 0
    for args in (["--priority", "7"], ["--keep", "2"], ["--keep", "x=1"]):
        done = run("export", "lp", snapshot, *args)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("form", ["mps", "lp"])
def test_the_pattern_form(run: Any, write: Any, tmp_path: Path, form: str) -> None:
    """The same optimum from every pattern listed, named by who shares a GPU."""
    done = run("export", form, write(DATA), "--formulation", "pattern", "-o", f"m.{form}")
    assert (done.exit_code, done.output) == (0, "")
    assert optimum(tmp_path / f"m.{form}") == 5
    columns = json.loads((tmp_path / f"m.{form}.names.json").read_text())["columns"]
    assert "y[gpu node 1:A:a_b/p+a/b/p]" in {entry["label"] for entry in columns.values()}


def test_the_pattern_form_keeps_priorities_apart(run: Any, write: Any, tmp_path: Path) -> None:
    """`--priority` and `--keep` mean the same in both forms."""
    keep = ["--priority", 0, "--keep", "2=3", "--keep", "1=2", "--formulation", "pattern"]
    run("export", "mps", write(TIERS), *keep, "-o", "kept.mps")
    assert optimum(tmp_path / "kept.mps") == 0


def test_too_many_patterns_are_one_line_of_error(
    run: Any, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty small jobs on a GPU without limits have 2^50 patterns: refused, with the remedy."""
    small = [{**DATA["jobs"][0], "name": f"j{i}", "weight": i + 1} for i in range(50)]
    small = [{**job, "profiles": [{"name": "p", "throughput": 1}]} for job in small]
    done = run("export", "lp", write({**DATA, "jobs": small}), "--formulation", "pattern")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "more than 100,000 patterns: use fewer jobs" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_bound_is_called_a_bound(run: Any, write: Any) -> None:
    """A gang that may be slowed on one GPU only: the file's optimum may exceed every plan."""
    gang = {"name": "p", "tasks": [{"count": 2}], "throughput": 1}
    data = {**DATA, "interference": {"default": 1.5},
            "jobs": [{"name": "a", "profiles": [gang]}, *DATA["jobs"]]}  # fmt: skip
    done = run("export", "lp", write(data), "--formulation", "pattern")
    assert "bounds plans" in done.stderr
    assert "bounds plans" not in run("export", "lp", write(data)).stderr


def test_the_map_does_not_replace_the_model(run: Any, write: Any, tmp_path: Path) -> None:
    """Both written to one file would leave the map only, without a word."""
    target = tmp_path / "model.mps"
    done = run("export", "mps", write(DATA), "-o", target, "--names", target)
    assert done.exit_code == 2
    assert "name another file" in done.stderr
    assert not target.exists()


@pytest.mark.parametrize("value", ["nan", "inf", "x", ""])
def test_a_value_to_keep_is_a_number(run: Any, write: Any, value: str) -> None:
    """A NaN on the right side of a row makes a file that readers refuse, or worse, read."""
    done = run("export", "mps", write(DATA), "--keep", f"0={value}")
    assert done.exit_code == 2
    assert "PRIORITY=VALUE" in done.stderr
