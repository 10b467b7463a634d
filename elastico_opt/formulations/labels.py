"""Variables and constraints of the joint form in the user's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
