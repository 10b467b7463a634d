"""What is tried (a profile on a GPU type, where it may go) and what may be missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastico_opt.snapshot import Job, Profile, Task


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where a job may go: its devices (D,), and the nodes (N,) for tasks without devices."""

    devices: Any
    nodes: Any


@dataclass(frozen=True, slots=True)
class Group:
    """Equal tasks of a profile, in quanta."""

    task: Task
    demand: Any
    host: Any

    @property
    def count(self) -> int:
        """Return how many tasks there are."""
        return self.task.count

    @property
    def gpus(self) -> int:
        """Return how many devices each takes."""
        return self.task.gpus


@dataclass(frozen=True, slots=True)
class Option:
    """A profile on one GPU type (-1: on none)."""

    job: Job
    profile: Profile
    type: int
    groups: tuple[Group, ...]

    @property
    def tasks(self) -> int:
        """Return the number of tasks of all groups."""
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True)
class Cause:
    """What blocks: a resource of a device or host, or a rule.

    Attributes
    ----------
    kind : str
        ``gpu`` or ``host`` (a resource is short), ``gpus`` (too few free devices),
        ``residents``, ``exclusive``, ``interference``.
    resource : int
        Index of the resource, -1 for a rule.
    """

    kind: str
    resource: int = -1


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why one task of a group has no place, and where it comes closest.

    Attributes
    ----------
    node : int or None
        The nearest node; None when no node has a device the job may use.
    causes : tuple of Cause
        What is short on that node, the one that decides first.
    distance : float
        0 = fits, 1 = nothing of what it needs is there.
    largest, total : int
        Of the deciding cause: the largest free piece (among pieces where all else fits, if
        there are any), and all that is free, over the nodes the job may use.
    needs, free : int
        What the task needs of it, and what the nearest node has. Quanta, or a number of GPUs.
    """

    option: Option
    group: Group
    node: int | None
    causes: tuple[Cause, ...]
    distance: float
    needs: int
    free: int
    largest: int
    total: int
