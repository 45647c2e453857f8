"""Rows about queues: which waits show whether a queue is served in turn."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.holds.waits import waits
from holdfast.checkers.opportunities.overtaking import (
    behind_waiters,
    has_queues,
    patient_waits,
    queued_behind,
    requeued,
    waits_beyond_queues,
)
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.checkers.opportunities.strokes import of_lost_leaders
from holdfast.checkers.properties import starvation_freedom
from holdfast.harness.core.case import Case, Window
from tests.checkers.faults import window
from tests.checkers.shorthand import case

QUEUE = "0a?@0 0a+1@1 1a?@2 1Q@3 2a?@4 2Q@5 "
"""Client 0 holds, client 1 waits, client 2 behind it."""
SERVED = QUEUE + "0r?@6 0r+@7 1a+2@8 1r?@9 1r+@10 2a+3@11 2r?@12 2r+@13 "


def of(text: str, *windows: Window, **changes: Any) -> Case:
    options = {"resource": "fenced", "servers": "3"}
    return case(text, windows=windows, options=options, **changes)


@pytest.mark.parametrize(
    ("find", "text", "counts"),
    [
        (behind_waiters, SERVED, 1),
        # The lock was free when the second one was told to wait: the first may have had it.
        (behind_waiters, "0a?@0 0a+1@1 1a?@2 1Q@3 0r?@4 0r+@5 2a?@6 2Q@7 1a+2@8 2a+3@9", 0),
        (behind_waiters, QUEUE + "0r?@6 0r+@7 2a+2@8 2r?@9 2r+@10 1a+3@11", 1),  # overtaken
        (behind_waiters, QUEUE + "0r?@6 0r+@7 1a+2@8 1r?@9 1r+@10 2a-@11", 0),  # it gave up
        (behind_waiters, "0a?@0 0a+1@1 1a?@2 2a?@3 2Q@4 1Q@5 0r?@6 0r+@7 1a+2@8 2a+3@9", 0),
        (behind_waiters, SERVED.replace("2a?", "2a?:x").replace("2a+", "2a+:x"), 0),
        # Its wait without a bound outlasts the one request ahead of it, and not each client.
        (waits_beyond_queues, SERVED, 1),
        (patient_waits, SERVED, 0),
    ],
)
def test_what_counts(find: Callable[[Case], Places], text: str, counts: int) -> None:
    assert len(find(of(text)).t_ns) == counts


GAVE_UP = "0a?@0 0a+1@1 1a?@2 1Q@3 2a?@4 2Q@5 1a-@6 2a-@7 "
"""The queue of clients who gave up: nobody who waited was granted the lock."""


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        (SERVED, 1),
        (GAVE_UP, 1),
        (GAVE_UP.replace("2a?@4 2Q@5", "2a?@4"), 0),  # the second one was never told to wait
        (GAVE_UP.replace("1Q@3 2a?@4", "2a?@3 1Q@4"), 0),  # nor did the first one when it asked
        (SERVED.replace("2a?", "2a?:x").replace("2a+", "2a+:x"), 0),  # another lock
    ],
)
def test_clients_queue_whether_or_not_they_are_granted_the_lock(text: str, behind: int) -> None:
    given = of(text)
    assert queued_behind(given) == behind and has_queues(given) == bool(behind)


def test_a_queue_in_which_all_gave_up_says_nothing_about_starvation() -> None:
    verdict = starvation_freedom.check(of(GAVE_UP))
    assert "no client that waited with another behind it was granted: 0 of 1" in verdict.reason


def test_a_wait_that_allows_a_turn_of_everybody_and_one_more_shows_starvation() -> None:
    turns = "".join(
        f"0a?@{t} 0Q@{t + 1} 2r?@{t + 2} 2r+@{t + 3} 0a+{n}@{t + 4}"
        f" 2a?@{t + 5} 2Q@{t + 6} 0r?@{t + 7} 0r+@{t + 8} 2a+{n + 1}@{t + 9} "
        for n, t in ((4, 12), (6, 22), (8, 32))
    )
    text = SERVED.replace("2r?@12 2r+@13 ", "") + turns
    found = patient_waits(of(text))
    assert len(found.t_ns) >= 1
    assert found.roles["waiter"][0] == of(text).history.rows["t_inv"].tolist().index(2 * 10**9)


def test_those_without_ordered_tokens_show_nothing() -> None:
    assert not len(behind_waiters(of(SERVED, promises={"tokens": "unordered"})).t_ns)


@pytest.mark.parametrize(
    ("node", "at_s", "count"),
    [
        ("n1", 5.5, 1),
        ("n1+n2", 5.5, 1),
        ("n2", 5.5, -1),  # not the leader
        ("n1", 4.5, 0),  # one waited
        ("n1", 8.5, 0),  # the first had been granted
    ],
)
def test_two_that_wait_when_the_leader_is_lost(node: str, at_s: float, count: int) -> None:
    fault = replace(window("kill", node, at_s, at_s + 0.4), leader="n1")
    one = of(SERVED, fault)
    seen = requeued(one, [fault], of_lost_leaders, "the leader")
    assert (seen.count if seen.staged else -1) == count
    assert bool(seen.roles) == (count > 0) and bool(seen.nearest) == (count < 1)


def overtaken_ones(text: str) -> set[int]:
    return {one.attempt.row for one in waits(of(text)).overtaken}


def in_any_order(seed: int) -> str:
    """A random queue that is served in any order, by a lock that client 9 holds at first."""
    chance, holder, token, t = random.Random(seed), 9, 1, 1.0
    words, waiting = ["9a?@0", "9a+1@0.5"], list[int]()
    for client in range(6):
        words += [f"{client}a?@{t}", f"{client}Q@{t + 0.5}"]
        waiting.append(client)
        t += 1
        if chance.random() < 0.4:
            token, then = token + 1, waiting.pop(chance.randrange(len(waiting)))
            words += [f"{holder}r?@{t}", f"{holder}r+@{t + 0.3}", f"{then}a+{token}@{t + 0.6}"]
            holder, t = then, t + 1
    return " ".join(words)


def test_each_overtaken_wait_is_a_place() -> None:
    overtaken = 0
    for seed in range(300):
        text = in_any_order(seed)
        late = overtaken_ones(text)
        assert late <= set(behind_waiters(of(text)).roles["waiter"].tolist())
        overtaken += bool(late)
    assert overtaken > 50
