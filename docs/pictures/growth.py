"""Draw how planning time grows with the number of jobs: writes growth.svg beside this file.

It draws the latest records of ``python -m benchmarks prices -k growth``; run that first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convergence import FAINT, INCUMBENT, frame, line, text

RECORDS = Path(__file__).parents[2] / "benchmarks/results/records.jsonl"
WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 60, 40, 64


def records() -> list[dict[str, Any]]:
    """Return the latest record of each size, smallest first."""
    found = {}
    for row in RECORDS.read_text(encoding="utf-8").splitlines():
        record = json.loads(row)
        if record.get("group") == "growth" and "seconds" in record:
            found[record["jobs"]] = record
    return [found[jobs] for jobs in sorted(found)]


def draw(rows: Sequence[dict[str, Any]]) -> str:
    """Return the picture as SVG text: both axes by factors of ten."""
    jobs = [math.log10(row["jobs"]) for row in rows]
    times = [math.log10(row["seconds"]) for row in rows]
    low, high = math.floor(min(times)), math.ceil(max(times))

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - jobs[0]) / (jobs[-1] - jobs[0])

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    parts = []
    for tick in range(low, high + 1):
        parts.append(line(LEFT, y(tick), WIDTH - RIGHT, y(tick), FAINT))
        parts.append(text(LEFT - 8, y(tick) + 4, f"{10.0**tick:g} s", "end"))
    steady = times[0] + jobs[-1] - jobs[0]  # the same time per job all along
    parts.append(line(x(jobs[0]), y(times[0]), x(jobs[-1]), y(min(steady, high)), "#9ca3af"))
    points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(jobs, times, strict=True))
    parts.append(f'<polyline points="{points}" fill="none" stroke="{INCUMBENT}" stroke-width="3"/>')
    for a, b, row in zip(jobs, times, rows, strict=True):
        parts.append(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="4" fill="{INCUMBENT}"/>')
        each = 1e6 * row["seconds"] / row["jobs"]
        parts.append(text(x(a), y(b) - 12, f"{each:.0f} µs per job", "middle", 11))
        parts.append(text(x(a), HEIGHT - BOTTOM + 20, f"{row['jobs']:,}", "middle", 11))
    parts.append(text(LEFT, HEIGHT - 8, "jobs, 2.5 for each GPU; time to plan, check included"))
    parts.append(text(WIDTH - RIGHT, HEIGHT - 8, "grey: constant time per job", "end"))
    return frame(parts)


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(records()), encoding="utf-8")
