"""``elastico-opt validate`` and ``elastico-opt schema``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elastico_opt.cli.output import check_writable, emit
from elastico_opt.errors import InputError

if TYPE_CHECKING:
    from elastico_opt.snapshot import Snapshot

#: Most notes shown as text.
_NOTES = 40


@click.command(
    short_help="List every problem of a snapshot.",
    epilog="Example: elastico-opt validate snapshot.json",
)
@click.argument("snapshot", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the report.",
)
@click.pass_context  # fmt: skip
def validate(ctx: click.Context, snapshot: Path, form: str) -> None:
    """Check SNAPSHOT (a file, or - for standard input) and list every problem.

    Exit code 0 if it can be solved, 2 if not. Notes name what is allowed but surprising, such as
    a job that fits nowhere even on the empty cluster.
    """
    from elastico_opt.reading import read_snapshot

    try:
        found = read_snapshot(snapshot)
        report = {"valid": True, "problems": [], **_account(found)}
    except InputError as error:
        report = {"valid": False, "problems": list(error.problems), "notes": [], "size": {}}
    if form == "json":
        click.echo(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        _print(str(snapshot), report)
    ctx.exit(0 if report["valid"] else 2)


def _account(snapshot: Snapshot) -> dict[str, Any]:
    """Return the size of a snapshot and the notes on it."""
    size = {
        "nodes": len(snapshot.nodes),
        "gpus": sum(len(node.devices()) for node in snapshot.nodes),
        "jobs": len(snapshot.jobs),
        "profiles": sum(len(job.profiles) for job in snapshot.jobs),
    }
    return {"notes": _notes(snapshot), "size": size}


def _notes(snapshot: Snapshot) -> list[str]:
    from elastico_opt.plan import Plan
    from elastico_opt.reasons import STATIC, explain_unplaced

    notes = []
    names = {node.name for node in snapshot.nodes}
    for job in snapshot.jobs:
        unknown = [name for name in job.eligible_nodes or () if name not in names]
        if unknown:
            notes.append(f"job '{job.name}': eligible_nodes names '{unknown[0]}', no such node")
    if snapshot.interference is not None and snapshot.interference.model is not None:
        return notes
    from elastico_opt.program import compile_program

    notes += compile_program(snapshot).warnings  # refuses numbers that no solver can hold
    for row in explain_unplaced(snapshot, Plan({})):
        if row.reason in STATIC:
            notes.append(f"job '{row.job}' cannot be placed ({row.reason}): {row.message}")
    return notes


def _print(source: str, report: dict[str, Any]) -> None:
    from elastico_opt.report import printable

    for problem in report["problems"]:
        click.echo(printable(problem))
    if report["valid"]:
        size = ", ".join(
            f"{count} {what.removesuffix('s') if count == 1 else what}"
            for what, count in report["size"].items()
        )
        click.echo(f"{source}: valid: {size}")
    else:
        count = len(report["problems"])
        click.echo(f"{source}: {count} problem{'s' if count > 1 else ''}")
    for note in report["notes"][:_NOTES]:
        click.echo(f"note: {printable(note)}")
    if len(report["notes"]) > _NOTES:
        click.echo(f"… and {len(report['notes']) - _NOTES} more notes; --format json has all")


@click.command(
    short_help="Print the JSON Schema of a snapshot or a result.",
    epilog="Example: elastico-opt schema -o snapshot.schema.json",
)
@click.option("--result", "which", flag_value="result", help="Of the result, not the snapshot.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
              help="Write to FILE instead of standard output.")  # fmt: skip
def schema(which: str | None, output: Path | None) -> None:
    """Print the JSON Schema of a snapshot, for editors and other tools."""
    check_writable(output)
    emit(json.dumps(_result() if which else _snapshot(), indent=1, ensure_ascii=False), output)


def _result() -> dict[str, Any]:
    from elastico_opt.result_schema import result_schema

    return result_schema()


def _snapshot() -> dict[str, Any]:
    from elastico_opt.snapshot import SCHEMA, Snapshot

    found = Snapshot.model_json_schema(by_alias=True)
    required = ["schema", *found.get("required", [])]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found, "title": SCHEMA, "required": required,
    }  # fmt: skip
