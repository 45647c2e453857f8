"""Conditions of rules about responses to queries, queue lengths, waits and notices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.derived import (
    FAIL,
    INF,
    INFO,
    INVOKED,
    NOT_OWNER,
    OK,
    RENEW,
    covered,
)
from holdfast.harness.verification.recorded_rows import ASKS, CLOSED, LOST, SERVED
from holdfast.harness.verification.rule import OPS, entries, waits

UNKNOWN = (INVOKED, INFO)
MOST_NAMED = 64
"""A response about a token that more attempts share is not judged."""
ENDS = ("expired", "released", "session", "closed")
"""Reasons of a notice, besides an operator's unlock, that can be judged."""


class Answers:
    """Functions for rules about queries, queues and notices."""

    def __init__(self, conditions: Conditions) -> None:
        self.of = conditions
        self.run, self.rows = conditions.run, conditions.rows
        self._seen: dict[int, int] | None = None
        self._turns: dict[int, bool] = {}

    def names(self) -> dict[str, Any]:
        """The names that rules use, as `Conditions.names`."""
        return {
            name.removeprefix("_"): getattr(self, name)
            for name in (
                "_in_tree", "_text", "_carriers", "_possible", "_alone",
                "_renewed_least", "_renewed_most", "_oldest", "_youngest", "_longest_lease",
                "_lasted", "_left",
                "_most_ahead", "_told_over", "_newest", "_called_changed", "_followers",
                "_anew", "_several_tokens", "_passed", "_ahead", "_lost_by", "_claimed_until",
                "_notice_within", "_reachable_from", "_truthful_reasons", "_reason", "_unlocks",
                "_asked_once", "_leased_before", "_unnotified_until",
                "_lone_token", "_taken_again", "_sole_entry", "_releases", "_ends_by", "_leased",
            )
        } | {
            "held_until": self.of.held_until,
            "leases_end": lambda: self.run.bound == "lease" or self.run.leased_by_library(),
            "entered_unknown": self.of.entered_unknown,
            "in_turn_of_asking": lambda row: self._in_turn(row.key),
            "not_revoked": ENDS,
            "other_ends": ENDS[2:] if self.run.bound != "session" else ENDS[:1],
        }  # fmt: skip

    def _of_lock(self, key: int) -> Sequence[int]:
        return self.run.asks().get(key, ())

    def _token(self, at: int) -> int:
        """The token of an acquire, as granted or as in the first row that proves it; else -1."""
        known = self.run.known(at)
        return -1 if known < 0 else self.rows.token[known]

    # The holder.

    def _in_tree(self, row: Row) -> bool:
        """Whether a lock covers a subtree."""
        return bool(self.run.promises.get("subtrees")) and row.text.startswith("/")

    def _text(self, query: Row) -> str:
        return self.rows.strings[query.err]

    def _named(self, query: Row) -> list[int]:
        return [at for at in self._of_lock(query.key) if self._token(at) == query.token]

    def _carriers(self, query: Row) -> int:
        """Number of attempts that may have a response's text: with its token, or without one."""
        named = self._named(query)
        if len(named) > MOST_NAMED:
            return len(named)
        every = [at for at in self._of_lock(query.key) if self.rows.status[at] in UNKNOWN]
        blank = [at for at in every if self._token(at) == -1]
        texts = (_carried(self.rows.attempt[at]) for at in (*named, *blank))
        return sum(text == self._text(query) for text in texts)

    def _possible(self, query: Row) -> int:
        """Number of attempts that a response may name."""
        rows, named, slack = self.rows, self._named(query), self.run.slack_ns
        if len(named) > MOST_NAMED:
            return len(named)
        count = sum(
            rows.t_inv[at] <= query.t_ret and self.over(at) + slack >= query.t_inv for at in named
        )
        return count + sum(
            rows.status[at] in UNKNOWN and rows.t_inv[at] <= query.t_ret + slack
            for at in self._of_lock(query.key)
        )

    def _alone(self, a: Row, query: Row) -> bool:
        """Whether a response with its token can be about no other attempt for its lock."""
        token = self._token(a.at)
        once = sum(self._token(at) == token for at in self._of_lock(a.key)) == 1
        return once and not self.of.entered_unknown(a, query)

    def _sole_entry(self, a: Row, query: Row) -> bool:
        """Whether its owner held by no other attempt at any time of a query."""
        rows, slack, owner = self.rows, self.run.slack_ns, self.run.owner(a.at)
        others = (at for at in self._of_lock(a.key) if at != a.at and self.run.owner(at) == owner)
        return all(
            self.over(at) + slack < query.t_inv
            or (rows.status[at] in (FAIL, NOT_OWNER) and rows.t_ret[at] + slack < query.t_inv)
            for at in others
            if rows.t_inv[at] <= query.t_ret + slack
        )

    def over(self, at: int) -> int:
        """When the service, or a notice, had reported that an attempt does not hold; INF: never."""
        return self.run.over(at)

    def _told_over(self, a: Row) -> int:
        return self.over(a.at)

    def _renewals(self, a: Row) -> list[Row]:
        return [Row(self.rows, r) for r in self.run.following(a.at) if self.rows.f[r] == RENEW]

    def _renewed_least(self, a: Row, query: Row) -> int:
        by_ns = query.t_inv - self.run.slack_ns
        return sum(r.status == OK and r.t_ret < by_ns for r in self._renewals(a))

    def _renewed_most(self, a: Row, query: Row) -> int:
        by_ns, refused = query.t_ret + self.run.slack_ns, (FAIL, NOT_OWNER)
        mine = sum(r.status not in refused and r.t_inv <= by_ns for r in self._renewals(a))
        # An adapter may renew on its own before it returns a grant that came late.
        lease = a.res if a.status == OK else a.arg
        took = a.t_ret - a.t_inv if a.t_ret else INF
        late = bool(self.run.waiting(a.at)) or 4 * took > lease
        return mine + late

    def _oldest(self, a: Row, query: Row) -> int:
        """The longest time that a hold can have lasted, by the service's clock."""
        return self.run.longest(query.t_ret - a.t_inv + self.run.slack_ns)

    def _youngest(self, a: Row, query: Row) -> int:
        since = max(0, query.t_inv - a.t_ret - self.run.slack_ns)
        since = max(0, since - self._stood_still(a.t_ret, query.t_inv))
        return int(self.run.shortest(since) - self.run.promises["slip_ns"])

    def _stood_still(self, from_ns: int, to_ns: int) -> int:
        """How much of a time the monotonic clocks of servers may not have counted."""
        clients = set(self.rows.nodes.values())
        still = [w.still for w in self.run.windows if w.still and not clients.issuperset(w.nodes)]
        return covered([(begun, over) for begun, over in still], from_ns, to_ns)

    def _longest_lease(self, a: Row, query: Row) -> int:
        """The longest lease that was requested, or granted, by then."""
        by_ns = query.t_ret + self.run.slack_ns
        sent = [r for r in self._renewals(a) if r.status != FAIL and r.t_inv <= by_ns]
        return max(max(r.arg, r.res) for r in (a, *sent))

    def _lasted(self, query: Row) -> tuple[int, int]:
        """Bounds of the reported age of a hold, ns; (0, never) if none was reported, which
        contradicts no hold."""
        return _said(query.spent & 0xFFFF)

    def _left(self, query: Row) -> int:
        """Lower bound of the reported time left of its lease."""
        return _said(query.spent >> 16)[0]

    # Queues.

    def _most_ahead(self, a: Row, query: Row) -> int:
        """Number of others that can have waited ahead of an attempt at some instant of a query."""
        rows, slack = self.rows, self.run.slack_ns
        until, least = query.t_ret + slack, query.t_inv - slack
        waiting = self._first_told(a.at)
        if waiting < INF and self._in_turn(a.key):
            until = min(until, waiting + slack)
        return sum(
            at != a.at
            and rows.t_inv[at] <= until
            and (rows.status[at] in UNKNOWN or (rows.t_ret[at] or INF) >= least)
            for at in self._of_lock(a.key)
        )

    def _first_told(self, at: int) -> int:
        """The time of the first response to an attempt that it waits."""
        responses_ns = (self.rows.t_inv[r] for r in self.run.waiting(at))
        return min(responses_ns, default=INF)

    def _in_turn(self, key: int) -> bool:
        """Whether FIFO order is declared, and no grant of a lock contradicts it."""
        if key not in self._turns:
            self._turns[key] = self.run.promises["order"] == "fifo" and not self._overtakes(key)
        return self._turns[key]

    def _overtakes(self, key: int) -> bool:
        run, rows, slack = self.run, self.rows, self.run.slack_ns
        promised = run.promises["tokens"] == "ordered" and run.promised("token-order")
        if not promised or self.of.disorder(key):
            return False
        granted = [
            at for at in self._of_lock(key) if rows.status[at] == OK and rows.token[at] != -1
        ]
        for at in granted:
            since, a = self._first_told(at) + slack, Row(rows, at)
            low = bisect_right(granted, since, key=rows.t_inv.__getitem__)
            high = bisect_right(granted, a.t_ret + slack, key=rows.t_inv.__getitem__)
            for other in granted[low:high]:
                by = Row(rows, other)
                passed = by.token < a.token and by.mode == a.mode and by.process != a.process
                if passed and self._anew(by):
                    return True
        return False

    def _anew(self, by: Row) -> bool:
        """Whether a grant is no reentry of an owner that held already."""
        return self.of.anew(by)

    def _several_tokens(self, roles: Mapping[str, Row]) -> bool:
        tokens = [row.token for name, row in roles.items() if name.startswith("by")]
        return len(set(tokens)) == len(tokens)

    def _passed(self, a: Row, first: Row) -> int:
        """Number of tokens of others, from that of an overtaking grant up to the waiter's own."""
        rows, of_others, own = self.rows, set[int](), set[int]()
        for at in self._of_lock(a.key):
            alike = rows.status[at] == OK and rows.mode[at] == a.mode
            if alike and first.token <= rows.token[at] < a.token:
                mine = rows.process[at] == a.process
                (own if mine else of_others).add(rows.token[at])
        return 0 if self.run.promises.get("subtrees") else len(of_others - own)

    def _ahead(self, a: Row, waiting: Row) -> int:
        """Number of requests that can have been ahead of an attempt at the response that it
        waits."""
        rows, slack, tree = self.rows, self.run.slack_ns, self.run.promises.get("subtrees")
        every = [at for asks in self.run.asks().values() for at in asks] if tree else ()
        count = -1
        for at in every or self._of_lock(a.key):
            asked = rows.t_inv[at] <= waiting.t_inv + slack
            gone = (rows.t_ret[at] or INF) < a.t_inv - slack
            count += int(asked) - int(gone)
        return count

    # Conditional grants.

    def _newest(self, a: Row) -> int:
        return (a.op >> 8) - 1

    def _called_changed(self, a: Row) -> bool:
        return self.rows.strings[a.err].startswith("changed")

    def _followers(self, a: Row) -> int:
        """Number of attempts that may have been granted after the token that an acquire names."""
        newest, by_ns = self._newest(a), a.t_ret + self.run.slack_ns
        asked = [at for at in self._of_lock(a.key) if self.rows.t_inv[at] <= by_ns]
        return sum(
            self._token(at) > newest or (self._token(at) == -1 and self.rows.status[at] in UNKNOWN)
            for at in asked
        )

    # Notices.

    def _lost_by(self, a: Row, other: Row) -> int:
        """When a hold was certainly lost to another, and the service's own bound was over."""
        run, known = self.run, self.rows.t_ret[self.run.known(other.at)]
        if run.leased_by_library():
            far = max(run.proof_reach(a.at), run.first_lease_end(a.at))
        else:
            far = run.reach(a.at)
        return max(known, far) + run.slack_ns

    def _claimed_until(self, a: Row) -> int:
        """Until when its client acted as owner: at most until the client's last row."""
        return min(self.run.end(a.at), self._last_seen()[a.process])

    def _last_seen(self) -> Mapping[int, int]:
        """Per process the latest time in its rows."""
        if self._seen is None:
            self._seen, rows = {}, self.rows
            columns = zip(rows.f, rows.process, rows.t_inv, rows.t_ret, strict=True)
            for f, process, inv, ret in columns:
                if f and f not in SERVED:
                    self._seen[process] = max(self._seen.get(process, 0), inv, ret)
        return self._seen

    # A lost lock that a renewal or check took again.

    def _asked_once(self, a: Row, row: Row) -> bool:
        """Whether its process cannot have been granted the lock again by another acquire, up to the
        answer of a row: no lock of a subtree is judged."""
        rows = self.rows
        if self._in_tree(a):
            return False
        for at in self.run.asks().get(a.key, ()):
            if at == a.at or rows.process[at] != a.process:
                continue
            if rows.status[at] in UNKNOWN and rows.t_inv[at] <= row.t_ret:
                return False
            again = rows.status[at] == OK and rows.t_ret[at] >= a.t_inv
            if again and rows.t_inv[at] <= row.t_ret:
                return False
        return True

    def _leased_before(self, a: Row, row: Row) -> int:
        """The latest end of its lease by its grant and the renewals that were sent before a row."""
        rows, longest = self.rows, self.run.longest
        ends = [self.run.first_lease_end(a.at)]
        for r in () if self.run.leased_by_library() else self.run.following(a.at):
            if rows.f[r] != RENEW or r == row.at or rows.t_inv[r] > row.t_inv:
                continue
            if rows.status[r] == OK:
                ends.append(rows.t_ret[r] + longest(rows.res[r]))
            elif rows.status[r] in UNKNOWN:
                ends.append(rows.t_inv[r] + longest(rows.arg[r]))
        return max(ends)

    def _unnotified_until(self, a: Row) -> int:
        """The last sign of life of its client before a notice of its loss and before its death."""
        rows, run = self.rows, self.run
        ends = [self._last_seen()[a.process]]
        ends += [run.end(a.at)] if run.leased_by_library() else []
        for r in run.following(a.at):
            if rows.f[r] in (LOST, CLOSED):
                ends.append(rows.t_inv[r])
            elif rows.f[r] == RENEW and rows.status[r] == NOT_OWNER:
                ends.append(rows.t_ret[r])
        ends += [rows.t_inv[r] for r in run.closed(a.process) if rows.t_inv[r] >= a.t_inv]
        node = rows.nodes.get(a.process, "")
        return min([*ends, *(t_ns for t_ns in run.kills(node) if t_ns >= a.t_inv)])

    def _notice_within(self) -> int:
        notice_ns, lasting_ns = int(self.run.promises["notice_ns"]), self.run.lasting_ns
        return (
            max(notice_ns, lasting_ns) if self.run.leased_by_library() else notice_ns or lasting_ns
        )

    def out_of_reach(self, a: Row) -> list[tuple[int, int]]:
        """Spans in which faults or a starved host may have kept a client from being notified."""
        node, clients = self.rows.nodes.get(a.process, ""), set(self.rows.nodes.values())
        spans = [(s.from_ns, s.to_ns) for s in self.run.starved if s.node == node]
        spans += [(s.from_ns, s.to_ns) for s in self.run.starved if s.kind == "pressure"]
        for window in self.run.windows:
            own = bool(window.nodes) and clients.issuperset(window.nodes)
            if not own or node in window.nodes:
                paused = window.traits.stops and own
                recovery = 0 if paused else int(self.run.promises["recovery_ns"])
                if paused and window.traits.stops_monotonic:
                    recovery = self.run.lasting_ns
                spans.append((window.from_ns, window.to_ns + recovery))
        return spans

    def _reachable_from(self, a: Row, lost: int, limit: int) -> int:
        """The first time from which a client was reachable for as long as a notice may take."""
        spans = self.out_of_reach(a)
        moments = sorted({lost, *(over for _, over in spans if over > lost)})
        return next(
            at
            for at in moments
            if not any(begun <= at + limit and over > at for begun, over in spans)
        )

    def _truthful_reasons(self) -> bool:
        return bool(self.run.promises.get("reasons"))

    def _reason(self, notice: Row) -> str:
        return self.rows.strings[notice.res]

    def _unlocks(self, a: Row, notice: Row) -> int:
        """Number of force-unlocks that may have ended a hold by the time of a notice."""
        by_ns, token = notice.t_inv + self.run.slack_ns, self._token(a.at)
        found = [Row(self.rows, at) for at in self.run.of(8, "key").get(a.key, ())]
        aimed = [row for row in found if row.token == -1 or row.token >= token]
        return sum(row.status != FAIL and row.t_inv <= by_ns for row in aimed)

    def _lone_token(self, a: Row) -> bool:
        """Whether no other attempt on its ancestor chain has its token."""
        token, on_line = self._token(a.at), self.of.on_line
        same = sum(
            self._token(at) == token
            for key, asks in self.run.asks().items()
            if key == a.key or on_line(self.rows.strings[key], a.text)
            for at in asks
        )
        return token != -1 and same == 1

    def _taken_again(self, a: Row, unlock: Row, notice: Row) -> bool:
        """Whether a renewal of a lock whose renewals take a free one may have taken it between."""
        if self.run.believed(a.at)["renew_proves"]:
            return False
        slack = self.run.slack_ns
        sent = [r for r in self._renewals(a) if r.t_inv <= notice.t_inv + slack]
        return any(
            r.status in UNKNOWN or (r.status == OK and r.t_ret + slack >= unlock.t_inv)
            for r in sent
        )

    def _releases(self, a: Row, notice: Row) -> int:
        by_ns = notice.t_inv + self.run.slack_ns
        return sum(self.rows.t_inv[r] <= by_ns for r in self.run.releases(a.at))

    def _ends_by(self, a: Row, notice: Row) -> bool:
        """Whether a claim ends by its own notice."""
        own = notice.attempt == a.attempt and a.status in (OK, *UNKNOWN)
        return own and notice.t_inv == self.run.end(a.at)

    def _leased(self, a: Row) -> int:
        return min(self.run.leased(a.at), self.run.kept(a.at))


def _carried(attempt: int) -> str:
    """The text of the hold of an attempt."""
    return f"process {attempt >> 32}, acquire {attempt & 0xFFFFFFFF}"


def _said(code: int) -> tuple[int, int]:
    """Bounds in ns of a duration of which half a word of `spent` has the microseconds."""
    if not code:
        return -1, INF
    exponent, fraction = (code - 1) >> 11, (code - 1) & 2047
    low = (fraction << exponent) * 1000
    return low, low + (low >> 10) + 1000


class Lengths:
    """Functions for rules about queue lengths, entries and grant notices."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.run, self.rows = answers, answers.run, answers.rows

    def names(self) -> dict[str, Any]:
        """The names that rules use, as `Conditions.names`."""
        return {
            "waits": waits,
            "entries": entries,
            "limit": int(self.run.promises["notice_ns"]),
            "alone_with_token": self._alone_with_token,
            "undisturbed": self._undisturbed,
            "entries_at_most": self._entries_at_most,
            "requested": self._requested,
            "waiting_at_most": self._waiting_at_most,
            "apart_waits": lambda roles: self._apart_waits(roles),
        }

    def _waiting_at_most(self, asked: Row) -> int:
        """Number of acquires of a lock that can have waited at some instant of a query."""
        rows, slack = self.rows, self.run.slack_ns
        found = 0
        for at in self.run.asks().get(asked.key, ()):
            if rows.f[at] == OPS["try"] or not rows.aux[at]:
                continue
            if rows.status[at] and rows.t_inv[at] <= asked.t_ret + slack:
                back = INF if rows.status[at] in (INVOKED, INFO) else rows.t_ret[at]
                found += back >= asked.t_inv - slack
        return found

    def _apart_waits(self, roles: Mapping[str, Row]) -> bool:
        """Whether the waits that a certificate counts are of different attempts."""
        mine = [row.attempt for name, row in roles.items() if name.startswith("before")]
        return 0 not in mine and len(set(mine)) == len(mine)

    def _entries_at_most(self, release: Row) -> int:
        """Number of other entries of its owner that a lock can have had when a release returned:
        all that were requested by then, except those that the service had reported as over
        before."""
        rows, slack = self.rows, self.run.slack_ns
        found = 0
        for at, f in enumerate(rows.f):
            mine = rows.process[at] == release.process and rows.key[at] == release.key
            if f in ASKS and rows.status[at] and mine and rows.attempt[at] != release.attempt:
                asked = rows.t_inv[at] <= release.t_ret + slack
                rejected = rows.status[at] in (FAIL, NOT_OWNER)
                over = rows.t_ret[at] if rejected else self.answers.over(at)
                found += asked and over >= release.t_inv - slack
        return found

    def _requested(self, release: Row) -> bool:
        """Whether the run has the acquire that a release belongs to."""
        rows, asks = self.rows, self.run.asks().get(release.key, ())
        return any(rows.attempt[at] == release.attempt for at in asks)

    def _alone_with_token(self, a: Row) -> bool:
        """Whether no other acquire of a lock returned the token of this one."""
        rows = self.rows
        asks = [at for at, f in enumerate(rows.f) if f in ASKS and rows.status[at]]
        return [at for at in asks if (rows.key[at], rows.token[at]) == (a.key, a.token)] == [a.at]

    def _undisturbed(self, a: Row, from_ns: int, span_ns: int) -> bool:
        """Whether its client was reachable for span_ns from from_ns on."""
        until_ns = from_ns + span_ns + 2 * self.run.slack_ns
        spans = self.answers.out_of_reach(a)
        return not any(begun <= until_ns and over >= from_ns for begun, over in spans)
