"""Numbers that rules compare with what a service said: derived by checkers and verifier apart.

How many can have been ahead, how old a hold can be, when it was certainly over, how long a lock was
shut: each is asked of both about small histories, for spans between any two of their few moments.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.checkers.facts import lost_holds, stale_belief, stalls
from holdfast.checkers.facts.admissions import Admitted, newer
from holdfast.checkers.facts.reachable import out_of_reach
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt, attempts, by_lock, conflict
from holdfast.checkers.holds.hold_end import certain_end, may_have_ended
from holdfast.checkers.holds.overlaps import reach, slack
from holdfast.checkers.properties import (
    grant_notice,
    hold_age,
    lock_timeline,
    loss_reason,
    queue_length,
    release_entries,
    spurious_refusal,
)  # fmt: skip
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.operations import DELAY, PRESSURE, Op, Starved, Status, spent
from holdfast.harness.verification.answers import Answers, Lengths
from holdfast.harness.verification.waiting import Waits
from holdfast.harness.verification.writes import Writes
from tests.checkers.small_histories import TICK, small
from tests.checkers.test_derived_twice import Both, ends_at_once
from tests.draws import Draws

SAID = (spent(0, 0), spent(TICK, 2 * TICK), spent(3 * TICK, TICK), spent(8 * TICK, 6 * TICK), 0)
SERVERS = {"servers": "3"}
SUSPENDED = Traits(stops=True, stops_monotonic=True, passes=True)


def _suspended(window: Window) -> Window:
    """Some pauses are suspensions."""
    if window.do != "pause" or window.from_ns // TICK % 2:
        return window
    return replace(window, do="suspend", traits=SUSPENDED)


class Numbers:
    """One case, and both programs' functions for it."""

    def __init__(self, case: Case, chance: random.Random) -> None:
        case = replace(case, windows=[_suspended(w) for w in case.windows], memo={})
        self.both, self.case, self.chance = Both(case), case, chance
        run, conditions = self.both.run, self.both.verifier.conditions
        self.answers = Answers(conditions)
        self.lengths, self.waits = Lengths(self.answers), Waits(conditions)
        self.writes = Writes(run, conditions)
        self.seen = Counter[str]()
        rows = case.history.rows
        self.moments = sorted({int(t) for t in (*rows["t_inv"], *rows["t_ret"]) if t})

    def span(self) -> tuple[int, int]:
        """Between two moments, each perhaps a clock error or a nanosecond beside."""
        beside = (0, 0, 0, slack(self.case), -slack(self.case), 1, -1)
        ends = [self.chance.choice(self.moments) + self.chance.choice(beside) for _ in range(2)]
        return max(1, min(ends)), max(1, *ends)

    def same(self, what: str, ours: object, theirs: object) -> None:
        self.seen[what] += bool(ours)
        assert ours == theirs, (what, ours, theirs, self.case)

    def tied(self, a: Attempt) -> bool:
        """Whether two things end its claim at one moment: which of them counts, nobody can tell."""
        rows = self.case.history.rows
        moments = np.isin(rows["f"], (Op.LOST, Op.CLOSED, Op.RELEASE))
        own = (rows["attempt"] == a.id) | (rows["process"] == a.process) & (rows["attempt"] == 0)
        forced = (rows["f"] == Op.FORCE_UNLOCK) & (rows["key"] == a.key)
        ends = rows["t_inv"][moments & own | forced].tolist()
        ends += rows["t_ret"][own & (rows["status"] == Status.NOT_OWNER)].tolist()
        ends += [a.inv_ns] if a.end_why == "force-unlock" else []  # one sent before it
        ends += [window.from_ns for window in self.case.windows]
        return ends.count(a.end_ns) > 1 or ends_at_once(self.both, a)

    def of_attempt(self, a: Attempt) -> None:
        """What both say of one attempt."""
        case, at, row = self.case, self.both.at(a.row), self.both.row(a.row)
        story = lock_timeline.story(case, a.key)
        if not self.tied(a):
            self.same("over", story.over_ns(a), self.answers.over(at))
        end = certain_end(case, a)
        over_ns = INF if end is None else end.t_ns
        if a.status is Status.OK:
            assert may_have_ended(case)[table(case).id.tolist().index(a.id)] <= over_ns
            if not self.tied(a):
                self.same("certain end", over_ns, self.writes._over(at))
        self.same("out of reach", sorted(out_of_reach(case, a.node)),
                  sorted(self.answers.out_of_reach(row)))  # fmt: skip
        from_ns, to_ns = self.span()
        query: Any = SimpleNamespace(t_inv=from_ns, t_ret=to_ns, key=a.key)
        self.same("renewals", lock_timeline.renewals(case, a, from_ns, to_ns),
                  (self.answers._renewed_least(row, query),
                   self.answers._renewed_most(row, query)))  # fmt: skip
        if not case.promises.subtrees:  # no rule about a place asks it there
            self.same("ahead", story.ahead_at_most(a, from_ns, to_ns),
                      self.answers._most_ahead(row, query))  # fmt: skip
        span_ns = to_ns - from_ns
        self.same("disturbed", not grant_notice._disturbed(case, a.node, from_ns, span_ns),
                  self.lengths._undisturbed(row, from_ns, span_ns - 2 * slack(case)))  # fmt: skip
        lost: Any = SimpleNamespace(attempt=a, lost_ns=from_ns, claimed_ns=INF)
        self.same("reachable from", lost_holds.calm_from(case, lost, span_ns),
                  self.answers._reachable_from(row, from_ns, span_ns))  # fmt: skip
        notice: Any = SimpleNamespace(t_inv=from_ns)
        forced = loss_reason._forced(case, a)
        by_ns = from_ns + slack(case)
        self.same("unlocks",
                  sum(loss_reason._may_have_revoked(case, a, one, by_ns) for one in forced),
                  self.answers._unlocks(row, notice))  # fmt: skip
        if a.status is Status.OK and to_ns >= a.inv_ns:
            self._of_age(a, query)

    def _of_age(self, a: Attempt, query: Any) -> None:
        answers, row = self.answers, self.both.row(a.row)
        said = query.spent = self.chance.choice(SAID)
        low, high = answers._lasted(query)
        left, most = answers._left(query), answers._longest_lease(row, query)
        rules = {
            "too-old": low > answers._oldest(row, query),
            "too-young": high < answers._youngest(row, query),
            "lease-left": left > most,
        }
        wrong = hold_age.wrong_age(self.case, a, said, query.t_inv, query.t_ret)
        self.same("age", wrong and wrong[1], next((r for r, holds in rules.items() if holds), None))
        self.same("lease", hold_age._lease_ns(self.case, a, query.t_ret), most)

    def of_lock(self, key: int, every: list[Attempt]) -> None:
        """What both say of one lock."""
        case, story = self.case, lock_timeline.story(self.case, key)
        row = self.both.row(every[0].row)
        from_ns, to_ns = self.span()
        query: Any = SimpleNamespace(t_inv=from_ns, t_ret=to_ns, key=row.key)
        queue = queue_length._queues(case).get(key) or queue_length._Queue(case, [], [])
        self.same("waiting", queue.at_most(from_ns - slack(case), to_ns + slack(case)),
                  self.lengths._waiting_at_most(query))  # fmt: skip
        token = self.chance.choice((-1, 0, 1, 2, 3, 4))
        refused: Any = SimpleNamespace(ret_ns=to_ns)
        query.op = token + 1 << 8
        self.same("followers", story.may_follow(token, refused),
                  self.answers._followers(query) > 0)  # fmt: skip

    def of_writers(self, every: list[Attempt]) -> None:
        """Which attempt is certainly newer than which, and whether one of those admitted is."""
        case = self.case
        admitted = Admitted(case)
        among = self.chance.sample(every, self.chance.randrange(len(every) + 1))
        for n, b in enumerate(among):
            admitted.add(b, n)
        for a in every:
            news = []
            for b in every:
                # Of two attempts of one client neither is stale, though it may be two owners.
                ours = a.process != b.process and conflict(a, b) and newer(case, b, a)
                if a.status is b.status is Status.OK:
                    theirs = self.writes._newer(self.both.row(b.row), self.both.row(a.row))
                    self.same("newer", ours, theirs)
                news += [b.id] if ours else []
            found = admitted.newer_than(a)
            self.same("admitted", found is not None, any(b.id in news for b in among))
            if found is not None:
                assert found[0].id in news and among[found[1]].id == found[0].id

    def of_tries(self) -> None:
        """Until when a lock may have been shut to each request for it."""
        case, found = self.case, table(self.case)
        for entries in found.by_lock().values():
            if any(self.tied(a) for a in found.pick(entries)):
                continue
            spans = spurious_refusal._spans(case, entries)
            for n in entries[found.status[entries] == Status.FAIL].tolist():
                shut = spurious_refusal._shut_until(case, np.array([n]), spans)
                row = self.both.row(int(found.row[n]))
                self.same("shut until", int(shut[0]), self.waits._shut_until(row))
        tries = np.flatnonzero((found.op == Op.TRY) & (found.ret < INF))
        for n, ended in zip(
            tries, spurious_refusal._session_ended(case, tries).tolist(), strict=True
        ):
            lasted = self.waits._session_lasted(self.both.row(int(found.row[n])))
            self.same("session ended", ended, not lasted)

    def of_blocks(self) -> None:
        """The spans in which clients may exclude others, and in which faults do."""
        case, found = self.case, table(self.case)
        self.same("longest", stalls.longest_ns(case), self.waits.longest_ns())
        self.same("faults", sorted(stalls._disturbed(case)), sorted(self.waits.disturbed()))
        free = [n for n, a in enumerate(found.pick(range(len(found)))) if not self.tied(a)]
        for dead_let_go in (False, True):
            for n in free:
                begun, over = stalls._blocks(case, np.array([n]), dead_let_go)
                span = self.waits._block(self.both.at(int(found.row[n])), dead_let_go)
                ours = [(int(b), int(o)) for b, o in zip(begun, over, strict=True)]
                self.same("blocks", ours, [] if span is None else [span])

    def of_releases(self) -> None:
        """How many entries at most each release can have left; where nothing is tied."""
        if any(self.tied(a) for a in attempts(self.case)):
            return
        rows = self.case.history.rows.copy()
        told = (rows["f"] == Op.RELEASE) & (rows["status"] == Status.OK)
        rows["res"][told] = 31  # more than there can be
        given = replace(self.case, history=replace(self.case.history, rows=rows), memo={})
        for finding in release_entries.false_entries(given):
            assert finding.proof
            if finding.proof.rule == "false-entries/more":
                row = self.both.row(finding.proof.roles["release"])
                self.same("entries", finding.proof.values["most"],
                          self.lengths._entries_at_most(row))  # fmt: skip


def starved(chance: random.Random) -> tuple[Starved, ...]:
    """A span without CPU time, of some of the hosts."""
    if chance.random() < 0.6:
        return ()
    node, kind = chance.choice((("c0", DELAY), ("c1", DELAY), ("", PRESSURE)))
    begun = chance.randrange(1, 8) * TICK
    over = begun + chance.choice((1, TICK // 2, 2 * TICK))
    return (Starved(node=node, kind=kind, from_ns=begun, to_ns=over),)


def compare(count: int, seed: str) -> Counter[str]:
    chance, seen = random.Random(f"numbers {seed}"), Counter[str]()
    for _ in range(count):
        given = small(chance)
        said = replace(given.promises, minority_ns=chance.choice((-1, 0, TICK)))
        given = replace(given, promises=said, starved=starved(chance), options=SERVERS, memo={})
        numbers = Numbers(given, chance)
        for a in attempts(given):
            numbers.of_attempt(a)
        if not given.promises.subtrees:
            for key, every in by_lock(given).items():
                numbers.of_lock(key, list(every))
                numbers.of_writers(list(every))
            numbers.of_tries()
        numbers.of_blocks()
        numbers.of_releases()
        seen += numbers.seen
    return seen


def test_both_derive_the_same_numbers_of_small_histories(draws: Draws) -> None:
    seen = compare(draws(700), "few")
    assert len(seen) == 20 and min(seen.values()) > draws(700) // 140, seen


@pytest.mark.power
@pytest.mark.parametrize("seed", range(10))
def test_the_same_of_very_many(seed: int) -> None:
    compare(20_000, f"many {seed}")


def plain_beliefs(case: Case) -> dict[int, int]:
    """Per newer grant the longest time for which another acted as owner beside it: all pairs."""
    longest = dict[int, int]()
    far, slack_ns = reach(case), slack(case)
    sure = [a for a in attempts(case) if a.certain is not None]
    for a in sure if case.promises.bound != "none" else ():
        for b in sure:
            if a.id == b.id or not conflict(a, b) or a.end_ns <= b.known_ns + slack_ns:
                continue
            if (b.known_ns, b.id) < (a.known_ns, a.id):
                continue
            older, newer_one = (b, a) if -1 < b.token < a.token else (a, b)
            over_ns = min(older.end_ns, newer_one.end_ns, case.end_ns) - slack_ns
            ns = over_ns - max(far(older), newer_one.known_ns, older.known_ns)
            if ns > 0:
                longest[newer_one.id] = max(ns, longest.get(newer_one.id, 0))
    return longest


def test_stale_beliefs_are_those_of_all_pairs(
    monkeypatch: pytest.MonkeyPatch, draws: Draws
) -> None:
    chance, seen = random.Random("beliefs"), Counter[str]()
    for _ in range(draws(1500)):
        given = small(chance)
        known = [a.known_ns for a in attempts(given) if a.known_ns < INF]
        if len(set(known)) < len(known):
            continue  # of two known at once either may be told as the newer
        plain = plain_beliefs(given)
        few = {b.newer.id: b.ns for b in stale_belief.stale_beliefs(given)}
        assert few == plain, given
        with monkeypatch.context() as patch:
            patch.setattr(stale_belief, "FEW", 0)
            many = {b.newer.id: b.ns for b in stale_belief.stale_beliefs(replace(given, memo={}))}
        assert all(ns <= plain.get(ident, 0) for ident, ns in many.items())
        seen["found"] += bool(plain)
        seen["found among many"] += bool(many)
    assert seen["found among many"] > seen["found"] * 0.8 > draws(40), seen
