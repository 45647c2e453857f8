"""Conditions of rules about queue lengths, entries of an owner, and grant notices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.harness.verification.answers import Answers
from holdfast.harness.verification.conditions import Row
from holdfast.harness.verification.derived import FAIL, INF, INFO, INVOKED, NOT_OWNER
from holdfast.harness.verification.recorded_rows import ASKS
from holdfast.harness.verification.rule import OPS, entries, waits


class Lengths:
    """Functions for rules about queue lengths, entries and grant notices."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.run, self.rows = answers, answers.run, answers.rows

    def names(self) -> dict[str, Any]:
        """The names that rules use, as `Conditions.names`."""
        return {
            "waits": waits,
            "entries": entries,
            "limit": int(self.run.promises["notice_ns"]),
            "alone_with_token": self._alone_with_token,
            "undisturbed": self._undisturbed,
            "entries_at_most": self._entries_at_most,
            "requested": self._requested,
            "waiting_at_most": self._waiting_at_most,
            "apart_waits": lambda roles: self._apart_waits(roles),
        }

    def _waiting_at_most(self, asked: Row) -> int:
        """Number of acquires of a lock that can have waited at some instant of a query."""
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
        """Whether the waits that a certificate counts are of different attempts."""
        mine = [row.attempt for name, row in roles.items() if name.startswith("before")]
        return 0 not in mine and len(set(mine)) == len(mine)

    def _entries_at_most(self, release: Row) -> int:
        """Number of other entries of its owner that a lock can have had when a release returned:
        all that were requested by then, except those that the service had reported as over
        before."""
        rows, slack = self.rows, self.run.slack_ns
        found = 0
        for at, f in enumerate(rows.f):
            mine = rows.process[at] == release.process and rows.key[at] == release.key
            if f in ASKS and rows.status[at] and mine and rows.attempt[at] != release.attempt:
                asked = rows.t_inv[at] <= release.t_ret + slack
                rejected = rows.status[at] in (FAIL, NOT_OWNER)
                over = rows.t_ret[at] if rejected else self.answers.over(at)
                found += asked and over >= release.t_inv - slack
        return found

    def _requested(self, release: Row) -> bool:
        """Whether the run has the acquire that a release belongs to."""
        rows, asks = self.rows, self.run.asks().get(release.key, ())
        return any(rows.attempt[at] == release.attempt for at in asks)

    def _alone_with_token(self, a: Row) -> bool:
        """Whether no other acquire of a lock returned the token of this one."""
        rows = self.rows
        asks = [at for at, f in enumerate(rows.f) if f in ASKS and rows.status[at]]
        return [at for at in asks if (rows.key[at], rows.token[at]) == (a.key, a.token)] == [a.at]

    def _undisturbed(self, a: Row, from_ns: int, span_ns: int) -> bool:
        """Whether its client was reachable for span_ns from from_ns on."""
        until_ns = from_ns + span_ns + 2 * self.run.slack_ns
        spans = self.answers.out_of_reach(a)
        return not any(begun <= until_ns and over >= from_ns for begun, over in spans)
