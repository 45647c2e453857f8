"""Agreement under loss, reordering, partitions and crashes, many seeds of it."""

from __future__ import annotations

import random

import pytest

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Append,
    Appended,
    AskVote,
    Ballot,
    Durable,
    Entry,
    GiveVote,
)
from holdfast.clusters.systems.reference.consensus.raft import Consensus, Effects, Role, Timing
from tests.clusters.world import MS, SECOND, TTL_NS, World

TIMING = Timing(election_ns=100 * MS, heartbeat_ns=20 * MS)


def node(peers: tuple[str, ...] = ("n2", "n3"), entries: tuple[int, ...] = ()) -> Consensus:
    """Node n1 at time 0, with entries of these terms in its log."""
    log = tuple(Entry(term=term, command=None) for term in entries)
    ballot = Ballot(term=max(entries, default=0), vote="")
    return Consensus(
        name="n1",
        peers=peers,
        timing=TIMING,
        rng=random.Random("n1"),
        durable=Durable(ballot=ballot, snapshot=NOTHING.snapshot, entries=log),
        now_ns=0,
    )


def ask(*, term: int, pre: bool = False, last: tuple[int, int] = (0, 0)) -> AskVote:
    """A candidate's request from n2; last is (term, index)."""
    return AskVote(sender="n2", term=term, pre=pre, last_term=last[0], last_index=last[1])


def heartbeat(term: int) -> Append:
    """An empty append from n2."""
    return Append(sender="n2", term=term, prev_index=0, prev_term=0, entries=(), commit=0)


def votes(effects: Effects) -> list[bool]:
    """What the node answered to requests for its vote."""
    return [message.given for _, message in effects.sends if isinstance(message, GiveVote)]


@pytest.mark.parametrize("seed", range(24))
def test_nodes_agree_through_loss_partitions_and_crashes(seed: int) -> None:
    world = World(seed, nodes=5 if seed % 4 == 3 else 3)
    world.run(6 * SECOND)
    world.heal()
    world.run(2 * SECOND)
    tokens_before = max((max(c.grants, default=0) for c in world.clients), default=0)
    world.run(2 * SECOND)
    tokens_after = max((max(c.grants, default=0) for c in world.clients), default=0)
    assert tokens_after > tokens_before, "a healed cluster grants again"
    for client in world.clients:
        client.stopped = True
    world.run(2 * SECOND)
    nodes = list(world.up.values())
    assert len(nodes) == len(world.names)
    assert len({n.consensus.applied for n in nodes}) == 1, "all have applied the same"
    first, *others = [n.locks.dump() for n in nodes]
    assert all(first == other for other in others), "and so all locks are the same"
    granted = [token for client in world.clients for token in client.grants]
    assert len(granted) == len(set(granted)), "one token for two grants"
    assert TTL_NS <= world.shortest_lease_ns() < SECOND, "a lease ended before its time"


def test_a_cluster_that_forgets_its_disk_is_caught() -> None:
    caught = 0
    for seed in range(12):
        world = World(seed, forgetful=True)
        try:
            world.run(6 * SECOND)
        except AssertionError:
            caught += 1
    assert caught >= 3


def test_a_node_alone_leads_after_its_patience() -> None:
    alone = node(peers=())
    alone.tick(alone.due_ns)
    assert alone.role is Role.LEADER
    assert alone.propose({"op": "x"}) == (2, 1)
    assert len(alone.take(alone.due_ns).ready) == 2


def test_a_vote_is_saved_before_it_is_given() -> None:
    voter = node()
    voter.step(SECOND, ask(term=1))
    effects = voter.take(SECOND)
    assert votes(effects) == [True]
    assert Ballot(term=1, vote="n2") in effects.saves


def test_a_node_votes_once_in_a_term() -> None:
    voter = node()
    voter.step(SECOND, ask(term=1))
    voter.step(SECOND, AskVote(sender="n3", term=1, pre=False, last_term=0, last_index=0))
    assert votes(voter.take(SECOND)) == [True, False]


def test_a_pre_vote_changes_nothing() -> None:
    voter = node()
    voter.step(SECOND, ask(term=7, pre=True))
    effects = voter.take(SECOND)
    assert votes(effects) == [True]
    assert (voter.term, effects.saves) == (0, ())


def test_nobody_votes_against_a_leader_that_is_heard() -> None:
    voter = node()
    voter.step(SECOND, heartbeat(term=1))
    voter.take(SECOND)
    voter.step(SECOND + 50 * MS, ask(term=2))
    assert votes(voter.take(SECOND + 50 * MS)) == []
    voter.step(SECOND + 150 * MS, ask(term=2))
    assert votes(voter.take(SECOND + 150 * MS)) == [True]


def test_nobody_votes_for_a_shorter_or_older_log() -> None:
    for last, given in (((2, 3), True), ((2, 2), True), ((2, 1), False), ((1, 9), False)):
        voter = node(entries=(1, 2))
        voter.step(SECOND, ask(term=3, last=last))
        assert votes(voter.take(SECOND)) == [given], last


def test_an_entry_of_an_older_term_is_not_committed_by_counting() -> None:
    leader = node(entries=(1, 2))
    leader.tick(leader.due_ns)
    now_ns = SECOND
    for pre in (True, False):
        leader.step(now_ns, GiveVote(sender="n2", term=3, pre=pre, given=True))
    assert (leader.role, leader.log.last) == (Role.LEADER, 3)
    leader.step(now_ns, Appended(sender="n2", term=3, ok=True, index=2))
    assert leader.take(now_ns).ready == ()
    leader.step(now_ns, Appended(sender="n2", term=3, ok=True, index=3))
    assert len(leader.take(now_ns).ready) == 3


def test_a_leader_that_reaches_no_quorum_steps_down() -> None:
    world = World(1)
    world.heal()
    world.run(SECOND)
    leader = world.leader()
    assert leader is not None
    lonely = world.up[leader]
    world.up = {leader: lonely}
    world.run(SECOND)
    assert lonely.consensus.role is not Role.LEADER


def leading() -> Consensus:
    """Node n1 as the leader of term 1 at one second; its first entry is on its way to both."""
    leader = node()
    leader.tick(leader.due_ns)
    for pre in (True, False):
        leader.step(SECOND, GiveVote(sender="n2", term=1, pre=pre, given=True))
    leader.take(SECOND)
    assert leader.role is Role.LEADER
    return leader


def appended(sender: str, index: int) -> Appended:
    """A follower has all up to an index."""
    return Appended(sender=sender, term=1, ok=True, index=index)


def test_who_was_just_sent_entries_is_sent_no_heartbeat() -> None:
    leader = leading()
    quiet_until_ns = leader.due_ns
    leader.propose({"op": "x"})
    assert len(leader.take(SECOND + 15 * MS).sends) == 2
    assert leader.due_ns == quiet_until_ns + 15 * MS
    leader.tick(quiet_until_ns)
    assert leader.take(quiet_until_ns).sends == ()
    leader.tick(leader.due_ns)
    assert len(leader.take(leader.due_ns).sends) == 2


def test_only_an_answer_that_changes_nothing_can_wait() -> None:
    leader = leading()
    assert leader.presses(appended("n2", 1)), "it commits the first entry"
    leader.step(SECOND, appended("n2", 1))
    assert len(leader.take(SECOND).ready) == 1
    assert not leader.presses(appended("n3", 1)), "a majority has it"
    assert leader.presses(Appended(sender="n3", term=1, ok=False, index=0)), "it lacks entries"
    assert leader.presses(Appended(sender="n3", term=2, ok=True, index=1)), "a newer term"
    leader.propose({"op": "x"})
    assert leader.presses(appended("n3", 1)), "there is more to send"
