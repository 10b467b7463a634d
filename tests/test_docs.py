"""Every example in README.md and docs/ runs, and prints what its page says it prints.

A page is run from top to bottom, as a reader would, in an empty folder that holds
`instances/data` as the repository does.

* Python blocks of a page share their names. A block of `>>>` lines is compared with its output.
* In console blocks, the lines `$ elastico-opt ...` are run. Lines below one, if any, are what it
  must print; `...` stands for anything, and how many seconds something took is not compared.
  `$ echo $?` below it says the exit code, if that is not 0, and then lines on standard error
  count, too.
* A block with a `:caption:` is a file that the reader is told to save under that name.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from elastico_opt import reasons
from elastico_opt.instances.families import FAMILIES
from elastico_opt.instances.library import best_known

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(?P<kind>[^\n`]+)\n(?P<body>.*?)^\1```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"\A:caption: (\S+)\n\n")
COMMAND = re.compile(r"(?:.*\\\n)*.*\n")
SECONDS = re.compile(r"\b[0-9.e+-]+ s\b")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (lines above the body, kind, body) of each fenced block."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield text.count("\n", 0, match.start("body")), match["kind"], dedent(match["body"])


def run_python(body: str, names: dict[str, Any], where: str, line: int) -> None:
    if ">>>" not in body:
        exec(compile("\n" * line + body, where, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(body, names, where, where, line)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)
    names.update(test.globs)


def run_console(body: str, where: str) -> None:
    steps = []
    for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command = COMMAND.match(step)[0]
        steps.append((command, step.removeprefix(command)))
    for (command, wanted), (after, code) in zip(steps, [*steps[1:], ("", "")], strict=True):
        if not command.startswith("elastico-opt"):
            continue
        done = run_command(command)
        story = f"{where}: $ {command}{done.stdout}{done.stderr}"
        expected = int(code) if after.startswith("echo $?") else 0
        assert done.returncode == expected, f"{story}\nexit code {done.returncode}"
        if wanted.strip():
            got = done.stdout + (done.stderr if expected else "")
            same = doctest.OutputChecker().check_output(timeless(wanted), timeless(got), FLAGS)
            assert same, f"{story}\nThe page says:\n{indent(wanted, '    ')}"


def run_command(command: str) -> subprocess.CompletedProcess[str]:
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    if shutil.which("elastico-opt", path=os.pathsep.join(folders)) is None:
        stand_in = Path("bin", "elastico-opt")  # the package runs from its sources
        stand_in.parent.mkdir(exist_ok=True)
        stand_in.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m elastico_opt "$@"\n')
        stand_in.chmod(0o755)
        folders.insert(0, str(stand_in.parent.resolve()))
    return subprocess.run(
        command,
        shell=True,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env={
            **os.environ,
            "PATH": os.pathsep.join(folders),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "COLUMNS": "100",
            "NO_COLOR": "1",
        },
    )


def timeless(text: str) -> str:
    return SECONDS.sub("… s", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who copies an example gets an error, or other output than the page shows."""
    shutil.copytree(ROOT / "elastico_opt/instances/data", tmp_path / "instances/data")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    for line, kind, body in blocks(page):
        where = f"{page.relative_to(ROOT)}:{line}"
        if caption := CAPTION.match(body):
            Path(caption[1]).write_text(body[caption.end() :], encoding="utf-8")
        elif kind == "python":
            run_python(body, names, where, line)
        elif kind == "console":
            run_console(body, where)


def table(page: str, first: str) -> list[list[str]]:
    """Return the rows of the table whose header starts with a word, cells without markup."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
    return [rows[0], *rows[2:]]


def test_the_dials_of_the_families_are_those_of_the_code() -> None:
    """A page that says what a default is goes stale without a word."""
    header, *rows = table("instances.md", "dial")
    families = header[2:]
    assert families == list(FAMILIES)
    for _, option, *values in rows:
        dial = option.strip("-`")
        for family, shown in zip(families, values, strict=True):
            value = getattr(FAMILIES[family], dial)
            wanted = {True: "yes", False: "no"}[value] if isinstance(value, bool) else float(value)
            assert (shown if isinstance(value, bool) else float(shown)) == wanted, (dial, family)


def test_the_optima_are_those_of_the_list() -> None:
    """The same, for the shipped instances."""
    shown = {name: float(value) for name, value in table("instances.md", "name")[1:]}
    known = {name: best.objective for name, best in best_known().items()}
    assert shown == pytest.approx(known, abs=1e-6)


def test_every_reason_has_its_line() -> None:
    """A reader looks up a code and does not find it."""
    code = re.compile(r"^``.*``$", re.MULTILINE)
    named = {
        name for line in code.findall(reasons.__doc__ or "") for name in line.split("``")[1::2]
    }
    page = (ROOT / "docs/result.md").read_text(encoding="utf-8")
    assert named
    for name in named:
        assert f"`{name.replace('<resource>', '…')}`" in page, name
