"""What can be true of the length of a queue, the entries of an owner, the notice of a grant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.derived import FAIL, INF, INFO, INVOKED, NOT_OWNER, OK
from holdfast.harness.verification.recorded import ASKS, LOST
from holdfast.harness.verification.rule import OPS, entries, waits


class Lengths:
    """What rules may ask about queue lengths, entries and grant notices."""

    def __init__(self, conditions: Conditions) -> None:
        self.run, self.rows = conditions.run, conditions.rows

    def names(self) -> dict[str, Any]:
        """The names that rules use, as `Conditions.names`."""
        return {
            "waits": waits,
            "entries": entries,
            "limit": int(self.run.promises["notice_ns"]),
            "alone_with_token": self._alone_with_token,
            "undisturbed": self._undisturbed,
            "entries_at_most": self._entries_at_most,
            "waiting_at_most": self._waiting_at_most,
            "apart_waits": lambda roles: self._apart_waits(roles),
        }

    def _waiting_at_most(self, asked: Row) -> int:
        """How many acquires of a lock can have waited at some instant of a query."""
        rows, slack = self.rows, self.run.slack_ns
        found = 0
        for at in self.run.asks().get(asked.key, ()):
            if rows.f[at] == OPS["try"] or not rows.aux[at]:
                continue
            if rows.status[at] and rows.t_inv[at] <= asked.t_ret + slack:
                back = INF if rows.status[at] in (INVOKED, INFO) else rows.t_ret[at]
                found += back >= asked.t_inv - slack
        return found

    def _apart_waits(self, roles: Mapping[str, Row]) -> bool:
        """Whether the waits that a certificate counts are of as many attempts."""
        mine = [row.attempt for name, row in roles.items() if name.startswith("before")]
        return 0 not in mine and len(set(mine)) == len(mine)

    def _entries_at_most(self, release: Row) -> int:
        """How many other entries of its owner a lock can have had when a release returned: all
        that were requested by then, but those which the service had declared over before."""
        rows, slack = self.rows, self.run.slack_ns
        found = 0
        for at, f in enumerate(rows.f):
            mine = rows.process[at] == release.process and rows.key[at] == release.key
            if f in ASKS and rows.status[at] and mine and rows.attempt[at] != release.attempt:
                asked = rows.t_inv[at] <= release.t_ret + slack
                found += asked and not self._declared_over(at, release.t_inv - slack)
        return found

    def _declared_over(self, a: int, by_ns: int) -> bool:
        """Whether the service had said before a moment that an attempt does not hold."""
        rows = self.rows
        ends = [rows.t_ret[a]] * (rows.status[a] in (FAIL, NOT_OWNER))
        for r in self.run.following(a):
            f, status = rows.f[r], rows.status[r]
            denied = f in (OPS["renew"], OPS["release"]) and status == NOT_OWNER
            notified = f == LOST and rows.t_inv[r] == self.run.end(a)
            if denied or notified or (f == OPS["release"] and status == OK):
                ends.append(rows.t_ret[r])
        return min(ends, default=INF) < by_ns

    def _alone_with_token(self, a: Row) -> bool:
        """Whether no other acquire of a lock returned the token of this one."""
        rows = self.rows
        asks = [at for at, f in enumerate(rows.f) if f in ASKS and rows.status[at]]
        return [at for at in asks if (rows.key[at], rows.token[at]) == (a.key, a.token)] == [a.at]

    def _undisturbed(self, a: Row, from_ns: int, span_ns: int) -> bool:
        """Whether no fault kept its client from being reached, from a moment on for a duration."""
        run, node = self.run, self.rows.nodes.get(a.process, "")
        clients = set(self.rows.nodes.values())
        for window in run.windows:
            nodes = set(window.nodes)
            paused = window.do == "pause" and nodes and nodes <= clients
            over = window.to_ns + (0 if paused else int(run.promises["recovery_ns"]))
            touches = not nodes or node in nodes or not nodes <= clients
            if touches and window.from_ns <= from_ns + span_ns + run.slack_ns and over >= from_ns:
                return False
        return True
