"""The resource's log, walked: who was admitted before each write, and whether its hold was over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from holdfast.harness.verification.conditions import SERVED_WRITE, Conditions, Row
from holdfast.harness.verification.derived import (
    FAIL,
    INF,
    LATE_NS,
    NOT_OWNER,
    OK,
    RELEASE,
    RENEW,
    Run,
)
from holdfast.harness.verification.recorded import CLOSED, LOST


class Writes:
    """Walks the accepted requests of one key; each walk says what is wrong, "" for nothing."""

    def __init__(self, run: Run, conditions: Conditions) -> None:
        self._run, self._rows, self._conditions = run, run.rows, conditions
        self._asked: dict[int, int] | None = None
        self._ends: dict[int, int] = {}
        self._granted: dict[int, list[int]] = {}

    def stale(self, order: Sequence[int]) -> str:
        """No write is accepted after a conflicting attempt was admitted that is newer."""
        log = self._conditions.logs().get(self._rows.key[order[0]], ()) if order else ()
        if [row.at for row in log] != list(order):
            return "it is not the order of the log"
        admitted: dict[int, Row] = {}
        latest = largest = -1
        error = self._run.error_ns
        for request in log:
            at = self._acquires().get(request.attempt, -1)
            if at < 0:
                continue
            a = Row(self._rows, at)
            if request.f == SERVED_WRITE and a.status == OK:
                suspect = latest >= a.t_ret + error or largest > a.token
                if suspect and any(self._newer(b, a) for b in admitted.values()):
                    return f"row {request.at} was accepted after a newer owner had been admitted"
            if a.status == OK and at not in admitted:
                admitted[at] = a
                latest, largest = max(latest, a.t_inv), max(largest, a.token)
        return ""

    def _newer(self, b: Row, a: Row) -> bool:
        """Whether b conflicts with a and was granted after it, by times or by ordered tokens."""
        run, error = self._run, self._run.error_ns
        if not self._conditions.conflict(a, b):
            return False
        if b.t_inv >= a.t_ret + error:
            return True
        tell = run.promises["tokens"] == "ordered" and run.promised("token-order")
        in_turn = a.t_inv < b.t_ret + error and -1 < a.token < b.token
        return bool(tell and in_turn and not self._conditions.disorder(a.key))

    def expired(self, order: Sequence[int]) -> str:
        """No write is accepted after its owner's hold was over for certain."""
        log = self._conditions.log(self._rows.key[order[0]]) if order else []
        if [row.at for row in log] != list(order):
            return "it is not the order of the log"
        for request in log:
            at = self._acquires().get(request.attempt, -1)
            if at < 0:
                continue
            late = request.t_inv > self._over(at) + self._run.error_ns
            if late and self._conditions.outside(Row(self._rows, at), request):
                return f"row {request.at} was accepted after its owner's hold was over"
        return ""

    def _acquires(self) -> Mapping[int, int]:
        """Attempt -> its acquire."""
        if self._asked is None:
            asks = (at for asks in self._run.asks().values() for at in asks)
            self._asked = {self._rows.attempt[at]: at for at in asks}
        return self._asked

    def _over(self, at: int) -> int:
        """When a hold was over for certain, INF where that is not known."""
        if at not in self._ends:
            run, rows = self._run, self._rows
            ends = [] if run.revivable(at, run.promises) else self._all_ends(at)
            ok = [r for r in run.following(at) if rows.f[r] == RENEW and rows.status[r] == OK]
            renewed = max((rows.t_ret[r] for r in ok), default=0)
            self._ends[at] = min((end for end in ends if end >= renewed), default=INF)
        return self._ends[at]

    def _all_ends(self, at: int) -> list[int]:
        """All that shows the end of a hold; an ok renewal after it says that it shows nothing."""
        run, rows, conditions = self._run, self._rows, self._conditions
        a, mine, end = Row(rows, at), run.following(at), run.end(at)
        said = [r for r in mine if rows.f[r] in (RENEW, RELEASE)]
        ends = [rows.t_ret[r] for r in said if rows.status[r] == NOT_OWNER]
        ends += [rows.t_ret[r] for r in said if (rows.f[r], rows.status[r]) == (RELEASE, OK)]
        others = {rows.t_inv[r] for r in mine if rows.f[r] in (RELEASE, CLOSED)}
        if a.status not in (FAIL, NOT_OWNER) and end not in others:
            told = [r for r in mine if rows.f[r] == LOST and rows.t_inv[r] == end]
            ends += [rows.t_ret[r] for r in told]
        for r in run.of(8, "key").get(a.key, ()):
            if rows.status[r] == OK and conditions.freed(a, Row(rows, r)):
                ends.append(rows.t_ret[r])
        if a.status == OK and conditions.calm(a):
            ends.append(run.possible_end(at) + LATE_NS)
        return [*ends, *self._passed_on(a)]

    def _passed_on(self, a: Row) -> list[int]:
        """The answer to the first conflicting grant that was asked for after a's own, where what is
        proved or promised of its own hold did not reach so far."""
        if a.status != OK:
            return []
        if a.key not in self._granted:
            near = (at for at in self._conditions.grants(a.key) if self._rows.status[at] == OK)
            self._granted[a.key] = sorted(near, key=self._rows.t_inv.__getitem__)
        group, first = self._granted[a.key], INF
        low = bisect_left(group, a.t_ret + self._run.error_ns, key=self._rows.t_inv.__getitem__)
        for at in group[low:]:
            if self._rows.t_inv[at] >= first:
                break
            if self._rows.t_ret[at] < first and self._conditions.conflict(a, Row(self._rows, at)):
                first = self._rows.t_ret[at]
        return [first] if self._run.until(a.at) < first < INF else []
