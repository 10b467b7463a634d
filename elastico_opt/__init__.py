"""elastico-opt: joint configuration and placement of jobs on GPU clusters, with proofs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public name -> module; imported on first use, so that `import elastico_opt` stays light.
_EXPORTS = {
    "Snapshot": "snapshot",
    "GpuType": "snapshot",
    "Gpu": "snapshot",
    "Node": "snapshot",
    "Job": "snapshot",
    "Profile": "snapshot",
    "Task": "snapshot",
    "Policy": "snapshot",
    "Interference": "snapshot",
    "PairSlowdown": "snapshot",
    "Current": "snapshot",
    "PlacedTask": "snapshot",
    "read_snapshot": "reading",
    "parse_snapshot": "reading",
    "snapshot_json": "reading",
    "InputError": "errors",
    "UnsupportedError": "errors",
    "VerificationError": "errors",
    "ElasticoError": "errors",
    "Plan": "plan",
    "Assignment": "plan",
    "TaskPlacement": "plan",
    "Program": "program",
    "compile_program": "program",
    "verify": "verification",
    "evaluate": "verification",
    "Result": "result",
    "solve": "api",
    "Scheduler": "scheduler",
    "generate": "instances.generate",
}

if TYPE_CHECKING:
    from elastico_opt.api import solve as solve
    from elastico_opt.errors import (
        ElasticoError as ElasticoError,
        InputError as InputError,
        UnsupportedError as UnsupportedError,
        VerificationError as VerificationError,
    )
    from elastico_opt.instances.generate import generate as generate
    from elastico_opt.plan import (
        Assignment as Assignment,
        Plan as Plan,
        TaskPlacement as TaskPlacement,
    )
    from elastico_opt.program import Program as Program, compile_program as compile_program
    from elastico_opt.reading import (
        parse_snapshot as parse_snapshot,
        read_snapshot as read_snapshot,
        snapshot_json as snapshot_json,
    )
    from elastico_opt.result import Result as Result
    from elastico_opt.scheduler import Scheduler as Scheduler
    from elastico_opt.snapshot import (
        Current as Current,
        Gpu as Gpu,
        GpuType as GpuType,
        Interference as Interference,
        Job as Job,
        Node as Node,
        PairSlowdown as PairSlowdown,
        PlacedTask as PlacedTask,
        Policy as Policy,
        Profile as Profile,
        Snapshot as Snapshot,
        Task as Task,
    )
    from elastico_opt.verification import evaluate as evaluate, verify as verify

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'elastico_opt' has no attribute '{name}'")
    return getattr(import_module(f"elastico_opt.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
