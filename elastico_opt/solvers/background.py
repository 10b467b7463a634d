"""Run a solver in a thread of its own, so that limits and Ctrl-C always reach the caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from elastico_opt.solvers.base import Limits

#: Seconds that a solver told to stop may take to do so before it is left behind.
GRACE = 2.0
_TICK = 0.02


def run_watched(
    work: Callable[[], None],
    stop: Callable[[], None],
    limits: Limits,
    on_tick: Callable[[], None] | None = None,
) -> bool:
    """Run `work` in a thread and call `stop` once a limit is reached.

    Parameters
    ----------
    work : callable
        Blocks outside Python; its exceptions are raised here.
    stop : callable
        Asks the work to end soon; called from the caller's thread.
    limits : Limits
    on_tick : callable, optional
        Called now and then in the caller's thread.

    Returns
    -------
    bool
        Whether the work has ended. If not, it was left behind `GRACE` seconds after it was
        told to stop: what it writes to must not be read any more.
    """
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="elastico-solver")
    told: float | None = None
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_TICK)
            if on_tick is not None:
                on_tick()
            if told is None and limits.reached():
                stop()
                told = time.monotonic()
            if told is not None and thread.is_alive() and time.monotonic() - told > GRACE:
                return False
    except BaseException:
        stop()
        raise
    if failure:
        raise failure[0]
    return True
