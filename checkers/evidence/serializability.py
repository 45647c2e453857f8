"""Whether the critical sections of a run are serializable: equivalent to a sequential order.

A section is all requests of one attempt to the resource. Of two accepted requests to one key of
which one is a write, the resource's log shows which came first, and a write comes after the version
that it names as its base and before the next: each is an edge between two sections. A sequential
order exists iff these edges form no cycle (conflict serialisability, after Eswaran and others,
1976). Keys whose sections do not interleave need no graph: O(n log n) for those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.wording import name, seconds
from holdfast.checkers.holds.history_index import Indices, column
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.evidence import ForcedOrder, Serial

MOST = 200
"""Limit on the sections of one component from which a shortest cycle is searched."""


@dataclass(frozen=True, slots=True)
class Edge:
    """before had to come before after: kind "ww", "wr" or "rw", by two requests to one key."""

    kind: str
    before: resource_log.Request
    after: resource_log.Request


def serialisability(case: Case) -> Serial:
    """Whether an order of the sections explains the resource's log, and a cycle if none does."""
    rows = resource_log.log(case).rows
    rows = rows[column(case, "status")[rows] == Status.OK]
    sections = len(np.unique(column(case, "attempt")[rows]))
    requests = [
        request for request in resource_log.requests(case, _entangled(case)) if request.accepted
    ]
    cycle = shortest_cycle(edges(requests))
    names = _names(case, requests, {edge.before.attempt for edge in cycle})
    if not sections:
        sentence = "no section reached the resource"
    elif not cycle:
        sentence = f"{sections} sections could have happened one after the other"
    else:
        sentence = "no order of the sections explains the resource's log: " + ", ".join(
            f"{names[edge.before.attempt]} {_SAYS[edge.kind]} {names[edge.after.attempt]}"
            for edge in cycle
        )
    return Serial(
        sections=sections,
        entangled=len({request.attempt for request in requests}),
        cycle=tuple(_told(case, edge, names) for edge in cycle),
        sentence=sentence,
    )


_SAYS = {
    "ww": "wrote before",
    "wr": "wrote what was read by",
    "rw": "read what was then overwritten by",
}


def _names(
    case: Case, requests: Sequence[resource_log.Request], wanted: Set[int]
) -> dict[int, str]:
    """Critical sections by client and token, or the time of the first request where there is no
    token: a client has many sections."""
    found: dict[int, str] = {}
    for request in requests:
        if request.attempt in wanted and request.attempt not in found:
            client = name(case, int(column(case, "process")[request.row]))
            when = seconds(case, int(column(case, "t_inv")[request.row]))
            which = f"token {request.token}" if request.token >= 0 else f"from {when}"
            found[request.attempt] = f"{client} ({which})"
    return found


def edges(requests: Sequence[resource_log.Request]) -> Iterator[Edge]:
    """The edges between the sections of accepted requests in the log's order. O(n)."""
    writes: defaultdict[int, list[resource_log.Request]] = defaultdict(list)
    readers: defaultdict[int, list[resource_log.Request]] = defaultdict(list)
    for request in requests:
        before = writes[request.key]
        if before:
            yield from _edge("ww" if request.write else "wr", before[-1], request)
        if not request.write:
            readers[request.key].append(request)
            continue
        for reader in readers.pop(request.key, ()):
            yield from _edge("rw", reader, request)
        if request.base >= 0:
            for write in _after(before, request.base):
                yield from _edge("rw", request, write)
        before.append(request)


def _after(writes: Sequence[resource_log.Request], base: int) -> Sequence[resource_log.Request]:
    """The first of the writes that are newer than a version."""
    at = len(writes)
    while at and writes[at - 1].version > base:
        at -= 1
    return writes[at : at + 1]


def _edge(kind: str, before: resource_log.Request, after: resource_log.Request) -> Iterator[Edge]:
    if before.attempt != after.attempt:
        yield Edge(kind, before, after)


def shortest_cycle(found: Iterator[Edge]) -> list[Edge]:
    """The edges of a shortest cycle, in its order; [] for none."""
    kept: dict[tuple[int, int], Edge] = {}
    for edge in found:
        kept.setdefault((edge.before.attempt, edge.after.attempt), edge)
    if not kept:
        return []
    # Nothing is shorter than two sections that each have to come before the other.
    for first, second in kept:
        if (second, first) in kept:
            return [kept[first, second], kept[second, first]]
    if not _has_cycle(kept):
        return []
    import networkx

    # Not DiGraph(kept): that imports pandas, to ask whether it is given a table.
    graph = networkx.DiGraph()
    graph.add_edges_from(kept)
    best: list[int] = []
    for component in networkx.strongly_connected_components(graph):
        if len(component) < 2:
            continue
        part = graph.subgraph(component)
        for section in sorted(component)[:MOST]:
            for after in part.successors(section):
                path = networkx.shortest_path(part, after, section)
                if not best or len(path) < len(best):
                    best = path
    return [kept[pair] for pair in zip(best, [*best[1:], *best[:1]], strict=True)]


def _has_cycle(edges: Iterable[tuple[int, int]]) -> bool:
    """O(n); networkx takes 0.1 s to import, and hardly a run has a cycle."""
    order = TopologicalSorter[int]()
    for before, after in edges:
        order.add(after, before)
    try:
        order.prepare()
    except CycleError:
        return True
    return False


def _entangled(case: Case) -> Indices:
    """Places of the log for keys on which a section continues after another one's request, or names
    a base that is not the last version, or has requests for several keys."""
    rows = resource_log.log(case).rows
    places = np.flatnonzero(column(case, "status")[rows] == Status.OK)
    key = column(case, "key")[rows[places]]
    attempt = column(case, "attempt")[rows[places]]
    order = np.lexsort((np.arange(len(key)), key))
    key, attempt, places = key[order], attempt[order], places[order]
    begins = np.flatnonzero((np.diff(key, prepend=-1) != 0) | (np.diff(attempt, prepend=-1) != 0))
    _, which, blocks = np.unique(attempt[begins], return_inverse=True, return_counts=True)
    bad = np.unique(key[begins[blocks[which] > 1]])
    write = column(case, "f")[rows[places]] == Op.SERVED_WRITE
    base, version = column(case, "arg")[rows[places]], column(case, "res")[rows[places]]
    stale = key[write & (base >= 0) & (base != version - 1)]
    return np.sort(places[np.isin(key, np.union1d(bad, stale))])


def _told(case: Case, edge: Edge, names: Mapping[int, str]) -> ForcedOrder:
    return ForcedOrder(
        kind=edge.kind,
        lock=case.history.strings[edge.after.key],
        before=names[edge.before.attempt],
        after=names[edge.after.attempt],
        says=_SAYS[edge.kind],
        before_row=edge.before.row,
        after_row=edge.after.row,
        before_version=edge.before.version,
        after_version=edge.after.version,
    )
