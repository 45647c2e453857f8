"""What a run must have exercised before a property HOLDS: nothing passes by default."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from holdfast.checkers.coverage import use_needs
from holdfast.checkers.coverage.by_opportunity import by_opportunity
from holdfast.checkers.coverage.crossed_waits import Wait, crossed
from holdfast.checkers.coverage.lost_rows import could_explain
from holdfast.checkers.coverage.met_spans import Met, spans_met
from holdfast.checkers.coverage.offered_load import too_slow
from holdfast.checkers.coverage.plan_changes import changes
from holdfast.checkers.facts import admissions, resource_log, verdicts_by_fault
from holdfast.checkers.facts.fault_windows import coverage
from holdfast.checkers.facts.late_writes import late_writes
from holdfast.checkers.facts.latency_breakdown import SAID
from holdfast.checkers.facts.power_losses import losses, met_after, operations
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.history_index import Bools, Indices, column, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import reaches
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict
from holdfast.harness.history.distinct_values import distinct


@dataclass(frozen=True, kw_only=True, slots=True)
class Exercise:
    """Coverage that a verdict relies on.

    counts   how often each event happened that the property is about
    missing  what the property needs and the run did not show, one reason each
    doubts   why the property cannot be HOLDS although it was exercised, one reason each
    either   doubts that the run proves as "one of two", of which not both are promised
    needs    the reasons of `missing` per need, () if it is met; others are needs of this property
             alone
    kinds    coverage of each requested kind of fault: HOLDS is limited to those with enough
    aside    a part of the property that was not exercised, reported if the rest holds
    merged   of all parts of a run: its kinds have been looked at, part by part
    """

    counts: Mapping[str, int]
    missing: tuple[str, ...]
    kinds: Mapping[str, verdicts_by_fault.Met]
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    aside: str = ""
    merged: bool = False


SLOW_NOT_MISSING = (" was not ready ", " was not idle ", " was not done ")
"""Problems of a run in which a process was late but recorded everything. The run cannot pass, but
its findings count: a client that hangs is what some properties are about."""


def exercise(case: Case, *, needs: Collection[str]) -> Exercise:
    """Whether a run met the named needs; KeyError for one that is not in NEEDS."""
    counts: dict[str, int] = {}
    slow = too_slow(case)
    by_need: dict[str, tuple[str, ...]] = {}
    known: dict[str, Met] = case.memo.setdefault("needs", {})
    for need in needs:
        _, met = NEEDS[need]
        found, lacks = known.get(need) or known.setdefault(need, met(case))
        counts.update(found)
        by_need[need] = tuple(lacks)
    missing = dict.fromkeys(reason for lacks in by_need.values() for reason in lacks)
    doubts = [slow] if slow else []
    return Exercise(
        counts=counts,
        missing=tuple(missing),
        needs=by_need,
        kinds=coverage(case) if "faults" in needs else {},
        doubts=(*doubts, *(_not_logged(case) if "requests" in needs else ())),
    )


def conclude(
    case: Case,
    prop: str,
    findings: Sequence[Finding],
    notes: Sequence[Finding],
    exercise: Exercise,
) -> PropertyVerdict:
    """The verdict of one property: VIOLATED by a finding, UNKNOWN by missing coverage, else HOLDS.

    A log that lacks rows makes a finding UNKNOWN only if a lost row could explain it. A kind of
    fault with too little coverage is UNKNOWN (`under`); the property is only if every requested
    kind is.
    """
    if not exercise.merged:
        exercise = replace(exercise, kinds=by_opportunity(case, prop, exercise.kinds))
    problems = case.history.problems
    lost_rows = [p for p in problems if not any(words in p for words in SLOW_NOT_MISSING)]
    proved = {
        place: finding
        for place, finding in enumerate(findings)
        if not (lost_rows and could_explain(finding))
    }
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
    else:
        verdict, reason = _without_findings(exercise)
    case.memo.setdefault("exercises", {})[prop] = exercise
    lacking = "; ".join((*exercise.either, *exercise.doubts, *exercise.missing))
    if problems or (findings and not proved):
        lacking = reason if not proved else f"the history may be incomplete: {problems[0]}"
    return PropertyVerdict(
        property=prop,
        verdict=verdict,
        reason=reason,
        exercised=dict(exercise.counts),
        findings=tuple(findings),
        notes=tuple(notes),
        under=verdicts_by_fault.under(case, proved, exercise.kinds, lacking),
        changes=changes(need for need, reasons in exercise.needs.items() if reasons),
        either=exercise.either,
    )


def _without_findings(exercise: Exercise) -> tuple[Verdict, str]:
    lacks = {kind: met.missing for kind, met in exercise.kinds.items() if met.missing}
    lacking = *exercise.either, *exercise.doubts, *exercise.missing
    if lacking or (lacks and len(lacks) == len(exercise.kinds)):
        every = [*lacking, *(reason for reasons in lacks.values() for reason in reasons)]
        return Verdict.UNKNOWN, "; ".join(dict.fromkeys(every))
    told = "no violation found"
    if lacks:
        kept = ", ".join(kind for kind in exercise.kinds if kind not in lacks)
        why = "; ".join(f"{kind} ({', '.join(reasons)})" for kind, reasons in lacks.items())
        told += f" under {kept}; not exercised under {why}"
    return Verdict.HOLDS, f"{told}; {exercise.aside}" if exercise.aside else told


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _contention(case: Case) -> Met:
    plain = table(case).op != Op.PROBE
    asked = int(plain.sum())
    waited = int(contended(case, plain).sum())
    counts = {"acquires": asked, "contended acquires": waited}
    return counts, [] if waited else [f"no acquire waited: 0 of {asked}"]


def contended(case: Case, among: Bools) -> Bools:
    """Which entries waited, by a response or by a conflicting certain hold during the call.

    Only entries in `among` count, as waiters and as holders.
    """
    found = table(case)
    waited = found.queued >= 0
    for entries in found.by_lock().values():
        mine = entries[among[entries]]
        exclusive = found.mode[mine] == Mode.EXCLUSIVE
        waited[mine[exclusive]] |= _met_a_hold(found, mine[exclusive], mine)
        waited[mine[~exclusive]] |= _met_a_hold(found, mine[~exclusive], mine[exclusive])
    return waited & among


def _met_a_hold(found: Table, asked: Indices, others: Indices) -> Bools:
    """Whether a certain hold of another client that began before each one's return was open after
    its call."""
    held = others[found.certain[others]]
    return spans_met(found, asked, found.ret[asked], held, found.ret[held], found.end[held])


def _judged_holds(case: Case) -> Met:
    """Holds that can be judged, and acquires of other clients in flight during one of them: a hold
    without a concurrent request of another client shows nothing."""
    found, far = table(case), reaches(case)
    if case.promises.bound == "none":
        judged = found.certain & (found.ret < found.end)
    else:
        judged = found.ok & ((found.known < found.bound) | (found.known < found.proof))
    asked = found.op != Op.PROBE
    met = 0
    for entries in found.by_lock().values():
        held, mine = entries[judged[entries]], entries[asked[entries]]
        met += int(
            spans_met(found, mine, found.ret[mine], held, found.known[held], far[held]).sum()
        )
    grants, n = int(found.ok.sum()), int(judged.sum())
    counts = {"grants": grants, "judged grants": n, "acquires during a judged hold": met}
    if not n:
        return counts, [f"no grant has a hold that can be judged: 0 of {grants}"]
    return counts, [] if met else [
        f"no other client asked during a hold that can be judged: 0 of {n}"
    ]


def _handovers(case: Case) -> Met:
    """Grants of a lock to another client than its previous holder, without probes."""
    found, passed = table(case), 0
    for entries in found.by_lock().values():
        mine = entries[found.ok[entries] & (found.op[entries] != Op.PROBE)]
        owners = found.process[mine[np.argsort(found.ret[mine], kind="stable")]]
        passed += int((owners[1:] != owners[:-1]).sum())
    lacks = [] if passed else ["no lock passed from one client to another"]
    return {"handovers": passed}, lacks


def _bounded(case: Case) -> Met:
    """Requests with a bounded wait: acquires without a bound may wait indefinitely."""
    found = table(case)
    bounded = int(((found.wait >= 0) & (found.op != Op.PROBE)).sum())
    lacks = [] if bounded else [f"no acquire had a bounded wait: 0 of {len(found)}"]
    return {"acquires with a bounded wait": bounded}, lacks


def _requests(case: Case) -> Met:
    log = resource_log.log(case)
    rows = case.history.rows[log.rows]
    owners = len(distinct(rows["attempt"]))
    lacks = []
    if owners < 2:
        lacks.append(f"the resource received requests of {_count(owners, 'attempt')} only")
    accepted = int((rows["status"] == Status.OK).sum())
    return {"requests": len(rows), "accepted requests": accepted}, lacks


def _not_logged(case: Case) -> list[str]:
    n = len(resource_log.log(case).unlogged)
    if not n:
        return []
    return [f"the resource's log lacks {_count(n, 'request')} that it reported as accepted"]


def _stale_requests(case: Case) -> Met:
    """Stale requests that the resource rejected: the only evidence that it rejects older owners.

    A resource that accepts everything never rejects: there the property is violated or not
    exercised.
    """
    refused = len(admissions.stale_refused(case))
    total = len(resource_log.log(case).rows)
    if case.options.get("resource") not in resource_log.MODES_WITH_TOKENS:
        why = f"no older owner's write came after a newer owner's: 0 of {total}"
        return {}, [f"{why}, and a resource without tokens has none to refuse"]
    lacks = [] if refused else [f"the resource had no stale request to refuse: 0 of {total}"]
    return {"stale requests refused": refused}, lacks


def _expired_requests(case: Case) -> Met:
    late = late_writes(case)
    log = resource_log.log(case).rows
    total = int((column(case, "f")[log] == Op.SERVED_WRITE).sum())
    refused = sum(not request.accepted for request, _, _ in late)
    counts = {"writes of expired owners": len(late), "of them refused": refused}
    lack = f"no write came from an owner whose hold had certainly ended: 0 of {total}"
    return counts, [] if late else [lack]


def _updates(case: Case) -> Met:
    rows = case.history.rows[resource_log.log(case).rows]
    mask = (rows["f"] == Op.SERVED_WRITE) & (rows["status"] == Status.OK) & (rows["arg"] >= 0)
    updates = rows[mask]
    order = np.argsort(updates["key"], kind="stable")
    keys, owners = updates["key"][order], updates["attempt"][order]
    after_another = int(((keys[1:] == keys[:-1]) & (owners[1:] != owners[:-1])).sum())
    counts = {"updates": len(updates), "updates after another owner's": after_another}
    lacks = [] if after_another else [f"no update followed another owner's: 0 of {len(updates)}"]
    return counts, lacks


def _stale_releases(case: Case) -> Met:
    asked = rows_of(case, Op.RELEASE, Op.RENEW)
    refused = int((column(case, "status")[asked] == Status.NOT_OWNER).sum())
    counts = {"releases and renewals": len(asked), "rejected as not the owner": refused}
    lacks = [] if refused else [f"no client but the holder released or renewed: 0 of {len(asked)}"]
    return counts, lacks


def _sharing(case: Case) -> Met:
    """Only if a shared lock was requested; else nothing is required."""
    found = table(case)
    asked = found.mode != Mode.EXCLUSIVE
    if not asked.any():
        return {}, []
    held = np.flatnonzero(asked & found.certain)
    held = held[np.lexsort((found.ret[held], found.key[held]))]
    same = found.key[held][1:] == found.key[held][:-1]
    same &= found.process[held][1:] != found.process[held][:-1]
    together = int((same & (found.ret[held][1:] < found.end[held][:-1])).sum())
    lacks = [] if together else [f"no two that share a lock held at once: 0 of {int(asked.sum())}"]
    return {"held at once with another": together}, lacks


def _reentries(case: Case) -> Met:
    """Only if a client requested reentry."""
    found = table(case)
    asked = np.flatnonzero(column(case, "op")[found.row] & 1)
    if not len(asked):
        return {}, []
    inside: dict[tuple[int, int], int] = {}
    again = 0
    for n in asked[found.certain[asked]].tolist():
        owner = int(found.process[n]), int(found.key[n])
        until_ns = inside.get(owner, -1)
        again += bool(until_ns > found.inv[n])
        inside[owner] = max(int(found.end[n]), until_ns)
    lacks = [] if again else [f"no holder was granted its lock again: 0 of {len(asked)}"]
    return {"reentrant grants": again}, lacks


def _queries(case: Case) -> Met:
    rows = case.history.rows
    asked = case.history.of(Op.HOLDER, Op.PLACE, Op.LENGTH)
    answered = rows[asked[rows["status"][asked] == Status.OK]]
    holders = int(((answered["f"] == Op.HOLDER) & (answered["token"] != NO_TOKEN)).sum())
    places = int(((answered["f"] == Op.PLACE) & (answered["res"] >= 0)).sum())
    lengths = int(((answered["f"] == Op.LENGTH) & (answered["res"] > 0)).sum())
    aged = int(((answered["f"] == Op.HOLDER) & (answered["spent"] & SAID > 0)).sum())
    lacks, checks = [], _checks(case)
    told = _entries_told(case)
    if told and not asked.size and not checks:
        inner, last = told["releases with entries left"], told["full releases"]
        return told, [] if inner and last else [
            "no release reported entries left, or none reported that none are"
        ]
    checks |= told
    if checks and not asked.size:
        return checks, [] if checks["over when queried"] else ["no hold was queried after its end"]
    # What a lock does not report at all fails each time, and cannot be wrong.
    reported = set(rows["f"][asked[rows["status"][asked] != Status.FAIL]].tolist())
    never = set(rows["f"][asked].tolist()) - reported
    if asked.size and not reported and not checks:
        lacks.append(f"no query was answered: 0 of {len(asked)}")
    if Op.HOLDER not in never and not holders:
        lacks.append(f"no response named a holder: 0 of {len(asked)} queries")
    if Op.PLACE not in never and not places:
        lacks.append(f"no response gave a queue position: 0 of {len(asked)} queries")
    if Op.LENGTH in reported and not lengths:
        lacks.append(f"no response gave a queue length: 0 of {len(asked)} queries")
    named = {"holders named": holders, "hold ages": aged, "queue positions": places}
    named["lengths above 0"] = lengths
    return checks | {"queries": len(asked)} | named, lacks


def _entries_told(case: Case) -> dict[str, int]:
    """Releases that reported their owner's remaining entries, if there are any."""
    rows = rows_of(case, Op.RELEASE)
    told = column(case, "res")[rows][column(case, "status")[rows] == Status.OK]
    if not (told > 0).any():
        return {}
    return {
        "releases with entries left": int((told > 1).sum()),
        "full releases": int((told == 1).sum()),
    }


def _checks(case: Case) -> dict[str, int]:
    """Queries whether a hold is in force, if there are any."""
    rows = case.history.of(Op.CHECK)
    status = column(case, "status")[rows]
    answered = rows[(status == Status.OK) | (status == Status.FAIL)]
    entry = table(case).of_rows(answered)
    known = entry >= 0
    late = table(case).end[entry[known]] < column(case, "t_inv")[answered[known]]
    return (
        {"holds queried": len(answered), "over when queried": int(late.sum())} if len(rows) else {}
    )


def _second_locks(case: Case) -> Met:
    """Waits of a client for one lock while it held another, and wait-for cycles, however short:
    without a cycle there is no deadlock to break."""
    found, waits = table(case), list[Wait]()
    ends = np.where(found.certain, found.end, -1)
    for process in np.unique(found.process).tolist():
        mine = np.flatnonzero(found.process == process)
        latest = np.maximum.accumulate(ends[mine])
        inside = np.concatenate(([False], latest[:-1] > found.inv[mine[1:]]))
        for n in np.flatnonzero(inside & (found.queued[mine] >= 0)).tolist():
            before, a = mine[max(0, n - 8) : n], mine[n]
            other = (found.key[before] != found.key[a]) & (ends[before] > found.inv[a])
            held = frozenset(found.key[before[other]].tolist())
            if held:
                span = int(found.queued[a]), int(found.ret[a])
                waits.append(Wait(process, int(found.key[a]), held, *span))
    mutual = crossed(waits)
    counts = {"waits that held another lock": len(waits), "mutual waits": mutual}
    if not waits:
        return counts, ["no client waited for one lock while it held another"]
    return counts, [] if mutual else ["no clients waited for each other's locks at once"]


def _repeats(case: Case) -> Met:
    """Writes that were sent more than once, and accepted."""
    writes = case.history.rows[case.history.of(Op.WRITE)]
    again = int(((writes["aux"] > 0) & (writes["status"] == Status.OK)).sum())
    lacks = [] if again else [f"no accepted write was sent twice: 0 of {len(writes)}"]
    return {"writes sent again": again}, lacks


def _named_waits(case: Case) -> Met:
    """Grants to clients that had waited, and those whose token a holder query named: only of these
    is the time of the grant known from another source than their own return."""
    found, rows = table(case), case.history.rows
    waited = found.ok & (found.queued >= 0) & (found.token != NO_TOKEN)
    said = rows[case.history.of(Op.HOLDER)]
    said = said[(said["status"] == Status.OK) & (said["token"] != NO_TOKEN)]
    named = set(zip(said["key"].tolist(), said["token"].tolist(), strict=True))
    mine = zip(found.key[waited].tolist(), found.token[waited].tolist(), strict=True)
    known = sum(one in named for one in mine)
    total = int(waited.sum())
    lack = f"no response named a holder that had waited: 0 of {total} grants to waiting clients"
    counts = {"grants to waiting clients": total, "of them named by a response": known}
    return counts, [] if known else [lack]


NOBODY_NOTIFIED = "no holder lost its lock"


def _losses(case: Case) -> Met:
    """Holders notified of a loss: by a notice, or by a renewal with the response "not the owner".

    A release with that response does not count: its client had given the lock up. A notice to a
    client that still waits does not count either.
    """
    found, status = table(case), column(case, "status")
    renewals = rows_of(case, Op.RENEW)
    notices = rows_of(case, Op.LOST)
    refused = renewals[status[renewals] == Status.NOT_OWNER]
    entry = found.of_rows(np.concatenate((notices, refused)))
    entry = distinct(entry[entry >= 0])
    held = int(found.ok[entry].sum())
    counts = {"loss notices": len(notices), "holders notified": held}
    return counts, [] if held else [NOBODY_NOTIFIED]


def _tokens(case: Case) -> Met:
    """Grants with a token, and those requested after another client's had been granted: only for
    those is it known which of the two tokens has to be larger."""
    found = table(case)
    carries = found.ok & (found.token != NO_TOKEN)
    grants, with_token = int(found.ok.sum()), int(carries.sum())
    after = 0
    for entries in found.by_lock().values():
        mine = entries[carries[entries]]
        # The earliest grant of all, and for its own client the earliest of the others.
        ret, owner = found.ret[mine], found.process[mine]
        first = int(ret.argmin()) if len(mine) else 0
        others_ns = ret[owner != owner[first]].min(initial=INF) if len(mine) else INF
        before_ns = np.where(owner == owner[first], others_ns, ret[first]) if len(mine) else ret
        after += int((found.inv[mine] > before_ns).sum())
    counts = {"grants": grants, "grants with a token": with_token}
    counts["grants after another client's"] = after
    if not with_token:
        return counts, [f"no grant carried a token: 0 of {grants}"]
    lack = f"no grant with a token was requested after another client's: 0 of {with_token}"
    return counts, [] if after else [lack]


def _power_losses(case: Case) -> Met:
    """Power losses of a majority and operations, holds across them, and requests that met such a
    hold after."""
    found = losses(case)
    lost = sum(not loss.operation for loss in found)
    planned_operations = sum(bool(window.traits.operates) for window in case.windows)
    held, met = met_after(case)
    counts = {"power losses of a majority": lost}
    across = "a power loss"
    if planned_operations:
        counts["operations on servers"] = operations(case)
        across = "an operation or a power loss"
    counts[f"holds across {across}"] = held
    counts["acquires during such a hold, after it"] = met
    if not found and planned_operations:
        return counts, [f"no operation on the servers took effect: 0 of {planned_operations}"]
    if not found:
        planned = sum(window.traits.loses_unsynced for window in case.windows)
        return counts, [f"no majority of the servers lost power: 0 of {planned} power losses"]
    what = " or ".join(dict.fromkeys(_article(loss.what) for loss in found))
    if not held:
        return counts, [f"no lock was certainly held across {what}: 0 of {len(found)}"]
    lack = f"no other client asked for a lock that was held across {what}, after it:"
    return counts, [] if met else [f"{lack} 0 of {held} holds"]


def _article(what: str) -> str:
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def _faults(case: Case) -> Met:
    """Missing coverage is reported per kind (`Exercise.kinds`)."""
    return {name: n for met in coverage(case).values() for name, n in met.counts.items() if n}, []


NEEDS: Mapping[str, tuple[str, Callable[[Case], Met]]] = {
    "contention": (
        "an acquire that waited, or was sent while another client certainly held",
        _contention,
    ),
    "judged-holds": (
        "a grant with a non-empty hold by proof or contract (a certain one, where only a release"
        " ends a hold), and another client that asked for the lock during it",
        _judged_holds,
    ),
    "faults": (
        "per kind of fault in the plan: it took effect (aimed at the holder: while it held), with"
        " an opportunity of each row that the run staged, or requests inside and a hold at an edge",
        _faults,
    ),
    "requests": (
        "requests of two attempts in the resource's log, and every request that it reported as"
        " accepted",
        _requests,
    ),
    "stale-requests": (
        "an older owner's request, after a newer owner's, that the resource had to refuse",
        _stale_requests,
    ),
    "expired-requests": (
        "a write that reached the resource after its owner's hold had certainly ended",
        _expired_requests,
    ),
    "updates": ("an accepted update that follows another owner's", _updates),
    "probes": ("an acquire of every lock that was in use after the last heal", use_needs.probes),
    "stale-releases": (
        "a release or renewal that the service rejected as not the owner's",
        _stale_releases,
    ),
    "losses": ("a holder that was notified of a loss, or whose renewal was refused", _losses),
    "named-waits": (
        "a grant to a client that had waited, which a query of the holder names",
        _named_waits,
    ),
    "tokens": ("a grant with a token, requested after another client's grant", _tokens),
    "queries": (
        "responses that name a holder, that give a queue position and, where lengths are queried,"
        " that give the length of a queue that is not empty; where only releases report entries"
        " left, some that leave one and some that leave none",
        _queries,
    ),
    "second-locks": (
        "clients that each held a lock and waited for the other's at the same time",
        _second_locks,
    ),
    "handovers": ("a lock that passed from one client to another", _handovers),
    "rivals": (
        "an acquire that was sent while another client waited for the lock",
        use_needs.rivals,
    ),
    "waits-behind": (
        "a grant to a client that waited, with another client waiting behind it",
        use_needs.waits_behind,
    ),
    "patient-waits": (
        "where clients wait behind each other: a wait whose bound allows a grant to each other"
        " client, and one more",
        use_needs.patient,
    ),
    "subtrees": (
        "where locks are paths: an acquire of one above or below one that another held",
        use_needs.subtrees,
    ),
    "bounded-waits": ("an acquire with a bounded wait", _bounded),
    "repeats": ("an accepted write that was sent more than once", _repeats),
    "jobs": ("a job that an owner found done by another client", use_needs.jobs),
    "power-losses": (
        "a power loss of a majority of the servers, or an operation on servers, while a lock was"
        " certainly held, and another"
        " client that asked for it afterwards, before that hold had to end",
        _power_losses,
    ),
    "sharing": ("where a lock is shared: two clients that held it at once", _sharing),
    "reentry": ("where a lock is reentrant: a grant to its holder", _reentries),
}
"""Need -> what it requires of a run, and the function that counts it. Checkers name their needs."""
