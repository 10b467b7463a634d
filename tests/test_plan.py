"""Plans are assignments only: names in, names out, nothing lost on the way."""

from __future__ import annotations

import pytest
from build import job, node, snapshot

from elastico_opt import Assignment, Plan, TaskPlacement
from elastico_opt.plan import (
    current_assignment,
    device_ids,
    device_label,
    eligible,
    running_plan,
)
from elastico_opt.snapshot import Current, Job, Node

PLAIN = Node(name="n1", gpu_type="G", gpus=3)
LISTED = Node(name="n2", gpu_type="G", gpus=[{"id": "b"}, {"id": "a"}, {"id": "0"}])
NODES = {"n1": PLAIN, "n2": LISTED}


def holds(node_name: str, *gpus: int | str) -> Assignment:
    current = Current(profile="p", tasks=({"node": node_name, "gpus": gpus},))
    return current_assignment(current, NODES)


def test_devices_have_ids_in_order() -> None:
    """A bare count numbers its devices; a list keeps its ids and its order."""
    assert device_ids(PLAIN) == ("0", "1", "2")
    assert device_ids(LISTED) == ("b", "a", "0")
    assert device_ids(Node(name="cpu")) == ()


def test_labels_are_what_the_result_prints() -> None:
    """An index on a plain node, the id on a node that lists ids."""
    assert device_label(PLAIN, "2") == 2
    assert device_label(LISTED, "0") == "0"


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("n1", 1, "1"),
        ("n1", "1", "1"),
        ("n2", 0, "b"),
        ("n2", 2, "0"),
        ("n2", "a", "a"),
        ("n2", "0", "0"),  # an id that looks like an index is an id
        ("n2", "1", "a"),  # no such id: an index written as text
        ("n1", 7, "7"),
        ("n2", "7", "7"),
        ("n2", "ghost", "ghost"),
        ("gone", 0, "0"),
        ("gone", "x", "x"),
        ("n1", "9" * 5000, "9" * 5000),  # more digits than Python turns into an int
        ("n1", -1, "-1"),  # not counted from the end
    ],
)
def test_running_jobs_name_devices_by_id_or_index(
    name: str, given: int | str, expected: str
) -> None:
    """`current` may use either; what is gone keeps its name and equals no device."""
    assert holds(name, given).tasks == (TaskPlacement(name, (expected,)),)


def test_a_job_holds_a_set_of_devices() -> None:
    """Which task holds which device is no difference; where CPU tasks sit is."""
    one, other = TaskPlacement("n1", ("0",)), TaskPlacement("n1", ("1",))
    cpu = TaskPlacement("n2")
    assert Assignment("p", (one, other)).places() == Assignment("p", (other, one)).places()
    assert Assignment("p", (one, cpu)).places() != Assignment("p", (one,)).places()
    assert Assignment("p", (one, cpu)).devices() == {("n1", "0")}
    assert Assignment("p", (cpu, cpu)).places()[1] == ("n2", "n2")


def test_the_running_plan_keeps_everything_as_it_is() -> None:
    """One assignment for each running job, none for those that wait."""
    held = {"profile": "p", "tasks": [{"node": "n1", "gpus": [0]}]}
    found = snapshot([node()], [job("r", current=held), job("waits")])
    assert dict(running_plan(found)) == {"r": Assignment("p", (TaskPlacement("n1", ("0",)),))}


def test_a_plan_is_a_mapping() -> None:
    """Length, iteration, membership and `get` work as for any mapping; an empty plan is false."""
    plan = Plan({"x": Assignment("p", ())})
    assert len(plan) == 1
    assert list(plan) == ["x"]
    assert "x" in plan
    assert plan.get("y") is None
    assert not Plan({})
    assert not Plan()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"node_selector": {"zone": "a"}}, True),
        ({"node_selector": {"zone": "b"}}, False),
        ({"node_selector": {"rack": "1"}}, False),  # an absent label matches nothing
        ({"node_selector": {"zone": "a", "rack": "1"}}, False),  # all must match
        ({"eligible_nodes": ["n1", "n9"]}, True),
        ({"eligible_nodes": ["n9"]}, False),
        ({"eligible_nodes": []}, False),
        ({"eligible_nodes": ["n1"], "node_selector": {"zone": "b"}}, False),  # both must hold
    ],
)
def test_eligibility(fields: dict[str, object], expected: bool) -> None:
    """A selector asks for every label, a list for membership; both together for both."""
    place = Node(name="n1", labels={"zone": "a"})
    one = Job(name="j", profiles=({"name": "p", "throughput": 1},), **fields)
    assert eligible(one, place) == expected
