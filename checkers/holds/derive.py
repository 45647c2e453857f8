"""The four kinds of hold of every attempt, derived once for all checkers.

What a client believed (certain), what the service proved, what it had promised (contract) and what
it may have assumed (possible) are four spans; each finding depends on the right one. A notification
row (WAITING, LOST, CLOSED) has the time at which the client received it, which may be long after
the service sent it: it ends claims, it never shows when a lease began.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.checkers.holds.hierarchy import on_line, paths
from holdfast.checkers.holds.history_index import UNKNOWN
from holdfast.checkers.holds.leases import INF as INF
from holdfast.checkers.holds.leases import Renewal, contract_end, longest, possible_end, shortest
from holdfast.checkers.holds.log import Log
from holdfast.checkers.holds.owners import owner_of
from holdfast.checkers.holds.statements import believed
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status

Span = tuple[int, int]
"""[from_ns, to_ns], closed"""

ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE)
ENDS = ("", "release", "lost", "closed", "killed", "force-unlock")
"""Why a claim ended: `Attempt.end_why`, whose place here is `Table.why`."""
DEATHS = ("killed", "closed")
"""Ends of a claim after which its client no longer renews, waits or releases."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One acquire and all that followed from it. Rows are indices into the merged history.

    key, op      index into history.strings; Op.ACQUIRE, TRY or PROBE
    ret_ns       INF if it never returned
    token        as granted, or as in the first response that proves the grant; -1: none known
    ttl_ns       lease granted if it returned ok, else requested
    renewals, releases, waitings   rows in order of time
    end_ns       end of claim: the client acted as owner until then at most (INF while it is open),
                 with the row of it (-1: a kill) and why: "release", "lost", "closed", "killed" or
                 "force-unlock"
    kept_ns, kept_row, kept_why   the same without releases that certainly had no effect: until then
                 the service had no reason to end the hold before its time
    owner        two attempts exclude each other only if their owners differ (`owners`)
    known_ns     by then it had certainly been granted; INF if that is unknown
    proof_ns     the last moment, up to the end of the claim, at which the service proved that it
                 was owned without a break since the grant; -1: never
    proof_row    the renewal or release that proves it, -1: none
    bound_ns     end of what the service promised, the end of the claim at most; -1: never
    lease_row    the renewal or heartbeat that bound_ns counts from, -1: the grant itself
    path         the lock's name if it covers a subtree, else ""
    possible, certain, proved, contract   as in the glossary; None: no such hold
    """

    id: int
    process: int
    node: str
    key: int
    mode: int
    op: int
    row: int
    inv_ns: int
    ret_ns: int
    status: Status
    token: int
    ttl_ns: int
    wait_ns: int
    renewals: tuple[int, ...]
    releases: tuple[int, ...]
    waitings: tuple[int, ...]
    end_ns: int = INF
    end_row: int = -1
    end_why: str = ""
    kept_ns: int = INF
    kept_row: int = -1
    kept_why: str = ""
    owner: int = -1
    known_ns: int = INF
    proof_ns: int = -1
    proof_row: int = -1
    bound_ns: int = -1
    lease_row: int = -1
    path: str = ""
    possible: Span | None = None
    certain: Span | None = None
    proved: Span | None = None
    contract: Span | None = None


def attempts(case: Case) -> tuple[Attempt, ...]:
    """All attempts of a run in order of call. One pass, about 5 us per row, memoised."""
    if "attempts" not in case.memo:
        case.memo["attempts"] = _derive(case)
    every: tuple[Attempt, ...] = case.memo["attempts"]
    return every


@memoised
def by_lock(case: Case) -> dict[int, tuple[Attempt, ...]]:
    """Attempts per lock (index into history.strings), each in order of call."""
    groups: defaultdict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts(case):
        groups[attempt.key].append(attempt)
    return {key: tuple(group) for key, group in groups.items()}


@memoised
def by_id(case: Case) -> dict[int, Attempt]:
    """Attempts by their identity."""
    return {attempt.id: attempt for attempt in attempts(case)}


def conflict(a: Attempt, b: Attempt) -> bool:
    """Whether a and b exclude each other: one lock or ancestor chain, two owners, not both shared.

    Of a semaphore no two holds conflict; too many of them do (`properties.over_admission`).
    """
    shared = a.mode == b.mode != Mode.EXCLUSIVE
    met = a.key == b.key or (bool(a.path) and bool(b.path) and on_line(a.path, b.path))
    return met and a.owner != b.owner and not shared


def ordered_tokens(case: Case) -> bool:
    """Whether the larger of two tokens certainly belongs to the later grant.

    Only if that is declared *and* promised under every kind of fault of the run: a counter that a
    restart may reset says nothing about order in a run with restarts.
    """
    kinds = {window.do for window in case.windows}
    ordered = case.promises.tokens == "ordered"
    return ordered and case.promises.promised("token-order", kinds)


class _End(NamedTuple):
    """An end of claim; the earliest of several is their minimum."""

    t_ns: int
    row: int
    why: str


_OPEN = _End(INF, -1, "")


def _derive(case: Case) -> tuple[Attempt, ...]:
    return derived(Log(case), case.history.of(*ASKS).tolist())


def derived(log: Log, rows: Sequence[int]) -> tuple[Attempt, ...]:
    """The attempts that began with these rows. O(rows of these attempts), about 20 us each."""
    return tuple(_attempt(log, row, _fate(log, row)) for row in rows)


class _Fate(NamedTuple):
    """Token, end of claim, grant and proof of an attempt: what does not depend on its lease.

    kept   the end without releases that certainly had no effect
    """

    token: int
    end: _End
    kept: _End
    known_ns: int
    proof_ns: int
    proof_row: int


def _fate(log: Log, row: int) -> _Fate:
    token = log.token[row] if log.status[row] is Status.OK else NO_TOKEN
    if log.status[row] in (Status.FAIL, Status.NOT_OWNER):
        return _Fate(token, _OPEN, _OPEN, INF, -1, -1)
    releases = log.releases.get(log.attempt[row], ())
    effective = [r for r in releases if log.status[r] is not Status.FAIL]
    end = kept = _end_of_claim(log, row, releases)
    if len(effective) < len(releases):
        kept = _end_of_claim(log, row, effective)
    proofs = [proof for proof in _proofs(log, row) if log.inv[proof] <= kept.t_ns]
    if log.status[row] is Status.OK:
        known_ns = log.ret[row]
    else:
        known_ns = min((log.ret[proof] for proof in proofs), default=INF)
        token = log.token[proofs[0]] if proofs else NO_TOKEN
    last = max(proofs, key=lambda proof: log.inv[proof], default=-1)
    return _Fate(token, end, kept, known_ns, log.inv[last] if proofs else -1, last)


def _proofs(log: Log, row: int) -> list[int]:
    """Rows whose ok proves that the attempt owned the lock, without a break since its grant.

    A release that returns ok at most once proves only that the attempt owned the lock at some time;
    that counts only where the outcome of the grant is unknown.
    """
    attempt, promises = log.attempt[row], log.promises_of(row)
    ended = promises.release_proves
    if log.status[row] in UNKNOWN:
        ended = ended or promises.release_once
    proofs = list(log.renewals.get(attempt, ())) if promises.renew_proves else []
    if ended:
        proofs += log.releases.get(attempt, ())
    return [proof for proof in proofs if log.status[proof] is Status.OK]


def _end_of_claim(log: Log, row: int, releases: Sequence[int]) -> _End:
    """The earliest moment from which the client no longer acts as owner, by these releases."""
    attempt, process, inv_ns = log.attempt[row], log.process[row], log.inv[row]
    ends = [_OPEN]
    if releases:
        owned = [r for r in releases if log.status[r] is Status.OK]
        once = log.promises_of(row).release_once and not log.revivable(attempt)
        first = owned[0] if owned and once else releases[0]
        ends.append(_End(log.inv[first], first, "release"))
    for renewal in log.renewals.get(attempt, ()):
        if log.status[renewal] is Status.NOT_OWNER:
            ends.append(_End(log.ret[renewal], renewal, "lost"))
    for notice in log.told.get(attempt, ()):
        why = "lost" if log.kind[notice] == Op.LOST else "closed"
        ends.append(_End(log.inv[notice], notice, why))
    closed = log.closed.get(process, ())
    at = bisect_left(closed, inv_ns, key=log.inv.__getitem__)
    if at < len(closed):
        ends.append(_End(log.inv[closed[at]], closed[at], "closed"))
    kills = log.kills.get(log.case.nodes.get(process, ""), ())
    at = bisect_left(kills, inv_ns)
    if at < len(kills):
        ends.append(_End(kills[at], -1, "killed"))
    for forced in log.forced.get(log.key[row], ()):
        if log.may_end(forced, row):
            ends.append(_End(max(inv_ns, log.inv[forced]), forced, "force-unlock"))
    return min(ends)


def _attempt(log: Log, row: int, fate: _Fate) -> Attempt:
    attempt, process, status = log.attempt[row], log.process[row], log.status[row]
    ok = status is Status.OK
    renewals = _renewals(log, row)
    certain = proved = contract = None
    bound_ns = lease_row = -1
    if ok and fate.end.t_ns >= log.ret[row]:
        certain = (log.ret[row], fate.end.t_ns)
    if fate.known_ns <= fate.proof_ns:
        proved = (fate.known_ns, fate.proof_ns)
    if ok:
        until_ns, lease_row = _contract(log, row, renewals, fate.kept.t_ns)
        bound_ns = min(until_ns, fate.kept.t_ns)
    if fate.known_ns <= bound_ns:
        contract = (fate.known_ns, bound_ns)
    return Attempt(
        id=attempt,
        process=process,
        node=log.case.nodes.get(process, ""),
        key=log.key[row],
        mode=log.mode[row],
        op=log.kind[row],
        row=row,
        inv_ns=log.inv[row],
        ret_ns=log.ret[row],
        status=status,
        token=fate.token,
        ttl_ns=log.res[row] if ok else log.arg[row],
        wait_ns=log.aux[row],
        renewals=tuple(log.renewals.get(attempt, ())),
        releases=tuple(log.releases.get(attempt, ())),
        waitings=tuple(log.waitings.get(attempt, ())),
        end_ns=fate.end.t_ns,
        end_row=fate.end.row,
        end_why=fate.end.why,
        kept_ns=fate.kept.t_ns,
        kept_row=fate.kept.row,
        kept_why=fate.kept.why,
        owner=owner_of(log.case, row),
        known_ns=fate.known_ns,
        proof_ns=fate.proof_ns,
        proof_row=fate.proof_row,
        bound_ns=bound_ns,
        lease_row=lease_row,
        path=paths(log.case).get(log.key[row], ""),
        possible=_possible(log, row, renewals, fate),
        certain=certain,
        proved=proved,
        contract=contract,
    )


def _contract(log: Log, row: int, renewals: Sequence[Renewal], end_ns: int) -> tuple[int, int]:
    """The end of what the service promised, and the row it counts from; -1 if it promised nothing.

    A lease counts from the call even if the grant had to wait: many services start it there, and a
    client that waited renews immediately.
    """
    if log.promises.bound == "lease":
        sent = [renewal for renewal in renewals if renewal.inv_ns <= end_ns]
        return contract_end(log.inv[row], log.res[row], sent, log.promises_of(row))
    if log.promises.bound == "session":
        beat = _last_beat(log, row, end_ns)
        if beat != -1:
            until_ns = log.inv[beat] + shortest(log.res[beat], log.promises)
            return until_ns - log.promises.slip_ns, beat
    return -1, -1


def leased_until(case: Case, a: Attempt, without: int = -1) -> tuple[int, int]:
    """The end of what an attempt's leases promised, regardless of the end of its claim, and the row
    that it counts from. without: a renewal that is left out.

    A renewal of unknown outcome counts whenever it was sent: it may have requested a shorter lease.
    """
    rows, sent = case.history.rows, []
    for row in a.renewals:
        one = rows[row]
        status = Status(int(one["status"]))
        if row == without or (status not in UNKNOWN and one["t_inv"] > a.kept_ns):
            continue
        sent.append(
            Renewal(
                row=row,
                inv_ns=int(one["t_inv"]),
                ret_ns=int(one["t_ret"]) or INF,
                status=status,
                ttl_ns=int(one["res"] if status is Status.OK else one["arg"]),
            )
        )
    return contract_end(a.inv_ns, a.ttl_ns, sent, believed(case, a.key))


def _last_beat(log: Log, row: int, end_ns: int) -> int:
    """The last acknowledged heartbeat, up to end_ns, of the session that the row belongs to.

    A session of a process ends at its close notification, and where another session's heartbeats
    begin.
    """
    process, inv_ns = log.process[row], log.inv[row]
    closed = [log.inv[notice] for notice in log.closed.get(process, ())]
    at = bisect_left(closed, inv_ns)
    from_ns = closed[at - 1] if at else -1
    to_ns = closed[at] if at < len(closed) else INF
    beats = log.beats.get(process, ())
    known = bisect_right(beats, inv_ns, key=log.inv.__getitem__) - 1
    if known < 0 or log.inv[beats[known]] <= from_ns:
        known += 1
    last = min(
        bisect_right(beats, end_ns, key=log.inv.__getitem__),
        bisect_left(beats, to_ns, key=log.inv.__getitem__),
    )
    while last > known:
        last -= 1
        if log.arg[beats[last]] == log.arg[beats[known]]:
            return beats[last]
    return -1


def _renewals(log: Log, row: int) -> list[Renewal]:
    return [
        Renewal(
            row=r,
            inv_ns=log.inv[r],
            ret_ns=log.ret[r],
            status=log.status[r],
            ttl_ns=log.res[r] if log.status[r] is Status.OK else log.arg[r],
        )
        for r in log.renewals.get(log.attempt[row], ())
    ]


def _possible(log: Log, row: int, renewals: Sequence[Renewal], fate: _Fate) -> Span | None:
    """From its call until the service has certainly freed it."""
    status, promises = log.status[row], log.promises_of(row)
    if status in (Status.FAIL, Status.NOT_OWNER):
        return None
    attempt, ended = log.attempt[row], [INF]
    unknown = status in UNKNOWN
    for release in log.releases.get(attempt, ()):
        response = log.status[release]
        let_go = response is Status.OK and (promises.release_once or not unknown)
        if let_go or (response is Status.NOT_OWNER and not unknown):
            ended.append(log.ret[release])
    if unknown:
        return (log.inv[row], min(ended))
    for renewal in renewals:
        if renewal.status is Status.NOT_OWNER:
            ended.append(renewal.ret_ns)
    if promises.bound == "lease":
        lease_ns = possible_end(log.ret[row], log.res[row], renewals, promises)
        ended = [INF] if lease_ns == INF and log.revivable(attempt) else [*ended, lease_ns]
    elif fate.kept.why in ("closed", "killed"):
        if promises.bound == "session":
            ended.append(fate.kept.t_ns + longest(promises.lasting_ns(log.case.lease_ns), promises))
        elif promises.bound == "connection":
            ended.append(max(fate.kept.t_ns, log.case.stop_ns) + promises.recovery_ns)
    return (log.inv[row], max(log.ret[row], min(ended)))
