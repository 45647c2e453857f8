"""Needs of a run about acquires: waits, holds beside them, and who came after whom."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from holdfast.checkers.coverage.need import Met, Need
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.hierarchy import paths
from holdfast.checkers.holds.history_index import Bools, Indices, column, rows_of
from holdfast.checkers.holds.overlaps import met_full, reaches
from holdfast.checkers.holds.waits import first_told, waits
from holdfast.checkers.opportunities.overtaking import (
    behind_waiters,
    has_queues,
    patient_waits,
    queued_behind,
)
from holdfast.checkers.opportunities.places.crossed_waits import crossed, waits_of_holders
from holdfast.checkers.opportunities.places.met_spans import spans_met
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status

LOW_16 = (1 << 16) - 1


def _contention(case: Case) -> Met:
    plain = table(case).op != Op.PROBE
    asked = int(plain.sum())
    waited = int(contended(case, plain).sum())
    counts = {"acquires": asked, "contended acquires": waited}
    return counts, [] if waited else [f"no acquire waited: 0 of {asked}"]


def contended(case: Case, among: Bools) -> Bools:
    """Which entries waited, by a response or by a conflicting certain hold during the call; of a
    semaphore, by certain holds that left too few permits.

    Only entries in `among` count, as waiters and as holders.
    """
    attempts = table(case)
    waited = attempts.queued >= 0
    for entries in attempts.by_lock().values():
        mine = entries[among[entries]]
        exclusive = attempts.mode[mine] == Mode.EXCLUSIVE
        waited[mine[exclusive]] |= _met_a_hold(attempts, mine[exclusive], mine)
        waited[mine[~exclusive]] |= _met_a_hold(attempts, mine[~exclusive], mine[exclusive])
        of_permits = mine[attempts.mode[mine] == Mode.PERMITS]
        if len(of_permits):
            waited[of_permits] |= _met_full(case, attempts, of_permits)
    return waited & among


def _met_full(case: Case, attempts: Table, asked: Indices) -> Bools:
    """Whether certain holds left fewer permits than each one asked for, during its call."""
    terms = column(case, "op")[attempts.row[asked]]
    end = np.where(attempts.certain[asked], attempts.end[asked], -1)
    wanted, limits = terms >> 24, terms >> 8 & LOW_16
    return met_full(attempts.inv[asked], attempts.ret[asked], end, wanted, limits)


def _met_a_hold(found: Table, asked: Indices, others: Indices) -> Bools:
    """Whether a certain hold of another client that began before each one's return was open after
    its call."""
    held = others[found.certain[others]]
    return spans_met(found, asked, found.ret[asked], held, found.ret[held], found.end[held])


def _judged_holds(case: Case) -> Met:
    """Holds that can be judged, and acquires of other clients in flight during one of them: a hold
    without a concurrent request of another client shows nothing."""
    attempts, far = table(case), reaches(case)
    if case.promises.bound == "none":
        judged = attempts.certain & (attempts.ret < attempts.end)
    else:
        judged = attempts.ok & (
            (attempts.known < attempts.bound) | (attempts.known < attempts.proof)
        )
    asked = attempts.op != Op.PROBE
    met = 0
    for entries in attempts.by_lock().values():
        held, mine = entries[judged[entries]], entries[asked[entries]]
        met += int(
            spans_met(
                attempts, mine, attempts.ret[mine], held, attempts.known[held], far[held]
            ).sum()
        )
    grants, n = int(attempts.ok.sum()), int(judged.sum())
    counts = {"grants": grants, "judged grants": n, "acquires during a judged hold": met}
    if not n:
        lack = f"no grant has a hold that can be judged: 0 of {grants}"
        return counts, [lack + (_unproved(case) if grants else "")]
    return counts, [] if met else [
        f"no other client asked during a hold that can be judged: 0 of {n}"
    ]


def _unproved(case: Case) -> str:
    """Why nothing shows how long holds without a lease lasted; empty if something did, or might."""
    if case.promises.bound not in ("connection", "session"):
        return ""
    rows = rows_of(case, Op.RENEW, Op.RELEASE)
    answered = int((column(case, "status")[rows] == Status.OK).sum())
    if not answered:
        return f", for no renewal or release returned ok (0 of {len(rows)})"
    if not (case.promises.renew_proves or case.promises.release_proves):
        return ", for by its declaration no answer shows that an owner still had it"
    return ""


def _handovers(case: Case) -> Met:
    """Grants of a lock to another client than its previous holder, without probes."""
    attempts, passed = table(case), 0
    for entries in attempts.by_lock().values():
        mine = entries[attempts.ok[entries] & (attempts.op[entries] != Op.PROBE)]
        owners = attempts.process[mine[np.argsort(attempts.ret[mine], kind="stable")]]
        passed += int((owners[1:] != owners[:-1]).sum())
    lacks = [] if passed else ["no lock passed from one client to another"]
    return {"handovers": passed}, lacks


def _rivals(case: Case) -> Met:
    """Acquires that were sent while another client was queued for the same lock."""
    attempts, since, behind = table(case), first_told(case), 0
    asked = attempts.op != Op.PROBE
    for entries in attempts.by_lock().values():
        waited = entries[asked[entries] & (attempts.queued[entries] >= 0)]
        mine = entries[asked[entries]]
        spans = waited, since[waited], attempts.ret[waited]
        behind += int(spans_met(attempts, mine, attempts.inv[mine], *spans).sum())
    lacks = [] if behind else ["no other client asked for a lock while a client waited for it"]
    return {"acquires behind one that waited": behind}, lacks


def _waits_behind(case: Case) -> Met:
    """Grants in whose order it shows whether a queue is served in turn. Waits without one are not
    missing: of those that tokens do not order, the reason names the tokens."""
    behind = len(behind_waiters(case).t_ns)
    judged = waits(case).judged
    lacks = [f"no client waited behind another one: 0 of {judged} waits"] if judged else []
    return {"waits with another behind": behind}, [] if behind else lacks


def _patient(case: Case) -> Met:
    """Only if clients wait behind each other, granted or not: waits in which one could starve.
    Where at most one waits and the others try, there are none."""
    behind, patient = len(behind_waiters(case).t_ns), len(patient_waits(case).t_ns)
    counts = {"waits with another behind": behind, "of them long enough to starve": patient}
    lack = f"no client waited, with another behind it, until each other had its turn: 0 of {behind}"
    if not behind:
        lack = (
            f"no client that waited with another behind it was granted: 0 of {queued_behind(case)}"
        )
    return counts, [lack] if has_queues(case) and not patient else []


def _subtrees(case: Case) -> Met:
    """Only if locks are paths: acquires that met a hold of an ancestor or a descendant."""
    if not paths(case):
        return {}, []
    attempts, met = table(case), 0
    for entries in attempts.by_lock().values():
        for key in np.unique(attempts.key[entries]).tolist():
            mine = entries[attempts.key[entries] == key]
            others = entries[(attempts.key[entries] != key) & attempts.certain[entries]]
            spans = others, attempts.ret[others], attempts.end[others]
            met += int(spans_met(attempts, mine, attempts.ret[mine], *spans).sum())
    lacks = [] if met else ["no client asked for a lock above or below one that another held"]
    return {"acquires above or below a held lock": met}, lacks


def _bounded(case: Case) -> Met:
    """Requests with a bounded wait: acquires without a bound may wait indefinitely."""
    attempts = table(case)
    bounded = int(((attempts.wait >= 0) & (attempts.op != Op.PROBE)).sum())
    lacks = [] if bounded else [f"no acquire had a bounded wait: 0 of {len(attempts)}"]
    return {"acquires with a bounded wait": bounded}, lacks


def _second_locks(case: Case) -> Met:
    """Waits of a client for one lock while it held another, and wait-for cycles, however short:
    without a cycle there is no deadlock to break."""
    crossing = waits_of_holders(case)
    mutual = crossed(crossing)
    counts = {"waits that held another lock": len(crossing), "mutual waits": mutual}
    if not crossing:
        return counts, ["no client waited for one lock while it held another"]
    return counts, [] if mutual else ["no clients waited for each other's locks at once"]


def _named_waits(case: Case) -> Met:
    """Grants to clients that had waited, and those whose token a holder query named: only of these
    is the time of the grant known from another source than their own return."""
    attempts, rows = table(case), case.history.rows
    waited = attempts.ok & (attempts.queued >= 0) & (attempts.token != NO_TOKEN)
    said = rows[case.history.of(Op.HOLDER)]
    said = said[(said["status"] == Status.OK) & (said["token"] != NO_TOKEN)]
    named = set(zip(said["key"].tolist(), said["token"].tolist(), strict=True))
    mine = zip(attempts.key[waited].tolist(), attempts.token[waited].tolist(), strict=True)
    known = sum(one in named for one in mine)
    total = int(waited.sum())
    lack = f"no response named a holder that had waited: 0 of {total} grants to waiting clients"
    counts = {"grants to waiting clients": total, "of them named by a response": known}
    return counts, [] if known else [lack]


NEEDS: Mapping[str, Need] = {
    "contention": (
        "an acquire that waited, or was sent while another client certainly held",
        _contention,
    ),
    "judged-holds": (
        "a grant with a non-empty hold by proof or contract (a certain one, where only a release"
        " ends a hold), and another client that asked for the lock during it",
        _judged_holds,
    ),
    "named-waits": (
        "a grant to a client that had waited, which a query of the holder names",
        _named_waits,
    ),
    "second-locks": (
        "clients that each held a lock and waited for the other's at the same time",
        _second_locks,
    ),
    "handovers": ("a lock that passed from one client to another", _handovers),
    "rivals": ("an acquire that was sent while another client waited for the lock", _rivals),
    "waits-behind": (
        "a grant to a client that waited, with another client waiting behind it",
        _waits_behind,
    ),
    "patient-waits": (
        "where clients wait behind each other: a wait whose bound allows a grant to each other"
        " client, and one more",
        _patient,
    ),
    "subtrees": (
        "where locks are paths: an acquire of one above or below one that another held",
        _subtrees,
    ),
    "bounded-waits": ("an acquire with a bounded wait", _bounded),
}
