"""Opportunities of rows about former owners, each a row of an attempt, sent when it was over.

And of rows about queues: two requests, the second of which was called while the first one waited.

Derived again from the recorded rows, as `opportunities` does it for faults of servers. A function
returns why its two rows show no opportunity, "" if they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from holdfast.harness.verification.conditions import JOB, Conditions, Row
from holdfast.harness.verification.derived import (
    FAIL,
    INF,
    INFO,
    INVOKED,
    NOT_OWNER,
    OK,
    RELEASE,
    RENEW,
    Window,
)
from holdfast.harness.verification.recorded_rows import LOST
from holdfast.harness.verification.rule import OPS
from holdfast.harness.verification.waiting import NO_ANSWER
from holdfast.harness.verification.writes import Writes

SERVED = OPS["served-write"], OPS["served-read"]
PERMITS = 2
"""The mode of a semaphore."""


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

    # Requests that follow a hold, or meet one.

    def passed_on(self, hold: Row, asked: Row, *, of: Sequence[int]) -> str:
        """A request, `of` some kinds, was answered when the hold before it was certainly over."""
        run, known = self.run, self.run.known(hold.at)
        if asked.f not in of:
            return "its second row is no such request"
        if known < 0 or not self.conditions.conflict(hold, asked):
            return "its hold was not granted, or its two acquires do not exclude each other"
        answered, over = self._answered(asked), run.possible_end(hold.at)
        if not 0 <= over < answered:
            return "its second acquire had no answer after the end of its hold"
        return "" if self.rows.t_ret[known] < answered else "its hold was not known by then"

    def passed_on_silent(self, hold: Row, asked: Row, *, of: Sequence[int]) -> str:
        """The same, and the owner of the hold never gave it up."""
        run, end = self.run, self.run.end(hold.at)
        reported = [self.rows.t_inv[r] for r in run.releases(hold.at)]
        reported += [self.rows.t_inv[r] for r in run.following(hold.at) if self.rows.f[r] == LOST]
        renewals = [r for r in run.following(hold.at) if self.rows.f[r] == RENEW]
        reported += [self.rows.t_ret[r] for r in renewals if self.rows.status[r] == NOT_OWNER]
        if end < INF and end in reported and not run.gone(hold.at):
            return "its owner had reported its hold as over"
        return self.passed_on(hold, asked, of=of)

    def unbounded(self, asked: Row, shows: Row) -> str:
        """The time of an acquire was over before it was granted."""
        if shows.at != asked.at or asked.f not in ASKS or asked.aux <= 0:
            return "its rows are not one acquire with a bounded wait"
        if asked.status == OK:
            return "its acquire was granted"
        back = min(asked.t_ret or INF, self.run.end_ns)
        return "" if back >= asked.t_inv + asked.aux else "its time was not over"

    def near_answer(self, owner: Row, shows: Row, fault: Window) -> str:
        """As `near`: its last answer can have come as late as its bound."""
        run, bound = self.run, max(0, shows.aux) if shows.f in ASKS else 0
        last = max(self._answered(shows) if shows.f in ASKS else shows.t_ret, shows.t_inv + bound)
        if max(last, shows.t_ret, owner.t_ret) < fault.since_ns:
            return "it was over before the fault"
        lasts_ns = int(run.promises["recovery_ns"]) + run.lasting_ns
        if fault.traits.passes and fault.to_ns + lasts_ns < min(owner.t_inv, shows.t_inv):
            return "the fault was over before it"
        return ""

    def _answered(self, asked: Row) -> int:
        """When a request had its last answer: its return, or a response that it waits; or -1."""
        mute = any(words in self.rows.strings[asked.err] for words in NO_ANSWER)
        if asked.status in (OK, NOT_OWNER) or (asked.status == FAIL and not mute):
            return asked.t_ret
        return max((self.rows.t_inv[at] for at in self.run.waiting(asked.at)), default=-1)

    def inside(self, hold: Row, asked: Row) -> str:
        """A request of another client was in flight during a hold, and answered."""
        rows, run, slack = self.rows, self.run, self.run.slack_ns
        known = run.known(hold.at)
        if known < 0 or not self.conditions.conflict(hold, asked) or asked.f not in ASKS[:2]:
            return "its hold was not granted, or its request does not conflict with it"
        began = rows.t_ret[known] + slack < self._answered(asked)
        met = began and asked.t_inv < run.reach(hold.at) - slack
        return "" if met else "its request was not in flight during its hold, or not answered"

    def full(self, hold: Row, asked: Row) -> str:
        """A request for permits was in flight when fewer were left, during a hold, and answered."""
        rows, run, slack = self.rows, self.run, self.run.slack_ns
        alike = asked.f in ASKS[:2] and hold.key == asked.key
        if not (alike and hold.mode == asked.mode == PERMITS):
            return "its request, or its hold, is of no permits, or of another semaphore"
        held = [at for at in self.conditions.grants(asked.key) if rows.key[at] == asked.key]
        held = [at for at in held if rows.mode[at] == PERMITS]
        if hold.at not in held or not self.conditions.one_limit(asked):
            return "its hold was not granted, or the semaphore has several limits"
        spans = {at: (rows.t_ret[run.known(at)] + slack, run.reach(at) - slack) for at in held}
        begun, ended = spans[hold.at]
        left = (asked.op >> 8 & 65535) - (asked.op >> 24)
        for t_ns in (asked.t_inv, *(since for since, _ in spans.values())):
            taken = sum(rows.op[at] >> 24 for at in held if spans[at][0] <= t_ns < spans[at][1])
            now = begun <= t_ns < ended and asked.t_inv <= t_ns < self._answered(asked)
            if now and taken > left:
                return ""
        return "there were enough permits during its hold, or its request was not answered"

    def numbered(self, before: Row, after: Row) -> str:
        """A grant with a token was requested when one to another client was known."""
        run, rows = self.run, self.rows
        known = [run.known(row.at) for row in (before, after)]
        if min(known) < 0 or -1 in (rows.token[row] for row in known):
            return "one of its acquires was granted no token"
        alike = before.key == after.key or self.conditions.on_line(before.text, after.text)
        if not alike or before.process == after.process:
            return "its acquires are of one client, or of two locks"
        known_ns = rows.t_ret[known[0]] + run.slack_ns
        return "" if known_ns < after.t_inv else "its second grant was not requested after that"

    def delayed(self, hold: Row, asked: Row) -> str:
        """A request was in flight within the lock-delay after a death."""
        run, rows = self.run, self.rows
        delay_ns = int(run.promises.get("delay_ns", 0))
        if delay_ns <= 0 or not self.conditions.conflict(hold, asked):
            return "the lock has no delay, or its request does not conflict with its hold"
        if any(rows.status[r] != FAIL for r in run.releases(hold.at)):
            return "its hold was released"
        opens_ns = self._opens_ns(hold)
        met = asked.t_inv < opens_ns and self._answered(asked) > opens_ns - delay_ns
        return "" if met else "its request had no answer within the delay"

    def _opens_ns(self, hold: Row) -> int:
        """The earliest end of the lock-delay after a hold: its lease or session, and the delay."""
        run = self.run
        over_ns, slip_ns = run.leased(hold.at), int(run.promises["slip_ns"])
        if run.bound == "session" and over_ns < 0:
            over_ns = hold.t_inv + run.shortest(hold.res) - slip_ns
        return over_ns + run.shortest(int(run.promises["delay_ns"])) - slip_ns

    def waits_in_cycle(self, waiter: Row, other: Row) -> str:
        """Two clients waited at one time, each while it held another lock, the first one that the
        second waited for; or the first was refused at once, while all that lasted."""
        rows, run = self.rows, self.run
        if waiter.process == other.process or waiter.f not in ASKS or other.f not in ASKS:
            return "its acquires are of one client"
        waited = {row.at: [rows.t_inv[at] for at in run.waiting(row.at)] for row in (waiter, other)}
        at_once = not waited[waiter.at] and waiter.f == OPS["acquire"] and waiter.status == FAIL
        if 0 <= waiter.aux <= waiter.t_ret - waiter.t_inv:
            at_once = False  # its bound ran out
        if any(words in rows.strings[waiter.err] for words in NO_ANSWER):
            at_once = False  # by its own client
        if not waited[other.at] or not (waited[waiter.at] or at_once):
            return "one of its acquires did not wait"
        for row in (waiter, other):
            mine = [
                at
                for key, asks in run.asks().items()
                for at in asks
                if key != row.key and rows.process[at] == row.process and rows.status[at] == OK
                if rows.t_inv[at] < row.t_inv < run.end(at) and (row is other or key == other.key)
            ]
            if at_once:
                mine = [at for at in mine if min(run.end(at), run.reach(at)) >= waiter.t_ret]
            if not mine:
                return "one of its clients held no other lock"
        begun, over = waited[other.at][-1], other.t_ret or INF
        if at_once:
            whole = begun <= waiter.t_inv and waiter.t_ret <= over
            return "" if whole else "the second did not wait all the time"
        met = waited[waiter.at][-1] <= over and begun <= (waiter.t_ret or INF)
        return "" if met else "its waits did not meet"

    # Answers about a lock, and a resource's.

    def answer(self, grant: Row, answer: Row) -> str:
        """A lock was asked about when a grant of it was known."""
        known = self.run.known(grant.at)
        if known < 0 or grant.key != answer.key:
            return "its grant is none of the lock that was asked about"
        counted = answer.f == RELEASE and answer.status == OK and answer.res > 0
        asked = answer.f in ASKS and answer.status not in (INVOKED, INFO) and answer.op >> 8 > 0
        queried = answer.f in QUERIES and answer.status in (OK, FAIL)
        if not (counted or asked or queried):
            return "its answer says nothing about the lock"
        before = self.rows.t_ret[known] + self.run.slack_ns < answer.t_inv
        return "" if before else "its grant was not known before the question"

    def named(self, waiter: Row, named: Row) -> str:
        """A query named a client that had waited, within the time of a notice."""
        if named.f != QUERIES[0] or named.status != OK or named.key != waiter.key:
            return "its query named no holder of the lock"
        if -1 in (named.token, waiter.token) or named.token != waiter.token:
            return "its query named another hold"
        if not self.run.waiting(waiter.at) or waiter.status not in (OK, INFO):
            return "its client had not waited, or was refused"
        back = (waiter.t_ret or INF) + int(self.run.promises["notice_ns"])
        return "" if named.t_ret < back else "its query was answered after the time of a notice"

    def again(self, owner: Row, request: Row) -> str:
        """A write was sent again under its identity, and accepted."""
        again = request.f == OPS["write"] and request.status == OK and request.aux > 0
        mine = request.attempt == owner.attempt
        return "" if again and mine else "its request is no write that was sent again"

    def job_done(self, owner: Row, request: Row) -> str:
        """A client was answered that a job was done which another client had done."""
        rows, read = self.rows, OPS["read"]
        if request.f != read or request.status != OK or request.attempt != owner.attempt:
            return "its request is no answered read of its attempt"
        if request.res <= 0 or not JOB.fullmatch(request.text):
            return "its request is about no job that was done"
        done = self.run.of(OPS["write"], "key").get(request.key, ())
        other = [r for r in done if rows.status[r] == OK and rows.res[r] > 0]
        by = rows.process[other[-1]] if other else request.process
        return "" if other and by != request.process else "no other client had done the job"

    def outdated_update(self, owner: Row, request: Row) -> str:
        """An update reached the resource that built on an old version, or made one again."""
        rows = self.rows
        if request.f != SERVED[0] or request.attempt != owner.attempt:
            return "its request is no write of the resource's log, or of another attempt"
        log = list(self.conditions.logs().get(request.key, ()))
        # One that was refused is not among the accepted ones: it is by its time.
        if request.at in log:
            before = log[: log.index(request.at)]
        else:
            before = [r for r in log if rows.t_inv[r] <= request.t_inv]
        newest = max((rows.res[r] for r in before if rows.f[r] == SERVED[0]), default=0)
        behind = 0 <= request.arg < newest
        again = request.status == OK and request.res <= newest
        return "" if behind or again else "its update built on the newest version"

    def of_holder(self, owner: Row, request: Row) -> str:
        """A holder's request reached the resource."""
        run = self.run
        if request.f not in SERVED or request.attempt != owner.attempt or owner.mode != 0:
            return "its request is none of the resource's log, or of another attempt"
        if owner.status != OK or request.token != owner.token:
            return "its request does not carry its owner's token"
        error, until = run.error_ns, run.until(owner.at)
        within = owner.t_ret + error <= request.t_inv and request.t_ret <= until - error
        return "" if within else "its request was not decided within its owner's hold"


ASKS = OPS["acquire"], OPS["try"], OPS["probe"]
QUERIES = OPS["holder"], OPS["place"], OPS["length"], OPS["check"]
after = partial(OwnerPattern, ("hold", "asked"), near=Owners.near_answer)
alone = partial(OwnerPattern, ("asked", "shows"), near=Owners.near_answer)
served = partial(OwnerPattern, ("owner", "request"), near=Owners.near_answer)
WAITED, TRIED = (ASKS[0], ASKS[2]), ASKS[1:]
queue = partial(OwnerPattern, ("waiter", "later"), near=Owners.near_waits)
