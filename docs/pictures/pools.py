"""Draw what the pattern form counts: writes pools.svg beside this file."""

from __future__ import annotations

from pathlib import Path

WIDTH, HEIGHT = 720, 330
TEXT, FAINT, BOX = "#1f2937", "#6b7280", "#f3f4f6"
COLOURS = {"bert": "#93c5fd", "llama": "#fdba74", "speech": "#86efac", "video": "#d8b4fe"}

#: Per pool: name, and its patterns as (residents, how many devices run them).
POOLS = [
    ("pool 1: 5 devices", [(["bert/b32", "llama/kv50"], 3), (["speech/b16", "bert/b32"], 1)]),
    ("pool 2: 3 devices", [(["video/full"], 2), (["llama/kv30", "speech/b16"], 1)]),
]


def draw() -> str:
    """Return the picture as SVG text."""
    parts = [
        text(20, 30, "devices (what the joint program decides one by one)", FAINT),
        text(400, 30, "patterns (what the pattern form counts)", FAINT),
    ]
    for number, (name, patterns) in enumerate(POOLS):
        top = 56 + number * 136
        size = int(name.split()[2])
        parts.append(text(20, top, name, TEXT, 14))
        running = [residents for residents, count in patterns for _ in range(count)]
        for i in range(size):
            residents = running[i] if i < len(running) else []
            parts.append(device(20 + i * 64, top + 12, 56, residents, short=True))
        for i, (residents, count) in enumerate(patterns):
            parts.append(device(400 + i * 156, top + 12, 104, residents))
            parts.append(text(510 + i * 156, top + 54, f"× {count}", TEXT, 16))
        counts = " + ".join(str(count) for _, count in patterns)
        parts.append(text(400, top + 106, f"row of the pool: {counts} ≤ {size}", FAINT))
        parts.append(
            f'<path d="M 350 {top + 48} h 32 m -8 -6 l 8 6 l -8 6" fill="none" stroke="{FAINT}" '
            'stroke-width="2"/>'
        )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">',
            '<rect width="100%" height="100%" rx="8" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def device(x: float, y: float, width: float, residents: list[str], short: bool = False) -> str:
    """Return a device with its residents, one above the other."""
    parts = [rectangle(x, y, width, 76, BOX, FAINT)]
    for i, resident in enumerate(residents):
        job = resident.split("/")[0]
        parts.append(rectangle(x + 4, y + 4 + i * 35, width - 8, 32, COLOURS[job], "none"))
        label = job if short else resident
        parts.append(text(x + width / 2, y + 24 + i * 35, label, TEXT, 12, "middle"))
    if not residents:
        parts.append(text(x + width / 2, y + 42, "free", FAINT, 12, "middle"))
    return "\n".join(parts)


def rectangle(x: float, y: float, width: float, height: float, fill: str, edge: str) -> str:
    """Return a rounded box."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" '
        f'stroke="{edge}"/>'
    )


def text(x: float, y: float, content: str, fill: str, size: int = 13, anchor: str = "start") -> str:
    """Return a line of text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">'
        f"{content}</text>"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
