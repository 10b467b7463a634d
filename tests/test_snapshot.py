"""The door: valid snapshots come in exactly, everything else ends in one helpful line."""

from __future__ import annotations

import codecs
import contextlib
import copy
import gzip
import io
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import data, job, node, snapshot
from hypothesis import example, given, note, settings, strategies as st
from strategies import snapshot_data, snapshots

from elastico_opt import (
    InputError,
    Plan,
    Snapshot,
    VerificationError,
    compile_program,
    evaluate,
    parse_snapshot,
    read_snapshot,
    snapshot_json,
    verify,
)
from elastico_opt.plan import running_plan
from elastico_opt.reading import decode_text, parse_json, read_bytes, snapshot_hash
from elastico_opt.snapshot import SCHEMA, Interference, Job, Node, PlacedTask, Profile

GiB = 2**30

VALID: dict[str, Any] = {
    "schema": SCHEMA,
    "name": "valid",
    "gpu_types": {"A": {"capacity": {"memory": "80Gi", "sm": 1}, "max_residents": 2}},
    "nodes": [
        {"name": "n1", "gpu_type": "A", "gpus": 1, "host": {"cpu": 8}, "labels": {"zone": "a"}},
        {"name": "n2", "gpus": [{"id": "x", "type": "A", "capacity": {"memory": "40Gi"}}]},
    ],
    "jobs": [
        {
            "name": "bert",
            "profiles": [
                {"name": "p", "gpus": 1, "gpu": {"memory": "24Gi"}, "throughput": {"A": 310.5}},
                {"name": "q", "tasks": [{"count": 2, "gpus": 1}], "throughput": 540},
            ],
            "current": {"profile": "p", "tasks": [{"node": "n1", "gpus": [0]}]},
        }
    ],
    "interference": {"table": [{"a": "v", "b": "w", "slowdown": [1.1, None]}], "default": 1},
    "policy": {"objective": "normalised", "max_slowdown": 2},
    "annotations": {"owner": "x"},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Copy the valid data with one place changed, such as ``jobs.0.weight``."""
    result = copy.deepcopy(VALID)
    *above, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    place: Any = result
    for step in above:
        place = place[step]
    place[last] = value
    return result


def problems(raw: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse_snapshot(raw, source="file.json")
    return list(caught.value.problems)


# ---- what a snapshot means ---------------------------------------------------------------------


def test_the_contract_reads() -> None:
    """Every field of the contract is understood, quantities exactly."""
    found = parse_snapshot(VALID)
    assert found.gpu_types["A"].capacity == {"memory": 80 * GiB, "sm": 1}
    assert found.nodes[1].devices()[0].capacity == {"memory": 40 * GiB}
    assert [gpu.id for gpu in found.nodes[0].devices()] == ["0"]
    bert = found.jobs[0]
    assert bert.profiles[0].rate("A") == Fraction(3105, 10)
    assert bert.profiles[0].rate("B") == 0
    assert bert.profiles[1].rate("A") == bert.profiles[1].rate(None) == 540
    assert [p.workers() for p in bert.profiles] == [1, 2]
    assert found.interference is not None
    assert found.interference.table[0].slowdown == (Fraction(11, 10), None)


def test_defaults_are_those_of_the_contract() -> None:
    """What is not said: weight 1, priority 0, may stay out, may be stopped, may move."""
    found = parse_snapshot(data([{"name": "cpu"}], [job()]))
    one = found.jobs[0]
    assert (one.kind, one.weight, one.priority, one.tenant) == ("training", 1, 0, None)
    assert (one.must_place, one.preemptible, one.movable) == (False, True, True)
    assert (one.min_throughput, one.max_slowdown, one.current) == (None, None, None)
    assert (one.node_selector, one.eligible_nodes) == ({}, None)
    task = one.profiles[0].task_list()[0]
    assert (task.count, task.gpus, task.gpu, task.host, task.exclusive) == (1, 1, {}, {}, False)
    assert found.nodes[0].devices() == ()
    assert found.nodes[0].schedulable
    assert found.interference is None
    policy = found.policy
    assert (policy.objective, policy.coupling) == ("normalised", "penalty")
    assert (policy.interference_penalty, policy.max_slowdown) == (1, None)
    assert (policy.switch_cost, policy.migration_cost, policy.eviction_cost) == (0, 0, 0)


def test_interference_without_default_is_null() -> None:
    """An unlisted pair is then never put together."""
    assert Interference(table=()).default is None


def test_json_numbers_are_decimals() -> None:
    """0.1 in the file is one tenth, not the float beside it."""
    text = json.dumps(changed("jobs.0.weight", 0.1))
    assert parse_snapshot(text).jobs[0].weight == Fraction(1, 10)
    assert parse_snapshot(text.encode()).jobs[0].weight == Fraction(1, 10)
    long = json.dumps(VALID).replace(
        '"policy": {', '"policy": {"switch_cost": 0.10000000000000000001, '
    )
    assert parse_snapshot(long).policy.switch_cost == Fraction(10000000000000000001, 10**20)


def test_python_numbers_of_all_kinds() -> None:
    """Built in code, from numpy or decimals, a snapshot is the same."""
    kinds = [2, 2.0, Decimal(2), Fraction(2), "2", "2000m", np.int64(2), np.float32(2)]
    same = {snapshot([node()], [job(weight=kind)]).jobs[0].weight for kind in kinds}
    assert same == {2}


def test_names_are_any_text() -> None:
    """Spaces, slashes, other scripts, quotes, even line breaks are names."""
    names = ["a b", "a_b", "a/b", "作业", "x" * 300, "'", '"', "\n", "nan", "0"]
    found = snapshot([node(name) for name in names], [job(name) for name in names])
    assert [one.name for one in found.jobs] == names
    assert parse_snapshot(snapshot_json(found)) == found


def test_replace_validates_and_keeps_the_rest() -> None:
    """A changed copy is checked like the original, which stays as it was."""
    found = parse_snapshot(VALID)
    other = found.replace(jobs=())
    assert (other.jobs, other.nodes, other.name) == ((), found.nodes, "valid")
    assert len(found.jobs) == 1
    with pytest.raises(ValueError, match="weight"):
        found.jobs[0].replace(weight=-1)
    with pytest.raises(ValueError, match="given 2 times"):
        found.replace(jobs=found.jobs * 2)


def test_snapshots_do_not_change() -> None:
    """Fields cannot be assigned; results may therefore refer to a snapshot by its hash."""
    with pytest.raises(ValueError, match="frozen"):
        parse_snapshot(VALID).name = "other"  # type: ignore[misc]


# ---- rules, and the words of the errors --------------------------------------------------------

J, P, Q = "jobs.0", "jobs.0.profiles.0", "jobs.0.profiles.1"
BERT, PROFILE = "job 'bert'", "job 'bert', profile 'p'"
NOT_TEXT = [{"node": "n1", "gpus": [True]}]
TWO = [{"id": "x", "type": "A"}] * 2

RULES: list[tuple[str, Any, str]] = [
    # quantities: place, and what is wrong
    (f"{J}.weight", -1, f"{BERT}, weight: must not be negative, got -1"),
    (f"{J}.weight", math.nan, f"{BERT}, weight: 'nan' is not a number"),
    (f"{J}.weight", "1e400", f"{BERT}, weight: '1e400' is out of range"),
    (f"{J}.weight", True, f"{BERT}, weight: expected a number"),
    (f"{J}.weight", None, f"{BERT}, weight: expected a number"),
    (f"{J}.min_throughput", -3, f"{BERT}, min_throughput: must not be negative"),
    (f"{J}.max_slowdown", "0.5", f"{BERT}, max_slowdown: a slowdown is at least 1"),
    (f"{P}.throughput", math.inf, f"{PROFILE}, throughput: 'inf' is not a number"),
    (f"{P}.throughput", {"A": -1}, f"{PROFILE}, throughput: for GPU type 'A': must not be"),
    (f"{P}.throughput", {"A": True}, f"{PROFILE}, throughput: for GPU type 'A': expected"),
    (f"{P}.throughput", {"B": 1}, f"{PROFILE}, throughput: no GPU type 'B' in gpu_types"),
    (f"{P}.throughput", None, f"{PROFILE}, throughput: expected a number"),
    (f"{P}.gpu.memory", -1, f"{PROFILE}, gpu.memory: must not be negative, got -1"),
    (f"{P}.gpu.memory", "1K", f"{PROFILE}, gpu.memory: '1K' is not a number or quantity (the"),
    (f"{P}.gpu", [1], f"{PROFILE}, gpu: must be an object"),
    (f"{P}.host", {"cpu": "x"}, f"{PROFILE}, host.cpu: 'x' is not a number"),
    (f"{P}.gpus", 1.5, f"{PROFILE}, gpus: must be a whole number, got 1.5"),
    (f"{P}.gpus", -1, f"{PROFILE}, gpus: must not be negative, got -1"),
    (f"{P}.gpus", True, f"{PROFILE}, gpus: expected a number"),
    (f"{Q}.tasks.0.count", 0, "profile 'q', tasks[0].count: must be at least 1, got 0"),
    (f"{Q}.tasks.0.count", 10**9, "profile 'q', tasks[0].count: must be at most 100000"),
    ("nodes.0.gpus", -1, "node 'n1', gpus: must not be negative"),
    ("nodes.0.gpus", 10**9, "node 'n1', gpus: must be at most 100000"),
    ("nodes.0.gpus", {}, "node 'n1', gpus: expected a number"),
    ("nodes.0.host.cpu", "", "node 'n1', host.cpu: '' is not a number"),
    ("nodes.1.gpus.0.capacity.memory", "-1Gi", "node 'n2', gpus[0].capacity.memory: must not be"),
    ("gpu_types.A.capacity.sm", False, "gpu_types.A.capacity.sm: expected a number"),
    ("gpu_types.A.max_residents", 1.5, "gpu_types.A.max_residents: must be a whole number"),
    ("policy.switch_cost", -1, "policy.switch_cost: must not be negative"),
    ("policy.interference_penalty", "x", "policy.interference_penalty: 'x' is not a number"),
    ("policy.max_slowdown", 0.99, "policy.max_slowdown: a slowdown is at least 1, got 0.99"),
    ("interference.default", 0, "interference.default: a slowdown is at least 1, got 0"),
    ("interference.table.0.slowdown", [0.5, 1], "interference.table[0].slowdown[0]: a slowdown is"),
    # shapes
    ("interference.table.0.slowdown", [1], "interference.table[0].slowdown[1]: is missing"),
    ("interference.table.0.slowdown", [1, 1, 1], "table[0].slowdown: has too many items"),
    ("interference.table.0.slowdown", 1.5, "interference.table[0].slowdown: must be a list"),
    ("interference", [], "interference: must be an object"),
    ("policy", None, "policy: must be an object"),
    ("jobs", {}, "jobs: must be a list"),
    ("jobs.0", None, "job number 1: must be an object"),
    ("nodes", "x", "nodes: must be a list"),
    (f"{J}.profiles", [], f"{BERT}, profiles: must not be empty"),
    (f"{J}.profiles", {}, f"{BERT}, profiles: must be a list"),
    (f"{P}.tasks", [], f"{PROFILE}, tasks: must not be empty"),
    (f"{P}.knobs", 3, f"{PROFILE}, knobs: must be an object"),
    (f"{J}.current.tasks", None, f"{BERT}, current.tasks: must be a list"),
    (f"{J}.current.tasks", NOT_TEXT, f"{BERT}, current.tasks[0].gpus[0]: must be"),
    (f"{J}.current", {"tasks": []}, f"{BERT}, current.profile: is missing"),
    (f"{J}.eligible_nodes", "n1", f"{BERT}, eligible_nodes: must be a list"),
    (f"{J}.node_selector", {"zone": 1}, f"{BERT}, node_selector.zone: must be text"),
    ("nodes.0.labels.zone", 1, "node 'n1', labels.zone: must be text"),
    # flags, names, words
    (f"{J}.must_place", "true", f"{BERT}, must_place: must be true or false"),
    (f"{J}.preemptible", 1, f"{BERT}, preemptible: must be true or false"),
    (f"{J}.movable", None, f"{BERT}, movable: must be true or false"),
    (f"{P}.exclusive", "yes", f"{PROFILE}, exclusive: must be true or false"),
    ("nodes.0.schedulable", 0, "node 'n1', schedulable: must be true or false"),
    (f"{J}.priority", 1.5, f"{BERT}, priority: must be a whole number"),
    (f"{J}.priority", True, f"{BERT}, priority: must be a whole number"),
    (f"{J}.name", "", "name: must not be empty"),
    (f"{J}.name", 3, "job number 1, name: must be text"),
    ("policy.objective", "max", "policy.objective: must be 'normalised' or 'throughput'"),
    ("policy.coupling", "none", "policy.coupling: must be 'penalty' or 'throughput'"),
    ("schema", "elastico-opt/snapshot@2", f"schema: must be '{SCHEMA}', got"),
    # references
    ("nodes.0.gpu_type", "a", "node 'n1': no GPU type 'a' in gpu_types"),
    ("nodes.0.gpu_type", None, "node 'n1' has GPUs but no gpu_type: name one of gpu_types"),
    ("nodes.1.gpus.0.type", "B", "node 'n2': no GPU type 'B' in gpu_types"),
    ("nodes.1.gpus", TWO, "node 'n2', gpus: id 'x' is given 2 times"),
    ("nodes.1.name", "n1", "node 'n1' is given 2 times: names must differ"),
    (f"{J}.profiles.1.name", "p", f"{BERT}: profile 'p' is given 2 times"),
    # one meaning
    (f"{P}.tasks", [{}], f"{PROFILE}: give either 'tasks' or 'gpus', not both"),
    ("interference.model", "net.pt", "interference: give either 'table' or 'model', not both"),
    (f"{P}.gpus", 0, f"{PROFILE}: throughput: a profile without GPUs takes one number"),
    # unknown keys, and the nearest known one
    ("job", [], "unknown key 'job'; did you mean 'jobs'?"),
    (f"{J}.prioriti", 1, f"{BERT}: unknown key 'prioriti'; did you mean 'priority'?"),
    (f"{P}.gpu_s", 1, f"{PROFILE}: unknown key 'gpu_s'; did you mean 'gpus'?"),
    ("nodes.0.lables", {}, "node 'n1': unknown key 'lables'; did you mean 'labels'?"),
    ("nodes.1.gpus.0.typ", "A", "node 'n2', gpus[0]: unknown key 'typ'; did you mean 'type'?"),
    ("policy.switch-cost", 1, "policy: unknown key 'switch-cost'; did you mean 'switch_cost'?"),
    ("interference.tables", [], "interference: unknown key 'tables'; did you mean 'table'?"),
    ("interference.table.0.slow", 1, "table[0]: unknown key 'slow'; did you mean 'slowdown'?"),
    ("gpu_types.A.residents", 1, "gpu_types.A: unknown key 'residents'; did you mean 'max_res"),
    (f"{J}.current.profil", 1, f"{BERT}, current: unknown key 'profil'; did you mean 'profile'?"),
    (f"{J}.current.tasks.0.gpu", 1, "current.tasks[0]: unknown key 'gpu'; did you mean 'gpus'?"),
    (f"{Q}.tasks.0.counts", 1, "tasks[0]: unknown key 'counts'; did you mean 'count'?"),
    ("qqqq", 1, "unknown key 'qqqq'"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "words"), RULES, ids=lambda value: str(value)[:50])
def test_rules(path: str, value: Any, words: str) -> None:
    """A broken rule is one line: file, job, profile, field, and what to do instead."""
    found = problems(changed(path, value))
    assert any(words in line for line in found), found
    assert all(line.startswith("file.json: ") and "\n" not in line for line in found)
    text = json.dumps(changed(path, value))
    if "NaN" not in text and "Infinity" not in text:
        assert any(words in line for line in problems(text))


def test_duplicate_jobs() -> None:
    """Two jobs of one name could not be told apart in a plan."""
    assert problems(data([node()], [job("x"), job("y"), job("x")])) == [
        "file.json: job 'x' is given 2 times: names must differ"
    ]


@pytest.mark.parametrize(
    "field", ["schema", "jobs.0.name", "nodes.0.name", f"{P}.name", f"{P}.throughput"]
)
def test_required_fields(field: str) -> None:
    """What cannot be guessed must be there, and the message says where."""
    raw = changed(field, None)
    *above, last = [int(step) if step.isdecimal() else step for step in field.split(".")]
    place: Any = raw
    for step in above:
        place = place[step]
    del place[last]
    (line,) = problems(raw)
    assert str(last) in line
    assert "missing: add it" in line or 'no "schema" key: add' in line


def test_all_problems_are_reported_at_once() -> None:
    """Three slips in a file cost one run, not three; none is reported twice or in other words."""
    raw = changed(f"{J}.weight", -1)
    raw["jobs"][0]["profiles"][0]["gpus"] = 0.5
    del raw["jobs"][0]["profiles"][1]
    raw["nodes"][0]["lables"] = {}
    found = problems(raw)
    assert len(found) == 3
    with pytest.raises(InputError, match=r"and 2 more; `elastico-opt validate` lists all"):
        parse_snapshot(raw)


def row(a: str, b: str, *slowdown: float | None) -> dict[str, Any]:
    return {"a": a, "b": b, "slowdown": list(slowdown)}


TABLES: list[tuple[list[dict[str, Any]], bool]] = [
    ([row("x", "y", 1, 2), row("x", "y", 1, 2)], True),
    ([row("x", "y", 1, 2), row("y", "x", 2, 1)], True),
    ([row("x", "y", 1, 2), row("y", "x", 1, 2)], False),
    ([row("x", "y", 1, 2), row("x", "y", 1, None)], False),
    ([row("x", "x", 1.5, 1.5)], True),
    ([row("x", "x", 1.5, 1)], False),
]


@pytest.mark.parametrize(("rows", "fine"), TABLES)
def test_a_pair_has_one_pair_of_slowdowns(rows: list[dict[str, Any]], fine: bool) -> None:
    """The same pair twice is harmless if both rows agree, whichever way round they are written."""
    raw = changed("interference.table", rows)
    if fine:
        parse_snapshot(raw)
    else:
        assert "'x'" in problems(raw)[0]


# ---- files and encodings -----------------------------------------------------------------------

TEXT = json.dumps({**VALID, "name": "Zürich 作业"}, ensure_ascii=False, indent=1)
ENCODINGS = {
    "utf-8": TEXT.encode(),
    "utf-8 with BOM": codecs.BOM_UTF8 + TEXT.encode(),
    "utf-16 LE": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "utf-16 BE": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    "CRLF": TEXT.replace("\n", "\r\n").encode(),
    "BOM and CRLF": codecs.BOM_UTF8 + TEXT.replace("\n", "\r\n").encode(),
    "gzip": gzip.compress(TEXT.encode()),
    "gzip of utf-16": gzip.compress(codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le")),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_files_of_every_encoding(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same snapshot from a file, from a gzip of it, and from standard input."""
    expected = parse_snapshot({**VALID, "name": "Zürich 作业"})
    path = tmp_path / "snapshot.json"  # gzip is known by its first bytes, not by the name
    path.write_bytes(ENCODINGS[name])
    assert read_snapshot(path) == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ENCODINGS[name])))
    assert read_snapshot("-") == expected


BROKEN = {
    b"": "line 1, column 1: not JSON",
    b"{": "not JSON",
    b"[]": "a snapshot is a JSON object, this is a list",
    b"null": "this is null",
    b"3": "this is a number",
    b'"x"': "this is a text",
    b"true": "this is true or false",
    b"{}": 'no "schema" key: add',
    b'{"schema": 1, "name": "a", "name": "b"}': "the key 'name' stands twice in one object",
    b"\xff": "byte 0 is not UTF-8: save the file as UTF-8",
    b'{"name": "\xe9"}': "byte 10 is not UTF-8",
    codecs.BOM_UTF16_LE + b"{": "is not UTF-16",
    b"[" * 100_000: "nested too deeply",
    b'{"a":' * 100_000: "nested too deeply",
    b'{"schema": "elastico-opt/snapshot@1", "nodes": ' + b"9" * 5000 + b"}": "file.json: ",
    b'{"schema": "elastico-opt/snapshot@1", "jobs": [{"weight": 1e999999999999999999999}]}': ": ",
    b'{"schema": "elastico-opt/snapshot@1"} x': "not JSON: Extra data",
}


@pytest.mark.parametrize("raw", BROKEN, ids=lambda raw: raw[:40].decode("latin-1"))
def test_broken_files(raw: bytes, tmp_path: Path) -> None:
    """What is no snapshot ends in one line with the file's name."""
    with pytest.raises(InputError) as caught:
        parse_snapshot(raw, source="file.json")
    line = caught.value.problems[0]
    assert line.startswith("file.json: ")
    assert BROKEN[raw] in line
    assert "\n" not in line
    assert len(line) < 300


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder, a cut gzip: the path and the reason."""
    for path, content in (("missing.json", None), ("", None), ("cut.gz", b"\x1f\x8b\x08\x00")):
        if content is not None:
            (tmp_path / path).write_bytes(content)
        with pytest.raises(InputError, match="cannot be read"):
            read_bytes(tmp_path / path)


def test_a_nan_in_the_text_names_its_place() -> None:
    """NaN is not JSON; where a quantity belongs, job and field are named."""
    text = json.dumps(changed(f"{P}.throughput", math.nan))
    assert "NaN" in text
    assert problems(text) == [
        "file.json: job 'bert', profile 'p', throughput: 'NaN' is not a number or quantity"
    ]


# ---- round trips -------------------------------------------------------------------------------


@settings(max_examples=150)
@given(snapshots())
def test_json_round_trip(found: Snapshot) -> None:
    """Written and read again a snapshot is equal, and so is its hash."""
    text = snapshot_json(found)
    again = parse_snapshot(text)
    assert again == found
    assert snapshot_json(again) == text
    assert snapshot_hash(again) == snapshot_hash(found)
    assert parse_snapshot(snapshot_json(found, indent=None).encode("utf-16")) == found


def test_opaque_data_survives() -> None:
    """Knobs and annotations are the user's: kept and written, never interpreted."""
    opaque = {"lr": Decimal("0.001"), "nested": [1, {"x": None}], "text": "é", "flag": True}
    raw = changed(f"{P}.knobs", opaque)
    again = parse_snapshot(snapshot_json(parse_snapshot(raw)))
    assert again.jobs[0].profiles[0].knobs == opaque


@pytest.mark.parametrize("number", [math.nan, math.inf, Decimal("NaN"), Decimal("-Infinity")])
def test_written_json_is_always_json(number: Any) -> None:
    """A NaN that sits in annotations is no reason to write a file nobody else can read."""
    text = snapshot_json(parse_snapshot(changed("annotations", {"x": number})))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(text, parse_constant=refuse)


def test_the_hash_sees_content_not_layout() -> None:
    """Another order of keys or another spelling of a number is the same snapshot."""
    one = parse_snapshot(VALID)
    other = parse_snapshot(json.dumps(dict(reversed(list(VALID.items()))), indent=7))
    assert snapshot_hash(one) == snapshot_hash(other)
    assert snapshot_hash(one) != snapshot_hash(one.replace(name="other"))


def test_models_can_be_built_in_python() -> None:
    """The models are the Python API: keyword arguments, tuples or lists, any number."""
    found = Snapshot(
        gpu_types={"A": {"capacity": {"memory": "80Gi"}}},
        nodes=[Node(name="n1", gpu_type="A", gpus=2)],
        jobs=[Job(name="j", profiles=[Profile(name="p", gpus=1, throughput=1.5)])],
    )
    assert parse_snapshot(found.to_dict()) == found
    assert PlacedTask(node="n1", gpus=("1", 1)).gpus == ("1", 1)


# ---- fuzz --------------------------------------------------------------------------------------

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, -1, 0, 1, 2, 10**30, -(10**30), 1.5, -0.0, math.nan, math.inf, 1e300,
     Decimal("NaN"), Decimal("1e-30"), Decimal("1E+5"), "", " ", "x", "n0", "j0", "c0", "A", "1",
     "1e400", "-1", "NaN", "1K", "24Gi", "\x00", "\ud800", "9" * 5000,
     [], [[]], [None], {}, {"": 1},
     {"A": 1}, {"x": {}}, [{}], (), {"id": "x"}, {"name": "n0"}, 10**6, 99999999999]
).map(copy.deepcopy)  # fmt: skip


def places(raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested data."""
    items = (
        raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """Valid data with one to three places replaced, deleted, doubled or given an odd key."""
    raw = copy.deepcopy(draw(snapshot_data(max_jobs=2, max_devices=2)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(sorted(places(raw), key=str) or [("schema",)]))
        place: Any = raw
        for step in path[:-1]:
            place = place[step]
        how = draw(st.sampled_from(["replace", "replace", "delete", "key", "double"]))
        if how == "delete":
            if path != ("schema",):
                del place[path[-1]]
        elif how == "double" and isinstance(place, list):
            place.append(place[path[-1]])
        elif how == "key" and isinstance(place, dict):
            place[
                draw(st.sampled_from(["x", "", "gpus", "tasks", "name", "schema", "type", "\n"]))
            ] = draw(ODD)
        else:
            place[path[-1]] = draw(ODD)
    return raw


def check_door(raw: Any) -> None:
    """A snapshot that can be written, read again and compiled, or an InputError of single lines."""
    note(repr(raw))
    try:
        found = parse_snapshot(raw)
    except InputError as error:
        for line in error.problems:
            assert line.isprintable()
            assert "pydantic" not in line
            assert "validation" not in line
        return
    assert isinstance(found, Snapshot)
    assert parse_snapshot(snapshot_json(found)) == found
    try:
        program = compile_program(found)
    except InputError:  # too many digits for 53 bits, or a model in place of a table
        return
    assert program.n_jobs == len(found.jobs)
    running = running_plan(found)
    assert set(program.from_plan(running)) <= set(range(program.n_jobs))
    with contextlib.suppress(VerificationError):
        verify(found, running)
    assert math.isfinite(evaluate(found, Plan({})).objective)


@settings(max_examples=300)
@given(mutated())
def test_mutated_data_never_crashes(raw: dict[str, Any]) -> None:
    """Whatever is wrong with the data: a Snapshot or an InputError, nothing else."""
    check_door(raw)


@pytest.mark.slow
@settings(max_examples=3000)
@given(mutated())
def test_mutated_data_never_crashes_at_length(raw: dict[str, Any]) -> None:
    """The same, on many more."""
    check_door(raw)


@settings(max_examples=150)
@given(st.data())
def test_mutated_bytes_never_crash(draws: st.DataObject) -> None:
    """Bytes cut, flipped and inserted in a valid file: a Snapshot or an InputError."""
    raw = bytearray(TEXT.encode())
    for _ in range(draws.draw(st.integers(1, 4))):
        at = draws.draw(st.integers(0, max(0, len(raw) - 1)))
        how = draws.draw(st.sampled_from(["flip", "cut", "insert", "end"]))
        if how == "flip" and raw:
            raw[at] = draws.draw(st.integers(0, 255))
        elif how == "cut":
            del raw[at : at + draws.draw(st.integers(1, 20))]
        elif how == "insert":
            raw[at:at] = draws.draw(
                st.sampled_from([b'"', b"{", b"]", b"1e999", b"NaN", b"\xff", b",", b"-"])
            )
        elif at > 10:
            del raw[at:]
    check_door(bytes(raw))


@given(st.binary(max_size=40))
@example(codecs.BOM_UTF16_LE)
@example(codecs.BOM_UTF8)
@example(b"\x1f\x8b")
def test_any_bytes_never_crash(raw: bytes) -> None:
    """Random bytes are no snapshot; the answer is an InputError."""
    with pytest.raises(InputError):
        parse_snapshot(raw)


def test_decode_and_json_report_their_source() -> None:
    """The building blocks of the door, used by importers too, name the source they were given."""
    with pytest.raises(InputError, match=r"^pods\.json: byte 1 is not UTF-8"):
        decode_text(b"a\xff", "pods.json")
    with pytest.raises(InputError, match=r"^pods\.json: line 2, column 1: not JSON"):
        parse_json("[1,\nx]", "pods.json")
    assert parse_json("[0.1, 1]", "x") == [Decimal("0.1"), 1]


def test_a_copied_profile_does_not_keep_the_task_of_the_original() -> None:
    original = Profile(name="p", gpus=1, throughput=1)
    assert original.task_list()[0].gpus == 1
    assert original.model_copy(update={"gpus": 2}).task_list()[0].gpus == 2
    assert original.replace(gpus=3).task_list()[0].gpus == 3
    assert original == Profile(name="p", gpus=1, throughput=1)
