"""Stale beliefs: clients that act as owner after their lease expired while another already holds.

No lock can prevent that: a paused client does not notice the time (GC pause, zombie). It is the
hazard that fencing exists for, so it is counted and drawn, and is never a violation of mutual
exclusion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.checkers.facts.wording import drawn, lock_name, name, seconds, span
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt, conflict
from holdfast.checkers.holds.overlaps import Leaders, granted, knots, meetings, reach, slack
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.core.verdict import Finding

FEW = 32
"""Up to this number of overlapping claims, all pairs are checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Belief:
    """older acted as owner past all that bound the service, for ns of newer's hold."""

    older: Attempt
    newer: Attempt
    from_ns: int
    ns: int

    def told(self, case: Case) -> Finding:
        """As a note."""
        older, newer = self.older, self.newer
        lock, since = lock_name(case, older), seconds(case, newer.known_ns)
        return Finding(
            kind="stale-belief",
            sentence=(
                f"{name(case, older.process)} still acted as owner of '{lock}' {span(self.ns)}"
                f" after {name(case, newer.process)} was granted it at {since}: its own hold had"
                f" ended without it noticing"
            ),
            witnesses=tuple(row for row in (older.row, newer.row, older.end_row) if row >= 0),
            lock=lock,
            t_ns=self.from_ns,
            spans=(drawn(case, older, older.end_ns), drawn(case, newer, newer.end_ns)),
        )


@memoised
def stale_beliefs(case: Case) -> tuple[Belief, ...]:
    """All stale beliefs, at most one per newer grant, the longest first; memoised.

    None if only a release frees the lock: two claims at once are then two holders.
    """
    found: list[Belief] = []
    if case.promises.bound != "none":
        found = [b for beliefs in _per_lock(case) for b in beliefs.values()]
    found.sort(key=lambda belief: (-belief.ns, belief.from_ns))
    return tuple(found)


def _met(knot: Sequence[Attempt], slack_ns: int) -> Iterator[tuple[Attempt, Attempt]]:
    """Overlapping claims; of more than FEW at once each with the earlier one that lasts longest."""
    if len(knot) <= FEW:
        yield from meetings(knot, lambda a: a.end_ns, slack_ns)
        return
    longest = Leaders(knot, [a.end_ns for a in knot])
    for n, b in enumerate(knot):
        a = longest.best(b, n)
        if a is not None and a.end_ns > b.known_ns + slack_ns:
            yield a, b


def _per_lock(case: Case) -> list[dict[int, Belief]]:
    far, slack_ns, attempts = reach(case), slack(case), table(case)
    per_lock = []
    for entries in granted(case).values():
        longest: dict[int, Belief] = {}
        claims = knots(case, entries[attempts.certain[entries]], attempts.end)
        for a, b in (pair for knot in claims for pair in _met(knot, slack_ns)):
            if not conflict(a, b):
                continue
            older, newer = (b, a) if NO_TOKEN < b.token < a.token else (a, b)
            from_ns = max(far(older), newer.known_ns, older.known_ns)
            ns = min(older.end_ns, newer.end_ns, case.end_ns) - from_ns - slack_ns
            if ns > 0 and ns > (longest[newer.id].ns if newer.id in longest else 0):
                longest[newer.id] = Belief(older=older, newer=newer, from_ns=from_ns, ns=ns)
        per_lock.append(longest)
    return per_lock
