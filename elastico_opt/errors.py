"""Errors a user can cause, each with one line that names the place and the remedy."""

from __future__ import annotations

from collections.abc import Sequence


class ElasticoError(Exception):
    """Base class of every error this package raises on purpose."""


class InputError(ElasticoError):
    """Bad input: what is wrong, where, and what to do about it.

    Parameters
    ----------
    problems : sequence of str
        One line each. The first is the message; the rest are kept in ``problems``.
    """

    def __init__(self, *problems: str) -> None:
        problems = tuple(map(_one_line, problems))
        self.problems: Sequence[str] = problems
        more = len(problems) - 1
        tail = f" (and {more} more; `elastico-opt validate` lists all)" if more > 0 else ""
        super().__init__(problems[0] + tail)


def _one_line(text: str) -> str:
    """Escape line breaks and the like, which names in a message may hold."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class UnsupportedError(InputError):
    """The chosen solver or formulation cannot express this snapshot exactly."""


class VerificationError(ElasticoError):
    """A plan or a claim does not hold; ``violations`` lists every reason."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(violations))
