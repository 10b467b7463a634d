"""The group of commands, and how errors leave the program."""

from __future__ import annotations

import errno
import logging
import os
import sys
from typing import Any

import click

from elastico_opt import __version__
from elastico_opt.cli.checking import schema, validate
from elastico_opt.cli.exporting import export
from elastico_opt.cli.generating import generate
from elastico_opt.cli.importing import import_group
from elastico_opt.cli.listing import solvers
from elastico_opt.cli.solving import solve
from elastico_opt.errors import InputError, VerificationError

#: Exit codes besides those of `solve`: bad usage or bad input, and anything else.
BAD_INPUT, FAILED = 2, 1


class _Commands(click.Group):
    """Turns every error into one line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        _open_streams()
        try:
            return super().invoke(ctx)
        except InputError as error:
            fail(str(error), BAD_INPUT)
        except VerificationError as error:
            fail(f"the check failed, this is a bug, please report it: {error}", FAILED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click ends quietly when the reader has gone
            fail(f"{error.filename or 'input/output'}: {error.strerror or error}", FAILED)
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            kind = type(error).__name__
            fail(f"unexpected {kind}: {error} (elastico-opt --debug … shows where)", FAILED)


def _open_streams() -> None:
    """Let a stream that the caller closed be empty, or lead nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def fail(message: str, code: int) -> None:
    """Write one line to standard error and leave."""
    from elastico_opt.report import printable

    click.echo(f"elastico-opt: {printable(' '.join(message.splitlines()))}", err=True)
    sys.exit(code)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: elastico-opt solve snapshot.json --time-limit 10",
)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Write log messages to standard error.")
@click.option("--debug", is_flag=True, help="As --verbose, with tracebacks of unexpected errors.")
def main(verbose: bool, debug: bool) -> None:
    """Plan which jobs run where on a GPU cluster, and in which configuration, with a proven bound.

    Exit codes: 0 a checked plan is held, 2 bad usage or input, 3 infeasible, 4 no solution within
    the limits, 1 anything else.
    """
    logging.getLogger("elastico_opt").addHandler(logging.NullHandler())
    if verbose or debug:
        level = logging.DEBUG if debug else logging.INFO
        logging.basicConfig(
            level=level, stream=sys.stderr, format="%(relativeCreated)7.0f ms %(name)s: %(message)s"
        )


for _command in (
    solve, validate, schema, generate, import_group, export, solvers,
):  # fmt: skip
    main.add_command(_command)
