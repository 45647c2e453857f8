"""Verifies the resource's log: no stale write, and no write after the end of its owner's hold."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from holdfast.harness.verification.conditions import SERVED_WRITE, Conditions, Row
from holdfast.harness.verification.derived import (
    FAIL,
    FORCED,
    INF,
    LATE_NS,
    NOT_OWNER,
    OK,
    RELEASE,
    RENEW,
    Run,
)
from holdfast.harness.verification.recorded_rows import CLOSED, LOST


class Writes:
    """Checks the accepted requests of one key; each check returns what is wrong, "" for nothing."""

    def __init__(self, run: Run, conditions: Conditions) -> None:
        self._run, self._rows, self._conditions = run, run.rows, conditions
        self._asked: dict[int, int] | None = None
        self._ended: dict[int, int] | None = None
        self._ends: dict[int, int] = {}
        self._granted: dict[int, list[int]] = {}
        self._called: dict[int, list[int]] = {}

    def stale(self, order: Sequence[int]) -> str:
        """Check that no write is accepted after a newer conflicting attempt was admitted."""
        rows, error, acquires = self._rows, self._run.error_ns, self._acquires()
        log = self._conditions.logs().get(rows.key[order[0]], ()) if order else ()
        if list(log) != list(order):
            return "it is not the order of the log"
        f, attempt, status, token = rows.f, rows.attempt, rows.status, rows.token
        t_inv, t_ret, before = rows.t_inv, rows.t_ret, -1
        admitted: dict[int, None] = {}
        latest = largest = -1
        for request in log:
            a = acquires.get(attempt[request], -1)
            if a < 0 or status[a] != OK:
                continue
            suspect = latest >= t_ret[a] + error or largest > token[a]
            if suspect and f[request] == SERVED_WRITE:
                own = Row(rows, a)
                if any(self._newer(Row(rows, b), own) for b in admitted):
                    return f"row {request} was accepted after a newer owner had been admitted"
            if a != before:
                admitted[a] = None
                latest, largest, before = max(latest, t_inv[a]), max(largest, token[a]), a
        return ""

    def _newer(self, b: Row, a: Row) -> bool:
        """Whether b conflicts with a and was granted after it, by times or by ordered tokens."""
        run, error = self._run, self._run.error_ns
        if a.process == b.process or not self._conditions.conflict(a, b):
            return False
        if b.t_inv >= a.t_ret + error:
            return True
        tell = run.promises["tokens"] == "ordered" and run.promised("token-order")
        in_turn = a.t_inv < b.t_ret + error and -1 < a.token < b.token
        return bool(tell and in_turn and not self._conditions.disorder(a.key))

    def expired(self, order: Sequence[int]) -> str:
        """Check that no write is accepted after its owner's hold was certainly over. A client that
        was refused had none."""
        run, rows, acquires = self._run, self._rows, self._acquires()
        error = run.error_ns
        log = self._conditions.logs().get(rows.key[order[0]], ()) if order else ()
        if [at for at in log if rows.f[at] == SERVED_WRITE] != list(order):
            return "it is not the order of the log"
        t_inv, attempts, ended = rows.t_inv, rows.attempt, self._first_end()
        exact = bool(run.of(FORCED, "key"))
        for request in order:
            at, t_ns = acquires.get(attempts[request], -1), t_inv[request] - error
            if at < 0 or rows.status[at] in (FAIL, NOT_OWNER):
                continue
            # The quick way to say of nearly every write that it came in time.
            if not exact and t_ns <= ended.get(attempts[at], INF) and self._lasted(at, t_ns):
                continue
            if self.late(at, request):
                return f"row {request} was accepted after its owner's hold was over"
        return ""

    def late(self, at: int, request: int) -> bool:
        """Whether a request came after its owner's hold was certainly over."""
        if self._rows.t_inv[request] - self._run.error_ns <= self._over(at):
            return False
        return self._conditions.outside(Row(self._rows, at), Row(self._rows, request))

    def after_notice(self, at: int, request: int) -> bool:
        """Whether a request came after its client had been notified of the loss, by a notice at
        whose time it sent its release too: alone, that does not order the log."""
        run, rows = self._run, self._rows
        mine, t_ns = run.following(at), rows.t_inv[request] - run.error_ns
        notices = [r for r in mine if rows.f[r] == LOST and rows.t_inv[r] == run.end(at)]
        over = min((rows.t_ret[r] for r in notices), default=INF)
        again = any(
            rows.f[r] == RENEW and rows.status[r] == OK and rows.t_ret[r] > over for r in mine
        )
        if over >= t_ns or again or run.revivable(at, run.promises):
            return False
        return self._conditions.outside(Row(rows, at), Row(rows, request))

    def outdated(self, at: int, request: int) -> bool:
        """Whether a request came after a newer owner's had been admitted, and is no admission of
        that owner itself."""
        rows, acquires, own = self._rows, self._acquires(), Row(self._rows, at)
        if own.status != OK:
            return False
        for b in self._conditions.logs().get(rows.key[request], ()):
            if rows.t_inv[b] > rows.t_inv[request] or b == request:
                continue
            newer = acquires.get(rows.attempt[b], -1)
            if newer >= 0 and rows.status[newer] == OK and self._newer(Row(rows, newer), own):
                return True
        return False

    def _lasted(self, at: int, t_ns: int) -> bool:
        """Whether at a time a grant was recent and no other client had called for the lock."""
        rows, known = self._rows, self._rows.t_ret[at]
        if rows.status[at] != OK or t_ns > known + LATE_NS:
            return False
        # calls [10, 50, 90], known 12, error 0: by t_ns 60 another was granted it, by 50 none was.
        calls = self._calls(rows.key[at])
        place = bisect_left(calls, known + self._run.error_ns)
        return place == len(calls) or t_ns <= calls[place]

    def _first_end(self) -> Mapping[int, int]:
        """Per attempt the first call of a row that may show its end."""
        if self._ended is None:
            rows, ended = self._rows, dict[int, int]()
            kinds, status, attempts, t_inv = rows.f, rows.status, rows.attempt, rows.t_inv
            for r in rows.of_kinds(RELEASE, LOST, RENEW):
                if kinds[r] == RENEW and status[r] != NOT_OWNER:
                    continue
                attempt, called = attempts[r], t_inv[r]
                if called < ended.get(attempt, INF):
                    ended[attempt] = called
            self._ended = ended
        return self._ended

    def _calls(self, key: int) -> Sequence[int]:
        """Calls of the ok acquires of a lock, or of those on an ancestor chain with it, sorted."""
        if key not in self._called:
            near = (at for at in self._conditions.grants(key) if self._rows.status[at] == OK)
            self._granted[key] = sorted(near, key=self._rows.t_inv.__getitem__)
            self._called[key] = [self._rows.t_inv[at] for at in self._granted[key]]
        return self._called[key]

    def _acquires(self) -> Mapping[int, int]:
        """Attempt -> its acquire."""
        if self._asked is None:
            asks = (at for asks in self._run.asks().values() for at in asks)
            self._asked = {self._rows.attempt[at]: at for at in asks}
        return self._asked

    def _over(self, at: int) -> int:
        """When a hold was certainly over, INF if that is unknown."""
        if at not in self._ends:
            run, rows = self._run, self._rows
            ends = [] if run.revivable(at, run.promises) else self._all_ends(at)
            ok = [r for r in run.following(at) if rows.f[r] == RENEW and rows.status[r] == OK]
            renewed = max((rows.t_ret[r] for r in ok), default=0)
            self._ends[at] = min((end for end in ends if end >= renewed), default=INF)
        return self._ends[at]

    def _all_ends(self, at: int) -> list[int]:
        """All possible proofs of the end of a hold; one before an ok renewal proves nothing."""
        run, rows, conditions = self._run, self._rows, self._conditions
        a, mine, end = Row(rows, at), run.following(at), run.end(at)
        responses = [r for r in mine if rows.f[r] in (RENEW, RELEASE)]
        ends = [rows.t_ret[r] for r in responses if rows.status[r] == NOT_OWNER]
        ends += [rows.t_ret[r] for r in responses if (rows.f[r], rows.status[r]) == (RELEASE, OK)]
        others = {rows.t_inv[r] for r in mine if rows.f[r] in (RELEASE, CLOSED)}
        if a.status not in (FAIL, NOT_OWNER) and end not in others:
            notices = [r for r in mine if rows.f[r] == LOST and rows.t_inv[r] == end]
            ends += [rows.t_ret[r] for r in notices]
        for r in run.of(8, "key").get(a.key, ()):
            if rows.status[r] == OK and conditions.freed(a, Row(rows, r)):
                ends.append(rows.t_ret[r])
        if a.status == OK and conditions.calm(a):
            ends.append(run.overdue(run.possible_end(at)))
        return [*ends, *self._passed_on(a)]

    def _passed_on(self, a: Row) -> list[int]:
        """The return of the first conflicting grant that was requested after a's own, if what is
        proved or promised of its own hold did not last so long."""
        if a.status != OK:
            return []
        low, first = bisect_left(self._calls(a.key), a.t_ret + self._run.error_ns), INF
        group = self._granted[a.key]
        for place in range(low, len(group)):
            at = group[place]
            if self._rows.t_inv[at] >= first:
                break
            if self._rows.t_ret[at] < first and self._conditions.conflict(a, Row(self._rows, at)):
                first = self._rows.t_ret[at]
        return [first] if self._run.until(a.at) < first < INF else []
