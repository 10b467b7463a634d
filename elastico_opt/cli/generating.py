"""``elastico-opt generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elastico_opt.cli.output import check_writable, emit

_COUNT = click.IntRange(0, 1_000_000)
_SHARE = "SHARE"


@click.command(
    short_help="Write a random snapshot, the same for the same seed.",
    epilog="Example: elastico-opt generate --jobs 40 --gpus 16 --seed 3 -o snapshot.json",
)
@click.option(
    "--family",
    default="mixed",
    show_default=True,
    metavar="NAME",
    help="lucidlike, gangs, mixed, identical or triples. Dials left out stand where the "
    "family has them.",
)
@click.option("--jobs", type=_COUNT, default=20, show_default=True)
@click.option("--gpus", type=_COUNT, default=8, show_default=True)
@click.option("--gpus-per-node", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--profiles", type=click.IntRange(min=1), help="Profiles per job.")
@click.option("--residents", type=click.IntRange(min=1), help="Most jobs on one GPU.")
@click.option("--types", type=click.IntRange(min=1), help="GPU types.")
@click.option("--tiers", type=click.IntRange(min=1), help="Priorities.")
@click.option("--load", metavar="RATIO", help="Demand over capacity (1.5 = half too much).")
@click.option("--heterogeneity", metavar=_SHARE, help="How unlike jobs and GPU types are, 0 to 1.")
@click.option("--interference", metavar=_SHARE, help="Pairs that slow each other down, 0 to 1.")
@click.option("--running", metavar=_SHARE, help="Jobs that run already, 0 to 1.")
@click.option("--gangs", metavar=_SHARE, help="Jobs on several GPUs, 0 to 1.")
@click.option("--host/--no-host", default=None, help="Whether CPU cores and memory are limited.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True)
@click.option("--name", help="Name of the snapshot.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
              help="Write to FILE (.gz compresses) instead of standard output.")  # fmt: skip
def generate(output: Path | None, **dials: Any) -> None:
    """Write a random snapshot; the same options and seed give the same one, everywhere."""
    from elastico_opt.instances.generate import generate as generate_snapshot
    from elastico_opt.reading import snapshot_json

    check_writable(output)
    emit(snapshot_json(generate_snapshot(**dials)), output)
