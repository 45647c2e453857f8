"""Needs of a run about holds: shared, entered again, lost, and what survived of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from holdfast.checkers.coverage.need import Met, Need
from holdfast.checkers.facts.power_losses import losses, met_after, operations
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.hierarchy import below, paths
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.history.distinct_values import distinct


def _probes(case: Case) -> Met:
    attempts = table(case)
    asked = set(distinct(attempts.key[attempts.op != Op.PROBE]).tolist())
    probed = set(distinct(attempts.key[attempts.op == Op.PROBE]).tolist())
    known = paths(case)
    tops = [known[key] for key in probed if key in known]
    met = {key for key in asked if key in known and any(below(known[key], top) for top in tops)}
    names = sorted(case.history.strings[key] for key in asked - probed - met)
    lacks = [f"never probed after the run: {', '.join(names)}"] if names else []
    if not asked and not probed:
        lacks.append("no client asked for a lock")
    return {"probed locks": len(probed)}, lacks


def _stale_releases(case: Case) -> Met:
    asked = rows_of(case, Op.RELEASE, Op.RENEW)
    rejected = asked[column(case, "status")[asked] == Status.NOT_OWNER]
    refused, renewals = len(rejected), int((column(case, "f")[rejected] == Op.RENEW).sum())
    counts = {"releases and renewals": len(asked), "rejected as not the owner": refused}
    # A service may check the owner of a release and not that of a renewal.
    counts["of them renewals"] = renewals
    lacks = [] if refused else [f"no client but the holder released or renewed: 0 of {len(asked)}"]
    return counts, lacks


def _sharing(case: Case) -> Met:
    """Only if a shared lock was requested; else nothing is required."""
    attempts = table(case)
    asked = attempts.mode != Mode.EXCLUSIVE
    if not asked.any():
        return {}, []
    held = np.flatnonzero(asked & attempts.certain)
    held = held[np.lexsort((attempts.ret[held], attempts.key[held]))]
    same = attempts.key[held][1:] == attempts.key[held][:-1]
    same &= attempts.process[held][1:] != attempts.process[held][:-1]
    together = int((same & (attempts.ret[held][1:] < attempts.end[held][:-1])).sum())
    lacks = [] if together else [f"no two that share a lock held at once: 0 of {int(asked.sum())}"]
    return {"held at once with another": together}, lacks


def _reentries(case: Case) -> Met:
    """Only if a client requested reentry."""
    attempts = table(case)
    asked = np.flatnonzero(column(case, "op")[attempts.row] & 1)
    if not len(asked):
        return {}, []
    inside: dict[tuple[int, int], int] = {}
    again = 0
    for n in asked[attempts.certain[asked]].tolist():
        owner = int(attempts.process[n]), int(attempts.key[n])
        until_ns = inside.get(owner, -1)
        again += bool(until_ns > attempts.inv[n])
        inside[owner] = max(int(attempts.end[n]), until_ns)
    lacks = [] if again else [f"no holder was granted its lock again: 0 of {len(asked)}"]
    return {"reentrant grants": again}, lacks


NOBODY_NOTIFIED = "no holder lost its lock"


def _losses(case: Case) -> Met:
    """Holders notified of a loss: by a notice, or by a renewal with the response "not the owner".

    A release with that response does not count: its client had given the lock up. A notice to a
    client that still waits does not count either.
    """
    attempts, status = table(case), column(case, "status")
    renewals = rows_of(case, Op.RENEW)
    notices = rows_of(case, Op.LOST)
    refused = renewals[status[renewals] == Status.NOT_OWNER]
    entry = attempts.of_rows(np.concatenate((notices, refused)))
    entry = distinct(entry[entry >= 0])
    held = int(attempts.ok[entry].sum())
    counts = {"loss notices": len(notices), "holders notified": held}
    return counts, [] if held else [NOBODY_NOTIFIED]


def _tokens(case: Case) -> Met:
    """Grants with a token, and those requested after another client's had been granted: only for
    those is it known which of the two tokens has to be larger."""
    attempts = table(case)
    carries = attempts.ok & (attempts.token != NO_TOKEN)
    grants, with_token = int(attempts.ok.sum()), int(carries.sum())
    after = 0
    for entries in attempts.by_lock().values():
        mine = entries[carries[entries]]
        # The earliest grant of all, and for its own client the earliest of the others.
        ret, owner = attempts.ret[mine], attempts.process[mine]
        first = int(ret.argmin()) if len(mine) else 0
        others_ns = ret[owner != owner[first]].min(initial=INF) if len(mine) else INF
        before_ns = np.where(owner == owner[first], others_ns, ret[first]) if len(mine) else ret
        after += int((attempts.inv[mine] > before_ns).sum())
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


NEEDS: Mapping[str, Need] = {
    "probes": ("an acquire of every lock that was in use after the last heal", _probes),
    "stale-releases": (
        "a release or renewal that the service rejected as not the owner's",
        _stale_releases,
    ),
    "losses": ("a holder that was notified of a loss, or whose renewal was refused", _losses),
    "tokens": ("a grant with a token, requested after another client's grant", _tokens),
    "power-losses": (
        "a power loss of a majority of the servers, or an operation on servers, while a lock was"
        " certainly held, and another"
        " client that asked for it afterwards, before that hold had to end",
        _power_losses,
    ),
    "sharing": ("where a lock is shared: two clients that held it at once", _sharing),
    "reentry": ("where a lock is reentrant: a grant to its holder", _reentries),
}
