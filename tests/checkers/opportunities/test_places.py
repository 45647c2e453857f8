"""Rows that are the same under every fault: what counts as a place, and where findings lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import reaches, slack
from holdfast.checkers.opportunities.places.answered_queries import answers
from holdfast.checkers.opportunities.places.crossed_waits import crossed_waits
from holdfast.checkers.opportunities.places.granted_beside import (
    asked_in_delay,
    asked_inside,
    asked_when_full,
    numbered_after,
)
from holdfast.checkers.opportunities.places.met_spans import met_by
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.checkers.opportunities.places.passed_on import (
    answered_at,
    free_tries,
    tried_after,
    tried_after_silent,
    unbounded,
    waited_for_silent,
    waited_on,
)
from holdfast.checkers.opportunities.places.served_again import (
    outdated_updates,
    requests_of_holders,
    sent_again,
)
from holdfast.checkers.properties import (
    deadlock_freedom,
    no_false_rejection,
    no_lost_update,
    orphan_freedom,
    truthful_queries,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case
from tests.workloads.runs import ran

HELD = "0a?@0 0a+7@1 "
"""A lease of 10 s to client 0."""
GIVEN = HELD + "0r?@2 0r+@3 "
"""It was released."""
OVER = HELD + "1a?@2 1Q@2.1 "
"""Another client waits behind it, and no release ends it."""
TWO = "0a?:x@0 0a+1:x@1 1a?:y@0 1a+1:y@1 "
"""Two clients hold a lock each."""


def of(text: str, **changes: Any) -> Case:
    return case(text, options={"resource": "fenced", "servers": "3"}, **changes)


@pytest.mark.parametrize(
    ("find", "text", "counts"),
    [
        (waited_on, GIVEN + "1a?@4 1a+8@5", 1),
        (waited_on, GIVEN + "1a?@4 1a-@5", 1),
        (waited_on, GIVEN + "1a?@4 1a~@5", 0),  # no answer shows nothing
        (waited_on, GIVEN + "1a?@4 1Q@5", 1),
        (waited_on, GIVEN + "1a?@1.5 1a-@2.5", 0),  # refused before the end
        (waited_on, GIVEN + "0a?@4 0a+8@5", 0),  # the same client
        (waited_on, GIVEN + "0a?@4 0a+8@5 0r?@6 0r+@7 1a?@8 1a+9@9", 1),
        (waited_on, GIVEN + "1t?@4 1t-@5", 0),  # a try does not wait
        (waited_on, GIVEN + "1a?:x@4 1a+8@5", 0),  # another lock
        (waited_on, OVER + "1Q@12 1a-@13", 1),
        (waited_for_silent, OVER + "1Q@12 1a-@13", 1),
        (waited_for_silent, OVER + "1a-@9", 0),  # its lease is not over
        (waited_for_silent, GIVEN + "1a?@4 1a+8@5", 0),
        (tried_after, GIVEN + "1t?@4 1t-@5", 1),
        (tried_after, GIVEN + "1p?@4 1p-@5", 1),
        (tried_after, GIVEN + "1a?@4 1a-@5", 0),
        (tried_after, HELD + "1t?@4 1t-@5", 0),
        (tried_after_silent, HELD + "1t?@14 1t-@15", 1),
        (tried_after_silent, GIVEN + "1t?@14 1t-@15", 0),
        (free_tries, GIVEN + "1p?@4 1p-@5", 0),
        (unbounded, HELD + "1p?@2 1p-@9", 0),  # without a bound
        (asked_inside, HELD + "1a?@2 1a-@3", 1),
        (asked_inside, OVER + "1a-@20", 1),  # the acknowledgement was inside
        (asked_inside, HELD + "0a?@2 0a-@3", 0),
        (asked_inside, HELD + "1a?@2 1a~@3", 0),
        (asked_inside, GIVEN + "1a?@4 1a+8@5", 0),
        (asked_inside, HELD + "1p?@2 1p-@3", 0),  # a probe
        (numbered_after, GIVEN + "1a?@4 1a+8@5", 1),
        (numbered_after, GIVEN + "1a?@4 1a+@5", 0),  # no token
        (numbered_after, GIVEN + "0a?@4 0a+8@5", 0),
        (numbered_after, HELD + "1a?@0.5 1a+8@5", 0),  # either may have come first
        (sent_again, HELD + "0w? 0S+ 0w+", 0),
        (outdated_updates, HELD + "0w?=0 0S+=1 0w+ 0w?=0 0S- 0w-", 1),
        (outdated_updates, HELD + "0w?=0 0S+=1 0w+ 0w?=1 0S+=2 0w+", 0),
        (outdated_updates, HELD + "0w?=0 0S+=1 0w+ 0w?=0 0S+=1 0w+", 1),  # made again
        (requests_of_holders, HELD + "0w?@2 0S+@2.1 0w+@3", 1),
        (requests_of_holders, GIVEN + "0w?@4 0S+@4.1 0w+@5", 0),  # it had given up
        (answers, HELD + "1q?@2 1q+7@3", 1),
        (answers, HELD + "1q?@0.5 1q+7@3", 0),  # either may have come first
        (answers, HELD + "1q?@2 1q~@3", 0),
        (answers, HELD + "0r?@2 0r+=0@3", 1),  # it said that no entry is left
        (answers, GIVEN, 0),
        (crossed_waits, TWO + "0a?:y@2 0Q@2.1 1a?:x@2 1Q@2.1", 2),
        (crossed_waits, TWO + "0a?:y@2 0Q@2.1 0a-@2.5 1a?:x@3 1Q@3.1", 0),  # one after another
        (crossed_waits, TWO + "0a?:y@2 0Q@2.1", 0),
        (crossed_waits, TWO + "0a?:y@2 0Q@2.1 1a?:x@3 1a-@4 0a-@5", 1),  # refused, so none began
        (crossed_waits, TWO + "0a?:y@2 0Q@2.1 1a?:x@3 0a-@3.5 1a-@4", 0),  # one may have been over
        (crossed_waits, TWO + "1a?:x@2 0a?:y@2.1 0Q@2.2 1a-@3", 0),  # or not yet begun
        (crossed_waits, TWO + "0a?:y@2 0Q@2.1 1a?:x@3 1a-@12 0a-@13", 0),  # its own lease was over
        (crossed_waits, TWO + "0a?:y@2 0Q@2.1 1t?:x@3 1t-@4 0a-@5", 0),  # a try never waits
    ],
)
def test_what_is_a_place(find: Callable[[Case], Places], text: str, counts: int) -> None:
    assert len(find(of(text)).t_ns) == counts


def test_a_client_that_reached_no_server_was_not_refused_for_a_cycle() -> None:
    made = of(TWO + "0a?:y@2 0Q@2.1 1a?:x@3 1a-@4 0a-@5")
    assert len(crossed_waits(made).t_ns) == 1
    rows = made.history.rows.copy()
    rows["err"][(rows["process"] == 1) & (rows["status"] == Status.FAIL)] = len(
        made.history.strings
    )
    strings = (*made.history.strings, "unreachable: no server answered")
    alone = replace(made, history=replace(made.history, rows=rows, strings=strings), memo={})
    assert not len(crossed_waits(alone).t_ns)


def test_a_place_of_the_lock_delay_lies_between_the_death_and_its_end() -> None:
    delayed = {"delay_ns": 5 * SECOND}
    for at, counts in (("11", 1), ("2", 0), ("18", 0)):
        made = of(HELD + f"1a?@{at} 1a-@{float(at) + 0.5}", promises=delayed)
        assert len(asked_in_delay(made).t_ns) == counts, at
    assert not len(asked_in_delay(of(HELD + "1a?@11 1a-@12")).t_ns)


def test_who_met_whom_names_one_that_was_met() -> None:
    """Beside brute force: any other client's span of those met, the latest of them."""
    rng = np.random.default_rng(11)
    for _ in range(300):
        n = int(rng.integers(1, 7))
        every = np.arange(n)
        words = " ".join(f"{int(rng.integers(0, 3))}a?" for _ in range(n))
        attempts = table(case(words))
        begun, by_ns, from_ns = (rng.integers(0, 6, n) for _ in range(3))
        over = begun + rng.integers(0, 5, n)
        met = met_by(attempts, every, by_ns, every, begun, over, from_ns).tolist()
        other = attempts.process[:, None] != attempts.process[None, :]
        slow = other & (begun[None, :] < by_ns[:, None]) & (over[None, :] > from_ns[:, None])
        for asked, one in enumerate(met):
            assert (one >= 0) == bool(slow[asked].any())
            assert one < 0 or (slow[asked, one] and over[one] == over[slow[asked]].max())


STUCK = GIVEN + "".join(f"1a?@{n} 1a-@{n}.5 " for n in range(4, 40))
REFUSED = GIVEN + "".join(f"1t?@{n} 1t-@{n}.5 " for n in range(4, 40))
SILENT = HELD + "".join(f"1a?@{n} 1a-@{n}.5 " for n in range(2, 60))


@pytest.mark.parametrize(
    ("check", "text", "row"),
    [
        (deadlock_freedom.check, STUCK, "deadlock-freedom/not-handed-on/any"),
        (deadlock_freedom.check, SILENT, "deadlock-freedom/never-ends/any"),
        (orphan_freedom.check, REFUSED, "orphan-freedom/kept-for-nobody/any"),
        (no_false_rejection.check, REFUSED, "no-false-rejection/refuses-free/any"),
        (
            no_false_rejection.check,
            HELD + "0w?@2 0S-@2.1 0w-@3",
            "no-false-rejection/refuses-holder/any",
        ),
        (
            no_lost_update.check,
            HELD + "0w?=0@2 0S+=1@2.1 0w+@2.2 0w?=0@3 0S+=2@3.1 0w+@3.2",
            "no-lost-update/old-version/any",
        ),
        (
            truthful_queries.check,
            GIVEN + "1a?@4 1a+8@5 2q?@6 2q+7@7",
            "truthful-queries/false-answer/any",
        ),
    ],
)
def test_a_finding_lies_at_an_opportunity(check: Any, text: str, row: str) -> None:
    fault = window("pause", "n1", 0.2, 0.3)
    made = case(
        text, windows=(fault,), kinds=("pause",), options={"resource": "fenced", "servers": "3"}
    )
    verdict = check(made)
    assert verdict.verdict is Verdict.VIOLATED
    assert verdict.under["pause"].seen[row].count > 0


@pytest.mark.parametrize("permits", ["1", "2", "3"])
def test_a_semaphore_is_full_for_a_request_as_a_plain_loop_counts(permits: str) -> None:
    run = ran("semaphore", permits=permits, gap_ms="40").case
    attempts, far = table(run), reaches(run) - slack(run)
    since, answered = attempts.known + slack(run), answered_at(run)
    taken = run.history.rows["op"][attempts.row] >> 24
    held = [e for e in range(len(attempts)) if attempts.known[e] < INF and far[e] > since[e]]
    full = set[int]()
    for a in np.flatnonzero((attempts.op != Op.PROBE) & (answered >= 0)).tolist():
        mine = [e for e in held if attempts.key[e] == attempts.key[a]]
        for t_ns in (attempts.inv[a], *(since[e] for e in mine)):
            there = sum(int(taken[e]) for e in mine if since[e] <= t_ns < far[e])
            within = attempts.inv[a] <= t_ns < answered[a]
            if within and there and there + taken[a] > int(permits):
                full.add(int(attempts.row[a]))
    found = asked_when_full(run)
    assert set(found.roles["asked"].tolist()) == full and len(full) > 20
    holds, asked = (attempts.of_rows(found.roles[name]) for name in ("hold", "asked"))
    assert (far[holds] > attempts.inv[asked]).all() and (since[holds] < answered[asked]).all()
