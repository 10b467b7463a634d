"""What runs in a fresh process: one measurement, its numbers as one line of JSON.

``python -m benchmarks.child '{"do": "solve", "instance": "lucid-200x64", "solver": "pattern"}'``
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any

Numbers = dict[str, Any]
#: Jobs up to which a solve is timed a second time in its process.
_TWICE = 5_000


def main() -> None:
    """Do what the argument says."""
    task = json.loads(sys.argv[1])
    numbers = _TASKS[task.pop("do")](**task)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    numbers["memory_mb"] = round(peak / (2**20 if sys.platform == "darwin" else 2**10))
    print(json.dumps(numbers))


def timed(action: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """Return the median time of an action in seconds, and its last value."""
    times, value = [], None
    for _ in range(repeat):
        began = time.perf_counter()
        value = action()
        times.append(time.perf_counter() - began)
    return round(median(times), 4), value


def solve(
    instance: str, solver: str, time_limit: float, threads: int = 1, seed: int = 0,
    options: dict[str, Any] | None = None,
) -> Numbers:  # fmt: skip
    """Read an instance, then compile, solve and check it: the last three are what is timed."""
    began = time.perf_counter()
    from benchmarks.instances import load
    from elastico_opt.certify import certify
    from elastico_opt.program import compile_program
    from elastico_opt.solvers.base import Event, Limits
    from elastico_opt.solvers.registry import get_solver

    engine = get_solver(solver, **(options or {}))
    snapshot = load(instance)
    loading = time.perf_counter() - began
    events: list[Event] = []
    began = time.perf_counter()
    compiling, program = timed(lambda: compile_program(snapshot))
    limits = Limits(deadline=time.monotonic() + time_limit, seed=seed, threads=threads)
    solving, outcome = timed(lambda: engine.solve(program, limits, None, events.append))
    checking, certificate = timed(lambda: certify(snapshot, outcome, solver))
    seconds = time.perf_counter() - began
    again = None
    # The first solve of a process also loads compiled code.
    if solver == "lagrangian" and program.n_jobs <= _TWICE:
        limits = Limits(deadline=time.monotonic() + time_limit, seed=seed, threads=threads)
        once_more = get_solver(solver, **(options or {}))
        again = compiling + checking + timed(lambda: once_more.solve(program, limits))[0]
    first = next((event.time for event in events if event.objective is not None), None)
    return {
        "status": str(certificate.status),
        "stop": str(certificate.stop),
        "objective": certificate.objective,
        "bound": certificate.bound,
        "gap": certificate.gap,
        "tiers": [[tier.priority, tier.objective, tier.bound] for tier in certificate.tiers],
        "seconds": round(seconds, 3),
        "phases": {
            "load": round(loading, 3), "compile": compiling, "solve": solving, "check": checking,
        },
        "first_plan": first,
        "loaded": again,
        "placed": 0 if certificate.plan is None else len(certificate.plan),
        "jobs": len(snapshot.jobs),
        "gpus": program.n_devices,
        "statistics": {key: _plain(value) for key, value in outcome.statistics.items()},
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, str, bool, type(None))) else _number(value)


def _number(value: Any) -> Any:
    try:
        return round(float(value), 4)
    except (TypeError, ValueError):
        return str(value)


def matching(instance: str) -> Numbers:
    """Solve the instance as a maximum-weight matching with networkx."""
    import networkx

    from benchmarks.instances import load
    from benchmarks.matching import pair_values
    from elastico_opt.program import compile_program

    program = compile_program(load(instance))
    valuing, values = timed(lambda: pair_values(program))
    graph = networkx.Graph()
    graph.add_weighted_edges_from(
        (i, j, values[i, j]) for i in range(len(values)) for j in range(i)
    )
    seconds, pairs = timed(lambda: networkx.max_weight_matching(graph))
    objective = float(sum(values[i, j] for i, j in pairs))
    return {
        "status": "optimal", "objective": objective, "bound": objective, "gap": 0.0,
        "seconds": round(seconds, 3), "phases": {"pair values": valuing},
        "jobs": program.n_jobs, "gpus": program.n_devices,
    }  # fmt: skip


def stages(instance: str) -> Numbers:
    """Time everything around the solver."""
    importing = timed(_import)[0]
    from benchmarks.instances import instance_file
    from elastico_opt.program import compile_program
    from elastico_opt.reading import parse_snapshot, read_bytes, snapshot_hash
    from elastico_opt.reasons import explain_unplaced
    from elastico_opt.verification import evaluate, verify

    path = instance_file(instance)
    data = read_bytes(path)
    reading, snapshot = timed(lambda: parse_snapshot(data))
    compiling, program = timed(lambda: compile_program(snapshot))
    from elastico_opt.solvers.greedy import first_fit

    first, _ = timed(lambda: first_fit(program))
    greedy, placements = timed(lambda: first_fit(program))
    plan = program.to_plan(placements)
    return {
        "jobs": program.n_jobs,
        "gpus": program.n_devices,
        "import": importing,
        "read": reading,
        "compile": compiling,
        "verify": timed(lambda: verify(snapshot, plan), 3)[0],
        "evaluate": timed(lambda: evaluate(snapshot, plan), 3)[0],
        "hash": timed(lambda: snapshot_hash(snapshot))[0],
        "explain": timed(lambda: explain_unplaced(snapshot, plan))[0],
        "greedy_first": first,
        "greedy": greedy,
        "placed": len(plan),
        "value": evaluate(snapshot, plan).objective,
    }


def _import() -> None:
    import elastico_opt.program
    import elastico_opt.reading  # noqa: F401


def joint(instance: str) -> Numbers:
    """Time the joint form: stating it in Pyomo, and lowering it to arrays."""
    from benchmarks.instances import load
    from elastico_opt.formulations.joint import build
    from elastico_opt.formulations.matrix import lower
    from elastico_opt.program import compile_program

    program = compile_program(load(instance))
    build(program)  # Pyomo's own imports
    building, model = timed(lambda: build(program))
    lowering, form = timed(lambda: lower(model))
    nonzeros = int(form.rows.nnz)
    return {
        "jobs": program.n_jobs,
        "gpus": program.n_devices,
        "rows": form.rows.shape[0],
        "columns": form.rows.shape[1],
        "nonzeros": nonzeros,
        "build": building,
        "lower": lowering,
        "build_us": round(1e6 * building / max(1, nonzeros), 2),
        "lower_us": round(1e6 * lowering / max(1, nonzeros), 2),
    }


def _later(module: str, name: str) -> Callable[..., Numbers]:
    """Return a task that lives in a module of its own, imported when it is asked for."""

    def run(**task: Any) -> Numbers:
        found: Numbers = getattr(import_module(f"benchmarks.{module}"), name)(**task)
        return found

    return run


_TASKS: dict[str, Callable[..., Numbers]] = {
    "solve": solve, "matching": matching, "stages": stages, "joint": joint,
    "epochs": _later("epochs", "epochs"), "quality": _later("quality", "quality"),
}  # fmt: skip


if __name__ == "__main__":
    main()
