"""Finding solvers by name, and those that other packages add."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from elastico_opt.errors import InputError
from elastico_opt.solvers import registry
from elastico_opt.solvers.registry import get_solver, solver_names


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [
        EntryPoint("example", "elastico_opt.solvers.TEMPLATE:TemplateSolver", registry.GROUP),
        EntryPoint("highs", "elastico_opt.solvers.TEMPLATE:TemplateSolver", registry.GROUP),
        EntryPoint("broken", "no_such_package:Solver", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry._targets.cache_clear()
    yield
    registry._targets.cache_clear()


def test_built_in_solvers_come_first_and_under_their_own_names() -> None:
    assert set(solver_names()) >= {"highs", "cpsat", "greedy"}
    for name in registry.BUILT_IN:
        if name in solver_names():
            assert get_solver(name).name == name


@pytest.mark.usefixtures("plugins")
def test_another_package_adds_a_solver_but_replaces_none() -> None:
    assert {"example", "broken"} <= set(solver_names())
    assert get_solver("example").name == "template"
    assert get_solver("highs").name == "highs"


@pytest.mark.usefixtures("plugins")
def test_a_broken_addition_is_named() -> None:
    with pytest.raises(InputError, match="solver 'broken' cannot be loaded: No module named"):
        get_solver("broken")


def test_an_option_that_a_solver_does_not_have_is_named() -> None:
    with pytest.raises(InputError, match="solver 'greedy' has no option 'speed'"):
        get_solver("greedy", speed=2)


def test_the_nearest_name_is_offered_and_all_are_listed() -> None:
    with pytest.raises(InputError, match=r"'cp-sat' is unknown; did you mean 'cpsat'\?.*highs"):
        get_solver("cp-sat")


def test_naming_the_solvers_imports_no_back_end() -> None:
    """`elastico-opt --help` must not wait for OR-tools, HiGHS or Pyomo."""
    code = (
        "import sys; from elastico_opt.solvers.registry import solver_names; solver_names(); "
        "print([m for m in ('highspy', 'ortools', 'pyomo', 'scipy', 'numba') if m in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "[]"


@pytest.mark.parametrize("order", ["highs, cpsat", "cpsat, highs"])
def test_both_back_ends_load_in_one_process_in_either_order(order: str) -> None:
    """HiGHS as a shared library (highspy 1.15) and the one in OR-tools exclude each other."""
    code = (
        "from elastico_opt.solvers.registry import get_solver\n"
        "from elastico_opt.solvers.base import Limits\n"
        "from elastico_opt.instances.generate import generate\n"
        "from elastico_opt.program import compile_program\n"
        "p = compile_program(generate('lucidlike', 4, 2))\n"
        f"for name in '{order}'.split(', '):\n"
        "    print(get_solver(name).solve(p, Limits()).stop)\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stdout.split() == ["proved", "proved"], printed.stderr
