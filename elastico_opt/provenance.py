"""Where a result comes from: what one needs to get it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from elastico_opt import __version__
from elastico_opt.reading import snapshot_hash

if TYPE_CHECKING:
    from elastico_opt.snapshot import Snapshot
    from elastico_opt.solvers.base import Limits


def provenance(snapshot: Snapshot, options: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return versions, options, seed, threads and the hash of the snapshot."""
    return {
        "elastico_opt": __version__,
        "python": platform.python_version(),
        "libraries": dict(_library_versions()),
        "options": dict(options),
        "seed": limits.seed,
        "threads": limits.threads,
        "snapshot": snapshot.name,
        "policy": {"objective": snapshot.policy.objective, "coupling": snapshot.policy.coupling},
        "snapshot_hash": f"sha256:{snapshot_hash(snapshot)}",
    }


_LIBRARIES = ("highspy", "ortools", "pyomo", "numpy", "scipy", "numba")


@cache
def _library_versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
