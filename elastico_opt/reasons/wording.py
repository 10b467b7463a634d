"""Findings in words, with the numbers as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from elastico_opt.units import plain_number

if TYPE_CHECKING:
    from elastico_opt.reasons.cluster import Cluster
    from elastico_opt.reasons.fit import Attempt
    from elastico_opt.reasons.options import Cause, Shortage

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_RULES = {
    "gpus": "number of free GPUs", "residents": "jobs per GPU",
    "exclusive": "exclusive tasks", "interference": "slowdown limits",
}  # fmt: skip
#: Most names listed in a message or in the details.
_NAMES = 5


def describe_attempt(
    cluster: Cluster, found: Attempt, never: bool
) -> tuple[str, str, dict[str, Any]]:
    """Return code, message and details of an option that does not fit."""
    shortage = found.shortage
    assert shortage is not None
    code, message, details = _describe(cluster, shortage)
    option = found.option
    if len(option.job.profiles) > 1:
        message += f" (profile '{option.profile.name}' comes closest)"
    details["profile"] = option.profile.name
    if option.tasks > 1:
        details |= {"tasks": option.tasks, "tasks_fit": found.placed}
    if found.placed:
        also = f"{found.placed} of its {option.tasks} tasks fit"
        message = f"{also}{' on the empty cluster' if never else ''}; the next {message}"
        code = "gang_partial"
    elif never:
        message = f"even on the empty cluster it {message}"
    else:
        message = f"it {message}"
        if holders := _holders(cluster, shortage):
            details["held_by"] = holders
    return "never_fits" if never else code, message, details


def _describe(cluster: Cluster, shortage: Shortage) -> tuple[str, str, dict[str, Any]]:
    cause, gpus = shortage.causes[0], shortage.group.gpus
    details: dict[str, Any] = {}
    if cause.kind in ("gpu", "host"):
        resources = cluster.device_resources if cause.kind == "gpu" else cluster.host_resources
        name = resources.names[cause.resource]
        code, label = f"short_of_{name}", f"{'GPU' if cause.kind == 'gpu' else 'host'} {name}"
        needs, free, largest, total = (
            resources.amount(cause.resource, quanta)
            for quanta in (shortage.needs, shortage.free, shortage.largest, shortage.total)
        )
        each = f" on each of {gpus} GPUs" if cause.kind == "gpu" and gpus > 1 else ""
        message = (
            f"needs {_amount(needs)} of {label}{each}; the largest free piece is "
            f"{_amount(largest)} ({_about(total)} in all)"
        )
        details = {"resource": name, "of": cause.kind}
    else:
        code = "short_of_gpus" if cause.kind == "gpus" else cause.kind
        needs, free, largest, total = map(
            Fraction, (shortage.needs, shortage.free, shortage.largest, shortage.total)
        )
        number = "a GPU" if gpus == 1 else f"{gpus} GPUs on one node, each"
        message = (
            f"needs {number} {_rule_label(cluster, shortage, cause)}; the most such GPUs on one "
            f"node are {largest} ({total} in all)"
        )
        details = {"resource": "gpus", "of": "cluster"}
    message += f", short by {_amount(needs - free)}"
    if shortage.node is not None:
        message += f" on the nearest node '{cluster.nodes[shortage.node].name}'"
        details["nearest_node"] = cluster.nodes[shortage.node].name
    others = [_name(cluster, c) for c in shortage.causes[1:]]
    if others:
        message += f" (in the way there too: {', '.join(others)})"
        details["also_short"] = others
    details |= {
        "needs": plain_number(needs), "largest_free": plain_number(largest),
        "total_free": plain_number(total), "short_by": plain_number(needs - free),
    }  # fmt: skip
    return code, message, details


def _rule_label(cluster: Cluster, shortage: Shortage, cause: Cause) -> str:
    if cause.kind == "residents":
        return "with room for one more job (jobs per GPU are capped)"
    if cause.kind == "exclusive":
        return "that no exclusive task holds"
    if cause.kind == "interference":
        return "whose jobs it may run beside (slowdown limits)"
    if shortage.group.task.exclusive:
        return "for itself"
    demand, resources = shortage.group.demand, cluster.device_resources
    parts = [
        f"{_amount(resources.amount(r, quanta))} {resources.names[r]}"
        for r, quanta in enumerate(demand) if quanta
    ]  # fmt: skip
    return f"with {', '.join(parts)} free" if parts else "with room for it"


def _name(cluster: Cluster, cause: Cause) -> str:
    if cause.kind == "gpu":
        return f"GPU {cluster.device_resources.names[cause.resource]}"
    if cause.kind == "host":
        return f"host {cluster.host_resources.names[cause.resource]}"
    return _RULES[cause.kind]


def _holders(cluster: Cluster, shortage: Shortage) -> list[str]:
    """Return some of the jobs on the nearest node."""
    names = cluster.holders.get(-1 if shortage.node is None else shortage.node, [])
    return list(dict.fromkeys(names))[:_NAMES]


def _amount(amount: Fraction) -> str:
    """Write an amount exactly: with a binary suffix when that is exact and short."""
    if amount.denominator != 1:
        return str(plain_number(amount))
    number = int(amount)
    power = 0
    while number >= 2**20 or (power and number >= 1024):
        if number % 1024 or power + 1 >= len(_BINARY):
            break
        number //= 1024
        power += 1
    if power and number >= 2**20:
        return str(int(amount))
    return f"{number}{_BINARY[power]}"


def _about(amount: Fraction) -> str:
    """Write an amount exactly if that is short, else rounded, with a binary suffix if large."""
    exact = _amount(amount)
    if len(exact) <= 10 or amount < 2**30:
        return exact
    power = min(len(_BINARY) - 1, (int(amount).bit_length() - 1) // 10)
    return f"about {float(amount / 1024**power):.4g}{_BINARY[power]}"


def listed(what: str, names: Sequence[str]) -> str:
    """Write ``nodes 'a', 'b' and 3 more``."""
    shown = ", ".join(f"'{name}'" for name in names[:_NAMES])
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{what}{'s' if len(names) > 1 else ''} {shown}{more}"
