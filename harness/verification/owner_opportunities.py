"""Opportunities of rows about former owners, each a row of an attempt, sent when it was over.

And of rows about queues: two requests, the second of which was called while the first one waited.

Derived again from the recorded rows, as `opportunities` does it for faults of servers. A function
returns why its two rows show no opportunity, "" if they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.derived import FAIL, INF, NOT_OWNER, OK, RELEASE, RENEW, Window
from holdfast.harness.verification.recorded_rows import LOST
from holdfast.harness.verification.rule import OPS
from holdfast.harness.verification.writes import Writes

SERVED = OPS["served-write"], OPS["served-read"]


class OwnerPattern(NamedTuple):
    """What a row is: the roles of its two rows, and the pattern.

    other   role of a third row, the grant to another, "" for none
    near    whether a fault may have contributed
    """

    roles: tuple[str, str]
    shows: Callable[[Owners, Row, Row], str]
    other: str = ""
    near: Callable[[Owners, Row, Row, Window], str] = lambda *of: Owners.near(*of)


class Owners:
    """The patterns, for one run."""

    def __init__(self, conditions: Conditions) -> None:
        self.run, self.rows, self.conditions = conditions.run, conditions.rows, conditions
        self._writes = Writes(conditions.run, conditions)

    def near(self, owner: Row, shows: Row, fault: Window) -> str:
        """Whether a fault may have contributed to what two rows show."""
        run = self.run
        # A holder without a notice is seen only when the limit for it is over.
        if max(shows.t_ret, shows.t_inv) < fault.since_ns and shows.attempt == owner.attempt:
            return "it was over before the fault"
        lasts_ns = int(run.promises["recovery_ns"]) + run.lasting_ns
        if fault.traits.passes and fault.to_ns + lasts_ns < min(owner.t_inv, shows.t_inv):
            return "the fault was over before it"
        return ""

    def release(self, owner: Row, call: Row) -> str:
        """A release was answered that its attempt had no right to."""
        return self._foreign(owner, call, RELEASE)

    def renewal(self, owner: Row, call: Row) -> str:
        """The same of a renewal."""
        return self._foreign(owner, call, RENEW)

    def _foreign(self, owner: Row, call: Row, op: int) -> str:
        rows, run = self.rows, self.run
        if call.f != op or call.status not in (OK, FAIL, NOT_OWNER):
            return "its call is another one, or was not answered"
        if call.attempt != owner.attempt:
            return "its call is of another attempt"
        if owner.status == FAIL:
            return "" if owner.t_ret < call.t_inv else "its acquire had not been refused yet"
        gone = [rows.t_ret[r] for r in run.releases(owner.at) if rows.status[r] == OK]
        if min(gone, default=call.t_inv) < call.t_inv:
            return ""
        known = run.known(owner.at)
        for b in self.conditions.grants(owner.key) if known >= 0 else ():
            seen = run.known(b)
            if seen < 0 or not rows.t_ret[seen] + run.slack_ns < call.t_inv:
                continue
            if self._newer(Row(rows, b), owner, known, seen):
                return ""
        return "no later grant to another was known before its call"

    def _newer(self, b: Row, a: Row, known: int, seen: int) -> bool:
        """Whether b conflicts with a, and was granted after it."""
        rows, run = self.rows, self.run
        if not self.conditions.conflict(a, b):
            return False
        if b.t_inv > rows.t_ret[known] + run.slack_ns:
            return True
        tell = run.promises["tokens"] == "ordered" and run.promised("token-order")
        later = -1 < rows.token[known] < rows.token[seen]
        return bool(tell and later and not self.conditions.disorder(a.key))

    def stale(self, owner: Row, request: Row) -> str:
        """A request reached the resource after a newer owner had been admitted."""
        if request.f not in SERVED or request.attempt != owner.attempt:
            return "its request is none of the resource's log, or of another attempt"
        outdated = self._writes.outdated(owner.at, request.at)
        return "" if outdated else "no newer owner had been admitted before its request"

    def expired(self, owner: Row, request: Row) -> str:
        """A write reached the resource after its owner's hold was certainly over."""
        if request.f != SERVED[0] or request.attempt != owner.attempt:
            return "its request is no write of the resource's log, or of another attempt"
        late = self._writes.late(owner.at, request.at)
        late = late or self._writes.after_notice(owner.at, request.at)
        return "" if late else "its owner's hold was not certainly over"

    def lost(self, owner: Row, shows: Row) -> str:
        """A holder was notified of its loss, or another was granted the lock meanwhile."""
        run, known = self.run, self.run.known(owner.at)
        if known < 0:
            return "its acquire was not granted"
        if shows.attempt == owner.attempt:
            notified = shows.f == LOST or (shows.f, shows.status) == (RENEW, NOT_OWNER)
            return "" if notified else "its row tells of no loss"
        seen = run.known(shows.at) if shows.f in ASKS else -1
        if seen < 0 or not self._newer(shows, owner, known, seen):
            return "its other row is no later grant to another"
        in_time = self.rows.t_ret[seen] < run.end(owner.at)
        return "" if in_time else "the other was granted it when the owner had given up"

    def regained(self, hold: Row, renewal: Row) -> str:
        """A renewal of a lost lock was answered while no other client can have held it."""
        rows, run = self.rows, self.run
        leased = run.bound == "lease" or run.leased_by_library()
        if not leased or run.believed(hold.at)["renew_proves"]:
            return "a renewal of its lock proves that it was never lost, or it has no lease"
        if renewal.f != RENEW or renewal.status not in (OK, NOT_OWNER):
            return "its renewal is another call, or was not answered"
        if rows.strings[hold.key].startswith("/"):
            return "its lock is one of a tree"
        if renewal.attempt != hold.attempt or hold.status != OK:
            return "its renewal is of another attempt, or its hold was not granted"
        if run.end(hold.at) < renewal.t_inv:
            return "its hold had ended before its renewal"
        from_ns, to_ns = renewal.t_inv - run.slack_ns, renewal.t_ret + run.slack_ns
        for at in run.asks().get(hold.key, ()):
            over_ns = run.possible_end(at)
            if at != hold.at and rows.t_inv[at] <= to_ns and over_ns >= 0 and over_ns >= from_ns:
                return "another may have held the lock at its renewal"
        return ""

    def lost_to(self, hold: Row, other: Row, renewal: Row) -> str:
        """Another client was certainly granted the lock after it, before a renewal."""
        known, seen = self.run.known(hold.at), self.run.known(other.at)
        if seen < 0 or not self.rows.t_ret[seen] + self.run.slack_ns < renewal.t_inv:
            return "its other grant was not known before its renewal"
        return "" if self._newer(other, hold, known, seen) else "its other grant is no later one"

    def kept_away(self, hold: Row, renewal: Row, fault: Window) -> str:
        """A fault of the owner was over by its renewal, which came after its first lease."""
        run = self.run
        if run.first_lease_end(hold.at) + run.slack_ns >= renewal.t_inv:
            return "its first lease was not over at its renewal"
        struck = self.rows.nodes.get(hold.process, "") in fault.nodes
        between = hold.t_inv < fault.to_ns <= renewal.t_inv
        return "" if struck and between else "the fault did not keep its owner away"

    def both_waited(self, waiter: Row, later: Row) -> str:
        """A request waited behind another one, or overtook it."""
        rows, run = self.rows, self.run
        if waiter.status != OK or later.status != OK or -1 in (waiter.token, later.token):
            return "one of its acquires was granted no token"
        if waiter.process == later.process or not self._apart(waiter, later):
            return "its acquires are of one client, or of two locks"
        if not self._in_token_order(waiter):
            return "tokens of its lock do not show the order of its grants"
        told_ns = self.told(waiter)
        if not told_ns + run.slack_ns < later.t_inv < waiter.t_ret:
            return "its second request was not called during the wait of the first"
        if later.token < waiter.token:
            return ""
        if waiter.mode != later.mode:
            return "its acquires are of two modes"
        tokens = [at for at in self.conditions.grants(waiter.key) if rows.status[at] == OK]
        # By the order of tokens it was granted after the hold of each smaller one had ended.
        before = [at for at in tokens if -1 < rows.token[at] < waiter.token]
        if not any(self.told(later) < run.end(at) for at in before):
            return "the lock may have been free before its second request was told to wait"
        return ""

    def told(self, asked: Row) -> int:
        """The time of the first response to a request that it waits, INF if there is none."""
        return min((self.rows.t_inv[at] for at in self.run.waiting(asked.at)), default=INF)

    def _apart(self, a: Row, b: Row) -> bool:
        return a.key == b.key or self.conditions.on_line(a.text, b.text)

    def _in_token_order(self, a: Row) -> bool:
        ordered = self.run.promises["tokens"] == "ordered" and self.run.promised("token-order")
        return ordered and not self.conditions.disorder(a.key)

    def starving(self, waiter: Row, later: Row) -> str:
        """The same, and the wait allowed more grants to others than there are clients."""
        others = len(self.rows.nodes) + max(0, int(self.run.promises.get("aging", -1)))
        return self.both_waited(waiter, later) or self._outlasts(waiter, others)

    def beyond_queue(self, waiter: Row, later: Row) -> str:
        """The same, and the wait allowed more grants to others than requests were ahead of it."""
        rows, slack = self.rows, self.run.slack_ns
        tree = self.run.promises.get("subtrees")
        asked = [
            at for key, asks in self.run.asks().items() for at in asks if tree or key == waiter.key
        ]
        called = sum(rows.t_inv[at] <= self.told(waiter) + slack for at in asked)
        gone = sum((rows.t_ret[at] or INF) < waiter.t_inv - slack for at in asked)
        return self.both_waited(waiter, later) or self._outlasts(waiter, called - gone - 1)

    def _outlasts(self, waiter: Row, most: int) -> str:
        """Whether others were granted the lock more than so often within the bound of a wait."""
        rows, told_ns = self.rows, self.told(waiter)
        until_ns = INF if waiter.aux < 0 else waiter.t_inv + waiter.aux
        turns = 0
        for at in self.conditions.grants(waiter.key):
            known_ns = rows.t_ret[self.run.known(at)]
            other = rows.process[at] != waiter.process and rows.t_inv[at] > told_ns
            turns += other and (known_ns <= until_ns or -1 < rows.token[at] < waiter.token)
        return "" if turns > most else f"its wait allowed {turns} grants to others, not over {most}"

    def near_waits(self, waiter: Row, later: Row, fault: Window) -> str:
        """As `near`: either grant can have come first until both have returned."""
        run = self.run
        if max(waiter.t_ret, later.t_ret) < fault.since_ns:
            return "both were granted before the fault"
        lasts_ns = int(run.promises["recovery_ns"]) + run.lasting_ns
        if fault.traits.passes and fault.to_ns + lasts_ns < min(waiter.t_inv, later.t_inv):
            return "the fault was over before it"
        return ""


ASKS = OPS["acquire"], OPS["try"], OPS["probe"]
_queue = partial(OwnerPattern, ("waiter", "later"), near=Owners.near_waits)
PATTERNS: Mapping[str, OwnerPattern] = {
    "ownership/foreign-release/any": OwnerPattern(("owner", "call"), Owners.release),
    "ownership/foreign-renewal/any": OwnerPattern(("owner", "call"), Owners.renewal),
    "no-stale-write/unchecked-token/any": OwnerPattern(("owner", "request"), Owners.stale),
    "no-expired-write/unchecked-end/any": OwnerPattern(("owner", "request"), Owners.expired),
    "loss-notice/no-notice/any": OwnerPattern(("owner", "shows"), Owners.lost),
    "loss-notice/silent-reacquire/clients": OwnerPattern(
        ("hold", "renewal"), Owners.regained, "other", Owners.kept_away
    ),
    "starvation-freedom/never-served/any": _queue(Owners.starving),
    "bounded-bypass/served-out-of-turn/any": _queue(Owners.both_waited),
    "bounded-wait/served-out-of-turn/any": _queue(Owners.beyond_queue),
}
"""The rows about former owners and about queues, by their ids."""
