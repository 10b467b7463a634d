"""The command line: ``elastico-opt``.

Only a command's result goes to standard output; progress and messages go to standard error.
Heavy modules are imported inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

from elastico_opt.cli.app import main

__all__ = ["main"]
