"""Requests that the other servers answered while a minority was down, during another's hold.

A service that counts its majority wrongly grants there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import conflict
from holdfast.checkers.holds.history_index import UNKNOWN, column
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import reaches, slack
from holdfast.checkers.opportunities.outlived import RECENT, Strokes
from holdfast.checkers.opportunities.strokes import Stroke, unstaged
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import Seen


def meanwhile(case: Case, windows: Sequence[Window], strokes: Strokes, what: str) -> Seen:
    """Strokes during which another client was answered inside a hold that can be judged."""
    hits = strokes(case, windows)
    if not hits:
        return unstaged(windows, what)
    met = [(stroke, roles) for stroke in hits if (roles := _answered(case, stroke))]
    if met:
        stroke, roles = met[0]
        return Seen(count=len(met), roles=roles, fault=stroke.window.id)
    kind = hits[0].window.do
    return Seen(
        nearest=f"no other client was answered during a hold while a {kind} had {what} down:"
        f" 0 of {len(hits)}"
    )


def _answered(case: Case, stroke: Stroke) -> dict[str, int]:
    """A hold and an acquire of another client that was answered inside it, {} if there is none."""
    attempts, far, slack_ns, inv = table(case), reaches(case), slack(case), column(case, "t_inv")
    from_ns, to_ns = stroke.from_ns + slack_ns, stroke.back_ns
    for entries in attempts.by_lock().values():
        met = entries[(attempts.inv[entries] < to_ns) & (attempts.ret[entries] > from_ns)]
        held = entries[(attempts.known[entries] < to_ns) & (far[entries] > from_ns)]
        held = held[np.argsort(attempts.known[held], kind="stable")][-RECENT:]
        for hold in attempts.pick(held):
            since_ns = max(hold.known_ns + slack_ns, from_ns)
            until_ns = min(int(far[attempts.of_rows(np.array([hold.row]))[0]]) - slack_ns, to_ns)
            for other in attempts.pick(met):
                answers = [int(inv[row]) for row in other.waitings]
                answers += [INF if other.status in UNKNOWN else other.ret_ns]
                inside = any(since_ns < t_ns < until_ns for t_ns in answers)
                if inside and other.process != hold.process and conflict(hold, other):
                    return {"hold": hold.row, "asked": other.row}
    return {}
