"""A plan: who runs which profile where. Assignments only; no values, no claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastico_opt.snapshot import Current, Job, Node, Snapshot


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """One task on one node: the ids of the devices it takes there (none for a CPU task)."""

    node: str
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """A job's profile and the places of its tasks, in the order of the profile's tasks."""

    profile: str
    tasks: tuple[TaskPlacement, ...]

    def devices(self) -> frozenset[tuple[str, str]]:
        """Return the set of (node, device id) the job holds."""
        return frozenset((task.node, gpu) for task in self.tasks for gpu in task.gpus)

    def places(self) -> tuple[frozenset[tuple[str, str]], tuple[str, ...]]:
        """Return what must stay equal for the job not to have moved.

        The set of devices, and for tasks without a device the nodes they sit on.
        """
        return self.devices(), tuple(sorted(task.node for task in self.tasks if not task.gpus))


@dataclass(frozen=True, slots=True)
class Plan(Mapping[str, Assignment]):
    """Assignments by job name; a job that is not in the plan is not placed."""

    assignments: Mapping[str, Assignment] = field(default_factory=dict)

    def __getitem__(self, job: str) -> Assignment:
        return self.assignments[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self.assignments)

    def __len__(self) -> int:
        return len(self.assignments)


def device_ids(node: Node) -> tuple[str, ...]:
    """Return the ids of a node's devices, in order."""
    if isinstance(node.gpus, int):
        return _indices(node.gpus)
    return tuple(gpu.id for gpu in node.gpus)


@lru_cache(maxsize=64)
def _indices(count: int) -> tuple[str, ...]:
    return tuple(str(index) for index in range(count))


def device_label(node: Node, gpu: str) -> int | str:
    """Return a device as the result JSON names it: an index on a plain node, else its id."""
    return int(gpu) if isinstance(node.gpus, int) else gpu


def current_assignment(current: Current, nodes: Mapping[str, Node]) -> Assignment:
    """Return what a running job holds, its devices named by id.

    A device may be given by id or by index. A node or device that is gone keeps the name it
    had, so it equals no device of the cluster.
    """
    tasks = []
    for task in current.tasks:
        ids = device_ids(nodes[task.node]) if task.node in nodes else ()
        names = []
        for gpu in task.gpus:
            by_index = isinstance(gpu, int) or (
                gpu not in ids and gpu.isdecimal() and len(gpu) < 10
            )
            index = int(gpu) if by_index else -1
            names.append(ids[index] if by_index and 0 <= index < len(ids) else str(gpu))
        tasks.append(TaskPlacement(task.node, tuple(names)))
    return Assignment(current.profile, tuple(tasks))


def running_plan(snapshot: Snapshot) -> Plan:
    """Return the plan that keeps every running job as it is (it need not be feasible)."""
    nodes = {node.name: node for node in snapshot.nodes}
    return Plan(
        {
            job.name: current_assignment(job.current, nodes)
            for job in snapshot.jobs
            if job.current is not None
        }
    )


def eligible(job: Job, node: Node) -> bool:
    """Whether the job's selector and list of nodes admit the node (cordons are apart)."""
    if job.eligible_nodes is not None and node.name not in job.eligible_nodes:
        return False
    return all(node.labels.get(label) == value for label, value in job.node_selector.items())
