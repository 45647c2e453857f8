"""The two events of a finding that contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.harness.properties import of_mechanism
from holdfast.harness.verdicts.judged import Event, Shown

OVERLAPS = {"double-grant", "broken-lease", "double-holder", "dead-grant", "stale-belief"}
"""Kinds that are proved by two overlapping holds; the others are proved by an event."""
SECOND_HOLDS = OVERLAPS - {"dead-grant"}
"""Those of them that are about a grant to another owner."""
TOKENS = of_mechanism("token")
"""Kinds that are proved by the tokens of two grants."""
WAITS = of_mechanism("wait")
GRANTS = ("acquire", "try", "probe")
"""Calls that are granted a lock, or refused it."""
ENDS = ("lost", "closed")
"""Notices, which show that a hold is over, and not that it was in force."""
AT_RETURN = (*GRANTS, "waiting")
"""Calls whose response says what happened."""


def decisive_ns(event: Event) -> int:
    """When an event took effect for a reader: at its response if that says what happened, else at
    its request."""
    op = event.op.replace("_", "-")
    at_return = op in AT_RETURN or event.status == "not-owner"
    return event.t_ret_ns if event.t_ret_ns > 0 and at_return else event.t_inv_ns


def contradicting(finding: Shown) -> tuple[Event, ...]:
    """The two events that contradict each other, by time; fewer if its witnesses have fewer.

    Of two holds at once the grant of the newer one, and the last event that shows the older one.
    Only ok responses count: a refused release shows nothing of a hold, its lease does, which is
    that of the grant or renewal. Of two tokens the two grants. Of other findings the last events of
    the two attempts whose last ones are latest, or of the only one. A wait that is too long has no
    such pair.
    """
    shown: Sequence[Event] = finding.witnesses
    if finding.kind in WAITS:
        return ()
    if finding.kind in OVERLAPS:
        shown = tuple(one for one in shown if one.status == "ok") or shown
    if finding.kind in SECOND_HOLDS:
        shown = tuple(one for one in shown if one.op not in ENDS)
    if finding.kind in TOKENS:
        shown = tuple(one for one in shown if one.op in GRANTS and one.status == "ok") or shown
    first, last = dict[int, Event](), dict[int, Event]()
    for n, one in enumerate(sorted(shown, key=decisive_ns), 1):
        if one.row >= 0:
            first.setdefault(one.attempt or -n, one)
            last[one.attempt or -n] = one
    grants = _second_holds(finding, first)
    if not grants:
        pair = list(last.values()) if len(last) > 1 else _of_one(shown)
        return tuple(sorted(pair, key=decisive_ns)[-2:])
    newest = next((one for one in grants if one.t_ret_ns == finding.t_ns), grants[-1])
    others = [last[one.attempt] for one in grants if one is not newest]
    return tuple(sorted((newest, max(others, key=decisive_ns)), key=decisive_ns))


def _of_one(shown: Sequence[Event]) -> list[Event]:
    """The events of one attempt; a request that the resource logged is one with that."""
    served = any(one.op.startswith("served") for one in shown)
    return [one for one in shown if one.row >= 0 and not (served and one.op in ("write", "read"))]


def _second_holds(finding: Shown, first: Mapping[int, Event]) -> list[Event]:
    """Of a grant to one owner during the hold of another, the grants of the holds drawn; [] of
    other kinds. A grant without a response is shown by the first call that proves it."""
    if finding.kind not in SECOND_HOLDS:
        return []
    drawn = [place for _, _, _, place in finding.spans if 0 <= place < len(finding.witnesses)]
    attempts = dict.fromkeys(finding.witnesses[place].attempt for place in drawn)
    grants = [first[attempt] for attempt in attempts if attempt in first]
    return grants if len(grants) > 1 else []
