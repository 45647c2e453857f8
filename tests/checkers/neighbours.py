"""Neighbours of a history: one thing of it is changed, so that it could still have been recorded.

A time is moved to that of another row or to where one clock error, lease or other span before or
after it lies, give or take a nanosecond; a token is changed; an answer is lost; an op is left out;
a fault is added, or its edge is moved; the service promises more or less.

What a client and the resource can have recorded stays as it is: a call is not answered before it is
made, calls that came one after the other stay so, rows of a writer are in order of their calls, and
the resource serves no request before it is sent or after it is answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from tests.checkers.faults import window

SERVED = (int(Op.SERVED_READ), int(Op.SERVED_WRITE))
MOMENTS = (int(Op.WAITING), int(Op.LOST), int(Op.CLOSED))
ASKS = (int(Op.ACQUIRE), int(Op.TRY), int(Op.PROBE))
Rows = Any


def legal(before: Rows, after: Rows) -> bool:
    """Whether rows that differ in their times could have been recorded. Both: in one order."""
    inv, ret, status = after["t_inv"], after["t_ret"], after["status"]
    never = status == Status.INVOKED
    if (inv <= 0).any() or ((ret == 0) != never).any() or (ret < inv)[~never].any():
        return False
    served, moment = np.isin(after["f"], SERVED), np.isin(after["f"], MOMENTS)
    order = np.lexsort((after["row"], after["writer"]))
    same = after["writer"][order][1:] == after["writer"][order][:-1]
    if (np.diff(inv[order].astype(np.int64)) < 0)[same].any():
        return False
    # Calls of one process that came one after the other; nothing of a hold before its acquire.
    once = (before["t_ret"] > 0)[:, None] & (before["t_ret"][:, None] <= before["t_inv"][None, :])
    now = ret[:, None] <= inv[None, :]
    alike = (after["process"][:, None] == after["process"][None, :]) & ~served & ~served[:, None]
    if (alike & once & ~now).any():
        return False
    for at in np.flatnonzero(moment & (after["attempt"] != 0)):
        asked = (after["attempt"] == after["attempt"][at]) & np.isin(after["f"], ASKS)
        if (inv[asked] > inv[at]).any():
            return False
    name = after["process"].astype(np.int64) << 32 | after["row"]
    for at in np.flatnonzero(served):
        asked = ~served & (name == after["op"][at]) & np.isin(after["f"], (Op.READ, Op.WRITE))
        answered = asked & np.isin(status, (Status.OK, Status.FAIL))
        if (inv[asked] > ret[at]).any() or (ret[answered] < inv[at]).any():
            return False
    return True


def in_order(case: Case, rows: Rows) -> Case:
    """The case with these rows instead, in the order of a history."""
    rows = rows[np.lexsort((rows["row"], rows["writer"], rows["t_inv"]))]
    last = int(max(rows["t_inv"].max(), rows["t_ret"].max()))
    history = replace(case.history, rows=rows)
    return replace(case, history=history, end_ns=max(case.end_ns, last), memo={})


def spans(case: Case) -> list[int]:
    """By how much two moments may differ without being unrelated."""
    promises, rows = case.promises, case.history.rows
    error, slip, delay = case.error_ns, promises.slip_ns, promises.delay_ns
    lengths = {0, error, 2 * error, slip, delay, promises.recovery_ns, promises.notice_ns}
    for ttl in {int(n) for n in (*rows["res"], *rows["arg"]) if 10**6 < n < 10**12}:
        drift = ttl * promises.drift_ppm // 10**6
        lengths |= {ttl, ttl - drift - slip, ttl + drift + slip, ttl + drift + slip + 3 * 10**9}
    lengths |= {each + more for each in list(lengths) for more in (error, 2 * error)}
    return sorted(lengths)


def moved(case: Case, chance: random.Random) -> Case | None:
    """A call, an answer, or a moment somewhere else."""
    rows = case.history.rows.copy()
    at, other = chance.randrange(len(rows)), chance.randrange(len(rows))
    edge = chance.choice(("t_inv", "t_ret"))
    target = int(rows[chance.choice(("t_inv", "t_ret"))][other])
    if not target or not rows[edge][at]:
        return None
    length = chance.choice(spans(case)) if chance.random() < 0.6 else 0
    target += chance.choice((-1, 1)) * length + chance.choice((-1, 0, 0, 1))
    moment = rows["f"][at] in MOMENTS or rows["t_inv"][at] == rows["t_ret"][at]
    for name in ("t_inv", "t_ret") if moment else (edge,):
        rows[name][at] = target
    return in_order(case, rows) if legal(case.history.rows, rows) else None


def renamed(case: Case, chance: random.Random) -> Case | None:
    """Another token: of one answer, or of a whole attempt with all that carried it."""
    rows = case.history.rows.copy()
    carrying = np.flatnonzero((rows["token"] != NO_TOKEN) & (rows["attempt"] != 0))
    if not len(carrying):
        return None
    at, known = chance.choice(carrying), sorted({int(n) for n in rows["token"][carrying]})
    near = chance.choice(known) + chance.choice((-1, 0, 0, 1))
    token = max(NO_TOKEN, chance.choice((near, near, near, NO_TOKEN)))
    alike = (rows["attempt"] == rows["attempt"][at]) & (rows["token"] == rows["token"][at])
    rows["token"][alike if chance.random() < 0.8 else at] = token
    return in_order(case, rows)


def unanswered(case: Case, chance: random.Random) -> Case | None:
    """An answer that was lost: the client gave up when it came, or never."""
    rows = case.history.rows.copy()
    answered = np.isin(rows["status"], (Status.OK, Status.FAIL, Status.NOT_OWNER))
    answered &= ~np.isin(rows["f"], (*SERVED, *MOMENTS))
    if not answered.any():
        return None
    at = chance.choice(np.flatnonzero(answered))
    rows["status"][at], rows["res"][at] = Status.INFO, 0
    if rows["f"][at] in ASKS:
        rows["token"][at] = NO_TOKEN
    if chance.random() < 0.3:
        rows["status"][at], rows["t_ret"][at] = Status.INVOKED, 0
    return in_order(case, rows)


def left_out(case: Case, chance: random.Random) -> Case | None:
    """All but one op; what followed from a call that was never made goes with it."""
    rows = case.history.rows
    at = chance.randrange(len(rows))
    gone = np.arange(len(rows)) == at
    if rows["f"][at] in ASKS and chance.random() < 0.9:
        gone |= (rows["attempt"] == rows["attempt"][at]) & (rows["attempt"] != 0)
    return in_order(case, rows[~gone]) if not gone.all() else None


def refused(case: Case, chance: random.Random) -> Case | None:
    """A renewal or release that was answered otherwise."""
    rows = case.history.rows.copy()
    follow = np.flatnonzero(np.isin(rows["f"], (Op.RENEW, Op.RELEASE)) & (rows["t_ret"] > 0))
    if not len(follow):
        return None
    at = chance.choice(follow)
    rows["status"][at] = chance.choice((Status.OK, Status.FAIL, Status.NOT_OWNER))
    return in_order(case, rows)


def windowed(case: Case, chance: random.Random) -> Case | None:
    """A fault that begins or ends at another moment of the history."""
    if not case.windows:
        return None
    windows = list(case.windows)
    at = chance.randrange(len(windows))
    rows = case.history.rows
    edges = {"from_ns": windows[at].from_ns, "to_ns": windows[at].to_ns}
    moment = int(chance.choice(rows)[chance.choice(("t_inv", "t_ret"))])
    moment += chance.choice((0, *spans(case))) * chance.choice((-1, 1)) + chance.choice((-1, 0, 1))
    edges[chance.choice(("from_ns", "to_ns"))] = moment
    if not 0 < edges["from_ns"] <= edges["to_ns"]:
        return None
    windows[at] = replace(windows[at], from_ns=edges["from_ns"], to_ns=edges["to_ns"])
    return replace(case, windows=tuple(windows), memo={})


def struck(case: Case, chance: random.Random) -> Case | None:
    """One more fault, on a client or a server: a second one of a node as well as a first."""
    clients = sorted(set(case.nodes.values()))
    node = chance.choice([*clients, *clients, "n1"])
    rows = case.history.rows
    edges = sorted(
        int(chance.choice(rows)["t_inv"]) + chance.choice((0, 0, *spans(case))) for _ in range(2)
    )
    if edges[0] <= 0:
        return None
    one = window(chance.choice(("kill", "kill", "pause", "partition")), node, 1, 2)
    one = replace(one, id=f"{one.do}-{edges}", from_ns=edges[0], to_ns=edges[1])
    return replace(case, windows=(*case.windows, one), memo={})


def tied(case: Case) -> bool:
    """Whether a client was killed at the very moment at which a claim ended otherwise: which of the
    two ends counts is told apart by neither program, and only one of them is an answer."""
    rows = case.history.rows
    ends = {int(t_ns) for t_ns in rows["t_inv"][np.isin(rows["f"], MOMENTS)]}
    ends |= {int(t_ns) for t_ns in rows["t_ret"][rows["status"] == Status.NOT_OWNER]}
    return any(window.traits.kills and window.from_ns in ends for window in case.windows)


def promising(case: Case, chance: random.Random) -> Case | None:
    """One promise more or less."""
    said, keeps = case.promises, dict(case.promises.keeps)
    name = chance.choice(
        ("renew_proves", "release_proves", "release_once", "tokens_unique", "tokens", "order",
         "slip_ns", "drift_ppm", "keeps", "bound")
    )  # fmt: skip
    other: Any
    if name == "keeps":
        prop = chance.choice(("token-order", "mutual-exclusion", "no-expired-write"))
        other = {**keeps, prop: ("any",)} if prop not in keeps else keeps
        if other is keeps:
            del keeps[prop]
    else:
        other = {
            "tokens": "none" if said.tokens == "ordered" else "ordered",
            "order": "racing" if said.order == "fifo" else "fifo",
            "slip_ns": chance.choice((0, 1, 10**7, 10**9)),
            "drift_ppm": chance.choice((0, 1000, 100_000)),
            "bound": chance.choice(("lease", "session", "connection", "none")),
        }.get(name, not getattr(said, name, False))
    return replace(case, promises=replace(said, **{name: other}), memo={})


def erring(case: Case, chance: random.Random) -> Case | None:
    """Clocks that are known worse or better."""
    return replace(case, error_ns=chance.choice((0, 1, 10**6, 5 * 10**8)), memo={})


CHANGES: tuple[Callable[[Case, random.Random], Case | None], ...] = (
    *(moved,) * 8, *(renamed,) * 3, *(unanswered,) * 2, *(left_out,) * 2, *(refused,) * 2,
    windowed, struck, struck, promising, erring,
)  # fmt: skip


def neighbours(case: Case, chance: random.Random, count: int) -> Iterator[Case]:
    """So many neighbours of a case, some of them of a neighbour."""
    while count:
        changed = chance.choice(CHANGES)(case, chance)
        if changed is not None and chance.random() < 0.3:
            changed = chance.choice(CHANGES)(changed, chance)
        if changed is not None and len(changed.history.rows) and not tied(changed):
            yield changed
            count -= 1
