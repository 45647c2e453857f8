"""Grants with a token that were requested after a stroke, where a token was known before it.

A counter that restarts, or is kept by two leaders, shows only there. One that is written to disk
too late shows only where the last token was new.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.facts.wording import span
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.opportunities.outlived import Strokes
from holdfast.checkers.opportunities.strokes import unstaged
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.core.verdict import Seen


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
    grants, slack_ns = table(case), slack(case)
    carries = (grants.token != NO_TOKEN) & (grants.known < INF)
    count, first, fault = 0, dict[str, int](), ""
    youngest_ns = INF
    for stroke in hits:
        for entries in grants.by_lock().values():
            mine = entries[carries[entries]]
            before = mine[grants.known[mine] + slack_ns < stroke.from_ns]
            after = mine[grants.inv[mine] > stroke.from_ns + slack_ns]
            if not len(before):
                continue
            last = before[np.argmax(grants.known[before])]
            others = after[grants.process[after] != grants.process[last]]
            if not len(others):
                continue
            age_ns = int(stroke.from_ns - grants.known[last])
            youngest_ns = min(youngest_ns, age_ns)
            if age_ns >= new_ns:
                continue
            if not count:
                first = {"before": int(grants.row[last]), "after": int(grants.row[others[0]])}
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
