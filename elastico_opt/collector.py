"""A pause for the cyclic garbage collector while large structures are built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector, where it runs.

    Reading a snapshot makes hundreds of thousands of objects that stay, without any cycle;
    walking them again and again took up to half of the time.
    """
    was_running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_running:
            gc.enable()
