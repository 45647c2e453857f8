"""Times in which a client could not be notified: a fault or a starved host kept it unreachable."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import PRESSURE


def out_of_reach(case: Case, node: str) -> Sequence[tuple[int, int]]:
    """Spans in which faults or a starved host kept a client unreachable, in order of beginning."""
    memo: dict[str, list[tuple[int, int]]] = case.memo.setdefault("out_of_reach", {})
    if node not in memo:
        clients = set(case.nodes.values())
        touching = [w for w in case.windows if node in w.nodes or not set(w.nodes) <= clients]
        touching += [w for w in case.windows if not w.nodes]
        spans = [(w.from_ns, _over_ns(case, w, clients)) for w in touching]
        # Without CPU time it is notified as late as while it is paused.
        starved = [s for s in case.starved if s.node == node or s.kind == PRESSURE]
        memo[node] = sorted([*spans, *((s.from_ns, s.to_ns) for s in starved)])
    return memo[node]


def _over_ns(case: Case, window: Window, clients: set[str]) -> int:
    """Time at which a client is reachable again: immediately after a pause, else once recovered.

    One whose monotonic clock did not advance has the rest of its lease left then, by its own count.
    """
    paused = window.traits.stops and window.nodes and set(window.nodes) <= clients
    if paused and window.traits.stops_monotonic:
        return window.to_ns + case.promises.lasting_ns(case.lease_ns)
    return window.to_ns + (0 if paused else case.promises.recovery_ns)
