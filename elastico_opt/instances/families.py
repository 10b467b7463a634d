"""The families of generated instances: what each is for, and where its dials stand."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from elastico_opt.errors import InputError
from elastico_opt.snapshot import nearest


@dataclass(frozen=True, slots=True)
class Dials:
    """The dials of `generate`, checked; shares are exact."""

    jobs: int
    gpus: int
    profiles: int
    load: Fraction | None
    heterogeneity: Fraction
    interference: Fraction
    running: Fraction
    gangs: Fraction
    host: bool
    residents: int
    types: int
    tiers: int
    seed: int
    gpus_per_node: int


@dataclass(frozen=True, slots=True)
class Family:
    """Default dials of a family, and the traits that no dial changes.

    Attributes
    ----------
    size, sm : (int, int)
        A model's smallest profile, from and to: memory in percent of the largest GPU, and
        percent of the SMs.
    shared : bool
        Whether a GPU has as many SM and bandwidth shares as residents, so that only the slowdown
        limits them; else jobs share exactly one GPU's worth.
    severity : int
        Excess slowdowns in percent of what was measured for pairs of training jobs.
    never : int
        Percent of the interfering pairs that must not share a GPU.
    cpu_jobs : int
        Percent of the jobs that need no GPU.
    rules : bool
        Whether some jobs must be placed, have floors, slowdown limits, node selectors, or run on
        some GPU types only.
    models : int
        Most distinct models; 0 for as many as keep the slowdown table small.
    """

    about: str
    profiles: int = 4
    heterogeneity: Fraction = Fraction(1, 2)
    interference: Fraction = Fraction(1)
    running: Fraction = Fraction(0)
    gangs: Fraction = Fraction(0)
    host: bool = False
    residents: int = 2
    types: int = 1
    tiers: int = 1
    size: tuple[int, int] = (8, 40)
    sm: tuple[int, int] = (10, 70)
    shared: bool = True
    severity: int = 100
    never: int = 5
    cpu_jobs: int = 0
    rules: bool = False
    models: int = 0


FAMILIES = {
    "lucidlike": Family(
        "single-GPU training jobs, batch size × mixed precision, slowdowns like measured ones",
        profiles=6,
    ),
    "gangs": Family(
        "jobs on 2, 4 or 8 GPUs of a node beside small ones, host resources, half of them running",
        running=Fraction(1, 2),
        gangs=Fraction(1, 2),
        host=True,
        shared=False,
    ),
    "mixed": Family(
        "several GPU types and priorities, shares of GPUs, gangs, CPU-only jobs, rules",
        running=Fraction(3, 10),
        gangs=Fraction(15, 100),
        host=True,
        types=3,
        tiers=2,
        size=(5, 40),
        shared=False,
        cpu_jobs=10,
        rules=True,
    ),
    "identical": Family(
        "equal jobs on equal nodes: nothing but symmetry",
        profiles=3,
        heterogeneity=Fraction(0),
        size=(30, 45),
        severity=40,
        never=0,
        models=1,
    ),
    "triples": Family(
        "small jobs, three or more to a GPU",
        residents=3,
        size=(8, 25),
        sm=(10, 40),
        severity=50,
    ),
}


def family_of(name: str) -> Family:
    """Return a family by name.

    Raises
    ------
    InputError
        Naming the families there are.
    """
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise InputError(
            f"no family '{name}': choose one of {known}{nearest(name, list(FAMILIES))}"
        )
    return FAMILIES[name]
