"""Draw how bound and incumbent of a solve meet: writes convergence.svg beside this file.

Run it from anywhere: ``python docs/pictures/convergence.py``. The picture is by step, not by time,
so it looks alike on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import elastico_opt as eo
from elastico_opt.solvers.base import Event

JOBS, GPUS, SEED = 200, 64, 1
WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 24, 64
BOUND, INCUMBENT, TEXT, FAINT = "#c2410c", "#1d4ed8", "#1f2937", "#d1d5db"


def steps() -> tuple[list[Event], eo.Result]:
    """Return the events of a solve that changed something, and its result."""
    snapshot = eo.generate("lucidlike", jobs=JOBS, gpus=GPUS, seed=SEED)
    events: list[Event] = []
    result = eo.solve(snapshot, solver="pattern", on_event=events.append)
    changed = [
        event
        for before, event in zip([None, *events], events, strict=False)
        if before is None or (event.objective, event.bound) != (before.objective, before.bound)
    ]
    return [event for event in changed if event.bound and event.objective], result


def draw(events: Sequence[Event], result: eo.Result) -> str:
    """Return the picture as SVG text."""
    values = [v for event in events for v in (event.objective, event.bound)]
    low, high = min(values), max(values)
    low, high = low - 0.08 * (high - low), high + 0.04 * (high - low)
    across = (WIDTH - LEFT - RIGHT) / len(events)

    def x(step: float) -> float:
        return LEFT + across * step

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    def stairs(name: str) -> str:
        points = []
        for i, event in enumerate(events):
            height = y(getattr(event, name))
            points += [f"{x(i):.1f},{height:.1f}", f"{x(i + 1):.1f},{height:.1f}"]
        return " ".join(points)

    parts = []
    for tick in ticks(low, high):
        parts.append(line(LEFT, y(tick), WIDTH - RIGHT, y(tick), FAINT))
        parts.append(text(LEFT - 8, y(tick) + 4, f"{tick:g}", "end"))
    for i, event in enumerate(events):
        middle = x(i + 0.5)
        gap = 100 * (event.bound - event.objective) / event.bound
        parts.append(text(middle, HEIGHT - BOTTOM + 20, event.phase, "middle", 11))
        parts.append(text(middle, HEIGHT - BOTTOM + 36, shown(gap), "middle", 11))
    parts.append(text(LEFT, HEIGHT - 8, "gap after each step, in the order in which they ran"))
    for name, colour in (("bound", BOUND), ("objective", INCUMBENT)):
        parts.append(
            f'<polyline points="{stairs(name)}" fill="none" stroke="{colour}" stroke-width="3"/>'
        )
    parts.append(text(x(1.1), y(events[1].bound) - 8, "bound: no plan is worth more", fill=BOUND))
    best = "incumbent: the best checked plan"
    parts.append(text(x(0.1), y(events[0].objective) - 8, best, fill=INCUMBENT))
    title = f"{JOBS} jobs on {GPUS} GPUs: {result.status}, {result.objective:.5f}"
    parts.append(text(WIDTH - RIGHT, HEIGHT - 8, title, "end"))
    return frame(parts)


def shown(gap: float) -> str:
    """Return a gap in percent; what rounding leaves is nothing."""
    return f"{gap:.2g} %" if gap > 1e-9 else "0 %"


def ticks(low: float, high: float) -> list[float]:
    """Return four to eight round numbers between two values."""
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500) if (high - low) / s <= 8)
    first = int(low // step + 1)
    return [step * i for i in range(first, int(high // step) + 1)]


def line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    """Return a thin line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def text(
    x: float, y: float, content: str, anchor: str = "start", size: int = 12, fill: str = TEXT
) -> str:
    """Return a line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="{fill}">{content}</text>'
    )


def frame(parts: Sequence[str]) -> str:
    """Return a whole SVG file; the ground is white, so it can be read on a dark page."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">',
            '<rect width="100%" height="100%" rx="8" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    events, result = steps()
    Path(__file__).with_suffix(".svg").write_text(draw(events, result), encoding="utf-8")
