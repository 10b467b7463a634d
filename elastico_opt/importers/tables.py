"""CSV tables with a header: every problem names file, line, column and remedy."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from fractions import Fraction

from elastico_opt.errors import InputError
from elastico_opt.importers.base import Source, read_source
from elastico_opt.snapshot import nearest
from elastico_opt.units import parse_count, parse_quantity


class Row:
    """One line of a table; its values are read by column name."""

    __slots__ = ("_cells", "_index", "_source", "line")

    def __init__(self, cells: Sequence[str], index: dict[str, int], source: str, line: int) -> None:
        self._cells, self._index, self._source, self.line = cells, index, source, line

    def text(self, column: str) -> str:
        """Return a value without surrounding blanks; empty when the table lacks the column."""
        position = self._index.get(column)
        return "" if position is None else self._cells[position].strip()

    def name(self, column: str) -> str:
        """Return a value that must not be empty."""
        value = self.text(column)
        if not value:
            raise self.error(column, "is empty: fill it in, or remove the line")
        return value

    def quantity(self, column: str) -> Fraction:
        """Return a non-negative number, exactly as written."""
        try:
            return parse_quantity(self.name(column))
        except ValueError as error:
            raise self.error(column, f"{error}: give a number that is not negative") from None

    def count(self, column: str, empty: int | None = None) -> int:
        """Return a whole, non-negative number; `empty` (if not None) when nothing is written."""
        if empty is not None and not self.text(column):
            return empty
        try:
            return parse_count(self.name(column))
        except ValueError as error:
            raise self.error(column, f"{error}: give a whole number") from None

    def error(self, column: str, message: str) -> InputError:
        """Return the error for a value of this line."""
        return InputError(f"{self._source}: line {self.line}, column '{column}': {message}")


class Table:
    """A CSV file with a header line.

    Parameters
    ----------
    source : Source
    label : str
        The name in messages when `source` is bytes.
    required : sequence of str
        Columns that must be there. Others may be.

    Raises
    ------
    InputError
        When the text is empty, lacks a column, names one twice, or has a malformed line.
    """

    def __init__(self, source: Source, label: str, required: Sequence[str]) -> None:
        text, self.source = read_source(source, label)
        self._lines = self._read(text)
        first = next(self._lines, None)
        if first is None:
            raise InputError(
                f"{self.source}: is empty: a header with {', '.join(required)} is needed"
            )
        self._header_line, header = first
        self.columns = [cell.strip() for cell in header]
        self._index = {column: i for i, column in enumerate(self.columns) if column}
        twice = next((c for c in self._index if self.columns.count(c) > 1), None)
        if twice is not None:
            raise InputError(
                f"{self.source}: two columns are called '{twice}': rename or remove one"
            )
        self._require(required)

    def _require(self, required: Sequence[str]) -> None:
        missing = [column for column in required if column not in self._index]
        if not missing:
            return
        found = ", ".join(column for column in self.columns if column)[:200]
        hint = nearest(missing[0], list(self._index)) if len(missing) == 1 else ""
        if len(self.columns) == 1:
            hint = "; separate the columns by commas"
        raise InputError(
            f"{self.source}: line {self._header_line}: no column {', '.join(map(repr, missing))} "
            f"in the header: add it, or give another file (found: {found}){hint}"
        )

    def _read(self, text: str) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise InputError(
                    f"{self.source}: line {reader.line_num}: not CSV: {error}: repair the line"
                ) from None
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells

    def __iter__(self) -> Iterator[Row]:
        """Yield the lines below the header, once; blank lines are skipped."""
        width = len(self.columns)
        for line, cells in self._lines:
            if len(cells) < width or any(cell.strip() for cell in cells[width:]):
                raise InputError(
                    f"{self.source}: line {line}: {len(cells)} values, the header has {width} "
                    "columns: repair the line"
                )
            yield Row(cells, self._index, self.source, line)
