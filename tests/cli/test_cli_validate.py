"""`elastico-opt validate` and `schema`."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from elastico_opt.result_schema import result_schema

GOOD: dict[str, Any] = {
    "schema": "elastico-opt/snapshot@1",
    "gpu_types": {"A": {"capacity": {"memory": "80Gi"}}},
    "nodes": [{"name": "n", "gpu_type": "A", "gpus": 2}],
    "jobs": [{"name": "a", "profiles": [{"name": "p", "throughput": 1.5}]}],
}


def test_a_good_snapshot(run: Any, write: Any) -> None:
    done = run("validate", write(GOOD))
    assert done.exit_code == 0
    assert done.stdout == f"{write(GOOD)}: valid: 1 node, 2 gpus, 1 job, 1 profile\n"
    data = json.loads(run("validate", write(GOOD), "--format", "json").stdout)
    assert data["valid"] is True
    assert data["size"]["gpus"] == 2


def test_every_problem_is_listed(run: Any, write: Any) -> None:
    """A user repairs all of a file at once, not one problem per run."""
    jobs = [
        {"name": "a", "profiles": [{"name": "p", "throughput": -1, "gpu": {"memory": "1K"}}]},
        {"name": "b", "profils": [], "profiles": [{"name": "p", "throughput": True}]},
    ]
    done = run("validate", write({**GOOD, "jobs": jobs}))
    assert done.exit_code == 2
    for part in ("job 'a', profile 'p', throughput", "gpu.memory", "unknown key 'profils'",
                 "job 'b', profile 'p', throughput", ": 4 problems"):  # fmt: skip
        assert part in done.stdout
    data = json.loads(run("validate", write({**GOOD, "jobs": jobs}), "--format", "json").stdout)
    assert (data["valid"], len(data["problems"])) == (False, 4)


def test_unreadable(run: Any) -> None:
    done = run("validate", "nowhere.json")
    assert done.exit_code == 2
    assert "nowhere.json: cannot be read" in done.stdout


def test_what_is_valid_but_surprising_is_noted(run: Any, write: Any) -> None:
    jobs = [
        {"name": "typo", "eligible_nodes": ["n1"], "profiles": [{"name": "p", "throughput": 1}]},
        {"name": "big", "profiles": [{"name": "p", "gpus": 3, "throughput": 1}]},
        {"name": "fine", "profiles": [{"name": "p", "throughput": 1}],
         "current": {"profile": "p", "tasks": [{"node": "gone", "gpus": [0]}]}},
    ]  # fmt: skip
    done = run("validate", write({**GOOD, "jobs": jobs}))
    assert done.exit_code == 0
    notes = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
    assert "'typo': eligible_nodes names 'n1'" in notes[0]
    assert any("'typo' cannot be placed (ineligible)" in note for note in notes)
    assert any("'big' cannot be placed (never_fits)" in note for note in notes)
    assert any("'gone', which is gone" in note for note in notes)
    assert not any("'fine' cannot be placed" in note for note in notes)


def test_the_schema_agrees_with_the_reader(run: Any) -> None:
    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(GOOD, schema)
    for bad in ({**GOOD, "nods": []}, {k: v for k, v in GOOD.items() if k != "schema"},
                {**GOOD, "jobs": [{"name": "a", "profiles": []}]}):  # fmt: skip
        assert list(jsonschema.Draft202012Validator(schema).iter_errors(bad)), bad


def test_the_schema_of_the_result(run: Any, tmp_path: Any) -> None:
    run("schema", "--result", "-o", "r.json")
    assert json.loads((tmp_path / "r.json").read_text()) == result_schema()


def test_thousands_of_notes_are_cut_in_text_only(run: Any, write: Any) -> None:
    jobs = [
        {"name": f"j{i}", "profiles": [{"name": "p", "gpus": 9, "throughput": 1}]}
        for i in range(100)
    ]
    text = run("validate", write({**GOOD, "jobs": jobs})).stdout
    assert text.count("note: ") == 40
    assert "and 60 more notes" in text
    data = json.loads(run("validate", write({**GOOD, "jobs": jobs}), "--format", "json").stdout)
    assert len(data["notes"]) == 100
