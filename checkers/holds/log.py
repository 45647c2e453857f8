"""The rows of a case, or of some attempts, grouped by attempt, process and lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.checkers.holds.history_index import UNKNOWN, RowIndices, places_lost, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.statements import answers, believed
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.core.verdict import Promises

Column = Sequence[int] | Mapping[int, int]
"""a value by row number: of all rows, or of those that a log covers"""

STATUSES = tuple(Status)
"""by value: a table is ten times faster than calling the enumeration"""


class Log:
    """Columns and groups of rows, by the row's index into the merged history.

    about      the rows that it covers, in order; None: all
    ret        INF if the row never returned
    renewals, releases, waitings, told   rows of one attempt, in order of time
    closed, beats   rows that end everything a process holds; acknowledged heartbeats of a process
    forced     force-unlocks of one lock by an operator
    kills      when clients of one node were killed, ns, in order
    """

    def __init__(self, case: Case, about: RowIndices | None = None) -> None:
        rows = case.history.rows if about is None else case.history.rows[about]
        self.case = case
        self.promises = case.promises
        self._believed = believed if answers(case) else None
        self._numbers = None if about is None else about.tolist()
        self.kind = self._by_row(rows["f"].tolist())
        self.status = self._by_row([STATUSES[status] for status in rows["status"].tolist()])
        self.inv = self._by_row(rows["t_inv"].tolist())
        self.ret = self._by_row(np.where(rows["t_ret"] == 0, INF, rows["t_ret"]).tolist())
        self.attempt = self._by_row(rows["attempt"].tolist())
        self.process = self._by_row(rows["process"].tolist())
        self.key = self._by_row(rows["key"].tolist())
        self.mode = self._by_row(rows["mode"].tolist())
        self.token = self._by_row(rows["token"].tolist())
        self.arg = self._by_row(rows["arg"].tolist())
        self.res = self._by_row(rows["res"].tolist())
        self.aux = self._by_row(rows["aux"].tolist())
        self.renewals = self._group(self.attempt, Op.RENEW)
        self.releases = self._group(self.attempt, Op.RELEASE)
        lost = places_lost(case)
        waits = [row for row in self._of(Op.WAITING) if row not in lost]
        self.waitings = _grouped(waits, self.attempt)
        self.told = self._group(self.attempt, Op.LOST, Op.CLOSED)
        told_all = [row for row in self.told.pop(0, []) if self.kind[row] == Op.CLOSED]
        self.closed = _grouped(told_all, self.process)
        self.forced = self._group(self.key, Op.FORCE_UNLOCK)
        beats = [r for r in self._of(Op.HEARTBEAT) if self.status[r] is Status.OK]
        self.beats = _grouped(beats, self.process)
        self.kills: dict[str, list[int]] = defaultdict(list)
        for window in sorted(case.windows, key=lambda window: window.from_ns):
            if window.traits.kills:
                for node in window.nodes:
                    self.kills[node].append(window.from_ns)

    def promises_of(self, row: int) -> Promises:
        """What the system declares, except what the responses about this row's lock contradict."""
        if self._believed is None:
            return self.promises
        return self._believed(self.case, self.key[row])

    def _by_row(self, values: list[Any]) -> Any:
        return values if self._numbers is None else dict(zip(self._numbers, values, strict=True))

    def _of(self, *ops: Op) -> list[int]:
        if self._numbers is None:
            every: list[int] = rows_of(self.case, *ops).tolist()
            return every
        return [row for row in self._numbers if self.kind[row] in ops]

    def _group(self, by: Column, *ops: Op) -> dict[int, list[int]]:
        return _grouped(self._of(*ops), by)

    def may_end(self, forced: int, row: int) -> bool:
        """Whether a force-unlock may have ended the attempt whose acquire is `row`."""
        if self.status[forced] in (Status.FAIL, Status.NOT_OWNER):
            return False
        aimed = self.token[forced] == NO_TOKEN or self.token[row] in (NO_TOKEN, self.token[forced])
        until_ns = INF if self.status[forced] in UNKNOWN else self.ret[forced]
        return aimed and until_ns >= self.inv[row]

    def revivable(self, attempt: int) -> bool:
        """Whether a renewal of unknown outcome could bring the attempt back after its end.

        Then even a release that returns ok only once may return ok twice.
        """
        renewals = self.renewals.get(attempt, ())
        unknown = [renewal for renewal in renewals if self.status[renewal] in UNKNOWN]
        return bool(unknown) and not self.promises_of(unknown[0]).renew_proves


def _grouped(rows: list[int], by: Column) -> dict[int, list[int]]:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows:
        groups[by[row]].append(row)
    return dict(groups)
