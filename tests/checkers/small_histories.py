"""Small histories at random, of few moments, few tokens and short leases, so that edges meet often.

Not of any service: answers are what chance makes them. Only what a client and its recorder do is
kept: calls of a client come one after the other, and each is answered after it is made.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from holdfast.harness.core.case import Case, History, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status, Terms, attempt_id
from tests.checkers.shorthand import LEASE_LOCK, case, table

TICK = SECOND
STRINGS = ["", "/x", "/x/y", "/z", "expired"]
TTLS = (0, 1, 2 * TICK, 3 * TICK, 5 * TICK)
OUTCOMES = (Status.OK, Status.OK, Status.OK, Status.INFO, Status.FAIL, Status.NOT_OWNER)
Row = dict[str, int]


class _Writer:
    """The rows of one client, by a clock that only goes on."""

    def __init__(self, chance: random.Random, process: int, beats: bool) -> None:
        self.chance, self.process, self.rows = chance, process, list[Row]()
        self.beats = beats
        self.now = chance.randrange(1, 4)
        self.attempts = 0

    def call(self, f: Op, status: Status, **columns: int) -> Row:
        begin = self.now
        self.now += self.chance.randrange(3)
        never = status is Status.INVOKED
        row = {"f": int(f), "status": int(status), "process": self.process, "key": 1, "token": -1,
               "t_inv": begin * TICK, "t_ret": 0 if never else self.now * TICK,
               "writer": self.process, "row": len(self.rows), **columns}  # fmt: skip
        self.rows.append(row)
        self.now += self.chance.randrange(3)
        return row

    def moment(self, f: Op, **columns: int) -> None:
        row = self.call(f, Status.OK, **columns)
        row["t_ret"] = row["t_inv"]

    def attempt(self, terms: Terms, key: int) -> None:
        """One acquire, and what a client may do with what came of it."""
        chance = self.chance
        self.attempts += 1
        own = {"attempt": attempt_id(self.process, self.attempts), "key": key}
        status = chance.choice((*OUTCOMES[:5], Status.OK, Status.OK, Status.INVOKED))
        ok = status is Status.OK
        token, ttl = chance.choice((-1, 1, 2, 2, 3, 4)), chance.choice(TTLS)
        asked = self.call(
            chance.choice((Op.ACQUIRE, Op.ACQUIRE, Op.TRY)), status, **own,
            arg=ttl, res=ttl if ok else 0, token=token if ok else NO_TOKEN, aux=-1,
            mode=int(terms.mode), op=terms.packed() | (chance.random() < 0.1),
        )  # fmt: skip
        if asked["f"] == Op.ACQUIRE and chance.random() < 0.5:
            back, self.now = self.now, asked["t_inv"] // TICK + (chance.random() < 0.5)
            if self.now * TICK <= asked["t_ret"]:
                self.moment(Op.WAITING, **own)
            self.now = max(back, self.now)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 4))):
            self._follow(own, token)

    def _follow(self, own: Row, token: int) -> None:
        chance = self.chance
        status, ttl = chance.choice((*OUTCOMES, Status.INVOKED)), chance.choice(TTLS)
        act = chance.random()
        if self.beats and act < 0.5:
            act = 0.8 + act / 5
        if act < 0.45:
            row = self.call(Op.RENEW, status, **own, arg=chance.choice((ttl, TTLS[3])), token=token)
            row["res"] = ttl if status is Status.OK else 0
            if chance.random() < 0.3:  # the next call does not wait for the answer
                self.now = row["t_inv"] // TICK
        elif act < 0.7:
            self.call(Op.RELEASE, status, **own, token=token)
        elif act < 0.78:
            self.moment(
                chance.choice((Op.LOST, Op.LOST, Op.WAITING)), **own, res=chance.choice((0, 4))
            )
        elif act < 0.82:
            self.moment(Op.CLOSED, **(own if chance.random() < 0.3 else {"key": 0}))
        elif act < 0.92:
            beat = Status.OK if chance.random() < 0.8 else status
            self.call(Op.HEARTBEAT, beat, key=0, arg=chance.choice((7, 7, 7, 8)), res=ttl)
        else:
            self.call(Op.FORCE_UNLOCK, status, key=own["key"], token=chance.choice((-1, -1, token)))


def promises(chance: random.Random) -> Any:
    flags: dict[str, Any] = {
        name: chance.random() < 0.7
        for name in ("renew_proves", "release_proves", "release_once", "tokens_unique", "subtrees")
    }
    return replace(
        LEASE_LOCK,
        **flags,
        bound=chance.choice(("lease", "lease", "lease", "session", "connection", "none")),
        slip_ns=chance.choice((0, 0, TICK)),
        drift_ppm=chance.choice((0, 0, 500_000)),
        delay_ns=chance.choice((0, 4 * TICK)),
        recovery_ns=2 * TICK,
        tokens=chance.choice(("ordered", "ordered", "unordered")),
        keeps={
            prop: ("any",) if chance.random() < 0.7 else ("kill",)
            for prop in ("token-order", "mutual-exclusion")
            if chance.random() < 0.9
        },
    )


def small(chance: random.Random) -> Case:
    """One of them, under promises at random."""
    rows: list[Row] = []
    kind = chance.choice((Mode.EXCLUSIVE, Mode.EXCLUSIVE, Mode.SHARED, Mode.PERMITS))
    paths = chance.random() < 0.3
    count = chance.choice((2, 2, 3))
    said = promises(chance)
    for process in range(count):
        writer = _Writer(chance, process, said.bound == "session")
        for _ in range(chance.choice((1, 1, 2))):
            terms = Terms()
            if kind is Mode.SHARED and chance.random() < 0.6:
                terms = Terms(mode=Mode.SHARED)
            if kind is Mode.PERMITS:
                limit = 2 if chance.random() < 0.9 else 3
                terms = Terms(mode=Mode.PERMITS, permits=chance.choice((1, 1, 2)), limit=limit)
            writer.attempt(terms, chance.choice((1, 2, 2, 3) if paths else (1, 1, 1, 3)))
        rows += writer.rows
    rows.sort(key=lambda row: (row["t_inv"], row["writer"], row["row"]))
    told = History(rows=table(rows), strings=STRINGS, writers=tuple(f"c{n}" for n in range(count)))
    windows = []
    for n in range(chance.choice((0, 0, 1, 2))):
        begin = chance.randrange(1, 9)
        node = chance.choice(("c0", "c1", "n1"))
        windows.append(
            Window(
                id=f"w{n}", do=(do := chance.choice(("kill", "kill", "pause"))), target="one",
                nodes=(node,), from_ns=begin * TICK, to_ns=(begin + chance.randrange(3)) * TICK,
                effective=True, evidence={}, traits=BEFORE[do],
            )
        )  # fmt: skip
    given = case(told, windows=tuple(windows), lease_ns=3 * TICK)
    error_ns = chance.choice((0, 0, 0, TICK // 2, TICK))
    return replace(given, promises=said, error_ns=error_ns)
