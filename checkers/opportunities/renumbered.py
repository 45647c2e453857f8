"""Grants with a token that were requested after a stroke, where a token was known before it.

A counter that restarts, or is kept by two leaders, shows only there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.opportunities.outlived import Strokes
from holdfast.checkers.opportunities.strokes import unstaged
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.core.verdict import Seen


def renumbered(case: Case, windows: Sequence[Window], strokes: Strokes, what: str) -> Seen:
    """Grants to another owner, asked for after a stroke, of a lock with a token known before it."""
    hits = strokes(case, windows)
    if not hits:
        return unstaged(windows, what)
    found, slack_ns = table(case), slack(case)
    carries = (found.token != NO_TOKEN) & (found.known < INF)
    count, first = 0, dict[str, int]()
    fault = ""
    for stroke in hits:
        for entries in found.by_lock().values():
            mine = entries[carries[entries]]
            before = mine[found.known[mine] + slack_ns < stroke.from_ns]
            after = mine[found.inv[mine] > stroke.from_ns + slack_ns]
            if not len(before):
                continue
            last = before[np.argmax(found.known[before])]
            others = after[found.process[after] != found.process[last]]
            if len(others) and not count:
                first = {"before": int(found.row[last]), "after": int(found.row[others[0]])}
                fault = stroke.window.id
            count += bool(len(others))
    if count:
        return Seen(count=count, roles=first, fault=fault)
    kind = hits[0].window.do
    return Seen(
        nearest=f"no other client was granted a lock with a token after a {kind} that had one"
        f" before it: 0 of {len(hits)}"
    )
