"""`elastico-opt solve`: what goes where, and the exit codes that scripts rely on."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elastico_opt import Result
from elastico_opt.plan import Assignment, Plan, TaskPlacement
from elastico_opt.solvers.base import Event, Outcome, Stop

DATA: dict[str, Any] = {
    "schema": "elastico-opt/snapshot@1",
    "name": "[red]two[/red]",
    "gpu_types": {"A": {"capacity": {"memory": 10}, "max_residents": 2}},
    "nodes": [{"name": "n", "gpu_type": "A", "gpus": 1}],
    "jobs": [
        {"name": name, "profiles": [{"name": "p", "gpu": {"memory": 6}, "throughput": 3}]}
        for name in ("a [b]", "b")
    ],
}
ONE = Plan({"a [b]": Assignment("p", (TaskPlacement("n", ("0",)),))})
PROVED = Outcome(ONE, (1.0,), Stop.PROVED)


@pytest.mark.parametrize(("outcome", "status", "code"), [
    (PROVED, "optimal", 0),
    (Outcome(ONE, (1.5,), Stop.TIME_LIMIT), "feasible", 0),
    (Outcome(ONE, (None,), Stop.INTERRUPTED), "feasible", 0),
    (Outcome(None, (1.5,), Stop.TIME_LIMIT), "no_solution", 4),
    (Outcome(None, (), Stop.ERROR), "error", 1),
])  # fmt: skip
@pytest.mark.parametrize("form", ["json", "text"])
def test_exit_codes(
    run: Any, write: Any, answer: Any, outcome: Outcome, status: str, code: int, form: str
) -> None:
    """Scripts read what is held from the exit code."""
    answer(outcome)
    done = run("solve", write(DATA), "--format", form)
    assert done.exit_code == code, done.output
    assert done.stderr == ""
    if form == "json":
        assert json.loads(done.stdout)["status"] == status


def test_text_says_what_each_number_means(run: Any, write: Any, answer: Any) -> None:
    """The user must be able to tell what a printed number is; names are printed as they are."""
    answer(Outcome(ONE, (1.5,), Stop.TIME_LIMIT))
    text = run("solve", write(DATA)).stdout
    for part in (
        "[red]two[/red]: feasible", "the time limit was reached",
        "objective", "1 = one job of weight 1 at its best speed",
        "no plan is worth more", "33.33 %", "|bound − objective| / max(|bound|, |objective|)",
        "Placed: 1 of 2 jobs", "a [b]", "n: 0", "job's unit/s", "× alone",
        "Not placed: 1 job (",
    ):  # fmt: skip
        assert part in text


def test_output_file(run: Any, write: Any, answer: Any, tmp_path: Path) -> None:
    """-o writes JSON, and standard output stays empty unless a report is asked for as well."""
    answer(PROVED)
    done = run("solve", write(DATA), "-o", "r.json")
    assert done.stdout == ""
    assert Result.from_json((tmp_path / "r.json").read_text()).status == "optimal"
    assert "optimal" in run("solve", write(DATA), "-o", "r.json", "--format", "text").stdout
    assert run("solve", write(DATA), "-o", "r.json", "--format", "json").stdout == ""
    done = run("solve", write(DATA), "-o", "-")
    assert json.loads(done.stdout)["status"] == "optimal"


def test_output_file_is_whole_or_untouched(
    run: Any, write: Any, answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk loses neither the old file nor the new result."""
    target = tmp_path / "r.json"
    target.write_text("old")
    target.chmod(0o640)
    answer(PROVED)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("elastico_opt.cli.output.os.replace", full)
        done = run("solve", write(DATA), "-o", target)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr
    assert target.read_text() == "old"
    assert json.loads(done.stdout)["status"] == "optimal"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    run("solve", write(DATA), "-o", target)
    assert json.loads(target.read_text())["status"] == "optimal"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("where", ["missing/r.json", "folder"])
def test_a_place_that_cannot_be_written_is_told_before_solving(
    run: Any, write: Any, answer: Any, tmp_path: Path, where: str
) -> None:
    (tmp_path / "folder").mkdir()
    answer(lambda *args: pytest.fail("solved first"))
    done = run("solve", write(DATA), "-o", where)
    assert (done.exit_code, done.stderr.count("\n"), done.stdout) == (2, 1, "")


BAD = {**DATA, "jobs": [{"name": "a", "profiles": [{"name": "p", "throughput": -1}]}]}


@pytest.mark.parametrize(("args", "content", "message"), [
    (["missing.json"], None, "missing.json: cannot be read"),
    (["."], None, "cannot be read"),
    (["snapshot.json"], "{", "line 1, column 2"),
    (["snapshot.json"], "", "not JSON"),
    (["snapshot.json"], "[]", "a snapshot is a JSON object"),
    (["snapshot.json"], BAD, "throughput"),
    (["snapshot.json", "--gap", "nan"], DATA, "gap is a fraction"),
    (["snapshot.json", "--time-limit", "nan"], DATA, "time_limit"),
])  # fmt: skip
def test_bad_input_is_one_line(
    run: Any, write: Any, answer: Any, args: list[str], content: Any, message: str
) -> None:
    """No traceback for what a user can cause; the line says where and what."""
    answer(PROVED)
    if content is not None:
        write(content)
    done = run("solve", *args)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("elastico-opt: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.parametrize("args", [
    [], ["--time-limit", "-1"], ["--threads", "0"], ["--seed", "x"], ["--format", "xml"],
    ["--formulation", "dual"], ["--nonsense"],
])  # fmt: skip
def test_bad_usage(run: Any, write: Any, args: list[str]) -> None:
    done = run("solve", *([write(DATA)] if args else []), *args)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_a_wrong_solver_is_told_at_once(run: Any, write: Any) -> None:
    pytest.importorskip("elastico_opt.solvers.registry")
    done = run("solve", "not-even-there.json", "--solver", "gurobi")
    assert done.exit_code == 2
    assert "gurobi" in done.stderr


def test_a_lying_solver_is_exit_1_and_prints_no_plan(run: Any, write: Any, answer: Any) -> None:
    answer(Outcome(ONE, (0.5,), Stop.PROVED))
    done = run("solve", write(DATA))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "this is a bug" in done.stderr


def test_an_unexpected_error_is_one_line_unless_debugging(
    run: Any, write: Any, answer: Any
) -> None:
    def broken(*args: object) -> Outcome:
        raise ZeroDivisionError("oh\nno")

    answer(broken)
    done = run("solve", write(DATA))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "unexpected ZeroDivisionError: oh no" in done.stderr
    assert isinstance(run("--debug", "solve", write(DATA)).exception, ZeroDivisionError)


def test_standard_input(run: Any, answer: Any) -> None:
    answer(PROVED)
    done = run("solve", "-", "--format", "json", input=json.dumps(DATA))
    assert json.loads(done.stdout)["status"] == "optimal"


def test_time_limit_zero(run: Any, write: Any, answer: Any) -> None:
    """Nothing is solved, nothing is claimed, and the exit code says so."""
    answer(PROVED)
    done = run("solve", write(DATA), "--time-limit", "0", "--format", "json")
    assert (done.exit_code, json.loads(done.stdout)["status"]) == (4, "no_solution")


def test_no_jobs(run: Any, write: Any) -> None:
    done = run("solve", write({**DATA, "jobs": []}), "--time-limit", "0")
    assert done.exit_code == 0, done.output
    assert "optimal" in done.stdout


def test_options_reach_the_solver(run: Any, write: Any, answer: Callable[[Any], None]) -> None:
    seen = []

    def look(program: Any, limits: Any, on_event: Any) -> Outcome:
        seen.append(limits)
        on_event(Event(0.0, 1.0, 1.0, "search"))
        return PROVED

    answer(look)
    options = ["--seed", "5", "--threads", "2", "--gap", "0.01", "--time-limit", "60"]
    data = json.loads(run("solve", write(DATA), *options, "--format", "json").stdout)
    assert (seen[0].seed, seen[0].threads, seen[0].gap) == (5, 2, 0.01)
    assert 0 < seen[0].remaining() <= 60
    assert data["provenance"]["options"]["time_limit"] == 60


def test_any_text_is_a_name(run: Any, write: Any, answer: Any) -> None:
    """JSON may hold half a character; it comes back as it went in."""
    names = ["half \ud800", "naïve \x00", "日本"]
    jobs = [{**DATA["jobs"][0], "name": name} for name in names]
    answer(Outcome(Plan({}), (None,), Stop.TIME_LIMIT))
    done = run("solve", write(json.dumps({**DATA, "jobs": jobs})), "--format", "json")
    assert done.exit_code == 0, done.output
    assert [row["job"] for row in json.loads(done.stdout)["unplaced"]] == names
    assert run("solve", write(json.dumps({**DATA, "jobs": jobs}))).exit_code == 0
