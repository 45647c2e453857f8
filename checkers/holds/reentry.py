"""Which grants of an owner certainly began a new hold, and were no re-entry into one that it had.

A service may keep a hold beyond the end of its lease, for a while or because a new leader restarted
it, and let its owner in again: the end of a lease is no proof against the same owner and token.
Only what the service reported is: an ok release, "not the owner", a notice of the loss.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.derive import INF, Attempt
from holdfast.checkers.holds.history_index import UNKNOWN, Bools, EntryIndices, Ints, Places
from holdfast.checkers.holds.owners import sharing
from holdfast.checkers.holds.statements import believed
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status


def reported_over_ns(case: Case, a: Attempt) -> int:
    """When the service, or a notice, had reported that an attempt no longer holds; INF: never.

    An acquire without a response may still wait when its release returns "not the owner", and be
    granted later.
    """
    rows, known = case.history.rows, a.status not in UNKNOWN
    once = known or believed(case, a.key).release_once
    ended_ns = INF
    for row in (*a.releases, *a.renewals):
        one = rows[row]
        gave_back = once and one["f"] == Op.RELEASE and one["status"] == Status.OK
        if gave_back or (known and one["status"] == Status.NOT_OWNER):
            ended_ns = min(ended_ns, int(one["t_ret"]))
    if a.end_row >= 0 and rows["f"][a.end_row] == Op.LOST:
        ended_ns = min(ended_ns, a.end_ns)
    return ended_ns


def anew(case: Case, which: EntryIndices) -> Bools:
    """Which of some ok grants certainly began a new hold: all that their client may have held
    before, with the same token or, if it may be let in again, one that is not known, had been
    reported as over.

    Looks at all locks that exclude each one's own, which are more than those of one ancestor chain:
    who holds /a/b may be let into /a as its owner, whatever chain the order of /a is judged on.
    O(n log n); only clients that were granted a token twice, or with calls of unknown outcome, are
    walked through.
    """
    every = table(case)
    keys = every.key[which]
    fresh = np.zeros(len(which), bool)
    for key in np.unique(keys).tolist():
        mine = keys == key
        fresh[mine] = _anew(case, every.beside(key), which[mine])
    return fresh


def _anew(case: Case, line: EntryIndices, which: EntryIndices) -> Bools:
    """The same of one lock. line: the entries of all locks that exclude it, `which` among them."""
    every = table(case)
    new = np.ones(len(which), bool)
    holds = line[every.known[line] < INF]
    groups = _by_owner(every.process[holds], every.token[holds])
    if groups:
        place = np.full(len(every), -1)
        place[which] = np.arange(len(which))
        of_token = _earlier(case, holds, every.token[holds].tolist(), groups)
        for name, twice in groups.items():
            places = place[holds[twice]]
            places = places[places >= 0]
            new[places] = _alone(of_token.get(name, []), every, which[places])
    doubtful = line[every.unknown[line] & sharing(case)[line]]
    clients = {
        (client, 0): (every.process[which] == client) for client in _distinct(every, doubtful)
    }
    unknown = _earlier(case, doubtful, [0] * len(doubtful), clients)
    for name, mine in clients.items():
        new[mine] &= _alone(unknown[name], every, which[mine])
    return new


Earlier = dict[tuple[int, int], list[tuple[int, int, int]]]
"""(client, token) -> (call, entry, time by which it was over) of each"""


def _distinct(every: Table, entries: EntryIndices) -> list[int]:
    return sorted(set(every.process[entries].tolist()))


def _earlier(
    case: Case, entries: EntryIndices, tokens: Sequence[int], names: Container[tuple[int, int]]
) -> Earlier:
    earlier: Earlier = {}
    process = table(case).process[entries].tolist()
    chosen = [
        (n, (client, token))
        for n, client, token in zip(entries.tolist(), process, tokens, strict=True)
        if (client, token) in names
    ]
    attempts = table(case).pick(n for n, _ in chosen)
    for (n, name), a in zip(chosen, attempts, strict=True):
        earlier.setdefault(name, []).append((a.inv_ns, n, reported_over_ns(case, a)))
    return earlier


def _by_owner(process: Ints, token: Ints) -> dict[tuple[int, int], Places]:
    """Places of the grants of each client with one token, of those that have one twice."""
    order = np.lexsort((token, process))
    client, carried = process[order], token[order]
    again = (client[1:] == client[:-1]) & (carried[1:] == carried[:-1])
    if not again.any():
        return {}
    # Tokens 3 3 5 6 6 of one client: groups begin at 0 2 3; those of one place are left out.
    edges = np.flatnonzero(np.concatenate(([True], ~again, [True])))
    return {
        (int(client[low]), int(carried[low])): np.sort(order[low:high])
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if high - low > 1
    }


def _alone(others: list[tuple[int, int, int]], every: Table, mine: EntryIndices) -> Bools:
    """Whether no other of these (call, entry, time by which it was over) may be held when each was
    granted: each that was called by its return was over before its call."""
    if not others:
        return np.ones(len(mine), bool)
    called, entries, over = (np.array(each) for each in zip(*sorted(others), strict=True))
    among = np.searchsorted(called, every.ret[mine], "right")
    first, last = _two_latest(over)
    free = np.zeros(len(mine), bool)
    for n, (entry, count) in enumerate(zip(mine.tolist(), among.tolist(), strict=True)):
        at = first[count - 1] if count else -1
        if at >= 0 and entries[at] == entry:
            at = last[count - 1]
        free[n] = at < 0 or over[at] < every.inv[entry]
    return free


def _two_latest(over: Ints) -> tuple[list[int], list[int]]:
    """For each prefix the places of its latest value and of the next one, -1: none."""
    first, last = list[int](), list[int]()
    top = second = -1
    for n, value in enumerate(over.tolist()):
        if top < 0 or value > over[top]:
            top, second = n, top
        elif second < 0 or value > over[second]:
            second = n
        first.append(top)
        last.append(second)
    return first, last
