"""Bounded wait: a request waits for no more grants to others than requests were ahead of it.

Claims
    VIOLATED: between a request's queueing and its grant, others of the same mode were certainly
    granted the lock more often than there can have been requests ahead of it in the queue, plus the
    overtakes that the declared order allows; with FIFO order none. It is weaker than bounded
    bypass: a request that is overtaken once and passes one that gave up has waited no longer than
    it had to.
Assumes
    That tokens are in the order of grants, if that is promised under the faults of the run.
Blind to
    Waits that ended without a grant, and those without a response that they wait. Every request
    called before that response, and not returned before this request's call, may have been ahead.
Cost
    O(n log n) in the attempts of each client and lock that was overtaken, plus the overtakes found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts.overtakes import told, unbounded, unjudged
from holdfast.checkers.facts.wording import drawn, lock_name
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import Ints
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.holds.waits import Passed, waits
from holdfast.checkers.opportunities.overtaking import bounded, waits_beyond_queues
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import ALL, QUEUED, FaultClass, OpportunityRow
from holdfast.checkers.properties.bounded_bypass import allowed
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "bounded-wait"
NEEDS = ("contention", "tokens", "rivals", "waits-behind", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    OpportunityRow(
        id="bounded-wait/served-out-of-turn/any",
        property="bounded-wait",
        bounds=ALL,
        tokens=True,
        faults=FaultClass.ANY,
        defect="serves its queue in another order",
        sentence="a client waited with another behind it, and would have waited while the lock was"
        " granted to others more often than there were requests ahead of it",
        twin="reference:last-come-first",
        look=partial(
            near_faults,
            where=Where(
                waits_beyond_queues,
                "no client waited, with another behind it, longer than its queue",
            ),
        ),
        change=QUEUED,
        promised=bounded,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Waited:
    """A wait that was overtaken. ahead: most requests that can have been ahead of it in the queue;
    granted: certain grants to others of its mode between its queueing and its own grant."""

    passed: Passed
    ahead: int
    granted: int


def check(case: Case) -> PropertyVerdict:
    """The verdict on bounded-wait, with the largest number of grants beyond a queue."""
    met = exercise(case, needs=NEEDS)
    judged = waits(case).judged
    queues = _Queues(case)
    overtaken = [queues.waited(one) for one in waits(case).overtaken]
    beyond = max((one.granted - one.ahead for one in overtaken), default=0)
    counts = {**met.counts, "judged waits": judged, "grants beyond a queue": max(0, beyond)}
    missing = [*met.missing]
    findings: list[Finding] = []
    bound = allowed(case)
    if bound is None:
        missing.append(unbounded(case))
    else:
        findings = [
            _finding(case, one, bound) for one in overtaken if one.granted > one.ahead + bound
        ]
    if not judged:
        missing.append(unjudged(case))
    met = replace(met, counts=counts, missing=tuple(missing))
    return conclude(case, PROPERTY, findings, (), met)


class _Queues:
    """The calls of each lock in order, so that a wait needs binary searches only."""

    def __init__(self, case: Case) -> None:
        self._every = table(case)
        self._slack = slack(case)
        # A path waits behind its ancestors and descendants too: there all locks count as ahead.
        self._apart = not case.promises.subtrees
        self._asked: dict[int, tuple[Ints, Ints]] = {}
        self._tokens: dict[tuple[int, ...], Ints] = {}

    def waited(self, one: Passed) -> Waited:
        """The counts of one overtaken wait; any other waited for those ahead of it at most."""
        a = one.attempt
        asked, answered = self._calls(a.key)
        # A request that returned before this call was called before it; the rest includes this one.
        before = np.searchsorted(asked, one.queued_ns + self._slack, "right")
        gone = np.searchsorted(answered, a.inv_ns - self._slack, "left")
        tokens = {g.token for g in _alike(one)}
        granted = len(tokens)
        if tokens and self._apart:
            # A token between that of a request called after the queueing and the waiter's own was
            # granted after the queueing too, whenever it was requested.
            of_all = self._between(min(tokens), a, -1)
            granted = max(granted, of_all - self._between(min(tokens), a, a.process))
        return Waited(passed=one, ahead=int(before - gone) - 1, granted=granted)

    def _calls(self, key: int) -> tuple[Ints, Ints]:
        """Times of the calls for the lock, and of their returns, each sorted."""
        every = self._every
        key = key if self._apart else -1
        if key not in self._asked:
            some = every.key == key if self._apart else np.ones(len(every), bool)
            self._asked[key] = (np.sort(every.inv[some]), np.sort(every.ret[some]))
        return self._asked[key]

    def _between(self, least: int, a: Attempt, process: int) -> int:
        """Number of tokens >= `least` and below a's that were granted to a process; -1: to all."""
        name = (a.key, int(a.mode), process)
        if name not in self._tokens:
            every = self._every
            some = every.ok & (every.key == a.key) & (every.mode == a.mode)
            some &= (every.token != NO_TOKEN) & ((every.process == process) | (process < 0))
            self._tokens[name] = np.unique(every.token[some])
        low, high = np.searchsorted(self._tokens[name], (least, a.token))
        return int(high - low)


def _alike(one: Passed) -> list[Attempt]:
    return [g for g in one.by if g.mode == one.attempt.mode]


def _finding(case: Case, waited: Waited, bound: int) -> Finding:
    one = waited.passed
    a, by = one.attempt, _alike(one)
    beside = f", and {bound} that its order allows besides" if bound else ""
    return Finding(
        kind="beyond-queue",
        sentence=f"{told(case, one)}: {waited.granted} grants to others in its wait, of at most"
        f" {waited.ahead} that were ahead of it{beside}",
        witnesses=(a.row, a.waitings[0], *(g.row for g in by[:3])),
        lock=lock_name(case, a),
        t_ns=one.queued_ns,
        spans=tuple(drawn(case, b, b.end_ns) for b in (a, *by[:3])),
        proof=_proof(case, waited, bound),
    )


def _proof(case: Case, waited: Waited, bound: int) -> Proof:
    """As many overtaking grants as exceed the bound; or one, and all tokens from its own on."""
    one, by = waited.passed, _alike(waited.passed)
    stamps = case.history.rows["t_inv"]
    waiting = min(one.attempt.waitings, key=lambda row: int(stamps[row]))
    roles, values = {"a": one.attempt.row, "waiting": waiting}, {"allowed": bound}
    values["ahead"] = waited.ahead
    several = list({g.token: g for g in reversed(by)}.values())
    if len(several) > waited.ahead + bound:
        named = {f"by{n}": g.row for n, g in enumerate(several[: waited.ahead + bound + 1], 1)}
        return Proof(rule="beyond-queue/counted", roles=roles | named, values=values)
    first = min(by, key=lambda g: g.token)
    values["passed"] = waited.granted
    return Proof(rule="beyond-queue/tokens", roles={**roles, "first": first.row}, values=values)
