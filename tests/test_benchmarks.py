"""The benchmark scripts measure what they say, and no row can stop the others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import networkx
import pytest

from elastico_opt import solve
from elastico_opt.instances.generate import generate
from elastico_opt.program import compile_program

sys.path.append(str(Path(__file__).parents[1]))  # for `pytest` as well as `python -m pytest`

from benchmarks import child, core, pattern, report, rivals
from benchmarks.instances import MissingData
from benchmarks.matching import pair_values
from benchmarks.rows import Row


@pytest.mark.parametrize("seed", range(4))
def test_with_a_gpu_for_every_pair_the_best_plan_is_a_matching(seed: int) -> None:
    """Two ways to the same number that share nothing but the coefficients."""
    given = generate("lucidlike", 14, 7, seed=seed)
    values = pair_values(compile_program(given))
    graph = networkx.Graph()
    graph.add_weighted_edges_from((i, j, values[i, j]) for i in range(14) for j in range(i))
    pairs = networkx.max_weight_matching(graph)
    assert solve(given).objective == pytest.approx(sum(values[i, j] for i, j in pairs), abs=1e-6)


def test_pair_values_refuse_what_is_no_matching() -> None:
    with pytest.raises(ValueError, match="not a matching"):
        pair_values(compile_program(generate("triples", 14, 7)))


def test_rows_have_names_of_their_own_and_tasks_that_exist() -> None:
    rows = [row for part in (pattern, rivals, core) for row in part.rows(1)]
    assert len({(row.suite, row.name) for row in rows}) == len(rows)
    assert {row.task["do"] for row in rows} <= set(child._TASKS)


def test_a_child_that_fails_or_is_too_slow_makes_a_row_too() -> None:
    failed = Row("pattern", "x", {"do": "solve", "instance": "no-1x1"}, timeout=60).run()
    assert failed["status"] == "failed"
    assert "exit code 1" in failed["error"]
    slow = Row("pattern", "x", {"do": "solve"}, timeout=0.001).run()
    assert slow["status"] == "timeout"


def test_missing_data_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks import instances

    monkeypatch.setattr(instances, "_DATA", tmp_path)
    with pytest.raises(MissingData, match="ELASTICO_OPT_DATA"):
        instances.make_instance("lucid-9x9")


STAMP = {
    "version": "1", "commit": "abc", "date": "2026-01-01", "python": "3", "libraries": {"a": "1"},
    "cpu": "c", "cores": 2, "memory_gib": 1.0, "system": "s",
}  # fmt: skip
SOLVED: dict[str, Any] = {
    "status": "optimal", "stop": "proved", "objective": 1.5, "bound": 1.5, "gap": 0.0,
    "seconds": 0.25, "memory_mb": 10, "phases": {"solve": 0.2}, "statistics": {"rounds": 3},
}  # fmt: skip


def test_tables_hold_finished_and_unfinished_rows() -> None:
    rows = [
        {"suite": "pattern", "row": "a", "target": 1.0, **SOLVED},
        {"suite": "pattern", "row": "b", "target": None, "status": "timeout", "seconds": 9.0},
        {"suite": "rivals", "row": "a, pattern", "group": "a", "method": "pattern", **SOLVED},
        {"suite": "rivals", "row": "a, highs", "group": "a", "method": "highs", **SOLVED,
         "seconds": 0.5},
    ]  # fmt: skip
    text = report.tables([{**row, "stamp": STAMP} for row in json.loads(json.dumps(rows))])
    assert "| a | 1 s | 0.25 s | optimal (proved) | 0 | 1.5000 | 1.5000 |" in text
    assert "| b |  | 9.00 s | timeout |" in text
    assert "| a | highs |  | 0.50 s | 2 |" in text
    assert text.endswith("no earlier release")
