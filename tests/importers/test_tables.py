"""Tables as people have them: exported by a spreadsheet, cut off, in another encoding.

What can be read is read; what cannot be is named by file, line and column.
"""

from __future__ import annotations

import codecs
import gzip
from fractions import Fraction
from pathlib import Path

import pytest

from elastico_opt import InputError
from elastico_opt.importers.tables import Table

GOOD = "name,gpus,share\nn1,2,0.1\nn2,4,1\n"


def read(data: bytes | str) -> list[tuple[str, int, Fraction]]:
    raw = data.encode() if isinstance(data, str) else data
    table = Table(raw, "nodes", ["name", "gpus", "share"])
    return [(row.name("name"), row.count("gpus"), row.quantity("share")) for row in table]


WANTED = [("n1", 2, Fraction(1, 10)), ("n2", 4, Fraction(1))]


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        GOOD.encode("utf-8-sig"),
        codecs.BOM_UTF16_LE + GOOD.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + GOOD.encode("utf-16-be"),
        GOOD.replace("\n", "\r\n"),
        GOOD.removesuffix("\n"),
        "\n" + GOOD + "\n,,\n\n",
        GOOD.replace(",", " , "),
        GOOD.replace("n1", '"n1"'),
        "name,gpus,share,,\nn1,2,0.1,,\nn2,4,1,,,\n",
        "gpus,share,name\n2,0.1,n1\n4,1,n2\n",
        "other,name,gpus,share\nx,n1,2,0.1\ny,n2,4,1\n",
    ],
    ids=[
        "plain", "utf8-bom", "utf16le", "utf16be", "crlf", "no-final-newline", "blank-lines",
        "padded", "quoted", "trailing-commas", "other-order", "more-columns",
    ],
)  # fmt: skip
def test_forms_of_the_same_table(data: bytes | str) -> None:
    """The same table read differently, depending on who saved it."""
    assert read(data) == WANTED


def test_paths_and_gzip(tmp_path: Path) -> None:
    """A path is read, gzip undone, and messages name the path."""
    path = tmp_path / "nodes.csv.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    assert len(list(Table(path, "ignored", ["name"]))) == 2
    with pytest.raises(InputError, match=r"nodes\.csv\.gz: line 1: no column 'model'"):
        Table(str(path), "ignored", ["model"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "nodes: is empty: a header with name, gpus, share is needed"),
        ("\n\n", "nodes: is empty"),
        ("name,gpus\nn1,2\n", "nodes: line 1: no column 'share' in the header"),
        ("names,gpus,share\n", "(found: names, gpus, share); did you mean 'names'?"),
        ("a,b\n", "no column 'name', 'gpus', 'share' in the header: add it, or give another file"),
        ("name;gpus;share\nn1;2;1\n", "separate the columns by commas"),
        ("name,gpus,share,gpus\n", "two columns are called 'gpus'"),
        ("name,gpus,share\nn1,2\n", "nodes: line 2: 2 values, the header has 3 columns"),
        ("name,gpus,share\nn1,2,1,9\n", "nodes: line 2: 4 values"),
        ('name,gpus,share\nn1,2,1\n"n2,4,1\n', "nodes: line 3: not CSV"),
        ("name,gpus,share\n\nn1,two,1\n", "nodes: line 3, column 'gpus': 'two' is not a number"),
        ("name,gpus,share\nn1,2.5,1\n", "line 2, column 'gpus': must be a whole number"),
        ("name,gpus,share\nn1,-2,1\n", "line 2, column 'gpus': must not be negative"),
        ("name,gpus,share\nn1,2,NaN\n", "line 2, column 'share': 'NaN' is not a number"),
        ("name,gpus,share\nn1,2,1e400\n", "line 2, column 'share': '1e400' is out of range"),
        ("name,gpus,share\nn1,2,\n", "line 2, column 'share': is empty"),
        ("name,gpus,share\n ,2,1\n", "line 2, column 'name': is empty"),
        (b"name,gpus,share\nn\xff,2,1\n", "byte 17 is not UTF-8: save the file as UTF-8"),
    ],
)
def test_what_is_wrong_and_where(data: bytes | str, message: str) -> None:
    """A traceback, or an error that leaves the user to search the file."""
    with pytest.raises(InputError) as caught:
        read(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_line_numbers_count_lines_inside_quotes() -> None:
    """A quoted line break made every later message point at the wrong line."""
    with pytest.raises(InputError, match="line 4, column 'gpus'"):
        read('name,gpus,share\n"n\n1",2,1\nn2,x,1\n')
