"""Step rules of the price loop: from what is left of each row to the next prices.

All work on prices of whole rows, and on a batch: parameters may be numbers or one per problem.
With ``g`` what is left of each row at prices λ (a subgradient of L), the next prices are
``max(0, λ − s·d)`` for a direction d and a step s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from elastico_opt.program.arrays import Floats
from elastico_opt.solvers.lagrangian.namespace import Array, Arrays

#: One number, or one per problem of a batch.
Parameter = float | Floats

_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Point:
    """What the loop knows at an iterate.

    Attributes
    ----------
    number : int
        Iterations so far, from 1.
    y : (B, M + 1)
        1 and the prices of whole rows.
    h : (B, M + 1)
        Something, and what is left of each row.
    value : (B,)
        L at the prices.
    best : (B,)
        Least L so far, and whether it fell just now: by a lot, and at all.
    fell, improved : (B,) booleans
    """

    number: int
    y: Array
    h: Array
    value: Array
    best: Array
    fell: Array
    improved: Array


class StepRule(Protocol):
    """A step rule; `begin` makes the state of a run."""

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the settings, each a number or one per problem of a batch."""
        ...

    def begin(self, arrays: Arrays, batch: int, first: Array) -> Any:
        """Return the state of a run; `first` is (B,), the value at prices 0 or so."""
        ...

    def step(self, arrays: Arrays, state: Any, point: Point) -> Array:
        """Return (B, M + 1) what to subtract from `point.y`; column 0 is ignored."""
        ...


@dataclass(frozen=True, slots=True)
class SquareRoot:
    """The paper's rule ``λ ← max(0, λ − (η0/√t) g)``.

    Parameters
    ----------
    eta0 : float or (B,) floats
        First step, as a share of the first value of L: prices of whole rows are of its order.
    """

    eta0: Parameter = 0.1

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the settings."""
        return (self.eta0,)

    def begin(self, arrays: Arrays, batch: int, first: Array) -> Any:
        """Scale η0."""
        return _column(arrays, self.eta0, batch) * abs(first)[:, None]

    def step(self, arrays: Arrays, state: Any, point: Point) -> Array:
        """Return ``η0/√t · g``."""
        return state / float(np.sqrt(point.number)) * point.h


@dataclass(frozen=True, slots=True)
class Polyak:
    """Polyak's step towards a moving target, along a deflected direction.

    ``d ← ψ g + (1 − ψ) d``, less the parts that would push a price of 0 down, and
    ``s = (L − (1 − δ)·best) / |d|²``. The target's distance δ shrinks by a factor whenever the best
    value did not fall by much (a relative 10⁻³·δ). Where the best value is near 0 or below, the
    first value sets the scale.

    Parameters
    ----------
    distance, shrink, deflection : float or (B,) floats
        δ at first, its factor, and ψ (1 = no deflection).

    References
    ----------
    B. T. Polyak, Minimization of unsmooth functionals, USSR Comput. Math. Math. Phys. 9 (1969).
    P. M. Camerini, L. Fratta, F. Maffioli, On improving relaxation methods by modified gradient
    techniques, Mathematical Programming Study 3 (1975): deflection.
    """

    distance: Parameter = 0.2
    shrink: Parameter = 0.9
    deflection: Parameter = 0.7

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the settings."""
        return (self.distance, self.shrink, self.deflection)

    def begin(self, arrays: Arrays, batch: int, first: Array) -> Any:
        """Set δ and ψ; there is no direction yet."""
        return {
            "distance": _column(arrays, self.distance, batch)[:, 0],
            "shrink": _column(arrays, self.shrink, batch)[:, 0],
            "deflection": _column(arrays, self.deflection, batch),
            "scale": abs(first) * 1e-3,
            "direction": None,
        }

    def step(self, arrays: Arrays, state: Any, point: Point) -> Array:
        """Return the step; shrink the target's distance where the value stalls."""
        state["distance"] = arrays.where(
            point.fell, state["distance"], state["distance"] * state["shrink"]
        )
        direction = point.h * 1.0
        direction[:, 0] = 0.0
        psi = state["deflection"]
        last = state["direction"]
        if last is not None:
            direction = psi * direction + (1.0 - psi) * last
        held = (point.y > 0.0) | (direction < 0.0)
        direction = direction * held
        length = arrays.dot(direction, direction)
        size = arrays.where(abs(point.best) > state["scale"], abs(point.best), state["scale"])
        stride = (point.value - point.best + state["distance"] * size) / (length + _TINY)
        stride = arrays.where(length > 1e-24, stride, stride * 0.0)
        move = direction * stride[:, None]
        # A price that reaches 0 forgets what brought it there, or it could not rise at once.
        state["direction"] = direction * ((point.y > move) | (direction < 0.0))
        return move


@dataclass(frozen=True, slots=True)
class Volume:
    """Barahona and Anbil's volume steps: from the best prices along averaged remainders.

    The average over the picks so far, ``h ← a·h_new + (1 − a)·h``, is what is left of each row by
    an averaged choice; it tends to a feasible one. Steps start at the best prices.

    Parameters
    ----------
    average, distance, factor : float or (B,) floats
        a; the relative distance of the target; and the first step factor, which grows by a tenth
        where the value falls and shrinks to two thirds after five steps where it does not.

    References
    ----------
    F. Barahona, R. Anbil, The volume algorithm: producing primal solutions with a subgradient
    method, Mathematical Programming 87 (2000).
    """

    average: Parameter = 0.2
    distance: Parameter = 0.05
    factor: Parameter = 1.0

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the settings."""
        return (self.average, self.distance, self.factor)

    def begin(self, arrays: Arrays, batch: int, first: Array) -> Any:
        """Start with no average and no centre."""
        return {
            "average": _column(arrays, self.average, batch),
            "distance": _column(arrays, self.distance, batch)[:, 0],
            "factor": _column(arrays, self.factor, batch)[:, 0],
            "stale": first * 0.0,
            "scale": abs(first) * 1e-3,
            "mean": None,
            "centre": None,
        }

    def step(self, arrays: Arrays, state: Any, point: Point) -> Array:
        """Return the step from the present prices to the next ones, by way of the centre."""
        a, mean, centre = state["average"], state["mean"], state["centre"]
        mean = point.h if mean is None else a * point.h + (1.0 - a) * mean
        better = point.improved[:, None]
        centre = point.y if centre is None else arrays.where(better, point.y, centre)
        stale = arrays.where(point.improved, state["stale"] * 0.0, state["stale"] + 1.0)
        factor = arrays.where(point.improved, state["factor"] * 1.1, state["factor"])
        factor = arrays.where(stale >= 5.0, factor * 0.66, arrays.where(factor > 2, 2.0, factor))
        stale = arrays.where(stale >= 5.0, stale * 0.0, stale)
        state.update(mean=mean, centre=centre, stale=stale, factor=factor)
        direction = mean * ((centre > 0.0) | (mean < 0.0))
        direction[:, 0] = 0.0
        length = arrays.dot(direction, direction)
        size = arrays.where(abs(point.best) > state["scale"], abs(point.best), state["scale"])
        stride = factor * state["distance"] * size / (length + _TINY)
        stride = arrays.where(length > 1e-24, stride, stride * 0.0)
        return point.y - centre + direction * stride[:, None]


def _column(arrays: Arrays, parameter: Parameter, batch: int) -> Array:
    """Return a parameter as a (B, 1) array."""
    return arrays.floats(np.broadcast_to(np.asarray(parameter, dtype=float), (batch,)).copy())[
        :, None
    ]


__all__ = ["Parameter", "Point", "Polyak", "SquareRoot", "StepRule", "Volume"]
