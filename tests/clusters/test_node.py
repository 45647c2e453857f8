"""One node between its clients and its log: who is answered, and what a new leader counts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Append,
    Appended,
    Command,
    Entry,
    GiveVote,
)
from holdfast.clusters.systems.reference.options import ReferenceOptions
from holdfast.clusters.systems.reference.service.node import Asked, LockNode, NodeEffects

SECOND = 1_000_000_000


def started() -> LockNode:
    """Node n1 of three, at 0 s, with an empty disk."""
    return LockNode(
        name="n1",
        peers=["n1", "n2", "n3"],
        options=ReferenceOptions(),
        rng=random.Random("n1"),
        durable=NOTHING,
        now_ns=0,
    )


def leader() -> LockNode:
    """Node n1 of three, leading in term 1 since 1 s, its first entry not yet committed."""
    node = started()
    node.step(SECOND)
    votes = [GiveVote(sender="n2", term=1, pre=pre, given=True) for pre in (True, False)]
    node.step(SECOND, votes)
    return node


def asks(op: str, **fields: Any) -> Asked:
    """A request on connection 5, number 9."""
    return Asked(connection=5, frame={"id": 9, "op": op, **fields})


def commit(node: LockNode, now_ns: int, index: int) -> NodeEffects:
    """n2 has everything up to `index`."""
    reply = Appended(sender="n2", term=1, ok=True, index=index)
    return node.step(now_ns, [reply])


def said(effects: NodeEffects) -> list[tuple[int, object, object]]:
    """(connection, number, what) of the replies."""
    return [(at, frame.get("id"), frame.get("is", "")) for at, frame in effects.replies]


def test_a_client_is_answered_only_after_the_commit() -> None:
    node = leader()
    assert said(node.step(SECOND, [asks("open", ttl_ns=0)])) == []
    assert said(commit(node, SECOND, 1)) == []
    assert said(commit(node, SECOND, 2)) == [(5, 9, "opened")]


def test_a_leader_that_is_replaced_does_not_say_what_became_of_a_request() -> None:
    node = leader()
    node.step(SECOND, [asks("open", ttl_ns=0)])
    other = Entry(term=2, command={"op": "open", "ttl_ns": 0})
    append = Append(
        sender="n2",
        term=2,
        prev_index=0,
        prev_term=0,
        entries=(Entry(term=2, command=None), other),
        commit=2,
    )
    assert said(node.step(SECOND, [append])) == [(5, 9, "deposed")]
    assert said(node.step(SECOND, [asks("open", ttl_ns=0)])) == [(5, 9, "not-leader")]


def test_a_leader_answers_from_memory_only_once_its_first_entry_is_committed() -> None:
    node = leader()
    question = asks("ask", session=1, holds=[], waits=[])
    assert said(node.step(SECOND, [question])) == [(5, 9, "not-leader")]
    commit(node, SECOND, 1)
    assert said(node.step(SECOND, [question])) == [(5, 9, "state")]


def test_a_malformed_request_is_refused_and_nothing_is_logged() -> None:
    node = leader()
    node.step(SECOND)
    effects = node.step(SECOND, [asks("acquire", lock=7)])
    assert said(effects) == [(5, 9, "bad-request")]
    assert effects.saves == ()


def follower() -> LockNode:
    """Node n1 of three, which n2 leads in term 1; a session and a held lock are committed."""
    node = started()
    acquire = {"op": "acquire", "session": 2, "seq": 1, "done": 0, "lock": "a", "attempt": 1}
    acquire |= {"ttl_ns": SECOND // 10, "wait_ns": 0, "owner": "c"}
    commands: tuple[Command, ...] = (None, {"op": "open", "ttl_ns": 0}, acquire)
    append = Append(
        sender="n2",
        term=1,
        prev_index=0,
        prev_term=0,
        entries=tuple(Entry(term=1, command=command) for command in commands),
        commit=3,
    )
    node.step(SECOND, [append])
    return node


def left_aside(node: LockNode) -> int:
    """How many commands the node says that it has not taken in."""
    ((_, frame),) = node.step(SECOND, [asks("status")]).replies
    return int(str(frame["behind"]))


def test_a_follower_takes_in_what_is_committed_when_somebody_looks() -> None:
    node = follower()
    assert left_aside(node) == 3
    assert node.locks.fate("a", 1, 1) == "held"
    assert left_aside(node) == 0


def test_a_follower_does_not_leave_more_aside_than_a_new_leader_can_take_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.clusters.systems.reference.service.node.BEHIND", 3)
    assert left_aside(follower()) == 0


def test_a_new_leader_counts_the_leases_that_it_had_left_aside() -> None:
    node = follower()
    node.step(9 * SECOND)
    votes = [GiveVote(sender="n3", term=2, pre=pre, given=True) for pre in (True, False)]
    node.step(9 * SECOND, votes)
    reply = Appended(sender="n3", term=2, ok=True, index=4)
    node.step(10 * SECOND, [reply])
    assert node.serving
    end_ns = 10 * SECOND + SECOND // 10
    assert node.step(end_ns - 1).saves == ()
    assert node.step(end_ns).saves != (), "a lease after it began to lead"


def test_a_node_rests_until_something_is_due() -> None:
    node = follower()
    assert node.rests(SECOND)
    assert not node.rests(9 * SECOND), "an election is due"
    assert not leader().rests(SECOND), "a leader is never sure"


def test_the_leader_expires_a_lease_at_its_end_through_the_log() -> None:
    node = leader()
    node.step(SECOND, [asks("open", ttl_ns=0)])
    commit(node, SECOND, 2)
    acquire = {"session": 2, "seq": 1, "done": 0, "lock": "a", "attempt": 1}
    acquire |= {"ttl_ns": SECOND // 10, "wait_ns": 0, "owner": "c"}
    node.step(SECOND, [asks("acquire", **acquire)])
    granted_ns = SECOND + 5
    assert said(commit(node, granted_ns, 3)) == [(5, 9, "granted")]
    assert node.step(granted_ns + SECOND // 10 - 1).saves == ()
    node.step(granted_ns + SECOND // 10)
    assert node.locks.fate("a", 1, 1) == "held", "not before the log says so"
    effects = commit(node, granted_ns + SECOND // 10, 4)
    assert node.locks.fate("a", 1, 1) == "expired"
    assert [frame.get("event") for _, frame in effects.replies] == ["lost"]


def times(effects: NodeEffects) -> list[tuple[object, object]]:
    """For how long the replies say that somebody has held, and for how long still."""
    return [(frame.get("held_ns"), frame.get("left_ns")) for _, frame in effects.replies]


def test_a_leader_says_how_old_a_hold_is_by_its_own_clock() -> None:
    node = leader()
    named = {"session": 2, "lock": "a", "attempt": 1}
    acquire = {"seq": 1, "done": 0, "ttl_ns": SECOND, "wait_ns": 0, "owner": "c"}
    renew = {"seq": 2, "done": 1, "token": 1, "ttl_ns": SECOND}
    question = asks("holder", lock="a", attempt=-1)
    node.step(SECOND, [asks("open", ttl_ns=0), asks("acquire", **named, **acquire)])
    commit(node, SECOND + 5, 3)
    node.step(SECOND + 10, [question])
    assert times(commit(node, SECOND + 20, 4)) == [(15, SECOND - 15)]
    node.step(SECOND + 30, [asks("renew", **named, **renew), question])
    assert times(commit(node, SECOND + 40, 6))[1:] == [(35, SECOND)], "a renewal is no grant"
    release = {"seq": 3, "done": 2, "token": 1}
    node.step(SECOND + 50, [asks("release", **named, **release), question])
    assert times(commit(node, SECOND + 60, 8))[1:] == [(None, None)]


def test_a_new_leader_does_not_say_how_old_a_hold_is() -> None:
    node = follower()
    node.step(9 * SECOND)
    votes = [GiveVote(sender="n3", term=2, pre=pre, given=True) for pre in (True, False)]
    node.step(9 * SECOND, votes)
    question = asks("holder", lock="a", attempt=-1)
    node.step(9 * SECOND, [question])
    reply = Appended(sender="n3", term=2, ok=True, index=5)
    answered = node.step(10 * SECOND, [reply])
    assert times(answered) == [(None, SECOND // 10)]
