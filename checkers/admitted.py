"""Whom the protected resource has admitted so far, and who among them is newer than a writer."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from holdfast.checkers.holds import Attempt, conflict, ordered_tokens
from holdfast.harness.case import Case
from holdfast.harness.events import NO_TOKEN, Status


def newer(case: Case, b: Attempt, a: Attempt) -> bool:
    """Whether b was granted after a: by the order that times force, else by ordered tokens.

    Attempts that were not answered ok are in no order. False where it cannot be told.
    """
    if a.status is not Status.OK or b.status is not Status.OK:
        return False
    if b.inv_ns >= a.ret_ns + case.error_ns:
        return True
    if a.inv_ns >= b.ret_ns + case.error_ns:
        return False
    return ordered_tokens(case) and a.token != NO_TOKEN and b.token > a.token


class Admitted:
    """The attempts of one lock that its resource has admitted, in the order of its log."""

    def __init__(self, case: Case, attempts: Mapping[int, Attempt]) -> None:
        self._case = case
        self._attempts = attempts
        self._rows: dict[int, int] = {}
        self._by_inv: list[tuple[int, int]] = []
        self._by_ret: list[tuple[int, int]] = []
        self._highest = NO_TOKEN

    def add(self, a: Attempt, row: int) -> None:
        """Note that a request of `a` was accepted by that row of the log."""
        if a.id in self._rows:
            return
        self._rows[a.id] = row
        insort(self._by_inv, (a.inv_ns, a.id))
        insort(self._by_ret, (a.ret_ns, a.id))
        self._highest = max(self._highest, a.token)

    def newer_than(self, a: Attempt) -> tuple[Attempt, int] | None:
        """A conflicting attempt newer than `a`, and the row that admitted it first; None: none.

        O(log n) unless somebody with a larger token was admitted; then also the acquires that
        overlapped a's.
        """
        error_ns = self._case.error_ns
        later = self._by_inv[bisect_left(self._by_inv, (a.ret_ns + error_ns, 0)) :]
        if self._highest > a.token:
            later += self._by_ret[bisect_left(self._by_ret, (a.inv_ns - error_ns, 0)) :]
        for _, ident in later:
            b = self._attempts[ident]
            if conflict(a, b) and newer(self._case, b, a):
                return b, self._rows[ident]
        return None
