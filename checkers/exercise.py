"""What a run must have met before a property may be said to hold: nothing passes by default."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from holdfast.checkers import served
from holdfast.checkers.coverage import coverage
from holdfast.checkers.holds import Attempt, attempts, by_lock
from holdfast.harness.case import Case
from holdfast.harness.events import NO_TOKEN, Mode, Op, Status
from holdfast.harness.verdict import Finding, PropertyVerdict, Verdict

Met = tuple[dict[str, int], list[str]]
"""Counts by name, and the reasons why they do not suffice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exercise:
    """What a verdict leans on.

    counts   how often each thing happened that the property is about
    missing  why HOLDS cannot be said, one plain reason each; empty if it can
    """

    counts: Mapping[str, int]
    missing: tuple[str, ...]


EXCUSED_BY_MISSING_ROWS = frozenset(
    {
        "broken-lease",
        "double-holder",
        "expired-owner-write",
        "deadlock",
        "orphan",
        "hung-request",
        "lost-without-notice",
    }
)
"""Kinds of finding that lean on something *not* being in the log: a release that was never sent, an
answer that never came. A row that is lost could be just that. The other kinds are proved by rows
that are there, so nothing that is missing can take them back."""

SLOW_NOT_MISSING = (" was not ready ", " was not idle ", " was not done ")
"""Problems of a run in which somebody was late but wrote down everything. They keep a run from
passing; they excuse nothing, for a client that hangs is what some properties are about."""


def exercise(case: Case, *, needs: Collection[str]) -> Exercise:
    """Whether a run met what the named needs demand; KeyError for one that is not in NEEDS."""
    counts: dict[str, int] = {}
    missing: list[str] = []
    for need in needs:
        _, met = NEEDS[need]
        found, lacks = met(case)
        counts.update(found)
        missing += [reason for reason in lacks if reason not in missing]
    return Exercise(counts=counts, missing=tuple(missing))


def conclude(
    case: Case,
    prop: str,
    findings: Sequence[Finding],
    notes: Sequence[Finding],
    exercise: Exercise,
) -> PropertyVerdict:
    """The verdict of one property: VIOLATED by a finding, UNKNOWN by a lack, else HOLDS.

    A log that lacks rows makes a finding UNKNOWN only where a lost row could explain it.
    """
    problems = case.history.problems
    lost_rows = [p for p in problems if not any(words in p for words in SLOW_NOT_MISSING)]
    proved = [f for f in findings if not lost_rows or f.kind not in EXCUSED_BY_MISSING_ROWS]
    if proved:
        verdict, reason = Verdict.VIOLATED, _count(len(findings), "finding")
    elif findings:
        verdict = Verdict.UNKNOWN
        reason = (
            f"{_count(len(findings), 'finding')} that a lost row could explain,"
            f" and the history may be incomplete: {lost_rows[0]}"
        )
    elif problems:
        verdict, reason = Verdict.UNKNOWN, f"the history may be incomplete: {problems[0]}"
    elif exercise.missing:
        verdict, reason = Verdict.UNKNOWN, "; ".join(exercise.missing)
    else:
        verdict, reason = Verdict.HOLDS, "nothing spoke against it"
    return PropertyVerdict(
        property=prop,
        verdict=verdict,
        reason=reason,
        exercised=dict(exercise.counts),
        findings=tuple(findings),
        notes=tuple(notes),
    )


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _contention(case: Case) -> Met:
    asked = waited = 0
    for found in by_lock(case).values():
        plain = [a for a in found if a.op != Op.PROBE]
        asked += len(plain)
        waited += sum(contended(plain))
    counts = {"acquires": asked, "contended acquires": waited}
    return counts, [] if waited else [f"no acquire waited: 0 of {asked}"]


def contended(found: Sequence[Attempt]) -> list[bool]:
    """For each attempt of one lock: it was told to wait, or met a conflicting certain hold."""
    everybody = _Held(found)
    exclusive = _Held([a for a in found if a.mode == Mode.EXCLUSIVE])
    return [
        bool(a.waitings) or (everybody if a.mode == Mode.EXCLUSIVE else exclusive).during(a)
        for a in found
    ]


class _Held:
    """The certain holds of some attempts, to be asked whether one is open at some time."""

    def __init__(self, found: Sequence[Attempt]) -> None:
        holds = sorted(a.certain for a in found if a.certain is not None)
        self._from = [start for start, _ in holds]
        self._last_end = list(accumulate((end for _, end in holds), max))

    def during(self, a: Attempt) -> bool:
        """Whether a hold that began before the attempt returned was open after its call."""
        before = bisect_left(self._from, a.ret_ns)
        return before > 0 and self._last_end[before - 1] > a.inv_ns


def _judged_holds(case: Case) -> Met:
    grants = [a for a in attempts(case) if a.status == Status.OK]
    if case.promises.bound == "none":
        spans = [[a.certain] for a in grants]
    else:
        spans = [[a.contract, a.proved] for a in grants]
    judged = sum(any(s is not None and s[0] < s[1] for s in spans_of) for spans_of in spans)
    counts = {"grants": len(grants), "judged grants": judged}
    lacks = [] if judged else [f"no grant has a hold that can be judged: 0 of {len(grants)}"]
    return counts, lacks


def _requests(case: Case) -> Met:
    log = served.log(case)
    rows = case.history.rows[log.rows]
    owners = len(np.unique(rows["attempt"]))
    lacks = []
    if owners < 2:
        lacks.append(f"the resource was asked by {_count(owners, 'attempt')} only")
    if len(log.unlogged):
        lacks.append(
            f"the resource's log lacks {_count(len(log.unlogged), 'request')}"
            " that it told a client it had accepted"
        )
    accepted = int((rows["status"] == Status.OK).sum())
    return {"requests": len(rows), "accepted requests": accepted}, lacks


def _stale_requests(case: Case) -> Met:
    if case.options.get("resource") not in served.MODES_WITH_TOKENS:
        return {}, []
    refused = len(served.stale_refused(case))
    total = len(served.log(case).rows)
    lacks = [] if refused else [f"the resource had no stale request to refuse: 0 of {total}"]
    return {"stale requests refused": refused}, lacks


def _updates(case: Case) -> Met:
    rows = case.history.rows[served.log(case).rows]
    mask = (rows["f"] == Op.SERVED_WRITE) & (rows["status"] == Status.OK) & (rows["arg"] >= 0)
    updates = rows[mask]
    order = np.argsort(updates["key"], kind="stable")
    keys, owners = updates["key"][order], updates["attempt"][order]
    after_another = int(((keys[1:] == keys[:-1]) & (owners[1:] != owners[:-1])).sum())
    counts = {"updates": len(updates), "updates after another owner's": after_another}
    lacks = [] if after_another else [f"no update followed another owner's: 0 of {len(updates)}"]
    return counts, lacks


def _probes(case: Case) -> Met:
    asked = {a.key for a in attempts(case) if a.op != Op.PROBE}
    probed = {a.key for a in attempts(case) if a.op == Op.PROBE}
    names = sorted(case.history.strings[key] for key in asked - probed)
    lacks = [f"never probed after the run: {', '.join(names)}"] if names else []
    if not asked and not probed:
        lacks.append("no lock was ever asked for")
    return {"probed locks": len(probed)}, lacks


def _stale_releases(case: Case) -> Met:
    rows = case.history.rows
    asked = case.history.of(Op.RELEASE, Op.RENEW)
    refused = int((rows["status"][asked] == Status.NOT_OWNER).sum())
    counts = {"releases and renewals": len(asked), "turned down as not the owner": refused}
    lacks = [] if refused else [f"nobody but the holder released or renewed: 0 of {len(asked)}"]
    return counts, lacks


def _sharing(case: Case) -> Met:
    """Only where a lock was asked for to be shared; else it is nothing to speak of."""
    granted = [a for a in attempts(case) if a.certain is not None and a.mode != Mode.EXCLUSIVE]
    asked = sum(a.mode != Mode.EXCLUSIVE for a in attempts(case))
    if not asked:
        return {}, []
    spans = sorted((a.key, a.certain) for a in granted if a.certain is not None)
    together = sum(
        key == other and after[0] < span[1] for (key, span), (other, after) in pairwise(spans)
    )
    lacks = [] if together else [f"no two that share a lock held at once: 0 of {asked}"]
    return {"held at once with another": together}, lacks


def _reentries(case: Case) -> Met:
    """Only where somebody asked to be let in again."""
    terms = case.history.rows["op"]
    asked = [a for a in attempts(case) if terms[a.row] & 1]
    if not asked:
        return {}, []
    inside: dict[tuple[int, int], int] = {}
    again = 0
    for a in asked:
        again += a.certain is not None and inside.get((a.process, a.key), -1) > a.inv_ns
        if a.certain is not None:
            until_ns = max(a.certain[1], inside.get((a.process, a.key), -1))
            inside[a.process, a.key] = until_ns
    lacks = [] if again else [f"nobody was let in again where it held: 0 of {len(asked)}"]
    return {"let in again": again}, lacks


def _queries(case: Case) -> Met:
    rows = case.history.rows
    asked = case.history.of(Op.HOLDER, Op.PLACE)
    answered = rows[asked[rows["status"][asked] == Status.OK]]
    holders = int(((answered["f"] == Op.HOLDER) & (answered["token"] != NO_TOKEN)).sum())
    places = int(((answered["f"] == Op.PLACE) & (answered["res"] >= 0)).sum())
    lacks = []
    if not holders:
        lacks.append(f"no answer named a holder: 0 of {len(asked)} queries")
    if not places:
        lacks.append(f"no answer gave a place in the queue: 0 of {len(asked)} queries")
    return {"queries": len(asked), "holders named": holders, "places given": places}, lacks


def _second_locks(case: Case) -> Met:
    """Waits of a client for one lock while it held another."""
    held: dict[int, list[Attempt]] = {}
    waits = 0
    for a in attempts(case):
        mine = held.setdefault(a.process, [])
        if a.waitings:
            open_now = [b for b in mine if b.certain is not None and b.certain[1] > a.inv_ns]
            waits += any(b.key != a.key for b in open_now)
        mine.append(a)
        del mine[:-8]
    lacks = [] if waits else ["nobody waited for one lock while it held another"]
    return {"waits that held another lock": waits}, lacks


def _repeats(case: Case) -> Met:
    """Writes that were sent more than once, and accepted."""
    writes = case.history.rows[case.history.of(Op.WRITE)]
    again = int(((writes["aux"] > 0) & (writes["status"] == Status.OK)).sum())
    lacks = [] if again else [f"no accepted write was sent twice: 0 of {len(writes)}"]
    return {"writes sent again": again}, lacks


def _losses(case: Case) -> Met:
    told = len(case.history.of(Op.LOST))
    refused = _stale_releases(case)[0]["turned down as not the owner"]
    counts = {"loss notices": told, "turned down as not the owner": refused}
    return counts, [] if told or refused else ["no holder lost its lock"]


def _tokens(case: Case) -> Met:
    grants = [a for a in attempts(case) if a.status == Status.OK]
    with_token = sum(a.token != NO_TOKEN for a in grants)
    lacks = []
    if not with_token:
        lacks.append(f"no grant carried a token: 0 of {len(grants)}")
    return {"grants": len(grants), "grants with a token": with_token}, lacks


NEEDS: Mapping[str, tuple[str, Callable[[Case], Met]]] = {
    "contention": ("an acquire that waited, or asked while another certainly held", _contention),
    "judged-holds": (
        "a grant with a non-empty hold by proof or contract (a certain one, where only a release"
        " ends a hold)",
        _judged_holds,
    ),
    "faults": (
        "per kind of fault that was planned: it bit, with an acquire inside, a grant inside where"
        " one could be had, a hold across an edge, a grant after the heal; of a fault aimed at the"
        " holder, that it held",
        coverage,
    ),
    "requests": (
        "requests of two attempts in the resource's log, and none missing that it says it accepted",
        _requests,
    ),
    "stale-requests": (
        "where the resource looks at tokens: a stale request that it had to refuse",
        _stale_requests,
    ),
    "updates": ("an accepted update that follows another owner's", _updates),
    "probes": ("every lock that was in use asked for once more after the last heal", _probes),
    "stale-releases": (
        "a release or renewal that the service turned down as not the owner's",
        _stale_releases,
    ),
    "losses": ("a holder that was told of a loss or turned down as no owner", _losses),
    "tokens": ("grants that carry tokens", _tokens),
    "queries": ("answers that name a holder, and such that give a place in a queue", _queries),
    "second-locks": ("a client that held one lock and was told to wait for another", _second_locks),
    "repeats": ("an accepted write that was sent more than once", _repeats),
    "sharing": ("where a lock is shared: two who held it at once", _sharing),
    "reentry": ("where owners may come in again: one who did", _reentries),
}
"""Need -> what it demands of a run, and how that is counted. Checkers name the needs they have."""
