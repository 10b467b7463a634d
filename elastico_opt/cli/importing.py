"""``elastico-opt import``: from files people have to a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elastico_opt.cli.output import check_writable, emit, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastico_opt.importers.base import Imported

_FILE = click.Path(path_type=Path, allow_dash=True)
_SEED = click.IntRange(0, 2**31 - 1)
_COUNT = click.IntRange(0, 1_000_000)
_output = click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
                       help="Write the snapshot to FILE (.gz compresses), not to standard "
                            "output.")  # fmt: skip


@click.group("import", epilog="Example: elastico-opt import openb nodes.csv pods.csv -o openb.json")
def import_group() -> None:
    """Make a snapshot from files of other systems.

    What was left out or assumed is told on standard error.
    """


@import_group.command(
    epilog="Example: elastico-opt import lucid --shapes single_data.csv --pairs colocate_info.csv "
    "--jobs 200 --gpus 64 --seed 1 -o lucid.json"
)
@click.option("--shapes", type=_FILE, required=True, metavar="CSV", help="single_data.csv")
@click.option("--pairs", type=_FILE, required=True, metavar="CSV", help="colocate_info.csv")
@click.option("--jobs", type=_COUNT, required=True, help="How many jobs to draw.")
@click.option("--gpus", type=_COUNT, required=True, help="How many GPUs there are.")
@click.option("--seed", type=_SEED, default=0, show_default=True, help="Which jobs are drawn.")
@click.option(
    "--residents",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Most jobs on one GPU.",
)
@click.option(
    "--gpus-per-node",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="At most; the last node takes what is left.",
)
@click.option(
    "--oversubscribe",
    metavar="RATIO",
    help="Capacity of a GPU for sm and bandwidth; by default they never bind.",
)
@_output  # fmt: skip
def lucid(output: Path | None, **options: Any) -> None:
    """Draw jobs from Lucid's measured training shapes and pairs."""
    from elastico_opt.importers.lucid import import_lucid

    _write(lambda: import_lucid(**options), output)


@import_group.command(epilog="Example: elastico-opt import openb nodes.csv pods.csv -o openb.json")
@click.argument("nodes", type=_FILE)
@click.argument("pods", type=_FILE)
@click.option("--limit", type=click.IntRange(min=0), help="Only the first so many pods.")
@click.option(
    "--phase",
    "phases",
    multiple=True,
    metavar="NAME",
    help="Only pods in this phase, such as Running; may be given several times.",
)
@_output  # fmt: skip
def openb(output: Path | None, phases: tuple[str, ...], **options: Any) -> None:
    """Read the NODES and PODS lists of Alibaba's GPU cluster trace of 2023 (openb)."""
    from elastico_opt.importers.openb import import_openb

    _write(lambda: import_openb(phases=phases or None, **options), output)


def _write(work: Callable[[], Imported], output: Path | None) -> None:
    from elastico_opt.reading import snapshot_json

    check_writable(output)
    imported = work()
    emit(snapshot_json(imported.snapshot), output)
    for warning in imported.warnings:
        say(f"warning: {warning}")
    for reason, count in imported.left_out.items():
        say(f"left out: {count} × {reason}")
    say("read: " + ", ".join(f"{count} {what}" for what, count in imported.read.items()))
