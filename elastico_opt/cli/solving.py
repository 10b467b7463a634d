"""``elastico-opt solve``."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elastico_opt.cli.interrupts import Interrupts
from elastico_opt.cli.output import check_writable, emit, say

if TYPE_CHECKING:
    from elastico_opt.result import Result

#: Exit code by status.
EXIT = {"optimal": 0, "feasible": 0, "infeasible": 3, "no_solution": 4, "error": 1}


@click.command(
    short_help="Plan a snapshot: who runs where, with a bound.",
    epilog="Example: elastico-opt solve snapshot.json --time-limit 10 -o result.json",
)
@click.argument("snapshot", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--solver",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="auto, or one of those that `elastico-opt solvers` lists.",
)
@click.option(
    "--formulation",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "joint", "pattern", "priced"]),
    help="What the solver works on; auto takes the solver's own.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Stop after this long, reading and building included. Default: no limit.",
)
@click.option(
    "--gap",
    type=click.FloatRange(min=0),
    metavar="FRACTION",
    help="Stop once the relative gap is this small (0.01 = 1 %). Default: prove it.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Random seed; with one thread and no time limit, runs repeat exactly.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Threads the solver may use.",
)
@click.option(
    "--option",
    "solver_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the solver that is named, such as bound=pattern for lagrangian; may be "
    "repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    help="Form of the result on standard output.  [default: text]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the result as JSON to FILE. Standard output then stays empty, unless "
    "--format is given as well.",
)
@click.pass_context  # fmt: skip
def solve(
    ctx: click.Context, /, snapshot: Path, form: str | None, output: Path | None, **options: Any
) -> None:
    """Solve SNAPSHOT (a file, or - for standard input): who runs where, in which profile.

    Prints the plan, its value, an upper bound on the value of any plan, and a reason for every job
    that is not placed. Every plan is checked from the snapshot before it is printed.

    Ctrl-C stops early with the best plan so far; a second Ctrl-C aborts. Exit codes: 0 a checked
    plan is held, 2 bad usage or input, 3 infeasible, 4 no solution within the limits, 1 anything
    else.
    """
    started = time.monotonic()
    if output is not None and str(output) == "-":
        output, form = None, "json"
    check_writable(output)
    options["solver_options"] = dict(_key_value(text) for text in options["solver_options"])
    result = _solve(snapshot, options, started)
    if output is not None:
        emit(result.to_json(), output)
        if sys.stderr.isatty():
            say(f"{result.status}: objective {result.objective}, bound {result.bound}: {output}")
    elif form == "json":
        emit(result.to_json(), None)
    if form == "text" or (form is None and output is None):
        _print_text(result)
    ctx.exit(EXIT[str(result.status)])


def _key_value(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE``; numbers become numbers."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"'{text}' is not KEY=VALUE", param_hint="'--option'")
    for read in (int, float):
        try:
            return key, read(value)
        except ValueError:
            continue
    return key, value


def _print_text(result: Result) -> None:
    from elastico_opt.report import write_report

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a locale without "≤" must not cost the plan
    write_report(result, sys.stdout)


def _solve(path: Path, options: dict[str, Any], started: float) -> Result:
    """Read and solve in a second thread, so that signals and progress are served meanwhile."""
    from elastico_opt.cli.progress import Progress

    with Interrupts() as interrupts, Progress(sys.stderr, started) as progress:

        def work() -> Result:
            from elastico_opt.api import choose, solve as solve_snapshot
            from elastico_opt.reading import read_snapshot

            # A wrong name is told at once.
            choose(options["solver"], options["formulation"], options["solver_options"])
            return solve_snapshot(
                read_snapshot(path), **options, on_event=progress.heard,
                cancelled=interrupts.cancelled, started=started,
            )  # fmt: skip

        return _in_thread(work, progress.refresh)


def _in_thread(work: Callable[[], Result], refresh: Callable[[], None]) -> Result:
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="solve", daemon=True).start()
    while not done.wait(0.1):
        refresh()
    if errors:
        raise errors[0]
    return results[0]
