"""Grants with a token that were requested after a stroke, where a token was known before it.

A counter that restarts, or is kept by two leaders, shows only there. One that is written to disk
too late shows only where the last token was new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.checkers.facts.wording import span
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Indices, Ints
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.opportunities.outlived import Strokes
from holdfast.checkers.opportunities.strokes import unstaged
from holdfast.harness.core.case import Case, Window, memoised
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.core.verdict import Seen

RENUMBERED = (
    "a token was known before what may have put an earlier state back, and another client was"
    " granted the lock after it"
)
"""What an opportunity is, as a clause that follows "3 times"."""


def renumbered(
    case: Case, windows: Sequence[Window], strokes: Strokes, what: str, new_ns: int = INF
) -> Seen:
    """Grants to another owner, asked for after a stroke, of a lock with a token known before it.

    what     the servers that a stroke strikes, for the nearest miss
    new_ns   the last token must have become known in this time before the stroke
    """
    hits = strokes(case, windows)
    if not hits:
        return unstaged(windows, what)
    attempts, slack_ns = table(case), slack(case)
    count, first, fault = 0, dict[str, int](), ""
    youngest_ns = INF
    for stroke in hits:
        for grants in _tokens(case):
            last, after = grants.around(stroke.from_ns, slack_ns)
            if after < 0 or attempts.known[last] <= stroke.kept_ns:
                continue
            age_ns = int(stroke.from_ns - attempts.known[last])
            youngest_ns = min(youngest_ns, age_ns)
            if age_ns >= new_ns:
                continue
            if not count:
                first = {"before": int(attempts.row[last]), "after": int(attempts.row[after])}
                fault = stroke.window.id
            count += 1
    if count:
        return Seen(count=count, roles=first, fault=fault)
    kind = hits[0].window.do
    if youngest_ns < INF:
        return Seen(
            nearest=f"the newest token at a {kind} was {span(youngest_ns)} old, and only one of"
            f" less than {span(new_ns)} could be lost"
        )
    return Seen(
        nearest=f"no other client was granted a lock with a token after a {kind} that had one"
        f" before it: 0 of {len(hits)}"
    )


class _Grants(NamedTuple):
    """Certain grants of one lock with a token: entries of the table, in order of their calls.

    inv, process  of each
    known         sorted times at which each was known; by_known: the entries in that order
    """

    entries: Indices
    inv: Ints
    process: Ints
    known: Ints
    by_known: Indices

    def around(self, t_ns: int, slack_ns: int) -> tuple[int, int]:
        """The last one known before a time, and the first of another client asked for after it; -1
        where there is none."""
        before = int(np.searchsorted(self.known, t_ns - slack_ns)) - 1
        if before < 0:
            return -1, -1
        last = int(self.by_known[before])
        owner = int(self.process[np.searchsorted(self.entries, last)])
        at, step = int(np.searchsorted(self.inv, t_ns + slack_ns, "right")), 64
        while at < len(self.inv):
            # Mostly one of the next few is another client's.
            others = np.flatnonzero(self.process[at : at + step] != owner)
            if len(others):
                return last, int(self.entries[at + others[0]])
            at, step = at + step, 4 * step
        return last, -1


@memoised
def _tokens(case: Case) -> list[_Grants]:
    """The grants with a token of each lock; memoised, so that a stroke needs binary searches."""
    attempts = table(case)
    carries = (attempts.token != NO_TOKEN) & (attempts.known < INF)
    made = []
    for entries in attempts.by_lock().values():
        mine = np.sort(entries[carries[entries]])
        by_known = mine[np.argsort(attempts.known[mine], kind="stable")]
        inv = attempts.inv[mine]
        made.append(_Grants(mine, inv, attempts.process[mine], attempts.known[by_known], by_known))
    return made
