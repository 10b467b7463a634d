"""``python -m benchmarks``: list, run, and write down."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import baseline, core, pattern, priced, report, rivals
from benchmarks.instances import RESULTS, MissingData, make_instance
from benchmarks.machine import load_average, stamp

_PARTS = (pattern, rivals, priced, core)
_RECORDS = RESULTS / "records.jsonl"


def main() -> None:
    """Run what is asked for; finished rows are kept whatever happens to the others."""
    options = _options()
    rows = _chosen(options)
    if options.list:
        for row in rows:
            print(f"{row.suite}: {row.name}")
        return
    if options.run:
        _run(rows)
    if options.baseline is None and not options.list:
        print("baseline: no earlier release (name one with --baseline)")
    if options.write:
        report.write(_latest())
        print(f"written to {report.PAGE}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure elastico-opt. Each row runs in its own process under its own time "
        "limit; Ctrl-C keeps the rows that are finished. Records are appended to "
        f"{_RECORDS.relative_to(RESULTS.parents[1])}.",
    )
    suites = tuple(part.SUITE for part in _PARTS)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(suites)} (all)")
    parser.add_argument("-k", action="append", default=[], metavar="TEXT", dest="texts",
                        help="only rows whose name holds TEXT; may be repeated")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the rows, run nothing")
    parser.add_argument("--threads", type=int, default=1, help="threads of the solvers (1)")
    parser.add_argument("--baseline", type=Path, metavar="PATH",
                        help="an earlier release to compare with: a checkout or a virtual "
                        "environment")  # fmt: skip
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the latest record of each row into docs/benchmarks.md",
    )
    parser.add_argument("--no-run", action="store_false", dest="run",
                        help="run nothing, for --write alone")  # fmt: skip
    options = parser.parse_args()
    for suite in options.suites:
        if suite not in suites:
            parser.error(f"no suite '{suite}': choose from {', '.join(suites)}")
    return options


def _chosen(options: argparse.Namespace) -> list[Any]:
    rows: list[Any] = []
    for part in _PARTS:
        if not options.suites or part.SUITE in options.suites:
            rows += part.rows(options.threads)
    if options.baseline is not None:
        rows += baseline.rows(options.baseline)
    return [row for row in rows if not options.texts or any(t in row.name for t in options.texts)]


def _run(rows: Sequence[Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    made = stamp()
    for row in rows:
        load = load_average()
        try:
            record = _measure(row)
        except KeyboardInterrupt:
            print("interrupted: the rows above are kept")
            return
        record["load"], record["stamp"] = load, made
        with _RECORDS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(report.line(record), flush=True)


def _measure(row: Any) -> dict[str, Any]:
    if isinstance(row, baseline.Comparison):
        return row.run()
    try:
        if "instance" in row.task:
            make_instance(row.task["instance"])
    except MissingData as missing:
        return {"suite": row.suite, "row": row.name, "status": "skipped", "error": str(missing)}
    found: dict[str, Any] = row.run()
    return found


def _latest() -> list[dict[str, Any]]:
    """Return the latest record of each row, in the order of the tables."""
    if not _RECORDS.exists():
        raise SystemExit("nothing measured yet: run without --no-run first")
    found = {}
    for text in _RECORDS.read_text(encoding="utf-8").splitlines():
        record = json.loads(text)
        if record.get("status") != "skipped":
            found[record["suite"], record["row"]] = record
    order = {
        (part.SUITE, row.name): place for part in _PARTS for place, row in enumerate(part.rows(1))
    }
    return sorted(found.values(), key=lambda r: order.get((r["suite"], r["row"]), 0))


if __name__ == "__main__":
    main()
