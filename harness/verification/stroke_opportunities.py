"""Opportunities at strokes: two acquires, and one fault that struck servers.

Each pattern returns why its witnesses show no opportunity, "" if they do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.derived import FAIL, INF, INFO, INVOKED, NOT_OWNER, OK, Window
from holdfast.harness.verification.recorded_rows import ASKS
from holdfast.harness.verification.rule import OPS

RENEW, RELEASE, BEAT = OPS["renew"], OPS["release"], OPS["heartbeat"]
DECIDERS, LEADER, MINORITY = "deciders", "leader", "minority"
LED = f"{LEADER}|{DECIDERS}"
LOOKS = 20
"""An answer that was on its way at a fault arrives within this part of a lease."""
SECOND = 1_000_000_000


class StrokePattern(NamedTuple):
    """What a row of the table is: its two roles, the servers that the fault struck, the pattern.

    new_ns   the grant of the first role became known in this time before the fault, which has to
             lose what was not synced
    """

    roles: tuple[str, str]
    struck: str
    shows: Callable[[Strokes, Row, Row, Window], str]
    new_ns: int = INF


class Strokes:
    """The patterns, for one run."""

    def __init__(self, conditions: Conditions) -> None:
        self.run, self.rows, self.conditions = conditions.run, conditions.rows, conditions
        self._sent: tuple[list[int], list[int]] | None = None

    def outlived(self, hold: Row, asked: Row, stroke: Window) -> str:
        """A hold outlived a stroke, and another client asked before it ended."""
        run, slack = self.run, self.run.slack_ns
        known = run.known(hold.at)
        if known < 0 or not self.rows.t_ret[known] < stroke.from_ns - slack:
            return "its hold was not known before the fault"
        until = min(
            self.promised(hold.at, stroke.from_ns - slack),
            run.end(hold.at),
            self._first_answer(hold.at, stroke.from_ns),
        )
        until -= slack
        if until <= stroke.from_ns:
            return "its hold ended before the fault, as far as was promised"
        if not self._meet(hold, asked, stroke.from_ns + slack, until):
            return "its two acquires did not meet"
        if not self._answered(asked, stroke, until):
            return "no response to its second acquire could have shown the defect"
        return ""

    def meanwhile(self, hold: Row, asked: Row, stroke: Window) -> str:
        """Another client was answered during a hold, while a minority was down."""
        run, slack = self.run, self.run.slack_ns
        from_ns, to_ns = stroke.from_ns + slack, stroke.to_ns
        known = run.known(hold.at)
        if known < 0:
            return "its hold was not granted"
        reach = run.reach(hold.at)
        since = max(self.rows.t_ret[known] + slack, from_ns)
        until = min(reach - slack, to_ns)
        if not self._meet(hold, asked, from_ns, to_ns):
            return "its two acquires did not meet"
        answers = [self.rows.t_inv[r] for r in run.waiting(asked.at)]
        answers += [asked.t_ret] * (asked.status not in (INVOKED, INFO))
        if not any(since < t_ns < until for t_ns in answers):
            return "its second acquire had no response inside the hold"
        return ""

    def renumbered(self, before: Row, after: Row, stroke: Window) -> str:
        """A token was known before a stroke, and another client was granted the lock after it."""
        run, slack = self.run, self.run.slack_ns
        known = [run.known(row.at) for row in (before, after)]
        if min(known) < 0 or -1 in (self.rows.token[row] for row in known):
            return "one of its acquires was granted no token"
        if not self.rows.t_ret[known[0]] + slack < stroke.from_ns:
            return "its first token was not known before the fault"
        if not after.t_inv > stroke.from_ns + slack:
            return "its second grant was not requested after the fault"
        alike = before.key == after.key or self.conditions.on_line(before.text, after.text)
        return "" if alike else "its acquires are of two locks"

    def requeued(self, waiter: Row, later: Row, stroke: Window) -> str:
        """Two requests waited at a stroke, in a known order, and were granted after it."""
        run, slack = self.run, self.run.slack_ns
        if waiter.status != OK or later.status != OK or -1 in (waiter.token, later.token):
            return "one of its acquires was granted no token"
        if (waiter.mode, later.mode) != (0, 0):
            return "its acquires share the lock"
        waiting_ns = [
            min((self.rows.t_inv[at] for at in run.waiting(row.at)), default=INF)
            for row in (waiter, later)
        ]
        if not waiting_ns[0] + slack < later.t_inv:
            return "its first request was not told to wait before the second one was called"
        if not max(waiting_ns) < stroke.from_ns - slack:
            return "one of its acquires did not wait yet at the fault"
        if not min(waiter.t_ret, later.t_ret) > stroke.from_ns + slack:
            return "one of its acquires was granted before the fault"
        alike = waiter.key == later.key or self.conditions.on_line(waiter.text, later.text)
        return "" if alike else "its acquires are of two locks"

    def _meet(self, hold: Row, asked: Row, from_ns: int, until_ns: int) -> bool:
        """Whether two acquires exclude each other, and the second was open in a span."""
        returned = INF if asked.status in (INVOKED, INFO) or not asked.t_ret else asked.t_ret
        open_then = asked.t_inv < until_ns and returned > from_ns
        return open_then and self.conditions.conflict(hold, asked)

    def _answered(self, asked: Row, stroke: Window, until: int) -> bool:
        """Whether a response to an acquire shows what the service knew: a grant after the stroke; a
        refusal or an acknowledgement once it had responded, or was back; one from before that still
        waited when it was back."""
        from_ns = stroke.from_ns + self.run.slack_ns
        if asked.status == OK and from_ns < asked.t_ret < until:
            return True
        up_ns = min(stroke.to_ns, self._first_response(from_ns))
        waits = [self.rows.t_inv[r] for r in self.run.waiting(asked.at)]
        if waits and waits[0] < from_ns and stroke.to_ns < until:
            return True
        refused = asked.status in (FAIL, NOT_OWNER) and asked.t_ret < until
        if refused and (asked.t_inv > up_ns or asked.t_ret > stroke.to_ns):
            return True
        # One that answers a request from before the fault may have been on its way at the fault.
        late_ns = 0 if asked.t_inv > from_ns else self.run.lease_ns // LOOKS
        return any(min(up_ns, from_ns + late_ns) < t_ns < until for t_ns in waits)

    def _first_response(self, after_ns: int) -> int:
        """The earliest return of a successful call, or last acknowledgement of an acquire, that was
        sent after a time."""
        if self._sent is None:
            rows, run = self.rows, self.run
            calls = [
                (rows.t_inv[at], rows.t_ret[at])
                for at in rows.answered((*ASKS[:2], RENEW, RELEASE), (OK,))
            ]
            asks = (at for each in run.asks().values() for at in each)
            waits = ((at, run.waiting(at)) for at in asks)
            calls += [
                (rows.t_inv[at], rows.t_inv[responses[-1]]) for at, responses in waits if responses
            ]
            calls.sort()
            soonest, last = list[int](), INF
            for _, back in reversed(calls):
                soonest.append(last := min(last, back))
            self._sent = [sent for sent, _ in calls], soonest[::-1]
        sent, soonest = self._sent
        place = bisect_right(sent, after_ns)
        return soonest[place] if place < len(sent) else INF

    def _first_answer(self, a: int, after_ns: int) -> int:
        """The return of the owner's first call of a hold that was sent after a time."""
        rows = self.rows
        calls = [r for r in self.run.following(a) if rows.f[r] in (RENEW, RELEASE)]
        answered = (rows.t_ret[r] for r in calls if rows.t_inv[r] > after_ns and rows.t_ret[r])
        return min(answered, default=INF)

    def _by_renewals(self, a: int, by_ns: int) -> int:
        """The latest end of a session that no heartbeat shows: each ok renewal was heard of, and
        its response says how long the session lasts from then on."""
        rows, until = self.rows, -1
        for r in (each for each in self.run.following(a) if self.rows.f[each] == RENEW):
            if rows.status[r] == OK and 0 < rows.t_ret[r] < by_ns and rows.res[r] > 0:
                until = max(until, rows.t_inv[r] + self.run.shortest(rows.res[r]))
        return int(until - self.run.promises["slip_ns"]) if until > 0 else -1

    def promised(self, a: int, by_ns: int) -> int:
        """The end of a hold as the responses before a time promise it, -1 for no promise."""
        run, rows = self.run, self.rows
        slip = run.promises["slip_ns"]
        if run.bound == "none":
            return INF
        if run.bound == "session":
            beats = run.of(BEAT, "process").get(rows.process[a], ())
            if not beats:
                return self._by_renewals(a, by_ns)
            known = [r for r in beats if rows.status[r] == OK and rows.t_ret[r] < by_ns]
            if not known:
                return -1
            last = known[-1]
            return int(rows.t_inv[last] + run.shortest(rows.res[last]) - slip)
        if run.bound != "lease":
            return -1
        lasting = run.believed(a)["renew_proves"]
        until, worth = rows.t_inv[a] + run.shortest(rows.res[a]), INF
        back, before = -INF, 0
        sent = [r for r in run.following(a) if rows.f[r] == RENEW and rows.t_inv[r] <= run.kept(a)]
        sent = [r for r in sent if rows.t_inv[r] < by_ns]
        for n, r in enumerate(sent):
            answered = 0 < rows.t_ret[r] < by_ns
            if answered and rows.status[r] in (FAIL, NOT_OWNER):
                continue
            ok, ret = answered and rows.status[r] == OK, rows.t_ret[r] if answered else INF
            ttl = run.shortest(rows.res[r] if ok else rows.arg[r])
            met = n + 1 < len(sent) and rows.t_inv[sent[n + 1]] <= ret
            if ok and (lasting or not (ret > until - slip or met)):
                worth = min(worth, before) if back >= rows.t_inv[r] else worth
                until, back, before = rows.t_inv[r] + min(ttl, worth), ret, ttl
            else:
                worth, until = min(worth, ttl), min(until, rows.t_inv[r] + ttl)
        return int(until - slip)


held = partial(StrokePattern, ("hold", "asked"))
numbered = partial(StrokePattern, ("before", "after"))
