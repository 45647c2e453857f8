"""The rows of a case as plain columns, with those of one attempt, process or lock together."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from holdfast.checkers.leases import INF
from holdfast.harness.case import Case
from holdfast.harness.events import NO_TOKEN, Op, Status

UNKNOWN = (Status.INFO, Status.INVOKED)
STATUSES = tuple(Status)
"""by value: a table is ten times faster than asking the enumeration"""


class Log:
    """Columns and groups of rows, by the row's index into the merged history.

    ret        INF where the row never returned
    renewals, releases, waitings, told   rows of one attempt, in order of time
    closed, beats   rows that end everything a process holds; acknowledged heartbeats of a process
    forced     an operator's unlocks of one lock
    kills      when clients of one node were killed, ns, in order
    """

    def __init__(self, case: Case) -> None:
        rows = case.history.rows
        self.case = case
        self.promises = case.promises
        self.kind = rows["f"].tolist()
        self.status = [STATUSES[status] for status in rows["status"].tolist()]
        self.inv = rows["t_inv"].tolist()
        self.ret = np.where(rows["t_ret"] == 0, INF, rows["t_ret"]).tolist()
        self.attempt = rows["attempt"].tolist()
        self.process = rows["process"].tolist()
        self.key = rows["key"].tolist()
        self.mode = rows["mode"].tolist()
        self.token = rows["token"].tolist()
        self.arg = rows["arg"].tolist()
        self.res = rows["res"].tolist()
        self.aux = rows["aux"].tolist()
        self.renewals = self._group(self.attempt, Op.RENEW)
        self.releases = self._group(self.attempt, Op.RELEASE)
        self.waitings = self._group(self.attempt, Op.WAITING)
        self.told = self._group(self.attempt, Op.LOST, Op.CLOSED)
        told_all = [row for row in self.told.pop(0, []) if self.kind[row] == Op.CLOSED]
        self.closed = _grouped(told_all, self.process)
        self.forced = self._group(self.key, Op.FORCE_UNLOCK)
        beats = [r for r in case.history.of(Op.HEARTBEAT).tolist() if self.status[r] is Status.OK]
        self.beats = _grouped(beats, self.process)
        self.kills: dict[str, list[int]] = defaultdict(list)
        for window in sorted(case.windows, key=lambda window: window.from_ns):
            if window.do == "kill":
                for node in window.nodes:
                    self.kills[node].append(window.from_ns)

    def _group(self, by: list[int], *ops: Op) -> dict[int, list[int]]:
        return _grouped(self.case.history.of(*ops).tolist(), by)

    def may_end(self, forced: int, row: int) -> bool:
        """Whether an operator's unlock may have hit the attempt that asks in `row`."""
        if self.status[forced] in (Status.FAIL, Status.NOT_OWNER):
            return False
        aimed = self.token[forced] == NO_TOKEN or self.token[row] in (NO_TOKEN, self.token[forced])
        until_ns = INF if self.status[forced] in UNKNOWN else self.ret[forced]
        return aimed and until_ns >= self.inv[row]

    def revivable(self, attempt: int) -> bool:
        """Whether a renewal of unknown outcome could bring the attempt back after its end.

        Then even a release that is ok only once may be ok twice.
        """
        renewals = self.renewals.get(attempt, ())
        unknown = any(self.status[renewal] in UNKNOWN for renewal in renewals)
        return unknown and not self.promises.renew_proves


def _grouped(rows: list[int], by: list[int]) -> dict[int, list[int]]:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows:
        groups[by[row]].append(row)
    return dict(groups)
