"""From records to Markdown tables, and into ``docs/benchmarks.md`` between its marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import baseline, core, pattern, priced, rivals

PAGE = Path(__file__).parents[1] / "docs/benchmarks.md"
_BEGIN, _END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"

Record = dict[str, Any]


def tables(records: Sequence[Record]) -> str:
    """Return every table that has rows, and what they were measured with."""
    parts = [_stamps(records)]
    for title, suite, table in _TABLES:
        rows = [record for record in records if record["suite"] == suite]
        if rows:
            parts.append(f"## {title}\n\n{table(rows)}")
    if not any(record["suite"] == baseline.SUITE for record in records):
        parts.append(f"## {baseline.TITLE}\n\nno earlier release")
    return "\n\n".join(parts)


def write(records: Sequence[Record]) -> None:
    """Put the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    if _BEGIN not in text or _END not in text:
        raise SystemExit(f"{PAGE}: the lines '{_BEGIN}' and '{_END}' are missing: add them")
    block = f"{_BEGIN}\n\n{tables(records)}\n\n{_END}"
    pattern_ = re.escape(_BEGIN) + ".*" + re.escape(_END)
    PAGE.write_text(re.sub(pattern_, lambda _: block, text, flags=re.DOTALL), encoding="utf-8")


def line(record: Record) -> str:
    """Return a record in one line, for the terminal."""
    parts = [f"{record['suite']}: {record['row']}", str(record.get("status", "done"))]
    if record.get("seconds") is not None:
        parts.append(f"{record['seconds']:.3f} s")
    if record.get("before", {}).get("seconds"):
        parts.append(f"{record['before']['seconds']:.3f} s before")
    if record.get("target"):
        parts.append(f"target {record['target']:g} s")
    for key in ("objective", "bound"):
        if record.get(key) is not None:
            parts.append(f"{key} {record[key]:.6f}")
    if record.get("gap") is not None:
        parts.append(f"gap {record['gap']:.2e}")
    for key in ("import", "read", "compile", "verify", "evaluate", "greedy", "build", "lower"):
        if key in record:
            parts.append(f"{key} {record[key]:.3f} s")
    if record.get("memory_mb"):
        parts.append(f"{record['memory_mb']} MB")
    if record.get("error"):
        parts.append(str(record["error"]))
    return ", ".join(parts)


# ---- cells -----------------------------------------------------------------------------------


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    align = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, align, *rows))


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return (
        f"{value:.0f} s"
        if value >= 100
        else f"{value:.2f} s"
        if value >= 0.095
        else f"{value:.3f} s"
    )


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _gap(value: float | None) -> str:
    return "" if value is None else "0" if value == 0 else f"{value:.1e}"


def _ratio(one: float | None, other: float | None) -> str:
    return "" if not one or not other else f"{one / other:.3g}"


def _outcome(record: Record) -> str:
    if record.get("status") in ("timeout", "failed", "skipped"):
        return str(record["status"])
    return f"{record.get('status', '')} ({record['stop']})" if "stop" in record else "optimal"


# ---- tables ----------------------------------------------------------------------------------


def _stamps(records: Sequence[Record]) -> str:
    lines = []
    for record in records:
        s = record["stamp"]
        libraries = ", ".join(f"{name} {number}" for name, number in s["libraries"].items())
        lines.append(
            f"- elastico-opt {s['version']}, commit `{s['commit']}`, {s['date']}: {s['cpu']}, "
            f"{s['cores']} cores, {s['memory_gib']} GiB, {s['system']}, Python {s['python']}, "
            f"{libraries}"
        )
    return "Measured with:\n\n" + "\n".join(dict.fromkeys(lines))


def _pattern_table(records: Sequence[Record]) -> str:
    head = ("instance", "target", "time", "outcome", "gap", "objective", "bound", "first plan",
            "compile", "solve", "check", "memory", "load", "commit")  # fmt: skip
    rows = []
    for r in records:
        target = f"{r['target']:g} s" if r.get("target") else ""
        phases = r.get("phases", {})
        rows.append((
            r["row"], f"{target}, {r['note']}" if r.get("note") else target,
            _seconds(r.get("seconds")), _outcome(r), _gap(r.get("gap")),
            _value(r.get("objective")), _value(r.get("bound")), _seconds(r.get("first_plan")),
            *(_seconds(phases.get(phase)) for phase in ("compile", "solve", "check")),
            f"{r['memory_mb']} MB" if "memory_mb" in r else "", str(r.get("load", "")),
            f"`{r['stamp']['commit']}`",
        ))  # fmt: skip
    counts = [
        (r["row"], ", ".join(f"{key} {value}" for key, value in r["statistics"].items()))
        for r in records if r.get("statistics")
    ]  # fmt: skip
    return (
        _grid(head, rows)
        + "\n\nWhat the solver counted:\n\n"
        + _grid(("instance", "counts"), counts)
    )


def _rival_table(records: Sequence[Record]) -> str:
    head = ("instance", "method", "limit", "time", "time / pattern", "outcome", "objective",
            "objective / pattern", "bound", "gap")  # fmt: skip
    ours = {r["group"]: r for r in records if r["method"] == "pattern"}
    rows = []
    for r in records:
        first = ours.get(r["group"], {})
        rows.append((
            r["group"], r["method"], _seconds(r.get("limit")), _seconds(r.get("seconds")),
            _ratio(r.get("seconds"), first.get("seconds")), _outcome(r),
            _value(r.get("objective")), _ratio(r.get("objective"), first.get("objective")),
            _value(r.get("bound")), _gap(r.get("gap")),
        ))  # fmt: skip
    return _grid(head, rows)


def _priced_tables(records: Sequence[Record]) -> str:
    tables = {
        "epochs": _epoch_table, "quality": _quality_table, "cold": _cold_table,
        "growth": _growth_table,
    }  # fmt: skip
    parts = [
        table(rows)
        for group, table in tables.items()
        if (rows := [r for r in records if r["group"] == group and "error" not in r])
    ]
    return "\n\n".join(parts)


def _epoch_table(records: Sequence[Record]) -> str:
    head = ("warm epochs", "target", "p95", "median", "worst", "compile", "solve", "check",
            "proof", "proof / p95", "median gap", "worst gap", "load")  # fmt: skip
    return _grid(head, [
        (
            r["row"].removeprefix("epochs, "), f"{1e3 * r['target']:g} ms" if r["target"] else "",
            *(_milli(r[key]) for key in ("p95", "seconds", "worst")),
            *(_milli(r["phases"][stage]) for stage in ("compile", "solve", "check")),
            _milli(r["proof"]), f"{r['ratio']:.3g}", _percent(r["median_gap"]),
            _percent(r["worst_gap"]), str(r.get("load", "")),
        )
        for r in records
    ])  # fmt: skip


def _quality_table(records: Sequence[Record]) -> str:
    head = ("instances", "target", "method", "median gap", "worst gap", "time", "time / proof",
            "proof", "not proved")  # fmt: skip
    return _grid(head, [
        (
            f"{r['seeds']} × {r['row'].removeprefix('quality, ')}", r["note"], name,
            _percent(m["median_gap"]), _percent(m["worst_gap"]), _milli(m["seconds"]),
            f"{m['ratio']:.3g}", _milli(r["proof"]), str(r["open"]),
        )
        for r in records for name, m in r["methods"].items()
    ])  # fmt: skip


def _cold_table(records: Sequence[Record]) -> str:
    head = ("cold", "target", "time", "code loaded", "objective", "bound", "gap", "memory", "load")
    return _grid(head, [
        (
            r["row"].removeprefix("cold, "), f"{r['target']:g} s, {r['note']}",
            _seconds(r["seconds"]), _seconds(r.get("loaded")), _value(r["objective"]),
            _value(r["bound"]), _gap(r["gap"]), f"{r['memory_mb']} MB", str(r.get("load", "")),
        )
        for r in records
    ])  # fmt: skip


def _growth_table(records: Sequence[Record]) -> str:
    head = ("growth", "time", "per job", "placed", "gap", "memory", "load")
    return _grid(head, [
        (
            r["row"].removeprefix("growth, "), _seconds(r["seconds"]),
            f"{1e6 * r['seconds'] / r['jobs']:.0f} µs", str(r["placed"]), _gap(r["gap"]),
            f"{r['memory_mb']} MB", str(r.get("load", "")),
        )
        for r in records
    ])  # fmt: skip


def _milli(value: float) -> str:
    return _seconds(value) if value >= 1 else f"{1e3 * value:.1f} ms"


def _percent(value: float) -> str:
    return f"{100 * value:.3f} %"


def _core_table(records: Sequence[Record]) -> str:
    stages = ("import", "read", "compile", "verify", "evaluate", "hash", "explain", "greedy")
    first = ("instance", "jobs", "GPUs", *stages, "greedy, first call", "placed", "memory")
    parts = [_grid(first, [
        (r["row"], str(r["jobs"]), str(r["gpus"]), *(_seconds(r[stage]) for stage in stages),
         _seconds(r["greedy_first"]), str(r["placed"]), f"{r['memory_mb']} MB")
        for r in records if "read" in r
    ])]  # fmt: skip
    built = [r for r in records if "build" in r]
    if built:
        head = ("joint form", "rows", "columns", "nonzeros", "build", "per nonzero", "lower",
                "per nonzero")  # fmt: skip
        parts.append(_grid(head, [
            (r["row"].removeprefix("joint, "), str(r["rows"]), str(r["columns"]),
             str(r["nonzeros"]), _seconds(r["build"]), f"{r['build_us']} µs",
             _seconds(r["lower"]), f"{r['lower_us']} µs")
            for r in built
        ]))  # fmt: skip
    return "\n\n".join(parts)


def _baseline_table(records: Sequence[Record]) -> str:
    head = ("instance", "before", "time", "objective", "gap", "now: time", "objective", "gap",
            "time now / before")  # fmt: skip
    rows = []
    for r in records:
        before, now = r.get("before", {}), r.get("now", {})
        rows.append((
            r["row"], str(before.get("version", r["status"])), _seconds(before.get("seconds")),
            _value(before.get("objective")), _gap(before.get("gap")), _seconds(now.get("seconds")),
            _value(now.get("objective")), _gap(now.get("gap")),
            _ratio(now.get("seconds"), before.get("seconds")),
        ))  # fmt: skip
    return _grid(head, rows)


_TABLES: tuple[tuple[str, str, Callable[[Sequence[Record]], str]], ...] = (
    (pattern.TITLE, pattern.SUITE, _pattern_table),
    (rivals.TITLE, rivals.SUITE, _rival_table),
    (priced.TITLE, priced.SUITE, _priced_tables),
    (core.TITLE, core.SUITE, _core_table),
    (baseline.TITLE, baseline.SUITE, _baseline_table),
)
