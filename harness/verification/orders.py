"""The orders that show that an exact property holds: each is walked once, against the rows.

Of exclusion and of tokens an order has every grant of a lock once, each at some instant between its
call and its answer, and after the holds of all before it that it conflicts with. Of writes it is
the resource's own log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from holdfast.harness.verification.conditions import SERVED_WRITE, Conditions
from holdfast.harness.verification.derived import EXCLUSIVE, OK, Run

FILE = "orders.bin"
"""Per order two columns of u32: the place of the writer among all writers, and its row."""
PERMITS, PROBE = 2, 14


class Orders:
    """The orders of one run. data: the bytes of all of them."""

    def __init__(self, run: Run, conditions: Conditions, data: bytes) -> None:
        self._run, self._conditions, self._data = run, conditions, data
        self._rules: dict[str, Callable[[Sequence[int]], str]] = {
            "mutual-exclusion": self._exclusion,
            "token-order": self._tokens,
            "no-lost-update": self._chain,
            "applied-once": self._once,
        }

    def wrong(self, prop: str, told: Mapping[str, Any]) -> str:
        """Why an order does not show that a property holds, "" if it does."""
        rows, rule = self._run.rows, self._rules.get(prop)
        if rule is None or told.get("rule") != f"order/{prop}":
            return f"there is no rule {told.get('rule')!r} for it"
        locks, at = told["locks"], told["at"]
        count = sum(int(n) for _, n in locks)
        block = self._data[4 * at : 4 * (at + 2 * count)]
        digest = hashlib.sha256(block).hexdigest()
        if len(block) != 8 * count or told["sha256"] != digest:
            return "its order is not the one that was stored"
        names = [writer.name for writer in rows.writers]
        base = [rows.base[name] for name in names]
        numbers = memoryview(block).cast("I").tolist()
        places = [base[w] + row for w, row in zip(numbers[:count], numbers[count:], strict=True)]
        whole = self._whole(prop)
        shown = []
        for name, length in locks:
            mine, places = places[:length], places[length:]
            expected = whole.pop(name, [])
            if len(mine) != len(expected) or set(mine) != set(expected):
                return f"its order of '{name}' has not every row once"
            shown.append([name, length])
            if why := rule(mine):
                return f"its order of '{name}' is wrong: {why}"
        if whole:
            return f"it has no order of '{next(iter(whole))}'"
        canonical = {
            "rule": f"order/{prop}",
            "writers": names,
            "locks": shown,
            "at": at,
            "sha256": digest,
        }
        return "" if canonical == told else "it says something else than the recorded rows"

    def counts(self) -> dict[str, int]:
        """What a verdict leans on, as far as it is simply counted."""
        rows = self._run.rows
        asked = [at for at, f in enumerate(rows.f) if f in (1, 2) and rows.status[at]]
        probed = [at for at, f in enumerate(rows.f) if f == PROBE and rows.status[at]]
        granted = sum(rows.status[at] == OK for at in (*asked, *probed))
        return {"acquires": len(asked), "grants": granted}

    def _whole(self, prop: str) -> dict[str, list[int]]:
        """Per lock all rows that an order has to have."""
        rows = self._run.rows
        found: dict[str, list[int]] = {}
        if prop in ("mutual-exclusion", "token-order"):
            for key, grants in self._conditions.all_grants().items():
                if prop == "token-order":
                    grants = [at for at in grants if rows.token[self._run.known(at)] != -1]
                if grants:
                    found[rows.strings[key]] = grants
            return found
        for at, f in enumerate(rows.f):
            if f == SERVED_WRITE and rows.status[at] == OK:
                found.setdefault(rows.strings[rows.key[at]], []).append(at)
        return found

    def _exclusion(self, order: Sequence[int]) -> str:
        return self._walked(order, self._run.reach)

    def _tokens(self, order: Sequence[int]) -> str:
        rows, last, owner, shared = self._run.rows, -1, -1, False
        for at in order:
            token, process = rows.token[self._run.known(at)], rows.process[at]
            reader = rows.mode[at] != EXCLUSIVE
            if token < last or (token == last and process != owner and not (reader and shared)):
                return f"token {token} comes after {last}"
            last, owner, shared = token, process, reader
        return self._walked(order, self._run.proof_reach)

    def _walked(self, order: Sequence[int], reach: Callable[[int], int]) -> str:
        """Each grant as early as it can be: "" if that is not later than its answer."""
        rows, slack = self._run.rows, self._run.slack_ns
        t_inv, t_ret, modes, owners = rows.t_inv, rows.t_ret, rows.mode, rows.process
        known_of = self._run.known
        # Of holds of one mode the latest end, its owner, and the latest end of another owner.
        latest = {True: (0, -1, 0), False: (0, -1, 0)}
        for at in order:
            alone, owner = modes[at] == EXCLUSIVE, owners[at]
            if modes[at] == PERMITS:
                return "a semaphore has no order"
            begin = t_inv[at]
            for mode in (True, False) if alone else (True,):
                end, who, other = latest[mode]
                begin = max(begin, other if who == owner else end)
            known = t_ret[known_of(at)]
            if begin > known:
                return f"a hold lasts {begin - known} ns beyond the next grant"
            until = max(begin, reach(at) - slack)
            end, who, other = latest[alone]
            if who == owner:
                latest[alone] = (max(end, until), owner, other)
            elif until > end:
                latest[alone] = (until, owner, max(end, other))
            else:
                latest[alone] = (end, who, max(other, until))
        return ""

    def _chain(self, order: Sequence[int]) -> str:
        """Each write builds on the one before it in the log."""
        rows = self._run.rows
        log = [row.at for row in self._conditions.log(rows.key[order[0]])] if order else []
        if log != list(order):
            return "it is not the order of the log"
        for before, at in pairwise(order):
            version, base = rows.res[at], rows.arg[at]
            if (base if 0 <= base < version else version - 1) != rows.res[before]:
                return f"version {version} does not build on {rows.res[before]}"
        return ""

    def _once(self, order: Sequence[int]) -> str:
        names = [self._run.rows.op[at] for at in order]
        return "" if len(set(names)) == len(names) else "a write is in it twice"
