"""Second holds: no client is granted a lock while another certainly holds it.

Claims
    A double grant, a broken lease or a double holder, by what proves the older hold.
Assumes, Blind to
    As mutual exclusion.
Cost
    n log n in the attempts of a lock.
"""

from __future__ import annotations

from itertools import chain

from holdfast.checkers.facts import foreign_release, witnesses
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds, span, who
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.held_at_once import Overlap, overlaps
from holdfast.checkers.holds.leases import shortest
from holdfast.checkers.holds.overlaps import proof_reach, reach, slack
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof


def second_holds(case: Case) -> list[Finding]:
    """A finding per grant within another's hold: the first hold that it meets."""
    by_newer: dict[int, Overlap] = {}
    for overlap in chain.from_iterable(overlaps(case).values()):
        by_newer.setdefault(overlap.newer.id, overlap)
    causes = foreign_release.causes(case, by_newer.values())
    return [_finding(case, one, causes.get(id)) for id, one in by_newer.items()]


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
        clause = f"{owner}'s {what}, sent at {seconds(case, int(row['t_inv']))}, returned ok"
        since = f", so it had held without interruption since {seconds(case, older.known_ns)}"
        return clause + since if older.proved else f"{clause}, so it held then"
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
    clause = f"{owner}'s {lease}, could not end before {seconds(case, older.bound_ns)}"
    cut = shortening(case, older)
    if cut >= 0:
        asked = f"{span(int(rows['arg'][cut]))} at {seconds(case, int(rows['t_inv'][cut]))}"
        return f"{clause}, whether or not the unanswered renewal for {asked} took effect"
    ahead_ns = begun_ns + ttl_ns - older.bound_ns
    clock = f" (its clock may be {span(ahead_ns)} ahead)" if ahead_ns else ""
    return clause + clock


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
