"""Write the joint or the pattern form as an MPS or LP file, for any other solver.

Names in the file are safe (letters, digits, underscores, dots) and unique, whatever jobs and
nodes are called; a map gives back what each stands for. Every column has both its bounds written,
and the sense is always stated. A constant in the objective is a column fixed at 1, since readers
disagree about its sign elsewhere.

A file holds one objective. With several priorities, choose the tier to export; the tiers above it
can be kept at known values by ``floors``, and the others are left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elastico_opt.errors import InputError
from elastico_opt.formulations.enumeration import all_patterns
from elastico_opt.formulations.labels import label, pattern_label
from elastico_opt.formulations.layout import Layout, node_coupled
from elastico_opt.formulations.matrix import MatrixForm, Name
from elastico_opt.program import Program
from elastico_opt.program.arrays import Floats, Ints

#: Longest name written; LP readers stop at 255 characters.
MOST_CHARACTERS = 200
#: The column fixed at 1 that carries the constant of the objective.
ONE = "constant_one"
OBJECTIVE = "objective"


@dataclass(frozen=True)
class NamedForm:
    """A matrix form with one objective and safe names.

    Attributes
    ----------
    columns, rows : tuple of str
        Unique, safe for MPS and LP files.
    labels : mapping
        What each name stands for, in the user's words.
    costs : ndarray
    constant : float
    """

    form: MatrixForm
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    labels: Mapping[str, str]
    costs: Floats
    constant: float
    floors: tuple[tuple[str, Floats, float], ...] = ()

    def name_map(self) -> dict[str, Any]:
        """Return what each name stands for, as JSON data."""

        def entries(names: Sequence[str], keys: Sequence[Name]) -> dict[str, Any]:
            return {
                name: {"component": key[0], "index": _index(key[1]), "label": self.labels[name]}
                for name, key in zip(names, keys, strict=True)
            }

        return {
            "sense": "max",
            "columns": entries(self.columns, self.form.columns),
            "rows": entries(self.rows, self.form.row_names),
        }


def name_form(
    form: MatrixForm,
    tier: int = 0,
    floors: Iterable[tuple[int, float]] = (),
    program: Program | None = None,
    labelled: Callable[[Name], str] | None = None,
) -> NamedForm:
    """Choose the objective of a tier and name everything safely.

    Parameters
    ----------
    form : MatrixForm
    tier : int
        Which objective to write, 0 = highest priority.
    floors : iterable of (tier, value)
        Higher tiers whose objective shall stay at least at a value; one row each.
    program : Program, optional
        Names then hold job, profile, node and device; without it they hold indices.
    labelled : callable, optional
        Returns what a column or row stands for; by default what the joint form means by it.

    Raises
    ------
    InputError
        For a tier that does not exist.
    """
    if not 0 <= tier < max(1, form.n_tiers):
        raise InputError(f"tier {tier} does not exist: use 0 to {form.n_tiers - 1}")
    safe = _Names({ONE, OBJECTIVE})
    labels: dict[str, str] = {}

    def names(keys: Sequence[Name]) -> tuple[str, ...]:
        found = []
        for key in keys:
            text = labelled(key) if labelled is not None else label(program, key)
            found.append(safe.unique(text))
            labels[found[-1]] = text
        return tuple(found)

    return NamedForm(
        form=form,
        columns=names(form.columns),
        rows=names(form.row_names),
        labels=labels,
        costs=form.objectives[tier] if form.n_tiers else np.zeros(form.n_columns),
        constant=float(form.offsets[tier]) if form.n_tiers else 0.0,
        floors=tuple(
            (safe.unique(f"keep_tier_{t}"), form.objectives[t], least - float(form.offsets[t]))
            for t, least in floors
        ),
    )


class _Names:
    """Hands out safe names, each once."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = {name.lower() for name in taken}  # some readers ignore case

    def unique(self, text: str) -> str:
        """Return a safe name for a text, numbered if it is taken."""
        base = re.sub(r"[^A-Za-z0-9_.]+", "_", text).strip("_.")[:MOST_CHARACTERS]
        if not re.match(r"[A-Za-z]", base) or re.match(r"[eE][0-9]", base):
            base = f"n_{base}"
        name, number = base, 1
        while name.lower() in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name.lower())
        return name


def _index(index: Any) -> Any:
    return list(index) if isinstance(index, tuple) else index


def named_program(
    program: Program,
    formulation: str = "joint",
    tier: int = 0,
    floors: Iterable[tuple[int, float]] = (),
) -> NamedForm:
    """Return a formulation of a program with safe names.

    The pattern form holds every pattern. Where host resources or tasks with several devices tie
    the devices of a node together, each node is a pool of its own, so that nothing is relaxed.

    Parameters
    ----------
    program : Program
    formulation : {"joint", "pattern"}
    tier, floors
        See `name_form`.

    Raises
    ------
    InputError
        For a tier that does not exist, or more patterns than a file should have.
    UnsupportedError
        When the joint form cannot express the program.
    """
    from elastico_opt.formulations import joint, pattern
    from elastico_opt.formulations.matrix import lower

    if formulation == "joint":
        return name_form(lower(joint.build(program)), tier, floors, program)
    split = range(program.n_nodes) if node_coupled(program) else ()
    layout = Layout.build(program, split)
    patterns = all_patterns(layout)
    form = lower(pattern.build_tiers(layout, patterns))
    return name_form(
        form, tier, floors, labelled=lambda name: pattern_label(layout, patterns, name)
    )


def write_model(
    program: Program,
    path: str | Path,
    tier: int = 0,
    floors: Iterable[tuple[int, float]] = (),
    formulation: str = "joint",
) -> Path:
    """Write a formulation of a program, and the map of its names beside it.

    Parameters
    ----------
    program : Program
    path : str or Path
        Ends in ``.mps`` or ``.lp``.
    tier, floors
        See `name_form`.
    formulation : {"joint", "pattern"}

    Returns
    -------
    Path
        Of the name map: ``path`` with ``.names.json`` appended.

    Raises
    ------
    InputError
        For another ending, a tier that does not exist, or more patterns than a file should have.
    UnsupportedError
        When the joint form cannot express the program.
    """
    path = Path(path)
    writers = {".mps": mps_lines, ".lp": lp_lines}
    if path.suffix.lower() not in writers:
        raise InputError(f"{path}: a model file ends in .mps or .lp: rename it")
    named = named_program(program, formulation, tier, floors)
    names = path.with_name(path.name + ".names.json")
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(line + "\n" for line in writers[path.suffix.lower()](named))
    names.write_text(json.dumps(named.name_map(), indent=1, ensure_ascii=False), encoding="utf-8")
    return names


# ---- MPS -------------------------------------------------------------------------------


def mps_lines(named: NamedForm) -> Iterator[str]:
    """Yield the lines of a free-format MPS file."""
    form = named.form
    yield "NAME elastico_opt"
    yield "OBJSENSE"
    yield "    MAX"
    yield "ROWS"
    yield f" N {OBJECTIVE}"
    sides = [_side(lo, up) for lo, up in zip(form.row_lower, form.row_upper, strict=True)]
    for name, side in zip(named.rows, sides, strict=True):
        yield f" {side} {name}"
    for name, _, _ in named.floors:
        yield f" G {name}"
    yield "COLUMNS"
    yield from _mps_columns(named)
    yield "RHS"
    for r, (name, side) in enumerate(zip(named.rows, sides, strict=True)):
        bound = form.row_lower[r] if side == "G" else form.row_upper[r]
        if side != "N" and bound:
            yield f" RHS {name} {_number(bound)}"
    for name, _, least in named.floors:
        yield f" RHS {name} {_number(least)}"
    yield "RANGES"
    for name, side, lo, up in zip(named.rows, sides, form.row_lower, form.row_upper, strict=True):
        if side == "L" and math.isfinite(lo):
            yield f" RANGE {name} {_number(up - lo)}"
    yield "BOUNDS"
    for name, lo, up in _bounds(named):
        yield f" MI BOUND {name}" if lo == -math.inf else f" LO BOUND {name} {_number(lo)}"
        yield f" PL BOUND {name}" if up == math.inf else f" UP BOUND {name} {_number(up)}"
    yield "ENDATA"


def _mps_columns(named: NamedForm) -> Iterator[str]:
    form = named.form
    columns = form.rows.tocsc()
    within = False
    marks = 0
    for i, name in enumerate(named.columns):
        if bool(form.integer[i]) != within:
            within = not within
            marks += 1
            yield f" MARK{marks} 'MARKER' '{'INTORG' if within else 'INTEND'}'"
        yield f" {name} {OBJECTIVE} {_number(named.costs[i])}"
        for at in range(columns.indptr[i], columns.indptr[i + 1]):
            row = named.rows[columns.indices[at]]
            yield f" {name} {row} {_number(columns.data[at])}"
        for row, costs, _ in named.floors:
            if costs[i]:
                yield f" {name} {row} {_number(costs[i])}"
    if within:
        yield f" MARK{marks + 1} 'MARKER' 'INTEND'"
    if _needs_one(named):
        yield f" {ONE} {OBJECTIVE} {_number(named.constant)}"


def _side(lower: float, upper: float) -> str:
    if lower == upper:
        return "E"
    if math.isfinite(upper):
        return "L"
    return "G" if math.isfinite(lower) else "N"


# ---- LP --------------------------------------------------------------------------------


def lp_lines(named: NamedForm) -> Iterator[str]:
    """Yield the lines of an LP file."""
    form = named.form
    yield "\\ elastico_opt"
    yield "Maximize"
    used = np.flatnonzero(named.costs)
    terms = list(_terms(named.columns, used, named.costs[used]))
    if _needs_one(named):
        terms.append(f"{_signed(named.constant)} {ONE}")
    yield from _wrapped(f" {OBJECTIVE}:", terms or [f"+ 0 {_first(named)}"])
    yield "Subject To"
    for r, name in enumerate(named.rows):
        first, last = form.rows.indptr[r], form.rows.indptr[r + 1]
        body = list(
            _terms(named.columns, form.rows.indices[first:last], form.rows.data[first:last])
        )
        for suffix, side in _lp_sides(float(form.row_lower[r]), float(form.row_upper[r])):
            yield from _wrapped(f" {name}{suffix}:", [*(body or [f"+ 0 {_first(named)}"]), side])
    for name, costs, least in named.floors:
        used = np.flatnonzero(costs)
        body = list(_terms(named.columns, used, costs[used]))
        yield from _wrapped(f" {name}:", [*body, f">= {_number(least)}"])
    yield "Bounds"
    for name, lo, up in _bounds(named):
        low = "-inf" if lo == -math.inf else _number(lo)
        high = "+inf" if up == math.inf else _number(up)
        yield f" {low} <= {name} <= {high}"
    whole = [name for name, is_int in zip(named.columns, form.integer, strict=True) if is_int]
    if whole:
        yield "General"
        yield from _wrapped("", whole)
    yield "End"


def _lp_sides(lower: float, upper: float) -> list[tuple[str, str]]:
    if lower == upper:
        return [("", f"= {_number(upper)}")]
    sides = []
    if math.isfinite(upper):
        sides.append(("", f"<= {_number(upper)}"))
    if math.isfinite(lower):
        sides.append((".low" if sides else "", f">= {_number(lower)}"))
    return sides


def _terms(names: Sequence[str], columns: Ints, amounts: Floats) -> Iterator[str]:
    for i, amount in zip(columns.tolist(), amounts.tolist(), strict=True):
        yield f"{_signed(amount)} {names[i]}"


def _wrapped(head: str, parts: Sequence[str]) -> Iterator[str]:
    """Break long lines: some readers stop at 560 characters."""
    line = head
    for part in parts:
        if len(line) + len(part) > 400:
            yield line
            line = " "
        line += f" {part}"
    yield line


# ---- both ------------------------------------------------------------------------------


def _needs_one(named: NamedForm) -> bool:
    return named.constant != 0 or not named.columns


def _first(named: NamedForm) -> str:
    return named.columns[0] if named.columns else ONE


def _bounds(named: NamedForm) -> Iterator[tuple[str, float, float]]:
    form = named.form
    for name, lo, up in zip(named.columns, form.column_lower, form.column_upper, strict=True):
        yield name, float(lo), float(up)
    if _needs_one(named):
        yield ONE, 1.0, 1.0


def _number(value: float) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _signed(value: float) -> str:
    return f"- {_number(-value)}" if value < 0 else f"+ {_number(value)}"
