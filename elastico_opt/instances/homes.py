"""Where generated jobs already run: homes that are feasible together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from elastico_opt.instances.cluster import Machine
from elastico_opt.instances.contention import Contention
from elastico_opt.instances.draws import Draws
from elastico_opt.instances.workload import Draft, Shape

#: Nodes tried for a job before it is left waiting.
_TRIES = 12


@dataclass(slots=True)
class _Device:
    free: dict[str, int]
    residents: list[tuple[Draft, str]] = field(default_factory=list)


class Homes:
    """A greedy placement that respects every rule of the snapshot being made."""

    def __init__(self, machines: Sequence[Machine], contention: Contention, draws: Draws) -> None:
        self._machines, self._contention, self._draws = machines, contention, draws
        self._devices = [[_Device(m.kind.capacity()) for _ in range(m.gpus)] for m in machines]
        self._host = [dict(m.host) for m in machines]

    def settle(self, job: Draft) -> bool:
        """Give the job a home (its ``current``), if one of a few random places has room."""
        for p in self._draws.order(len(job.shapes)):
            shape = job.shapes[p]
            for _ in range(_TRIES if self._machines else 0):
                places = self._places(job, shape)
                if places is not None:
                    self._take(job, shape, places)
                    return True
        return False

    def _places(self, job: Draft, shape: Shape) -> list[tuple[int, list[int]]] | None:
        """Return a node and devices for each task, trying random nodes of one GPU type."""
        places: list[tuple[int, list[int]]] = []
        taken: set[tuple[int, int]] = set()
        kind = None
        for _ in range(shape.tasks):
            for _ in range(1 if not places else _TRIES):
                n = self._draws.below(len(self._machines))
                if kind not in (None, self._machines[n].kind.name):
                    continue
                found = self._on_node(job, shape, n, taken, sum(node == n for node, _ in places))
                if found is not None:
                    places.append((n, found))
                    taken.update((n, d) for d in found)
                    kind = self._machines[n].kind.name
                    break
            else:
                return None
        return places

    def _on_node(
        self, job: Draft, shape: Shape, n: int, taken: set[tuple[int, int]], tasks: int
    ) -> list[int] | None:
        machine = self._machines[n]
        rate = shape.rates.get(machine.kind.name, 0) if shape.gpus else shape.rate
        if rate == 0 or rate < (job.floor or 0):
            return None
        if job.zone is not None and machine.labels.get("zone") != job.zone:
            return None
        if any(amount * (tasks + 1) > self._host[n].get(r, 0) for r, amount in shape.host.items()):
            return None
        free = [
            d for d, device in enumerate(self._devices[n])
            if (n, d) not in taken
            and len(device.residents) < machine.kind.residents
            and self._welcome(job, shape, device)
        ]  # fmt: skip
        return free[: shape.gpus] if len(free) >= shape.gpus else None

    def _welcome(self, job: Draft, shape: Shape, device: _Device) -> bool:
        """Whether the device has room, and nobody on it would be slowed beyond a limit."""
        if any(amount > device.free[r] for r, amount in shape.demand.items()):
            return False
        everyone = [*device.residents, (job, shape.workload)]
        for who, mine in everyone:
            excess = [self._excess(mine, theirs) for other, theirs in everyone if other is not who]
            known = [amount for amount in excess if amount is not None]
            if len(known) < len(excess) or (who.limit is not None and sum(known) > who.limit):
                return False
        return True

    def _excess(self, mine: str, theirs: str) -> int | None:
        pair = self._contention.get((min(mine, theirs), max(mine, theirs)), (0, 0))
        return None if pair is None else pair[0 if mine <= theirs else 1]

    def _take(self, job: Draft, shape: Shape, places: list[tuple[int, list[int]]]) -> None:
        for n, devices in places:
            for d in devices:
                device = self._devices[n][d]
                device.residents.append((job, shape.workload))
                for resource, amount in shape.demand.items():
                    device.free[resource] -= amount
            for resource, amount in shape.host.items():
                self._host[n][resource] -= amount
        job.current = {
            "profile": shape.name,
            "tasks": [{"node": self._machines[n].name, "gpus": devices} for n, devices in places],
        }
