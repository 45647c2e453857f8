"""Certain overtakes: who was granted a lock before somebody that had certainly queued first.

An overtake of a by g is certain if a had been told that it waits before g asked, and a's token says
that it was granted after g. What a client was told is stamped when it learns, so "waits still" says
nothing of now; only tokens, where they are promised to be ordered, tell which grant came later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.checkers.holds import Attempt, ordered_tokens
from holdfast.checkers.overlaps import granted, inversions, slack
from holdfast.checkers.sentences import lock_name, name, seconds
from holdfast.harness.case import Case
from holdfast.harness.events import NO_TOKEN, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """An attempt that waited and was granted, with those who certainly overtook it, in order."""

    attempt: Attempt
    queued_ns: int
    by: tuple[Attempt, ...]


def passed(case: Case) -> Sequence[Passed]:
    """Everybody whose wait can be judged; nobody where tokens tell no order. Memoised."""
    if "passed" not in case.memo:
        case.memo["passed"] = list(_all(case)) if ordered_tokens(case) else []
    found: list[Passed] = case.memo["passed"]
    return found


def told(case: Case, one: Passed) -> str:
    """Who waited since when, and who went first: half a sentence."""
    first = one.by[0]
    return (
        f"{name(case, one.attempt.process)} waited for '{lock_name(case, one.attempt)}' since"
        f" {seconds(case, one.queued_ns)} at the latest and was granted it with token"
        f" {one.attempt.token}; {name(case, first.process)} asked for it at"
        f" {seconds(case, first.inv_ns)} and was granted it before, with token {first.token}"
    )


def _all(case: Case) -> Iterator[Passed]:
    stamps = case.history.rows["t_inv"]
    wrong = inversions(case)
    for key, found in granted(case).items():
        if wrong.get(key):
            continue
        known = [a for a in found if a.status is Status.OK and a.token != NO_TOKEN]
        later = sorted(_first_entries(known), key=lambda a: a.inv_ns)
        asked = [a.inv_ns for a in later]
        for a in known:
            if not a.waitings:
                continue
            queued_ns = int(stamps[a.waitings[0]])
            to = bisect_right(asked, a.ret_ns)
            since = bisect_right(asked, queued_ns + slack(case))
            by = tuple(g for g in later[since:to] if g.token < a.token and g.process != a.process)
            yield Passed(attempt=a, queued_ns=queued_ns, by=by)


def _first_entries(known: Sequence[Attempt]) -> Iterator[Attempt]:
    """Without those by which an owner came in again before it was out: it would wait for itself."""
    inside: dict[tuple[int, int], int] = {}
    for a in sorted(known, key=lambda a: a.inv_ns):
        out_ns = inside.get((a.process, a.token), -1)
        if out_ns < a.inv_ns:
            yield a
        inside[a.process, a.token] = max(out_ns, a.end_ns)
