"""Rows of the joint program about who shares a device, and what it costs them."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from elastico_opt.errors import UnsupportedError
from elastico_opt.formulations.places import Places, Site
from elastico_opt.program import Program

#: Coefficients and variables.
Terms = list[tuple[float, Any]]
#: Lower bound, body, upper bound of a constraint.
Row = tuple[float | None, Terms, float | None]


@dataclass
class PairRows:
    """What ties ``pair`` to ``u``; above two residents every two residents are a pair."""

    pair_needs: dict[Any, Row] = field(default_factory=dict)
    pair_counts: dict[Any, Row] = field(default_factory=dict)
    pair_every: dict[Any, Row] = field(default_factory=dict)
    compatibility: dict[Any, Row] = field(default_factory=dict)


@dataclass
class CouplingRows:
    """What the pairs cost a job: the mean over its devices, and each device where it has several.

    With one worker the mean is exact; with more it only helps the bound.
    """

    coupling: dict[Any, Row] = field(default_factory=dict)
    coupling_gang: dict[Any, Row] = field(default_factory=dict)
    slowdown_limit: dict[Any, Row] = field(default_factory=dict)


def pair_rows(places: Places, u: Mapping[Any, Any], pair: Mapping[Any, Any]) -> PairRows:
    """Return the rows that let ``pair[a,b,g]`` be 1 exactly when both kinds are on g."""
    rows = PairRows()
    for site in places.sites:
        if not site.coupled:
            continue
        shared = partners(site)
        cliques = _cliques(site, places) if site.residents > 2 else []
        for g in site.devices:
            here = {a: [(1.0, u[q, g]) for q in groups] for a, groups in site.kinds.items()}
            _pairs_of_kinds(places, site, g, shared, here, pair, rows)
            both: Terms = [(1.0, pair[a, b, g]) for a, b in site.pairs]
            for m in range(1, site.residents):
                # n residents make n(n-1)/2 pairs: the tangents of that parabola
                less = [(-float(m), v) for terms in here.values() for _, v in terms]
                rows.pair_counts[g, m] = (-m * (m + 1) / 2, both + less, None)
            for i, clique in enumerate(cliques):
                rows.compatibility[g, i] = (None, [t for a in clique for t in here[a]], 1.0)
    return rows


def _pairs_of_kinds(
    places: Places, site: Site, g: int, shared: Mapping[int, Sequence[int]],
    here: Mapping[int, Terms], pair: Mapping[Any, Any], rows: PairRows,
) -> None:  # fmt: skip
    job, most = places.kind_job, float(site.residents)
    for a, present in here.items():
        absent: Terms = [(-1.0, v) for _, v in present]
        by_job: dict[int, Terms] = defaultdict(list)
        for b in shared.get(a, ()):
            by_job[int(job[b])].append((1.0, pair[min(a, b), max(a, b), g]))
        mine = [term for row in by_job.values() for term in row]
        if site.residents == 2:
            if mine:
                rows.pair_needs[a, -1, g] = (None, mine + absent, 0.0)
            continue
        for i, row in by_job.items():
            rows.pair_needs[a, i, g] = (None, row + absent, 0.0)
        others = [(-1.0, v) for b, terms in here.items() if job[b] != job[a] for _, v in terms]
        unless = [(most * c, v) for c, v in absent]
        rows.pair_every[a, g] = (-most, mine + others + unless, None)


def coupling_rows(places: Places, pair: Mapping[Any, Any], hurt: Mapping[int, Any]) -> CouplingRows:
    """Return the rows that bound ``excess[j]`` or ``loss[j]`` from below, and slowdowns above."""
    p = places.program
    rows = CouplingRows(coupling={j: (0.0, [(1.0, var)], None) for j, var in hurt.items()})
    for site in places.sites:
        for a, others in partners(site).items():
            j, workers = int(places.kind_job[a]), int(places.kind_workers[a])
            excess = [places.excess(a, b) for b in others]
            costs = [e * p.excess_unit for e in excess]
            if p.throughput_coupling:
                costs = [places.cost(a, b) for b in others]
            limit = places.limit(a)
            tight = site.residents > 2 and worst_sum(places, others, excess, site) > limit
            amounts, room = integer_row(excess, limit)
            for g in site.devices:
                pairs = [pair[min(a, b), max(a, b), g] for b in others]
                if tight:
                    row = [(float(c), v) for c, v in zip(amounts, pairs, strict=True) if c]
                    rows.slowdown_limit[a, g] = (None, row, float(room))
                terms = [(-c, v) for c, v in zip(costs, pairs, strict=True) if c > 0]
                if j not in hurt or not terms:
                    continue
                rows.coupling[j][1].extend((c / workers, v) for c, v in terms)
                if workers > 1:
                    each = rows.coupling_gang.setdefault((j, g), (0.0, [(1.0, hurt[j])], None))
                    each[1].extend(terms)
    return rows


def integer_row(
    amounts: Iterable[Any], room: int, counts: Iterable[int] | None = None
) -> tuple[list[int], int]:
    """Divide a row of whole amounts by their common divisor, the right side rounded down.

    The right side is capped at the sum of the amounts, each times the most that its variable
    counts (1 by default), which nothing can pass.
    """
    whole = [int(amount) for amount in amounts]
    most = sum(whole) if counts is None else sum(map(operator.mul, whole, counts))
    divisor = gcd(*whole) or 1
    return [amount // divisor for amount in whole], min(int(room), most) // divisor


def worst_excess(places: Places) -> dict[int, float]:
    """Return, per job that sharing can hurt, the most it can lose.

    Slowdown quanta, or value with throughput coupling.
    """
    p = places.program
    worst: dict[int, float] = {}
    for site in places.sites:
        for a, others in partners(site).items():
            j = int(places.kind_job[a])
            each = [places.excess(a, b) for b in others]
            excess = min(worst_sum(places, others, each, site), places.limit(a))
            lost = p.loss(int(places.kind_option[a]), excess) if p.throughput_coupling else excess
            if lost > 0:
                worst[j] = max(worst.get(j, 0.0), float(lost))
    return worst


def worst_sum(places: Places, others: Sequence[int], excess: Sequence[int], site: Site) -> int:
    """Return the largest sum of excesses that a full device causes, one per job."""
    most: dict[int, int] = {}
    for b, e in zip(others, excess, strict=True):
        job = int(places.kind_job[b])
        most[job] = max(most.get(job, 0), e)
    return sum(sorted(most.values())[-(site.residents - 1) :])


def partners(site: Site) -> dict[int, list[int]]:
    """Return, per kind, the kinds it may share a device with."""
    found: dict[int, list[int]] = defaultdict(list)
    for a, b in site.pairs:
        found[a].append(b)
        found[b].append(a)
    return found


def _cliques(site: Site, places: Places) -> list[list[int]]:
    """Cover the pairs of strangers by sets of kinds of two jobs of which one may be present."""
    shunned: dict[tuple[int, int], list[int]] = defaultdict(list)
    for a, b in site.strangers:
        shunned[a, int(places.kind_job[b])].append(b)
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for (a, _), others in shunned.items():
        alike[int(places.kind_job[a]), tuple(others)].append(a)
    return [kinds + list(others) for (_, others), kinds in alike.items()]


def refuse_three(program: Program, sites: Sequence[Site]) -> None:
    """Refuse throughput coupling where three residents could slow each other.

    Raises
    ------
    UnsupportedError
        Naming a node with such a GPU, and the remedy.
    """
    for site in sites if program.throughput_coupling else ():
        if site.residents > 2 and site.coupled:
            node = program.snapshot.nodes[int(program.device_node[site.devices[0]])].name
            raise UnsupportedError(
                f"policy.coupling: 'throughput' with {site.residents} residents on one GPU of "
                f"node '{node}' is not linear in the joint form: use --solver pattern, or set "
                "max_residents to 2"
            )
