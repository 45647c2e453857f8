"""Mutual exclusion: two owners never hold one lock at once (no split brain).

Claims: a double grant (the service's own responses prove two holds at once), a broken lease (a
grant within a lease that the service had promised), a double holder (two claims at once although
only a release frees the lock), a dead grant (to an attempt of whose loss the service had notified
the client before), an over-admission (more permits of a semaphore held at once than exist), an
early grant (within the lock-delay after the holder's death)
Assumes: what the promises declare about the service's clock and about what its ok responses prove;
that tokens declared as ordered are, unless the run contradicts it: tokens alone never prove two
owners at once, because the tokens may be wrong
Blind to: a client that acts on an expired lease, which no lock can prevent. Such stale beliefs are
noted, because fencing exists for them. Leases of exact length without tokens are judged pair by
pair
Cost: n log n in the number of attempts, one pass per lock
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import foreign_release, legal_orders, witnesses
from holdfast.checkers.facts.stale_belief import stale_beliefs
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds, span, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import first_come, told
from holdfast.checkers.holds.derive import ENDS, INF, Attempt, conflict
from holdfast.checkers.holds.held_at_once import Overlap, overlaps
from holdfast.checkers.holds.history_index import Indices
from holdfast.checkers.holds.leases import shortest
from holdfast.checkers.holds.overlaps import proof_reach, proof_reaches, reach, slack
from holdfast.checkers.holds.statements import RELEASES, RENEWALS, TOKENS
from holdfast.checkers.holds.token_order import disputes, granted_by_token, ordered
from holdfast.checkers.properties.lock_delay import delayed, early_grants
from holdfast.checkers.properties.over_admission import over_admissions
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "mutual-exclusion"
NEEDS = ("contention", "judged-holds", "sharing", "reentry", "subtrees", "faults")
MOST_NOTES = 20
"""limit on the stale beliefs shown, longest first; all are counted"""


def check(case: Case) -> PropertyVerdict:
    """The verdict, with a finding per grant within another's hold."""
    in_time = chain.from_iterable(overlaps(case).values())
    by_newer: dict[int, Overlap] = {}
    for overlap in in_time:
        by_newer.setdefault(overlap.newer.id, overlap)
    causes = foreign_release.causes(case, by_newer.values())
    findings = [_finding(case, one, causes.get(id)) for id, one in by_newer.items()]
    findings += over_admissions(case)
    findings += _dead_grants(case)
    findings += early_grants(case)
    findings.sort(key=lambda finding: finding.t_ns)
    notes = [belief.told(case) for belief in stale_beliefs(case)[:MOST_NOTES]]
    met, (delays, aside) = exercise(case, needs=NEEDS), delayed(case)
    went_without = told(case, RENEWALS, RELEASES, TOKENS)
    met = replace(
        met,
        counts={**met.counts, **delays},
        either=tuple(_disputed(case)),
        aside="; ".join(part for part in (aside, went_without) if part),
    )
    verdict = conclude(case, PROPERTY, findings, notes, met)
    return legal_orders.ordered(case, verdict, legal_orders.of_grants)


def _disputed(case: Case) -> list[str]:
    """Locks whose tokens, if in order, would prove two owners at once, while times do not.

    That they may be out of order rules nothing out here, even if other tokens of that lock
    certainly are. Where their order is promised under other faults only, as of a counter that a
    crash resets, they may be out of order after the first fault of another kind.
    """
    if case.promises.tokens != "ordered":
        return []
    shown = disputes(case, before_ns=_reset_ns(case))
    return [said for key, said in shown.items() if not overlaps(case).get(key)]


def _reset_ns(case: Case) -> int:
    """When the first fault began under which the order of tokens is not promised, though it is
    under others; INF: none did."""
    promises = case.promises
    if "token-order" not in promises.keeps:
        return INF
    return min(
        (w.earliest_ns for w in case.windows if not promises.promised("token-order", (w.do,))),
        default=INF,
    )


def _finding(case: Case, overlap: Overlap, cause: foreign_release.Cause | None) -> Finding:
    older, newer = overlap.older, overlap.newer
    if overlap.proved:
        kind = "double-grant"
    else:
        kind = "double-holder" if case.promises.bound == "none" else "broken-lease"
    sentence = f"{_granted(case, newer)} while {who(case, older)} still held it: "
    sentence += _reason(case, overlap)
    rows = [older.row, *_why_rows(case, older, newer.known_ns), newer.row]
    rows += [known_row(case, newer), known_row(case, older)]
    if newer.inv_ns < older.known_ns:
        rows += _why_rows(case, newer, older.known_ns)
    far = reach(case)
    if cause is not None:
        sentence, rows = cause[1] + sentence, [*cause[2], *rows]
    return Finding(
        kind=kind,
        sentence=sentence,
        witnesses=tuple(dict.fromkeys(row for row in rows if row >= 0)),
        lock=lock_name(case, older),
        t_ns=newer.known_ns,
        spans=(drawn(case, older, far(older)), drawn(case, newer, far(newer))),
        proof=_proof(case, overlap, kind),
        cause="" if cause is None else cause[0],
    )


def _proof(case: Case, overlap: Overlap, kind: str) -> Proof:
    older, newer, far = overlap.older, overlap.newer, reach(case)
    if overlap.proved:
        return Proof(rule=kind, roles=witnesses.sides(case, older=older, newer=newer))
    return Proof(
        rule=kind,
        roles=witnesses.known(case, older=older, newer=newer),
        values={"older_reach": far(older), "newer_reach": far(newer)},
    )


def _granted(case: Case, newer: Attempt) -> str:
    lock, when = lock_name(case, newer), seconds(case, newer.known_ns)
    token = f" (token {newer.token})" if newer.token >= 0 else ""
    owner = name(case, newer.process)
    if newer.status is Status.OK:
        return f"{owner} was granted '{lock}'{token} at {when}"
    return f"{owner} held '{lock}'{token} by {when}, though its acquire had no response,"


def _reason(case: Case, overlap: Overlap) -> str:
    """What proves that the older of the two still held when the newer was granted."""
    older, now_ns = overlap.older, overlap.newer.known_ns
    owner, rows = name(case, older.process), case.history.rows
    if proof_reach(older) > now_ns + slack(case):
        row = rows[older.proof_row]
        what = "renewal" if row["f"] == Op.RENEW else "release"
        said = f"{owner}'s {what}, sent at {seconds(case, int(row['t_inv']))}, returned ok"
        since = f", so it had held without interruption since {seconds(case, older.known_ns)}"
        return said + since if older.proved else f"{said}, so it held then"
    if case.promises.bound == "none":
        end = f"only at {seconds(case, older.kept_ns)}" if older.kept_why else "at no time"
        return f"{owner} released it {end}, and nothing else frees this lock"
    return _lease_reason(case, older)


def _lease_reason(case: Case, older: Attempt) -> str:
    """The earliest end of a lease or session, with the terms of that sum.

    The end is beginning plus length; the text names a deduction for the service's clock or for a
    renewal of unknown outcome, and the end of the claim if that came earlier.
    """
    owner, rows = name(case, older.process), case.history.rows
    if older.lease_row < 0:
        begun_ns, ttl_ns = older.inv_ns, older.ttl_ns
        lease = f"lease of {span(ttl_ns)}, requested at {seconds(case, begun_ns)}"
    else:
        row = rows[older.lease_row]
        begun_ns, ttl_ns = int(row["t_inv"]), int(row["res"])
        kind = "lease" if row["f"] == Op.RENEW else "session"
        lease = f"{kind} of {span(ttl_ns)}, renewed at {seconds(case, begun_ns)}"
    if older.bound_ns == older.kept_ns:
        until = f"until it was killed at {seconds(case, older.kept_ns)}"
        if older.kept_row >= 0:
            until = f"until {seconds(case, older.kept_ns)}"
        return f"{owner}'s {lease}, had not expired, and {owner} kept the lock {until}"
    told = f"{owner}'s {lease}, could not end before {seconds(case, older.bound_ns)}"
    cut = shortening(case, older)
    if cut >= 0:
        asked = f"{span(int(rows['arg'][cut]))} at {seconds(case, int(rows['t_inv'][cut]))}"
        return f"{told}, whether or not the unanswered renewal for {asked} took effect"
    ahead_ns = begun_ns + ttl_ns - older.bound_ns
    clock = f" (its clock may be {span(ahead_ns)} ahead)" if ahead_ns else ""
    return told + clock


def shortening(case: Case, a: Attempt) -> int:
    """The renewal of unknown outcome that may have shortened an attempt's lease, -1: none."""
    rows = case.history.rows
    begun_ns = a.inv_ns if a.lease_row < 0 else int(rows["t_inv"][a.lease_row])
    ttl_ns = a.ttl_ns if a.lease_row < 0 else int(rows["res"][a.lease_row])
    end_ns = a.bound_ns + case.promises.slip_ns
    if begun_ns + shortest(ttl_ns, case.promises) == end_ns:
        return -1
    for row in a.renewals:
        ttl = shortest(int(rows["arg"][row]), case.promises)
        if end_ns in (begun_ns + ttl, int(rows["t_inv"][row]) + ttl):
            return row
    return -1


def _why_rows(case: Case, attempt: Attempt, beyond_ns: int) -> tuple[int, ...]:
    """The rows that prove its hold beyond beyond_ns, none if that is the grant itself."""
    if attempt.proof_ns > beyond_ns + slack(case):
        return (attempt.proof_row,)
    if case.promises.bound == "none":
        return (attempt.kept_row,)
    if attempt.bound_ns == attempt.kept_ns:
        return attempt.lease_row, attempt.kept_row
    return attempt.lease_row, shortening(case, attempt)


def _dead_grants(case: Case) -> Iterator[Finding]:
    """Grants to attempts whose loss notification came before the grant can have been given.

    Only a smaller token proves that, requested after the notice or proved to be held then:
    otherwise the return may only have been late. A client that races requests again with the same
    attempt, so there it proves nothing.
    """
    for key, entries in granted_by_token(case).items():
        if ordered(case, key) and first_come(case, key):
            for latest, attempt in _told_before(case, entries):
                yield _dead_grant(case, latest, attempt)


def _told_before(case: Case, ordered: Indices) -> Iterator[tuple[Attempt, Attempt]]:
    """(smaller, dead): the smaller token was held or requested after the other's loss notice."""
    found, kind = table(case), case.history.rows["f"]
    lost = found.why[ordered[1:]] == ENDS.index("lost")
    if not lost.any():
        return
    far, token = proof_reaches(case)[ordered], found.token[ordered]
    latest = np.maximum.accumulate(far)
    place = np.where(far > np.concatenate(([-1], latest))[:-1], np.arange(len(far)), 0)
    before = np.maximum.accumulate(place)[:-1]
    after = latest[:-1] > found.end[ordered[1:]] + slack(case)
    after &= lost & (token[before] < token[1:])
    dead = np.flatnonzero(after)
    dead = dead[kind[found.end_row[ordered[dead + 1]]] == Op.LOST]
    pairs = found.pick(ordered[before[dead]]), found.pick(ordered[dead + 1])
    for smaller, lost in zip(*pairs, strict=True):
        # Of two that share the lock, tokens show no order: who joins others may get their token.
        shared = smaller.mode == lost.mode != Mode.EXCLUSIVE
        asked_later = smaller.inv_ns > lost.end_ns + slack(case)
        if conflict(smaller, lost) or (asked_later and not shared):
            yield smaller, lost


def _dead_grant(case: Case, smaller: Attempt, dead: Attempt) -> Finding:
    owner, lock = name(case, dead.process), lock_name(case, dead)
    if smaller.inv_ns > dead.end_ns + slack(case):
        what, t_ns, row = "was requested only", smaller.inv_ns, smaller.row
    else:
        what, t_ns, row = "was still held", smaller.proof_ns, smaller.proof_row
    return Finding(
        kind="dead-grant",
        sentence=(
            f"{owner} was granted '{lock}' (token {dead.token}) although it was notified at"
            f" {seconds(case, dead.end_ns)} that this attempt was over: the smaller token"
            f" {smaller.token} {what} at {seconds(case, t_ns)}"
        ),
        witnesses=(dead.end_row, row, dead.row),
        lock=lock,
        t_ns=t_ns,
        spans=(drawn(case, smaller, smaller.end_ns), drawn(case, dead, dead.known_ns)),
        proof=Proof(
            rule="dead-grant",
            roles={
                **witnesses.known(case, dead=dead, smaller=smaller),
                "smaller_proof": row,
                "notice": dead.end_row,
            },
        ),
    )
