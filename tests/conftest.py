"""Settings for the whole suite: how long hypothesis looks, and what may be chosen by option."""

from __future__ import annotations

import os

import pytest
import registered
from hypothesis import HealthCheck, Phase, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# `ci`: the same examples on every run, and no time limit that a busy machine could break.
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=_QUIET
)
# `nightly`: new examples on every run. Tests of the mark `slow` look longer by themselves.
settings.register_profile(
    "nightly",
    parent=settings.get_profile("ci"),
    derandomize=False,
    max_examples=2000,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--solvers", help="test only these solvers, separated by commas")


def pytest_configure(config: pytest.Config) -> None:
    if names := config.getoption("--solvers"):
        registered.chosen.extend(names.split(","))
