"""Variables and constraints of both forms in the user's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elastico_opt.formulations.columns import Patterns
from elastico_opt.formulations.layout import ELSEWHERE, Layout
from elastico_opt.formulations.matrix import Name
from elastico_opt.plan import device_ids
from elastico_opt.program import Program


def label(program: Program | None, name: Name) -> str:
    """Return what a column or row stands for, such as ``u[bert/b64-amp:0,n1:0]``.

    Without a program, or for components whose indices say enough, the indices are written.
    """
    component, index = name
    given = index if isinstance(index, tuple) else () if index is None else (index,)
    if program is not None and component in _PARTS:
        parts = _PARTS[component]
        given = (
            tuple(part(program, value) for part, value in zip(parts, given, strict=False))
            + given[len(parts) :]
        )
    return f"{component}[{','.join(str(value) for value in given)}]" if given else component


def _option(program: Program, option: int) -> str:
    job = program.snapshot.jobs[int(program.option_job[option])]
    profile = job.profiles[int(program.option_profile[option])].name
    kind = int(program.option_type[option])
    several = kind >= 0 and len(program.gpu_types) > 1
    return f"{job.name}/{profile}" + (f"/{program.gpu_types[kind]}" if several else "")


def _group(program: Program, group: int) -> str:
    option = int(program.group_option[group])
    return f"{_option(program, option)}:{group - int(program.group_start[option])}"


def _device(program: Program, device: int) -> str:
    node = int(program.device_node[device])
    first = int(program.device_node.searchsorted(node))
    return f"{_node(program, node)}:{device_ids(program.snapshot.nodes[node])[device - first]}"


def _node(program: Program, node: int) -> str:
    return program.snapshot.nodes[node].name


def _job(program: Program, job: int) -> str:
    return program.snapshot.jobs[job].name


def _device_resource(program: Program, resource: int) -> str:
    return program.device_resources[resource]


def _host_resource(program: Program, resource: int) -> str:
    return program.host_resources[resource]


_PARTS: dict[str, tuple[Callable[[Program, Any], str], ...]] = {
    "x": (_option,),
    "u": (_group, _device),
    "z": (_group, _node),
    "excess": (_job,),
    "loss": (_job,),
    "moved": (_job,),
    "choose": (_job,),
    "must": (_job,),
    "gang": (_group,),
    "task_devices": (_group, _node),
    "one_worker": (_option, _device),
    "residents": (_device,),
    "device_capacity": (_device, _device_resource),
    "host_capacity": (_node, _host_resource),
    "coupling": (_job,),
    "coupling_gang": (_job, _device),
    "move": (_job,),
    "symmetry": (_job, _device),
}


def pattern_label(layout: Layout, patterns: Patterns, name: Name) -> str:
    """Return what a column or row of the pattern form stands for.

    Such as ``y[n1+3:A100:bert/b64+llama/kv50]``: devices of that type on n1 and three more nodes
    that each run both workers.
    """
    component, index = name
    if component not in _PATTERN_PARTS:
        return label(None, name)
    parts = _PATTERN_PARTS[component](layout, patterns, index)
    return f"{component}[{','.join(parts)}]"


def _pattern(layout: Layout, patterns: Patterns, p: int) -> list[str]:
    site, items = int(patterns.site[p]), layout.items
    place = _pool(layout, int(patterns.pool[p]))
    if site != ELSEWHERE:
        place = _device(layout.program, int(layout.site_device[site]))
    workers = [
        _worker(layout, int(items.group[i])) + ("(stays)" if items.stays[i] else "")
        for i in patterns.items[p].tolist()
        if i >= 0
    ]
    return [f"{place}:{'+'.join(workers)}"]


def _worker(layout: Layout, group: int) -> str:
    """Name a worker by its job and profile, and its task group where the profile has several."""
    p = layout.program
    option = int(p.group_option[group])
    return _group(p, group) if len(p.groups_of(option)) > 1 else _option(p, option)


def _static(layout: Layout, _: Patterns, index: tuple[str, int]) -> list[str]:
    kind, i = index
    static = layout.static
    group, option = int(static.group[i]), int(static.option[i])
    what = _option(layout.program, option) if group < 0 else _worker(layout, group)
    where = []
    if static.node[i] >= 0:
        where = [_node(layout.program, int(static.node[i]))]
    elif static.node_pool[i] >= 0:
        where = [_nodes(layout, int(static.node_pool[i]))]
    return [kind, what, *where, *(["stays"] if static.stays[i] else [])]


def _class(layout: Layout, _: Patterns, c: int) -> list[str]:
    jobs = layout.class_jobs[c]
    return [_and_more(_job(layout.program, jobs[0]), jobs)]


def _link(layout: Layout, _: Patterns, i: int) -> list[str]:
    choice = int(layout.link_choice[layout.n_classes + i])
    return [_option(layout.program, int(layout.static.option[choice])), str(i)]


def _pool(layout: Layout, k: int) -> str:
    p = layout.program
    node_type = p.gpu_types[int(p.class_type[layout.pool_class[k]])]
    return f"{_nodes(layout, int(layout.pool_node_pool[k]))}:{node_type}"


def _nodes(layout: Layout, node_pool: int) -> str:
    nodes = layout.pool_nodes[node_pool]
    return _and_more(_node(layout.program, nodes[0]), nodes)


def _and_more(first: str, members: tuple[int, ...]) -> str:
    return first if len(members) == 1 else f"{first}+{len(members) - 1}"


_PATTERN_PARTS: dict[str, Callable[[Layout, Patterns, Any], list[str]]] = {
    "x": _static,
    "y": _pattern,
    "job_class": _class,
    "link": _link,
    "pool": lambda layout, _, k: [_pool(layout, k)],
    "site": lambda layout, _, s: [_device(layout.program, int(layout.site_device[s]))],
    "host": lambda layout, _, index: [
        _nodes(layout, index[0]),
        _host_resource(layout.program, index[1]),
    ],
}
