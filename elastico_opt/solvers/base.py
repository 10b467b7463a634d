"""What every solver is: the same call, the same limits, the same kind of answer."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from elastico_opt.plan import Plan
    from elastico_opt.program import Program

#: ``optimal`` needs bound - objective <= TOLERANCE * max(1, |objective|).
TOLERANCE = 1e-6


class Capability(StrEnum):
    """What a solver can do; the conformance suite tests what a solver claims."""

    EXACT = "exact"  # proves optima when given time
    BOUND = "bound"  # returns valid upper bounds
    ANYTIME = "anytime"  # holds a verified plan when stopped early
    WARM_START = "warm_start"  # uses a start plan
    TIERS = "tiers"  # several priorities, lexicographically
    GANG = "gang"  # profiles with several tasks or devices
    HOST = "host"  # host resources
    RUNNING = "running"  # switch, move and eviction costs
    THROUGHPUT = "throughput"  # throughput coupling, any number of residents


class Stop(StrEnum):
    """Why a solve ended."""

    PROVED = "proved"
    INFEASIBLE = "infeasible"
    GAP_LIMIT = "gap_limit"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    CONVERGED = "converged"
    INTERRUPTED = "interrupted"
    MEMORY_LIMIT = "memory_limit"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of progress.

    Attributes
    ----------
    time : float
        Seconds since the solve began.
    objective, bound : float or None
        Best so far; None while there is none.
    phase : str
        What the solver is doing, in a word or two.
    """

    time: float
    objective: float | None
    bound: float | None
    phase: str = ""


Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop, and how to be reproducible.

    Attributes
    ----------
    deadline : float
        ``time.monotonic()`` value not to pass; infinity for none.
    gap : float
        Relative gap at which the caller is content (0 = prove).
    seed, threads : int
        Passed on to the solver.
    cancelled : threading.Event
        Set by the caller to interrupt; the solver returns what it holds.
    """

    deadline: float = math.inf
    gap: float = 0.0
    seed: int = 0
    threads: int = 1
    cancelled: threading.Event = field(default_factory=threading.Event)

    def remaining(self) -> float:
        """Return the seconds left, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def reached(self) -> Stop | None:
        """Return why the solver should stop now, or None."""
        if self.cancelled.is_set():
            return Stop.INTERRUPTED
        return Stop.TIME_LIMIT if self.remaining() <= 0 else None


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one unit of a resource of a pool, and where it comes from."""

    pool: str
    resource: str
    price: float
    unit: str
    origin: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a solver hands back, before the independent check.

    Attributes
    ----------
    plan : Plan or None
        The incumbent.
    tier_bounds : sequence of float or None
        One upper bound per priority tier, highest first, each valid given that the tiers above
        are at least as good as in `plan`; None where there is none.
    stop : Stop
        Why the solve ended. ``INFEASIBLE`` claims a proof that no plan exists.
    detail : str
        More on `stop`, for people.
    relaxations : dict
        Bounds by the relaxation that gave them: ``price``, ``aggregate``, ``pattern``.
    """

    plan: Plan | None
    tier_bounds: Sequence[float | None]
    stop: Stop
    detail: str = ""
    prices: Sequence[Price] = ()
    relaxations: Mapping[str, float] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)

    @property
    def bound(self) -> float | None:
        """Upper bound on the value of the lexicographic optimum."""
        bounds = [bound for bound in self.tier_bounds if bound is not None]
        return math.fsum(bounds) if len(bounds) == len(self.tier_bounds) else None


class Solver(Protocol):
    """A back end. Subclassing is not needed; the shape is."""

    name: ClassVar[str]
    formulation: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]]

    def available(self) -> bool:
        """Whether what the solver needs is installed."""
        ...

    def solve(
        self,
        program: Program,
        limits: Limits,
        start: Plan | None = None,
        on_event: Listener | None = None,
    ) -> Outcome:
        """Solve the program; never raise for a limit, an interrupt or infeasibility.

        Raises
        ------
        UnsupportedError
            When the program has a feature the solver cannot express.
        """
        ...


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """Return ``|bound - objective| / max(|bound|, |objective|)``: 0 if equal, None if undefined."""
    if objective is None or bound is None:
        return None
    if bound == objective:
        return 0.0
    return abs(bound - objective) / max(abs(bound), abs(objective))
