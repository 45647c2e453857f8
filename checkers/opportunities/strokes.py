"""Strokes: the times at which a fault can have taken from servers what they had acknowledged.

What a minority of the servers forgets, the others still know. So a kill or a
power loss of some of them can take something only from one that decides alone, a leader, or a
majority. While a minority is down, the others have to agree without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.checkers.facts.fault_windows import servers_struck
from holdfast.checkers.facts.power_losses import OPERATED, span_of
from holdfast.checkers.opportunities.responses import first_response
from holdfast.checkers.opportunities.row import BUSY, CLIENTS, QUEUED
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import PlanChange, Seen

LAZY = {**BUSY, "lazy_pct": "25"}
SHORT = PlanChange(
    clients=CLIENTS,
    fault_leases=0.05,
    # A new leader may count its leases from the beginning: between two faults one can end.
    every_leases=2.5,
    # A real server may take a second to start.
    least_lease_ns=4 * SECOND,
    least_leases=20,
    options=LAZY,
)
"""Faults that are over long before the leases in force, and owners that are silent meanwhile."""
HALF_LAZY = {**BUSY, "lazy_pct": "50"}
LONG = PlanChange(
    clients=CLIENTS,
    fault_leases=1.5,
    every_leases=3,
    # Another server has to be elected within a lease.
    least_lease_ns=4 * SECOND,
    least_leases=20,
    options=HALF_LAZY,
)
"""Faults in which another server is elected, and grants or refuses to before leases end."""
AHEAD = PlanChange(
    clients=CLIENTS,
    target="leader|one",
    every_leases=3,
    fault_leases=1.5,
    least_leases=20,
    options=HALF_LAZY,
)
"""By default a clock is set ahead by 2.5 leases."""
NEW_NS = SECOND
"""What is written to disk within a second after its acknowledgement (Redis's `everysec`) can be
lost only while it is new: at a stroke in that second, in half of them on average."""
OFTEN = replace(
    SHORT,
    target="majority|one",
    every_leases=1.5,
    least_leases=32,
    options={**LAZY, "hold_leases": "1"},
)
"""At one stroke the newest hold is seldom that new: more strokes, and shorter holds."""
OPERATING = replace(SHORT, fault_leases=0, least_locks=6, options=HALF_LAZY)
"""Operations take the time that they take; owners are silent meanwhile. Of several locks some are
free when a copy is made: only of these it knows no owner whom it would keep."""
LEADERS_LOST = PlanChange(
    target="leader|one",
    every_leases=2.5,
    least_leases=20,
    clients=QUEUED.clients,
    locks=QUEUED.locks,
    options=QUEUED.options,
)
"""Leaders that are lost while several clients wait."""
DECIDERS = "the servers that decide"


class Stroke(NamedTuple):
    """One stroke.

    window    the fault
    from_ns   from then on, answers may come from a state that has lost something
    back_ns   from then on, the servers that it struck respond again
    moved_ns  how far it set clocks ahead: a hold with more time left than that is not over by them
    kept_ns   what was acknowledged by then is in the state that it puts back
    """

    window: Window
    from_ns: int
    back_ns: int
    moved_ns: int = -1
    kept_ns: int = -1


def of_deciders(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at so many servers that the others cannot decide: the only one, or a majority."""
    servers = int(case.options.get("servers", "0"))
    return [
        _stroke(window) for window in windows if 2 * len(servers_struck(case, window)) > servers
    ]


def of_leaders(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at the leader and too few others to stop the rest: another server decides next."""
    servers = int(case.options.get("servers", "0"))
    return [
        _stroke(window)
        for window in windows
        if window.leader in (struck := servers_struck(case, window)) and 2 * len(struck) < servers
    ]


def of_lost_leaders(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at the leader, or at so many servers that it is one of them: another server leads
    afterwards, or the same one again."""
    every = [*of_leaders(case, windows), *of_deciders(case, windows)]
    return sorted(every, key=lambda stroke: stroke.from_ns)


def of_replaced_leaders(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at the leader alone after which others decided while it was away, and so early that a
    lease from before was still in force: in a longer election every grant runs out."""
    return [
        stroke
        for stroke in of_leaders(case, windows)
        if first_response(case, stroke.from_ns)
        < min(stroke.back_ns, stroke.from_ns + case.lease_ns // 2)
    ]


def of_minorities(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at fewer than half of the servers, the leader not known to be one of them: the others
    go on, and have to agree without them."""
    servers = int(case.options.get("servers", "0"))
    return [
        _stroke(window)
        for window in windows
        if 0 < 2 * len(struck := servers_struck(case, window)) < servers
        if window.leader not in struck
    ]


def of_operations(_: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Operations that were carried out, and the return of a former leader after a forced failover:
    from their begin on answers may come from another state. A copy that is put back has what was
    acknowledged when it was made, at the injection."""
    spans = [
        (window, *span)
        for window in windows
        for name in OPERATED
        if (span := span_of(window, name)) is not None
    ]
    return [
        Stroke(window, from_ns, to_ns, kept_ns=window.from_ns - 1 if window.traits.reverts else -1)
        for window, from_ns, to_ns, _ in spans
    ]


def of_cut_servers(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at servers that have others to agree with: each side of a cut may decide alone."""
    servers = int(case.options.get("servers", "0"))
    return [_stroke(window) for window in windows if servers > 2 and servers_struck(case, window)]


def of_fast_clocks(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Steps ahead of the clocks of those that decide: the leader, the only server, or a majority.
    They respond all the time. A clock that was behind is set ahead when the fault heals."""
    servers = int(case.options.get("servers", "0"))
    strokes = []
    for window in windows:
        struck = servers_struck(case, window)
        if window.leader not in struck and 2 * len(struck) <= servers:
            continue
        offsets = [offset for server in struck for offset in _offsets(window, server)]
        ahead_ns, behind_ns = max(offsets, default=0), -min(offsets, default=0)
        if ahead_ns > 0:
            strokes.append(Stroke(window, window.from_ns, window.from_ns, ahead_ns))
        if behind_ns > 0:
            strokes.append(Stroke(window, window.to_ns, window.to_ns, behind_ns))
    return strokes


def _offsets(window: Window, server: str) -> list[int]:
    """The offsets of a server's clock, of each of its processes, as the fault agent read them."""
    read = window.evidence.get("offset_ns")
    of = read.get(server) if isinstance(read, Mapping) else None
    every = [*of.values()] if isinstance(of, Mapping) else [of]
    return [one for one in every if isinstance(one, int)]


def _stroke(window: Window) -> Stroke:
    return Stroke(window, window.from_ns, window.to_ns)


def unstaged(windows: Sequence[Window], what: str) -> Seen:
    """What a row has seen of windows without a stroke. what: whom they would have had to strike."""
    kinds = " or ".join(dict.fromkeys(window.do for window in windows))
    return Seen(staged=False, nearest=f"no {kinds} struck {what}: 0 of {len(windows)}")
