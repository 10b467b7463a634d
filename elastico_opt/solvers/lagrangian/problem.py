"""The Lagrangian of the aggregated program as one table, for one instance or many at once.

With prices λ of *all* that each row has (a row's capacity counts as 1, its demands as shares),

    L(λ) = Σ_m λ_m + Σ_j max_c [ v_jc − Σ_m λ_m a_jcm ],    λ >= 0.

The table holds one line ``(v, −a_1, …, −a_M)`` per choice. With ``y = (1, λ_1, …, λ_M)`` the scores
are ``table @ y``; the lines picked sum up to ``s``; and with ``h = s + (0, 1, …, 1)`` the value is
``L = h · y``, and ``h_1 … h_M``, what is left of each row, is a subgradient. So value and direction
come from one λ in one pass.

``ones`` is ``(0, 1, …, 1)`` plus a margin for rounding: with u the unit roundoff, sums of n terms
are off by at most n·u times the sum of their magnitudes, and these are at most
``2 Σ_j max |v_jc| + (1 + jobs that must be placed) Σ λ``. Computed values are thus bounds as they
are, never below the true ``L(λ)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.program.arrays import Floats, Ints
from elastico_opt.solvers.lagrangian.relaxation import BARRED, Relaxation

#: How a job ranks its choices at prices λ, for repair. The bound never uses it.
Score = Literal["eq6", "eq7", "eq7-weighted"]
SCORES: tuple[Score, ...] = ("eq6", "eq7", "eq7-weighted")


@dataclass(frozen=True)
class Problem:
    """B Lagrangians of one shape; see the module.

    Attributes
    ----------
    table : (1 or B, J·C, M + 1) floats
        One line per choice; one table may serve all.
    ones : (1 or B, M + 1) floats
    bias : (1 or B, J·C) floats, or None
        Added to the scores for choosing only.
    shape : (J, C)
    """

    table: Floats
    ones: Floats
    bias: Floats | None
    shape: tuple[int, int]

    @classmethod
    def of(
        cls,
        relaxation: Relaxation,
        score: Score = "eq6",
        gamma: Floats | None = None,
        tier: int | None = None,
    ) -> Problem:
        """Write a relaxation as a problem of its own.

        Parameters
        ----------
        score : {"eq6", "eq7", "eq7-weighted"}
            With w the weight, t the throughput and Γ the interference and switching term:
            ``w·t − λ·R`` (the bound's own), ``t − λ·R − Γ``, and ``w·t − λ·R − Γ``.
        gamma : (J, C) floats, optional
            Γ per choice; any estimate will do. "eq6" has none.
        tier : int, optional
            Only the jobs of one priority are worth something; see `Relaxation.values_of`.

        Raises
        ------
        InputError
            For an unknown score, or Γ of the wrong shape.
        """
        value = relaxation.value if tier is None else relaxation.values_of(tier)
        n_jobs, n_choices = value.shape
        share = relaxation.usage / relaxation.capacity if len(relaxation.capacity) else None
        lines = np.empty((n_jobs, n_choices, 1 + len(relaxation.capacity)))
        lines[..., 0] = value
        if share is not None:
            np.negative(share, out=lines[..., 1:])
        table = lines.reshape(1, n_jobs * n_choices, lines.shape[2])
        musts = int(relaxation.program.job_must.sum())
        bias = _bias(relaxation, score, gamma)
        return cls(table, _ones(value, musts, table.shape[2]), bias, value.shape)

    @property
    def batch(self) -> int:
        """Return how many problems there are, 1 if any number could share the arrays."""
        parts = [self.table, self.ones, *([] if self.bias is None else [self.bias])]
        return max(len(part) for part in parts)

    @property
    def n_rows(self) -> int:
        """Return M."""
        return int(self.table.shape[2]) - 1

    @property
    def base(self) -> Ints:
        """Return (J,): the line before each job's first, per table."""
        return np.arange(self.shape[0]) * self.shape[1]

    def one(self, b: int) -> Problem:
        """Return one problem of the batch."""
        bias = self.bias
        return replace(
            self,
            table=self.table[_at(self.table, b)],
            ones=self.ones[_at(self.ones, b)],
            bias=None if bias is None else bias[_at(bias, b)],
        )

    def bounds(self, shares: Floats) -> Floats:
        """Return (B,): ``L(λ)`` with its margin, for (B, M) prices of whole rows, by numpy.

        Raises
        ------
        InputError
            For a negative price, or one that is not a number: it bounds nothing.
        """
        shares = np.atleast_2d(np.asarray(shares, dtype=float))
        if not (shares >= 0).all() or not np.isfinite(shares).all():
            raise InputError("prices must be finite and not negative")
        y = np.concatenate([np.ones((len(shares), 1)), shares], axis=1)
        found = np.empty(len(y))
        for b, row in enumerate(y):
            table = self.table[b if len(self.table) > 1 else 0]
            scores = table @ row
            pick = scores.reshape(self.shape).argmax(axis=1) + self.base
            h = table[pick].sum(axis=0) + self.ones[b if len(self.ones) > 1 else 0]
            found[b] = h @ row
        return found


def stack(problems: Sequence[Problem]) -> Problem:
    """Stack problems of any sizes into one batch, padded with jobs, choices and rows of nothing.

    Raises
    ------
    InputError
        When there are none.
    """
    if not problems:
        raise InputError("a batch needs at least one problem")
    n_jobs = max(p.shape[0] for p in problems)
    n_choices = max(p.shape[1] for p in problems)
    width = max(p.n_rows for p in problems) + 1
    batch = sum(p.batch for p in problems)
    table = np.zeros((batch, n_jobs, n_choices, width))
    table[..., 0] = BARRED
    table[:, :, 0, 0] = 0.0
    ones = np.ones((batch, width))
    bias = np.zeros((batch, n_jobs, n_choices))
    b = 0
    for problem in problems:
        for i in range(problem.batch):
            one, (jobs, choices) = problem.one(i), problem.shape
            table[b, :jobs, :choices, : one.n_rows + 1] = one.table.reshape(
                jobs, choices, one.n_rows + 1
            )
            ones[b, : one.n_rows + 1] = one.ones[0]
            if one.bias is not None:
                bias[b, :jobs, :choices] = one.bias.reshape(jobs, choices)
            b += 1
    return Problem(
        table.reshape(batch, n_jobs * n_choices, width),
        ones,
        None if all(p.bias is None for p in problems) else bias.reshape(batch, -1),
        (n_jobs, n_choices),
    )


def _bias(relaxation: Relaxation, score: Score, gamma: Floats | None) -> Floats | None:
    if score not in SCORES:
        raise InputError(f"score '{score}': choose one of {', '.join(SCORES)}")
    value = relaxation.value
    if gamma is not None and gamma.shape != value.shape:
        raise InputError(f"Γ must have one number per choice: shape {value.shape}")
    if score == "eq6" or (score == "eq7-weighted" and gamma is None):
        return None
    change = relaxation.unweighted - value if score == "eq7" else np.zeros(value.shape)
    if gamma is not None:
        change = change - gamma
    return np.where(value > BARRED, change, 0.0).reshape(1, -1)


def _ones(value: Floats, musts: int, width: int) -> Floats:
    """Return (1, M + 1): ones and the margin for rounding; see the module."""
    most = np.abs(np.where(value > BARRED, value, 0.0)).max(axis=1, initial=0.0).sum()
    unit = 4 * np.finfo(float).eps * (len(value) + width + 10)
    ones = np.full((1, width), 1 + unit * (1 + musts))
    ones[0, 0] = unit * most
    return ones


def _at(part: Floats, b: int) -> slice:
    at = b if len(part) > 1 else 0
    return slice(at, at + 1)
