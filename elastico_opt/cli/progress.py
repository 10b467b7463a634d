"""A live line on standard error: time, incumbent, bound, gap."""

from __future__ import annotations

import time
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from elastico_opt.solvers.base import Event


class Progress:
    """Shows the latest event of a solver on a terminal; silent on anything else."""

    def __init__(self, file: IO[str], started: float) -> None:
        self._file = file
        self._started = started
        self._event: Event | None = None
        self._live: Any = None

    def __enter__(self) -> Self:
        if self._file.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._file, highlight=False)
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._live is not None:
            self._live.stop()

    def heard(self, event: Event) -> None:
        """Take an event from the solver's thread."""
        self._event = event

    def refresh(self) -> None:
        """Draw the line; called from the main thread a few times a second."""
        if self._live is not None:
            from rich.text import Text

            line = progress_line(time.monotonic() - self._started, self._event)
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


def progress_line(seconds: float, event: Event | None) -> str:
    """Return the line for a moment: time, what the solver does, incumbent, bound and gap."""
    if event is None:
        return f"{seconds:7.1f} s  reading and building"
    from elastico_opt.solvers.base import relative_gap

    gap = relative_gap(event.objective, event.bound)
    parts = [
        f"{seconds:7.1f} s",
        event.phase or "solving",
        f"incumbent {_show(event.objective)}",
        f"bound {_show(event.bound)}",
        "gap –" if gap is None else f"gap {100 * gap:.3f} %",
    ]
    return "  ".join(parts)


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.8g}"
