"""Verifies the orders that prove that an exact property holds: one pass each over the rows.

For exclusion and tokens an order has every grant of a lock once, each at some instant between its
call and its return, and after the holds of all before it that it conflicts with; for a semaphore,
when enough permits are free. A hierarchy has one order. For writes it is the resource's own log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate, chain, pairwise, repeat
from operator import le
from typing import Any

from holdfast.harness.verification.conditions import SERVED_WRITE, Conditions, Row
from holdfast.harness.verification.derived import EXCLUSIVE, INF, OK, SHARED, Run
from holdfast.harness.verification.recorded_rows import ASKS
from holdfast.harness.verification.writes import Writes

Walk = Callable[[Sequence[int], Sequence[int], Sequence[int]], str]
"""The grants of an order, how far the hold of each reaches, when each was known -> why not."""
FILE = "orders.bin"
"""Per order two columns of u32: the index of the writer among all writers, and its row."""
PERMITS, RELEASE, BOTH = 2, 4, (True, False)
NOBODY = (-1, -1)


class Orders:
    """The orders of one run. data: the bytes of all of them."""

    def __init__(self, run: Run, conditions: Conditions, data: bytes) -> None:
        self._run, self._conditions, self._data = run, conditions, data
        self._counted: dict[str, int] = {}
        self._named: dict[bytes, Sequence[int]] = {}
        self._complete: list[tuple[Sequence[int], Sequence[int]]] = []
        self._writes = Writes(run, conditions)
        self._legal: dict[int, Sequence[int]] = {}
        self._rules: dict[str, Callable[[Sequence[int]], str]] = {
            "mutual-exclusion": self._exclusion,
            "token-order": self._tokens,
            "no-lost-update": self._chain,
            "applied-once": self._once,
            "no-stale-write": self._writes.stale,
            "no-expired-write": self._writes.expired,
        }

    @property
    def properties(self) -> Iterable[str]:
        """The properties that an order can prove."""
        return self._rules

    def wrong(self, prop: str, told: Mapping[str, Any]) -> str:
        """Why an order does not prove that a property holds, "" if it does."""
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
        places = self._places(block, names)
        whole = self._whole(prop)
        shown, begun = [], 0
        for name, length in locks:
            mine, begun = places[begun : begun + length], begun + length
            expected = whole.pop(name, [])
            if (mine, expected) not in self._complete:
                if len(mine) != len(expected) or set(mine) != set(expected):
                    return f"its order of '{name}' has not every row once"
                self._complete.append((mine, expected))
            shown.append([name, int(length)])
            if why := rule(mine):
                return f"its order of '{name}' is wrong: {why}"
        if whole:
            return f"it has no order of '{next(iter(whole))}'"
        canonical = {
            "rule": f"order/{prop}",
            "writers": names,
            "locks": shown,
            "at": int(at),
            "sha256": digest,
        }
        same = json.dumps(canonical, sort_keys=True) == json.dumps(told, sort_keys=True)
        return "" if same else "it says something else than the recorded rows"

    def _places(self, block: bytes, names: Sequence[str]) -> Sequence[int]:
        """The rows that an order names; orders of one log are the same bytes."""
        if block not in self._named:
            base = [self._run.rows.base[name] for name in names]
            numbers = memoryview(block).cast("I").tolist()
            half = len(numbers) // 2
            columns = zip(numbers[:half], numbers[half:], strict=True)
            self._named[block] = [base[writer] + row for writer, row in columns]
        return self._named[block]

    def counts(self) -> dict[str, int]:
        """The counts of coverage that need no more than counting rows."""
        if not self._counted:
            rows = self._run.rows
            asked, granted = rows.statuses(1, 2), rows.statuses(*ASKS)
            self._counted = {"acquires": len(asked) - asked.count(0), "grants": granted.count(OK)}
        return self._counted

    def _whole(self, prop: str) -> dict[str, list[int]]:
        """Per lock all rows that an order has to have."""
        rows = self._run.rows
        found: dict[str, list[int]] = {}
        if prop in ("mutual-exclusion", "token-order"):
            for key, grants in self._conditions.all_grants().items():
                if prop == "token-order":
                    tokens = self._token_of(grants)
                    if -1 in tokens:
                        grants = [at for at, n in zip(grants, tokens, strict=True) if n != -1]
                name = self._conditions.family(rows.strings[key])
                if grants:
                    found.setdefault(name, []).extend(grants)
            return found
        if prop == "no-stale-write":
            logs = self._conditions.logs().items()
            return {rows.strings[key]: list(log) for key, log in logs}
        for key, log in self._conditions.logs().items():
            if written := [at for at in log if rows.f[at] == SERVED_WRITE]:
                found[rows.strings[key]] = written
        return found

    def _exclusion(self, order: Sequence[int]) -> str:
        modes = {self._run.rows.mode[at] for at in order}
        if PERMITS not in modes:
            why = self._walked(order, self._run.reach, self._one_by_one(order))
            if order and not why:
                self._legal[order[0]] = order
            return why
        if SHARED in modes:
            return "a lock is both a semaphore and shared"
        return self._walked(order, self._run.reach, self._admit)

    def _one_by_one(self, order: Sequence[int]) -> Walk:
        several = len({self._run.rows.key[at] for at in order}) > 1
        return self._walk_tree if several else self._walk

    def _tokens(self, order: Sequence[int]) -> str:
        """Tokens never decrease, and two conflicting grants never share one."""
        rows, last = self._run.rows, -1
        owners, modes, keys = self._run.owners(order), rows.mode, rows.key
        same: dict[tuple[tuple[int, int], int, int], int] = {}
        again = self._conditions.anew
        if {SHARED, PERMITS} <= {rows.mode[at] for at in order}:
            return "a lock is both a semaphore and shared"
        for at, token, owner in zip(order, self._token_of(order), owners, strict=True):
            if token < last:
                return f"token {token} comes after {last}"
            mine = (owner, modes[at], keys[at])
            if token > last:
                same = {mine: at}
            elif any(self._exclude(at, other) for other in same.values()):
                return f"token {token} was granted to two owners"
            elif mine in same and not modes[at] and rows.status[at] == OK and again(Row(rows, at)):
                return f"token {token} was granted again after its end"
            same[mine], last = at, token
        # Holds that a service promised last at least as long as they are proved to have lasted: an
        # order that was legal with those is legal with these.
        if order and self._legal.get(order[0]) == order:
            return ""
        return self._walked(order, self._run.proof_reach, self._one_by_one(order))

    def _token_of(self, grants: Sequence[int]) -> list[int]:
        """The token of each; of an unknown outcome that of its first proof."""
        rows, known = self._run.rows, self._run.known
        token, status = rows.token, rows.status
        return [token[at] if status[at] == OK else token[known(at)] for at in grants]

    def _exclude(self, at: int, other: int) -> bool:
        rows = self._run.rows
        return self._conditions.conflict(Row(rows, at), Row(rows, other))

    def _walked(self, order: Sequence[int], reach: Callable[[int], int], walk: Walk) -> str:
        """Places each grant as early as possible: "" if that is not later than its return.

        No hold lasts beyond the last call of its releases: only where that is later than the return
        of a later grant does it matter when exactly the hold ended.
        """
        slack = self._run.slack_ns
        known_ns = self._told(order)
        # The first return of all that follow a grant: 5, 9, 7 -> 7, 7, INF.
        first = list(accumulate(reversed(known_ns), min, initial=INF))[-2::-1]
        far = [
            over if 0 <= over <= soon + slack else reach(at)
            for at, over, soon in zip(order, self._released(order), first, strict=True)
        ]
        return walk(order, far, known_ns)

    def _told(self, order: Sequence[int]) -> list[int]:
        """When each grant was known: its return, or that of the first proof of an unknown one."""
        rows, known = self._run.rows, self._run.known
        returns = list(map(rows.t_ret.__getitem__, order))
        statuses = bytes(map(rows.status.__getitem__, order))
        for n, status in enumerate(statuses) if statuses.count(OK) < len(order) else ():
            if status != OK:
                returns[n] = rows.t_ret[known(order[n])]
        return returns

    def _released(self, order: Sequence[int]) -> list[int]:
        """The call of the last release of each grant, -1 for none."""
        rows, follows = self._run.rows, self._run.follows()
        f, called, attempt = rows.f, rows.t_inv, rows.attempt.__getitem__
        lasts = map(follows.last.get, map(attempt, order), repeat(-1))
        found = [called[at] if at >= 0 and f[at] == RELEASE else -1 for at in lasts]
        for n, mine in enumerate(map(attempt, order)) if follows.several else ():
            if mine in follows.several:
                sent = (called[at] for at in follows.several[mine] if f[at] == RELEASE)
                found[n] = max(sent, default=-1)
        return found

    def _walk(self, order: Sequence[int], far: Sequence[int], told: Sequence[int]) -> str:
        rows, slack = self._run.rows, self._run.slack_ns
        t_inv, modes, owners = rows.t_inv, rows.mode, self._run.owners(order)
        # As if each hold excluded every other one: where that fits, less does.
        ends = chain((0,), (until - slack for until in far))
        begins = accumulate(map(max, map(t_inv.__getitem__, order), ends), max)
        if all(map(le, begins, told)):
            return ""
        # Per mode of holds the latest end, its owner, and the latest end of another owner.
        latest = {True: (0, NOBODY, 0), False: (0, NOBODY, 0)}
        both = BOTH if any(map(modes.__getitem__, order)) else (True,)
        for at, until, known, owner in zip(order, far, told, owners, strict=True):
            mode, begin = modes[at], t_inv[at]
            for alone in both if mode == EXCLUSIVE else (True,):
                end, who, other = latest[alone]
                if who == owner:
                    end = other
                if end > begin:
                    begin = end
            if begin > known:
                return f"a hold lasts {begin - known} ns beyond the next grant"
            until -= slack
            if until < begin:
                until = begin
            alone = mode == EXCLUSIVE
            end, who, other = latest[alone]
            if who == owner:
                latest[alone] = (until if until > end else end, owner, other)
            elif until > end:
                latest[alone] = (until, owner, end)
            elif until > other:
                latest[alone] = (end, who, until)
        return ""

    def _walk_tree(self, order: Sequence[int], far: Sequence[int], told: Sequence[int]) -> str:
        """The same for a hierarchy: a path excludes its ancestors and descendants."""
        rows, slack = self._run.rows, self._run.slack_ns
        # Per lock, owner and mode the latest end.
        ends: dict[str, dict[tuple[tuple[int, int], bool], int]] = {}
        for at, until, known in zip(order, far, told, strict=True):
            text, owner, alone = (
                rows.strings[rows.key[at]],
                self._run.owner(at),
                not rows.mode[at],
            )
            begin = rows.t_inv[at]
            for other, of in ends.items():
                if other == text or self._conditions.on_line(other, text):
                    before = (e for (who, a), e in of.items() if who != owner and (a or alone))
                    begin = max(begin, *before, 0)
            if begin > known:
                return f"a hold lasts {begin - known} ns beyond the next grant"
            mine = ends.setdefault(text, {})
            mine[owner, alone] = max(mine.get((owner, alone), 0), begin, until - slack)
        return ""

    def _admit(self, order: Sequence[int], far: Sequence[int], told: Sequence[int]) -> str:
        """Places each grant of permits as early as enough of them are free, and no earlier than its
        predecessors: so the permits held can only decrease after it, except by those that follow. A
        probe takes all of them."""
        rows, slack, now, held = self._run.rows, self._run.slack_ns, 0, list[tuple[int, int]]()
        limit = min(rows.op[at] >> 8 & 65535 for at in order if rows.mode[at] == PERMITS)
        free = limit
        for at, until, known in zip(order, far, told, strict=True):
            permits = rows.op[at] >> 24 if rows.mode[at] == PERMITS else limit
            now = max(now, rows.t_inv[at])
            while held and (held[0][0] <= now or free < permits):
                over, given = heappop(held)
                now, free = max(now, over), free + given
            if now > known or free < permits:
                return f"{permits} of {limit} permits are not free by the answer"
            heappush(held, (max(now, until - slack), permits))
            free -= permits
        return ""

    def _chain(self, order: Sequence[int]) -> str:
        """Each write is based on its predecessor in the log."""
        rows = self._run.rows
        every = self._conditions.logs().get(rows.key[order[0]], ()) if order else ()
        log = [at for at in every if rows.f[at] == SERVED_WRITE]
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
