"""What a run's own responses say about its system's declarations, from rows alone.

A system's declarations about its tokens, responses and leases let checkers conclude more than times
show. What the responses about a lock contradict is not believed for that lock: holds are derived
without it. What only the holds themselves contradict is found afterwards, in `contradictions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from holdfast.checkers.holds.history_index import attempt_numbers, column, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case, Contradiction
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Promises

TOKENS = "ordered tokens"
UNIQUE = "unique tokens"
RENEWALS = "an ok renewal proves an unbroken hold"
RELEASES = "an ok release proves ownership"
FIFO = "first come, first served"
LASTING = "a lease lasts"
ENDING = "a lease ends"

Fallen = Mapping[str, Contradiction]
"""assumption -> what contradicts it"""
NONE: Fallen = {}
Look = Callable[[Case], Iterator[tuple[int, Contradiction]]]
"""yields what contradicts one assumption in a run, per lock"""


def believed(case: Case, key: int) -> Promises:
    """The promises by which responses about a lock are interpreted, without those that its own rows
    contradict. `holds` derives by these."""
    known: dict[int, Promises] = case.memo.setdefault("believed", {})
    if key not in known:
        contradicted, promises = answers(case).get(key, NONE), case.promises
        known[key] = replace(
            promises,
            renew_proves=promises.renew_proves and RENEWALS not in contradicted,
            release_proves=promises.release_proves and RELEASES not in contradicted,
            release_once=promises.release_once and RELEASES not in contradicted,
        )
    return known[key]


def answers(case: Case) -> Mapping[int, Fallen]:
    """Per lock name what contradicts the meaning of its ok responses: an ok to a request sent after
    the service had responded that this attempt does not hold. From rows alone; memoised."""
    if "answers" not in case.memo:
        contradicted: dict[int, dict[str, Contradiction]] = {}
        for name in (RENEWALS, RELEASES):
            for key, known_elsewhere in case.contradicted.get(name, {}).items():
                contradicted.setdefault(key, {})[name] = known_elsewhere
        for over, row in _after_the_end(case):
            release = column(case, "f")[row] == Op.RELEASE
            name, what = (RELEASES, "release") if release else (RENEWALS, "renewal")
            if _declared(case.promises, name):
                why = f"a {what} returned ok after its attempt had ended"
                key = int(column(case, "key")[row])
                contradicted.setdefault(key, {}).setdefault(
                    name, Contradiction(rows=(over, row), why=why)
                )
        case.memo["answers"] = contradicted
    known: Mapping[int, Fallen] = case.memo["answers"]
    return known


def _declared(promises: Promises, name: str) -> bool:
    if name == RENEWALS:
        return promises.renew_proves
    return promises.release_once or promises.release_proves


def _after_the_end(case: Case) -> Iterator[tuple[int, int]]:
    """(row that certainly ended an attempt, a later ok of it), in order."""
    status, inv, ret = (column(case, name) for name in ("status", "t_inv", "t_ret"))
    follow = rows_of(case, Op.RENEW, Op.RELEASE)
    asked = rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE)
    ends = follow[
        (status[follow] == Status.NOT_OWNER)
        | ((status[follow] == Status.OK) & (column(case, "f")[follow] == Op.RELEASE))
    ]
    refused = asked[(status[asked] == Status.FAIL) | (status[asked] == Status.NOT_OWNER)]
    ends = np.concatenate((ends, refused))
    oks = follow[status[follow] == Status.OK]
    if not len(ends) or not len(oks):
        return
    count, number = attempt_numbers(case)
    soonest = np.full(count, INF)
    np.minimum.at(soonest, number[ends], ret[ends])
    late = oks[inv[oks] - 2 * case.error_ns > soonest[number[oks]]]
    if not len(late):
        return
    # Sorted by (attempt, return): the first of each attempt is its earliest end.
    ends = ends[np.lexsort((ret[ends], number[ends]))]
    owners, first = np.unique(number[ends], return_index=True)
    over = ends[first[np.searchsorted(owners, number[late])]]
    yield from zip(over.tolist(), late.tolist(), strict=True)


def first_of(case: Case, assumption: str, look: Look) -> Mapping[int, Contradiction]:
    """Per lock whose rows contradict an assumption, the first contradiction; memoised."""
    known: dict[str, dict[int, Contradiction]] = case.memo.setdefault("against", {})
    if assumption not in known:
        first = dict(case.contradicted.get(assumption, {}))
        for key, contradiction in look(case):
            first.setdefault(key, contradiction)
        known[assumption] = first
    return known[assumption]
