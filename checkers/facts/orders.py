"""The orders that show that exact properties hold, for their certificates.

A grant that has no hold of its own to show (its answer is the last that is known of it) may have
been given at any moment since its call. Where its answer fell into another's hold it goes before
that one; all others go in the order in which they were known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from holdfast.checkers.facts import resource_log
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.hierarchy import paths
from holdfast.checkers.holds.history_index import Indices, Ints, column
from holdfast.checkers.holds.overlaps import by_token, granted, proof_reaches, reaches, slack
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Op, Status
from holdfast.harness.core.verdict import PropertyVerdict, Verdict

Order = tuple[tuple[str, tuple[int, ...]], ...] | None
"""Per lock its rows in order; None where none is known."""


def ordered(
    case: Case, verdict: PropertyVerdict, order: Callable[[Case], Order]
) -> PropertyVerdict:
    """The same verdict, with its order if the property holds."""
    if verdict.verdict is not Verdict.HOLDS:
        return verdict
    return replace(verdict, order=order(case))


def of_grants(case: Case) -> Order:
    """Holds that do not meet; none of semaphores and hierarchies."""
    found, far = table(case), reaches(case) - slack(case)
    if paths(case) or (found.mode == Mode.PERMITS).any():
        return None
    every = {}
    for key, entries in granted(case).items():
        known, until = found.known[entries], far[entries]
        held = entries[until > known]
        begun, over = found.known[held], np.maximum.accumulate(far[held])
        inside = np.searchsorted(begun, known) - 1
        within = (inside >= 0) & (until <= known)
        within[within] = over[inside[within]] > known[within]
        when = np.where(within, np.append(begun, 0)[inside], known)
        every[key] = entries[np.lexsort((until > known, when))]
    return _rows(case, every.items(), far)


def of_tokens(case: Case) -> Order:
    """Grants by their tokens, with what is proved of their holds."""
    found = table(case)
    if paths(case) or (found.mode == Mode.PERMITS).any():
        return None
    every = {}
    for key, entries in granted(case).items():
        mine = by_token(case, entries)
        every[key] = mine[np.lexsort((found.known[mine], found.token[mine]))]
        token, process = found.token[every[key]], found.process[every[key]]
        mode = found.mode[every[key]]
        again = (token[1:] == token[:-1]) & (process[1:] != process[:-1])
        if (again & ((mode[1:] == Mode.EXCLUSIVE) | (mode[:-1] == Mode.EXCLUSIVE))).any():
            return None
    return _rows(case, every.items(), proof_reaches(case) - slack(case))


def of_writes(case: Case) -> Order:
    """The accepted writes of each key, as the resource's log has them."""
    rows = resource_log.log(case).rows
    written = column(case, "f")[rows] == Op.SERVED_WRITE
    rows = rows[written & (column(case, "status")[rows] == Status.OK)]
    keys = column(case, "key")[rows]
    return tuple(
        (case.history.strings[key], tuple(rows[keys == key].tolist()))
        for key in np.unique(keys).tolist()
    )


def of_updates(case: Case) -> Order:
    """The same, where each builds on the one before."""
    order = of_writes(case) or ()
    for _, rows in order:
        version = column(case, "res")[list(rows)]
        base = column(case, "arg")[list(rows)]
        base = np.where((base >= 0) & (base < version), base, version - 1)
        if (base[1:] != version[:-1]).any():
            return None
    return order


def _rows(case: Case, every: Iterable[tuple[int, Indices]], far: Ints) -> Order:
    """The rows of these orders, None where one of them cannot be walked."""
    found, order = table(case), []
    for key, entries in every:
        begin = np.maximum.accumulate(np.maximum(found.inv, far)[entries])
        late = begin[:-1] > found.known[entries][1:]
        if late.any() and not _walks(case, entries, far):
            return None
        if len(entries):
            order.append((case.history.strings[key], tuple(found.row[entries].tolist())))
    return tuple(order)


def _walks(case: Case, entries: Indices, far: Ints) -> bool:
    """The same one by one: readers share, and an owner may be let in again."""
    found, latest = table(case), dict[tuple[bool, int], int]()
    for n in entries.tolist():
        alone, owner = bool(found.mode[n] == Mode.EXCLUSIVE), int(found.process[n])
        begin = int(found.inv[n])
        for (exclusive, who), end in latest.items():
            if who != owner and (alone or exclusive):
                begin = max(begin, end)
        if begin > found.known[n]:
            return False
        key = (alone, owner)
        latest[key] = max(latest.get(key, 0), begin, int(far[n]))
    return True
