"""``elastico-opt export``: the program as a file for other solvers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elastico_opt.cli.output import check_writable, emit, say
from elastico_opt.errors import InputError

if TYPE_CHECKING:
    from elastico_opt.program import Program


@click.group(epilog="Example: elastico-opt export mps snapshot.json -o model.mps")
def export() -> None:
    """Write the program of a snapshot as a file for other solvers."""


def _format_command(form: str, title: str) -> click.Command:
    @click.command(
        form,
        short_help=f"Write {title}.",
        help=f"Write the program of SNAPSHOT as {title}.\n\n"
        "Names in it are made safe; the name map says what each stands for. A file has one "
        "objective: with several priorities the highest, unless --priority says otherwise.",
        epilog=f"Example: elastico-opt export {form} snapshot.json -o model.{form}",
    )
    @click.argument("snapshot", type=click.Path(path_type=Path, allow_dash=True))
    @click.option(
        "--formulation",
        type=click.Choice(["joint", "pattern"]),
        default="joint",
        show_default=True,
        help="Which statement of the program; the pattern form lists every pattern.",
    )
    @click.option("--priority", type=int, help="Maximise the value of this priority.")
    @click.option(
        "--keep",
        multiple=True,
        metavar="PRIORITY=VALUE",
        help="Keep a higher priority at this value at least; may be given several times.",
    )
    @click.option(
        "--names",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Where the name map goes.  [default: the output's name + .names.json]",
    )
    @click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
                  help="Write to FILE instead of standard output.")  # fmt: skip
    def command(
        snapshot: Path, formulation: str, priority: int | None, keep: tuple[str, ...],
        names: Path | None, output: Path | None,
    ) -> None:  # fmt: skip
        _export(form, snapshot, formulation, priority, keep, names, output)

    return command


export.add_command(_format_command("mps", "an MPS file (free format)"))
export.add_command(_format_command("lp", "an LP file"))


def _export(
    form: str, path: Path, formulation: str, priority: int | None, keep: tuple[str, ...],
    names: Path | None, output: Path | None,
) -> None:  # fmt: skip
    from elastico_opt.formulations.export import lp_lines, mps_lines, named_program
    from elastico_opt.program import compile_program
    from elastico_opt.reading import read_snapshot

    if names is None and output is not None and str(output) != "-":
        names = output.with_name(output.name + ".names.json")
    check_writable(output)
    check_writable(names)
    if names is not None and output is not None and names.resolve() == output.resolve():
        raise InputError(f"--names {names}: is the output itself: name another file")
    program = compile_program(read_snapshot(path))
    tier = 0 if priority is None else _tier(program, priority)
    floors = [(_tier(program, level), value) for level, value in map(_floor, keep)]
    if len(program.priorities) > 1 and priority is None:
        say(f"note: the objective is the value of priority {program.priorities[0]} only")
    if formulation == "pattern" and _may_be_uneven(program):
        say("note: the file bounds plans: a gang's slowdown is the mean over its GPUs in it")
    named = named_program(program, formulation, tier, floors)
    lines = mps_lines(named) if form == "mps" else lp_lines(named)
    emit("\n".join(lines), output)
    if names is not None:
        emit(_json(named.name_map()), names)


def _may_be_uneven(program: Program) -> bool:
    """Whether a gang could be slowed on some of its devices more than on others."""
    return bool((program.option_workers > 1).any() and (program.excess != 0).any())


def _tier(program: Program, priority: int) -> int:
    if priority not in program.priorities:
        known = ", ".join(map(str, program.priorities)) or "none"
        raise InputError(f"no job has priority {priority}: there are {known}")
    return program.priorities.index(priority)


def _floor(text: str) -> tuple[int, float]:
    level, _, value = text.partition("=")
    try:
        if not math.isfinite(float(value)):
            raise ValueError
        return int(level), float(value)
    except ValueError:
        raise InputError(f"--keep {text}: write PRIORITY=VALUE, such as 1=12.5") from None


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)
