"""A result for people: every number with its unit and its meaning beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from elastico_opt.result import Result, Status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Rows shown of each table; JSON has them all.
ROWS = 40

_STATUS = {
    Status.OPTIMAL: "optimal: a checked plan, and no other is worth more",
    Status.FEASIBLE: "feasible: a checked plan; a better one may exist, but none above the bound",
    Status.NO_SOLUTION: "no solution: none was found within the limits; one may exist",
    Status.INFEASIBLE: "infeasible: not every job that must be placed can be",
    Status.ERROR: "error: the solver failed",
}
_STOP = {
    "proved": "the optimum was proved",
    "infeasible": "infeasibility was proved",
    "gap_limit": "the gap that was asked for was reached",
    "time_limit": "the time limit was reached",
    "iteration_limit": "the iteration limit was reached",
    "converged": "the solver could not improve further",
    "interrupted": "it was interrupted",
    "memory_limit": "the memory limit was reached",
    "error": "the solver failed",
}
_TERMS = {
    "throughput": "what the placed jobs would be worth if nothing disturbed them",
    "interference": "lost because jobs on one GPU slow each other down",
    "switching": "cost of running jobs that change their profile",
    "migration": "cost of running jobs that change their devices",
    "eviction": "cost of running jobs that are not placed",
}
_GAPS = {
    "price_gap": "prices that have not settled",
    "relaxation_gap": "packing and interference that pools do not see",
    "plan_gap": "what a better plan could still gain, at most",
}
_OBJECTIVE = {
    "normalised": "1 = one job of weight 1 at its best speed",
    "throughput": "weight × throughput, in the jobs' own units per second",
}


def write_report(result: Result, file: IO[str], width: int | None = None) -> None:
    """Write a result as text.

    Parameters
    ----------
    file : text stream
        Colours are used if it is a terminal.
    width : int, optional
        Columns. By default those of the terminal, or as many as the tables need.
    """
    console = _console(file, width)
    snapshot = result.provenance.get("snapshot", "snapshot")
    console.print(f"[bold]{_safe(snapshot)}[/]: {_STATUS[result.status]}")
    console.print(f"  stopped because {_STOP.get(result.stop, _safe(result.stop))}")
    console.print(f"  {_by(result)}\n")
    _numbers(console, result)
    _tiers(console, result)
    if result.infeasibility is not None:
        console.print(f"\n{_safe(result.infeasibility.message)}")
    _placements(console, result)
    _unplaced(console, result)
    _prices(console, result)
    for line in _notes(result):
        console.print(f"note: {_safe(line)}")


def _by(result: Result) -> str:
    seconds = result.timing.get("total")
    took = "" if seconds is None else f" in {seconds:.3g} s"
    if result.solver == "none":
        return f"there was nothing to search{took}"
    return f"by solver {_safe(result.solver)} on the {_safe(result.formulation)} formulation{took}"


# ---- the parts -----------------------------------------------------------------------------


def _numbers(console: Console, result: Result) -> None:
    table = _grid()
    policy = result.provenance.get("policy", {})
    unit = _OBJECTIVE.get(policy.get("objective"), "in the units of the policy")
    table.add_row("objective", _number(result.objective), f"value of the plan; {unit}")
    for term, value in result.terms.items():
        if value or term == "throughput":
            table.add_row(f"  {term}", _number(value), _TERMS.get(term, ""))
    table.add_row("bound", _number(result.bound), "no plan is worth more (same unit)")
    gap = "none" if result.gap is None else f"{100 * result.gap:.4g} %"
    table.add_row("gap", gap, "|bound − objective| / max(|bound|, |objective|)")
    _split(table, result)
    console.print(table)


def _split(table: Table, result: Result) -> None:
    """Add the parts of the gap that are known."""
    split = result.gap_split
    for part, meaning in _GAPS.items():
        value = getattr(split, part, None)
        if value is not None:
            table.add_row(f"  {part.replace('_', ' ')}", _number(value), meaning)


def _tiers(console: Console, result: Result) -> None:
    if len(result.tiers) < 2:
        return
    _table(
        console, "Priorities, highest first (a lower one never costs a higher one anything)",
        [("priority", "level"), ("objective", "value"), ("bound", "value, given those above")],
        [(str(t.priority), _number(t.objective), _number(t.bound)) for t in result.tiers],
        right={0, 1, 2},
    )  # fmt: skip


def _placements(console: Console, result: Result) -> None:
    if not result.status.has_plan:
        return
    total = len(result.placements) + len(result.unplaced)
    rows = [
        (
            p.job, p.profile, _places(p.tasks), f"{p.throughput:.6g}", f"{p.slowdown:.4g}",
            f"{p.value:.6g}",
        )
        for p in result.placements[:ROWS]
    ]  # fmt: skip
    _table(
        console, f"Placed: {len(result.placements)} of {total} jobs",
        [("job", "name"), ("profile", "name"), ("devices", "node: GPU ids"),
         ("throughput", "job's unit/s"), ("slowdown", "× alone"), ("value", "of objective")],
        rows, right={3, 4, 5}, total=len(result.placements),
    )  # fmt: skip


def _unplaced(console: Console, result: Result) -> None:
    if not result.unplaced:
        return
    counts = Counter(row.reason for row in result.unplaced).most_common()
    plural = "s" if len(result.unplaced) != 1 else ""
    summary = ", ".join(f"{count} × {reason}" for reason, count in counts)
    _table(
        console, f"Not placed: {len(result.unplaced)} job{plural} ({summary})",
        [("job", "name"), ("reason", "code"), ("what is missing", "units of the snapshot")],
        [(row.job, row.reason, row.message) for row in result.unplaced[:ROWS]],
        total=len(result.unplaced),
    )  # fmt: skip


def _prices(console: Console, result: Result) -> None:
    if not result.prices:
        return
    _table(
        console, "Prices: duals of the relaxation over pools (a guess at what more is worth)",
        [("pool", "name"), ("resource", "name"), ("price", "objective per unit"),
         ("unit", "one unit is"), ("origin", "model")],
        [(p.pool, p.resource, f"{p.price:.6g}", p.unit, p.origin) for p in result.prices[:ROWS]],
        right={2}, total=len(result.prices),
    )  # fmt: skip


def _notes(result: Result) -> Iterable[str]:
    yield from result.warnings
    if result.missing_pairs:
        plural = "s" if result.missing_pairs > 1 else ""
        yield (
            f"the interference table lacks {result.missing_pairs} pair{plural} of workloads; "
            "the snapshot's default decided for them"
        )


def _places(tasks: Sequence[object]) -> str:
    """Write ``n1: 0 1, n2: 3``; equal CPU tasks of one node are counted."""
    counted: Mapping[str, int] = Counter(_place(task) for task in tasks)
    return ", ".join(text if n == 1 else f"{n} × {text}" for text, n in counted.items())


def _place(task: object) -> str:
    node, gpus = getattr(task, "node", ""), getattr(task, "gpus", ())
    return f"{node}: {' '.join(map(str, gpus))}" if gpus else f"{node}: CPU"


# ---- drawing -------------------------------------------------------------------------------


def _console(file: IO[str], width: int | None) -> Console:
    import os

    from rich.console import Console

    is_terminal = file.isatty()
    if width is None and not is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        width = 160
    return Console(file=file, width=width, highlight=False, soft_wrap=False, emoji=False)


def _grid() -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _table(
    console: Console, title: str, columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[str]], right: frozenset[int] | set[int] = frozenset(),
    total: int | None = None,
) -> None:  # fmt: skip
    """Print a table whose header holds each column's name and, below it, its unit."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    console.print(f"\n{_safe(title)}")
    if not rows:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, (name, unit) in enumerate(columns):
        justify = "right" if index in right else "left"
        table.add_column(Text(f"{name}\n[{unit}]"), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
    if total is not None and total > len(rows):
        console.print(f"… and {total - len(rows)} more; --format json has all")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.9g}"


def _safe(text: object) -> str:
    from rich.markup import escape

    return escape(printable(str(text)))


def printable(text: str) -> str:
    """Write control characters as escapes: names are any text, and terminals obey some."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
