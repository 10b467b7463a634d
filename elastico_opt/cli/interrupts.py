"""Ctrl-C once: stop and keep what is held. Twice: leave at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While active, SIGINT and SIGTERM set `cancelled`; the next one ends the process.

    Solvers run native code that Python cannot interrupt; they look at `cancelled` themselves.
    """

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.cancelled.is_set():
            show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # the live line hides it
            _write(f"{show_cursor}\nelastico-opt: aborted\n")
            os._exit(1)
        self.cancelled.set()
        _write("\nstopping: the best plan so far follows (once more to abort)\n")


def _write(text: str) -> None:
    """Write without buffers: a handler may run in the middle of another write."""
    with contextlib.suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), text.encode())
