"""Running the command in this process, with a solver that answers as a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from elastico_opt import api
from elastico_opt.cli import main
from elastico_opt.solvers.base import Capability, Outcome

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``elastico-opt ARGS`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return lambda *args, **more: CliRunner().invoke(main, [str(a) for a in args], **more)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write JSON data to a file of the folder."""

    def file(data: Any, name: str = "snapshot.json") -> Path:
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return path

    return file


class Scripted:
    """A solver whose answer the test gives."""

    name: ClassVar[str] = "scripted"
    formulation: ClassVar[str] = "joint"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT})

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def available(self) -> bool:
        return True

    def solve(self, program: Any, limits: Any, start: Any = None, on_event: Any = None) -> Outcome:
        return self.answer(program, limits, on_event) if callable(self.answer) else self.answer


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Replace every solver by one with this answer (an outcome, or a function)."""
    return lambda given: monkeypatch.setattr(api, "choose", lambda *names: [Scripted(given)])
