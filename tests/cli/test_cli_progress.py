"""The live line, and what Ctrl-C does."""

from __future__ import annotations

import io
import os
import signal
import threading
import time

import pytest

from elastico_opt.cli.interrupts import Interrupts
from elastico_opt.cli.progress import Progress, progress_line
from elastico_opt.solvers.base import Event


@pytest.mark.parametrize(("event", "parts"), [
    (None, ["1.5 s", "reading and building"]),
    (Event(0, None, None, "root"), ["root", "incumbent –", "bound –", "gap –"]),
    (Event(0, 477.3442, 477.3525), ["solving", "incumbent 477.3442", "bound 477.3525", "0.002 %"]),
])  # fmt: skip
def test_the_line(event: Event | None, parts: list[str]) -> None:
    line = progress_line(1.5, event)
    assert all(part in line for part in parts)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_shown_on_a_terminal_only() -> None:
    """Redirected, standard error stays quiet."""
    for file, quiet in ((Terminal(), False), (io.StringIO(), True)):
        with Progress(file, time.monotonic()) as progress:
            progress.heard(Event(0, 3.0, 4.0, "search"))
            progress.refresh()
        assert (file.getvalue() == "") is quiet
        assert ("incumbent 3" in file.getvalue()) is not quiet


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_the_event(number: int, capfd: pytest.CaptureFixture[str]) -> None:
    """The first signal asks the solver to stop; the handlers before it come back."""
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert not interrupts.cancelled.is_set()
        os.kill(os.getpid(), number)
        assert interrupts.cancelled.wait(5)
    assert signal.getsignal(number) is before
    assert capfd.readouterr().out == ""


def test_in_another_thread_signals_are_left_alone() -> None:
    """A caller's thread cannot install handlers; that is no reason to fail."""
    errors = []

    def body() -> None:
        try:
            with Interrupts():
                pass
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert errors == []
