"""The text of a result: whole, with units, in any width."""

from __future__ import annotations

import io
from typing import Any

import pytest

from elastico_opt.report import ROWS, write_report
from elastico_opt.result import (
    Infeasibility,
    JobPlacement,
    ResourcePrice,
    Result,
    Status,
    TaskPlace,
    Tier,
    Unplaced,
)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel test runs tell their workers the width of the terminal."""
    monkeypatch.delenv("COLUMNS", raising=False)


def text(width: int | None = None, **changes: Any) -> str:
    fields: dict[str, Any] = {
        "status": Status.FEASIBLE, "stop": "time_limit", "objective": 1.5, "bound": None,
        "gap": None, "tolerance": 1e-6, "solver": "highs", "formulation": "joint",
        "terms": {"throughput": 1.75, "interference": -0.25, "eviction": 0.0},
        "provenance": {"snapshot": "s", "policy": {"objective": "throughput"}},
    }  # fmt: skip
    file = io.StringIO()
    write_report(Result(**{**fields, **changes}), file, width)
    return file.getvalue()


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_words(status: Status) -> None:
    assert text(status=status).splitlines()[0].startswith("s: ")


def test_what_is_missing_is_called_none() -> None:
    """A missing bound is not 0, and has no gap."""
    lines = {line.split()[0]: line.split()[1] for line in text().splitlines()[4:] if line.strip()}
    assert (lines["objective"], lines["bound"], lines["gap"]) == ("1.5", "none", "none")
    assert lines["interference"] == "-0.25"
    assert "eviction" not in lines
    assert "weight × throughput, in the jobs' own units per second" in text()


def test_infeasible_says_why() -> None:
    conflict = Infeasibility(("a",), ("n",), "job 'a' must be placed and cannot be", True)
    shown = text(status=Status.INFEASIBLE, objective=None, terms={}, infeasibility=conflict)
    assert "job 'a' must be placed and cannot be" in shown
    assert "Placed" not in shown


def test_tiers_and_prices() -> None:
    shown = text(
        tiers=(Tier(5, 1.0, 1.0), Tier(0, 0.5, None)),
        prices=(ResourcePrice("A", "memory", 0.125, "1 GiB", "LP relaxation"),),
    )
    assert "Priorities, highest first" in shown
    for part in ("0.125", "1 GiB", "LP relaxation", "[objective per unit]"):
        assert part in shown
    assert "Priorities" not in text(tiers=(Tier(0, 1.5, None),))


def test_long_lists_say_what_they_leave_out() -> None:
    """Thousands of rows help nobody; the counts by reason do."""
    rows = tuple(Unplaced(f"j{i}", "no_nodes" if i % 2 else "outbid", "so") for i in range(100))
    shown = text(unplaced=rows)
    assert "Not placed: 100 jobs (50 × outbid, 50 × no_nodes)" in shown
    assert f"… and {100 - ROWS} more; --format json has all" in shown
    assert f"j{ROWS - 1} " in shown
    assert f"j{ROWS} " not in shown


def test_places() -> None:
    """Tasks of a gang: GPUs by node, equal CPU tasks counted."""
    tasks = (TaskPlace("n1", (0, 1)), TaskPlace("n2", ("GPU-7",)), *[TaskPlace("m")] * 3)
    shown = text(placements=(JobPlacement("a", "p", tasks, 10.0, 1.25, 0.8),))
    assert "n1: 0 1, n2: GPU-7, 3 × m: CPU" in shown


@pytest.mark.parametrize("width", [40, 80, None])
def test_names_are_never_cut(width: int | None) -> None:
    """Narrow terminals fold long names; they do not lose them, nor read them as markup."""
    name = "[bold]" + "x" * 60
    shown = text(width, unplaced=(Unplaced(name, "outbid", "so"),))
    assert "".join(shown.split()).count("x") >= 60
    assert "[bold]" in shown
    if width:
        assert max(map(len, shown.splitlines())) <= width


def test_control_characters_are_shown_not_obeyed() -> None:
    """A name must not clear the reader's terminal, nor split a line."""
    shown = text(unplaced=(Unplaced("a\x1b[2Jb\nc", "outbid", "so"),), warnings=("x\x07",))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "a\\x1b[2Jb\\nc" in shown


def test_notes() -> None:
    shown = text(warnings=("look [out]",), missing_pairs=3)
    assert "note: look [out]" in shown
    assert "lacks 3 pairs" in shown
