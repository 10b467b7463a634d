"""Import openb: the node and pod lists of Alibaba's GPU cluster trace of 2023."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from typing import Any

from elastico_opt.importers.base import Imported, Source, build_snapshot
from elastico_opt.importers.tables import Row, Table

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_MIB = 1024**2
_UNNAMED = "unknown"


def import_openb(
    nodes: Source,
    pods: Source,
    limit: int | None = None,
    phases: Collection[str] | None = None,
    name: str = "openb",
) -> Imported:
    """Take the pods as one batch of jobs, each with one profile of throughput 1.

    The trace has neither throughputs nor interference, so the best plan is the one that places
    most pods. A device offers one resource, ``share`` (1 = the whole GPU): a pod with one GPU
    takes ``gpu_milli / 1000`` of it, a pod with several takes that many whole GPUs of one node.
    The trace does not say where a pod runs, so every pod is a job to place, whatever its phase.

    Parameters
    ----------
    nodes, pods : Source
        ``sn,cpu_milli,memory_mib,gpu,model`` and
        ``name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,qos,pod_phase]``.
    limit : int, optional
        Keep only the first so many pods (of those that `phases` admits).
    phases : collection of str, optional
        Keep only pods in these phases, such as ``{"Running", "Pending"}``.
    name : str
        The snapshot's name.

    Returns
    -------
    Imported

    Raises
    ------
    InputError
        With file, line, column and remedy.
    """
    warnings: list[str] = []
    node_table = Table(nodes, "nodes", _NODE_COLUMNS)
    cluster = [_node(row, warnings) for row in node_table]
    types = dict.fromkeys(n["gpu_type"] for n in cluster if n["gpus"])
    pod_table = Table(pods, "pods", _POD_COLUMNS)
    left_out: Counter[str] = Counter()
    jobs: list[dict[str, Any]] = []
    notes = _Notes()
    for row in pod_table:
        phase = row.text("pod_phase")
        if phases is not None and phase not in phases:
            left_out[f"phase {phase or 'unknown'}"] += 1
        elif limit is not None and len(jobs) >= limit:
            left_out[f"beyond the first {limit}"] += 1
        else:
            jobs.append(_job(row, notes))
    warnings += notes.lines(types)
    snapshot = build_snapshot(
        {
            "name": name,
            "gpu_types": {t: {"capacity": {"share": 1}} for t in [*types, *notes.absent(types)]},
            "nodes": cluster,
            "jobs": jobs,
        },
        f"{node_table.source}, {pod_table.source}",
    )
    read = {
        "nodes": len(cluster),
        "GPUs": sum(node["gpus"] for node in cluster),
        "GPU types": len(types),
        "pods": len(jobs),
    }
    return Imported(snapshot, tuple(warnings), read, dict(left_out))


def _node(row: Row, warnings: list[str]) -> dict[str, Any]:
    gpus, model = row.count("gpu", empty=0), row.text("model")
    if gpus and not model:
        warnings.append(
            f"node '{row.name('sn')}' has GPUs of no model: taken as type '{_UNNAMED}', "
            "which pods that name types cannot use"
        )
    return {
        "name": row.name("sn"),
        "gpu_type": (model or _UNNAMED) if gpus else None,
        "gpus": gpus,
        "host": _host(row),
    }


def _host(row: Row) -> dict[str, Fraction]:
    return {"cpu": row.quantity("cpu_milli") / 1000, "memory": row.quantity("memory_mib") * _MIB}


class _Notes:
    """What the pods ask for that deserves a warning, counted."""

    def __init__(self) -> None:
        self.specs: Counter[str] = Counter()
        self.whole = 0

    def absent(self, types: Collection[str]) -> list[str]:
        return [spec for spec in self.specs if spec not in types]

    def lines(self, types: Collection[str]) -> list[str]:
        lines = [
            f"no node has GPU type '{spec}', named in gpu_spec by pods: {self.specs[spec]}"
            for spec in self.absent(types)
        ]
        if self.whole:
            lines.append(f"pods with one GPU and no gpu_milli, taken as whole GPUs: {self.whole}")
        return lines


def _job(row: Row, notes: _Notes) -> dict[str, Any]:
    gpus = row.count("num_gpu", empty=0)
    specs = dict.fromkeys(spec.strip() for spec in row.text("gpu_spec").split("|"))
    specs.pop("", None)
    profile: dict[str, Any] = {
        "name": "as-requested",
        "gpus": gpus,
        "host": _host(row),
        "throughput": 1,
    }
    share = _share(row, gpus, notes)
    if gpus:
        profile["gpu"] = {"share": share}
        if specs:
            notes.specs.update(list(specs))
            profile["throughput"] = dict.fromkeys(specs, 1)
    seen = {"qos": row.text("qos"), "phase": row.text("pod_phase")}
    return {
        "name": row.name("name"),
        "kind": "pod",
        "profiles": [profile],
        "annotations": {key: value for key, value in seen.items() if value},
    }


def _share(row: Row, gpus: int, notes: _Notes) -> Fraction:
    """Return the share of each of the pod's GPUs; ``gpu_milli`` counts only beside one GPU."""
    milli = row.count("gpu_milli", empty=0)
    if milli > 1000:
        raise row.error("gpu_milli", f"{milli} is more than one GPU: ask for more with num_gpu")
    if milli and not gpus:
        raise row.error("gpu_milli", f"{milli} of no GPU: set num_gpu to 1, or gpu_milli to 0")
    if gpus == 1 and not milli:
        notes.whole += 1
    return Fraction(milli, 1000) if gpus == 1 and milli else Fraction(1)
