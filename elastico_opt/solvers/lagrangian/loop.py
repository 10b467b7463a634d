"""The price loop: projected subgradient steps on the resource-priced Lagrangian.

``L(λ)`` (`elastico_opt.solvers.lagrangian.problem`) bounds every plan for every λ >= 0, and is
convex in λ. Each iteration computes it and a subgradient from one λ in one pass, keeps the least
value seen, and lets a step rule choose the next λ. Its least value is that of the linear relaxation
of the aggregated program: the prices tend to that program's duals.

The loop is array code over `elastico_opt.solvers.lagrangian.namespace`, with a leading axis for a
batch of instances or settings. What it returns as a bound was computed by numpy at the returned
prices, rounding margin included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.base import Limits
from elastico_opt.solvers.lagrangian.namespace import Array, Arrays, array_library
from elastico_opt.solvers.lagrangian.problem import Problem
from elastico_opt.solvers.lagrangian.steps import Point, Polyak, StepRule

#: Iterations between two looks at whether the bound still falls.
LOOK = 10
#: Weight of the newest choice in the averaged one, and how many choices are averaged.
NEWEST, AVERAGED = 0.1, 60
#: The default rule after a start from known prices.
WARM = Polyak(distance=0.01)


@dataclass(frozen=True)
class Loop:
    """What a run of the price loop found, per problem of the batch.

    Attributes
    ----------
    bound : (B,) floats
        Least value of L: no plan is worth more.
    shares : (B, M) floats
        The prices that prove it, each for all that its row has.
    history : (T, B) floats
        Best bound after each iteration; never rises.
    iterations : int
    problem : Problem
    picks : sequence of (B, J) ints
        The last choices, oldest first.
    """

    bound: Floats
    shares: Floats
    history: Floats
    iterations: int
    problem: Problem = field(repr=False)
    picks: Sequence[Ints] = field(repr=False)

    @cached_property
    def choice(self) -> Ints:
        """(B, J) ints: column that each job prefers by the named score (0 = stays out)."""
        return choices_at(self.problem, self.shares)

    @cached_property
    def average(self) -> Floats:
        """(B, J, C) floats: exponential average of the last choices, each job's summing to 1.

        Nearly a solution of the linear relaxation once the loop has converged.
        """
        return _average(self.picks, self.problem.shape)

    @cached_property
    def left(self) -> Floats:
        """(B, M) floats: share of each row that the average leaves over (negative: lacks)."""
        return 1.0 - used(self.problem, self.average)


def price_loop(
    problem: Problem,
    rule: StepRule | None = None,
    iterations: int = 150,
    start: Floats | None = None,
    arrays: str | Arrays = "numpy",
    tolerance: float = 1e-4,
    follow: bool = False,
    limits: Limits | None = None,
) -> Loop:
    """Improve prices step by step.

    Parameters
    ----------
    problem : Problem
        One or many; settings of one per problem in `rule` make a batch, too.
    rule : StepRule, optional
        `Polyak` if not given, with a near target where `start` is given.
    iterations : int
        At most; at least one is done.
    start : (M,) or (B, M) floats, optional
        Prices of whole rows to start from, for example those of the last epoch; 0 if not given.
    arrays : str or Arrays
        ``numpy``, ``torch``, or ``torch:<device>``.
    tolerance : float
        Stop when no bound of the batch fell by more than this share in the last iterations (0:
        do all iterations).
    follow : bool
        Let the choices by the named score drive the prices, as the paper does, instead of the
        bound's own. Then steps need not be along subgradients; bounds hold as ever.
    limits : Limits, optional
        Stop at the deadline or when cancelled.

    Returns
    -------
    Loop

    Raises
    ------
    InputError
        For negative start prices, an unknown array library, or settings of the wrong number.
    """
    library = array_library(arrays) if isinstance(arrays, str) else arrays
    rule = rule or (Polyak() if start is None else WARM)
    run = _Run(problem, rule, library, start, follow)
    history = []
    for number in range(1, max(1, iterations) + 1):
        run.iterate(number)
        history.append(run.best)
        if number % LOOK == 0 and _stalled(library, history, tolerance):
            break
        if limits is not None and limits.reached():
            break
    return run.result(history)


def _stalled(library: Arrays, history: list[Array], tolerance: float) -> bool:
    if tolerance <= 0.0 or len(history) <= 2 * LOOK:
        return False
    before, now = history[-1 - 2 * LOOK], history[-1]
    return library.all(before - now <= tolerance * abs(now))


class _Run:
    """The state of one run: prices, best values, and the choices last made."""

    def __init__(
        self,
        problem: Problem,
        rule: StepRule,
        library: Arrays,
        start: Floats | None,
        follow: bool,
    ) -> None:
        self.problem, self.rule, self.library = problem, rule, library
        self.batch = _batch(problem, rule, start)
        self.follow = follow and problem.bias is not None
        n_jobs, n_choices = problem.shape
        self.table = library.floats(problem.table)
        self.lines = self.table.reshape(-1, problem.n_rows + 1)
        self.ones = library.floats(problem.ones)
        self.bias = None if problem.bias is None else library.floats(problem.bias)
        tables = len(problem.table)
        lines = problem.base[None, :] + np.arange(tables)[:, None] * (n_jobs * n_choices)
        self.base = library.ints(lines)  # (1 or B, J)
        self.y = library.floats(_first_prices(problem, self.batch, start))
        self.best: Any = None
        self.best_y = self.y
        self.state: Any = None
        self.picks: deque[Array] = deque(maxlen=AVERAGED)

    def iterate(self, number: int) -> None:
        """Evaluate at the present prices, then move on."""
        library, (n_jobs, n_choices) = self.library, self.problem.shape
        scores = library.multiply(self.table, self.y)
        pick = library.argmax(scores.reshape(self.batch, n_jobs, n_choices))
        h = library.sum_rows(self.lines, pick + self.base) + self.ones
        value = library.dot(h, self.y)
        if self.follow:
            pick = library.argmax((scores + self.bias).reshape(self.batch, n_jobs, n_choices))
            h = library.sum_rows(self.lines, pick + self.base) + self.ones
        self.picks.append(pick)
        if self.best is None:
            self.state = self.rule.begin(library, self.batch, value)
            improved = fell = value == value
            self.best = value
        else:
            improved = value < self.best
            fell = value < self.best - 2e-4 * abs(self.best)
            self.best = library.where(improved, value, self.best)
            self.best_y = library.where(improved[:, None], self.y, self.best_y)
        point = Point(number, self.y, h, value, self.best, fell, improved)
        move = self.rule.step(library, self.state, point)
        self.y = library.maximum(self.y - move, 0.0)
        self.y[:, 0] = 1.0

    def result(self, history: list[Array]) -> Loop:
        """Certify the best prices with numpy."""
        library, problem = self.library, self.problem
        shares = np.array(library.numpy(self.best_y))[:, 1:]
        path = np.minimum.accumulate(np.stack([library.numpy(best) for best in history]))
        picks = [library.numpy(pick) for pick in self.picks]
        return Loop(problem.bounds(shares), shares, path, len(history), problem, picks)


def choices_at(problem: Problem, shares: Floats) -> Ints:
    """Return (B, J): the column each job prefers at prices of whole rows, by the named score."""
    y = np.concatenate([np.ones((len(shares), 1)), shares], axis=1)
    chosen = np.empty((len(y), problem.shape[0]), dtype=np.int64)
    for b, row in enumerate(y):
        one = problem.one(b)
        scores = one.table[0] @ row
        if one.bias is not None:
            scores = scores + one.bias[0]
        chosen[b] = scores.reshape(problem.shape).argmax(axis=1)
    return chosen


def used(problem: Problem, average: Floats) -> Floats:
    """Return (B, M): the share of each row that (B, J, C) fractions of choices use."""
    found = np.empty((len(average), problem.n_rows))
    for b, fractions in enumerate(average):
        found[b] = -(fractions.reshape(-1) @ problem.one(b).table[0, :, 1:])
    return found


def _average(picks: Sequence[Ints], shape: tuple[int, int]) -> Floats:
    """Return (B, J, C): the exponential average of choices, oldest first."""
    n_jobs, n_choices = shape
    weights = NEWEST * (1.0 - NEWEST) ** np.arange(len(picks) - 1, -1, -1.0)
    weights /= weights.sum()
    average = np.zeros((len(picks[0]), n_jobs * n_choices))
    line = np.arange(n_jobs) * n_choices
    for weight, pick in zip(weights, picks, strict=True):
        for b, chosen in enumerate(pick):
            average[b, line + chosen] += weight
    return average.reshape(len(average), n_jobs, n_choices)


def _batch(problem: Problem, rule: StepRule, start: Floats | None) -> int:
    """Return how many runs there are: of problems, of settings, of starts, all 1 or equal."""
    sizes = {problem.batch, *map(np.size, rule.parameters())}
    if start is not None and np.ndim(start) == 2:
        sizes.add(len(start))
    if len(sizes - {1}) > 1:
        raise InputError(f"a batch needs as many problems as settings, not {sorted(sizes)}")
    return max(sizes)


def _first_prices(problem: Problem, batch: int, start: Floats | None) -> Floats:
    """Return (B, M + 1): 1 and the prices of whole rows."""
    y = np.zeros((batch, problem.n_rows + 1))
    if start is not None:
        start = np.asarray(start, dtype=float)
        valid = bool((np.isfinite(start) & (start >= 0)).all())
        if start.shape[-1:] != (problem.n_rows,) or not valid:
            raise InputError(f"start prices must be {problem.n_rows} numbers, none negative")
        y[:, 1:] = start
    y[:, 0] = 1.0
    return y
