"""Raft consensus on one log of commands among a few nodes (Ongaro and Ousterhout, 2014).

No clock, random source, files or sockets of its own: `step` and `tick` change the state in memory,
`take` returns the effects to carry out. The caller makes the saves durable *before* it sends or
acts on anything of the same take, and never steps in between: that is why a leader may count itself
among the nodes with an entry as soon as it has appended it.

Beyond the paper's core: pre-vote (a node that was partitioned does not depose a working leader when
it returns), check-quorum (a leader that cannot reach a quorum steps down), leader stickiness (no
vote while a leader is heard), pipelined appends, snapshots.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from holdfast.clusters.systems.reference.consensus.log import Log
from holdfast.clusters.systems.reference.consensus.messages import (
    Append,
    Appended,
    AskVote,
    Ballot,
    Command,
    Durable,
    Entry,
    GiveVote,
    Install,
    Message,
    Save,
    Snapshot,
    Tail,
)
from holdfast.clusters.systems.reference.consensus.roles import NOTHING_TO_DO
from holdfast.clusters.systems.reference.consensus.roles import Effects as Effects
from holdfast.clusters.systems.reference.consensus.roles import Role as Role
from holdfast.clusters.systems.reference.consensus.roles import Timing as Timing

BATCH = 128
"""maximum entries in one append"""
WINDOW = 1024
"""maximum entries sent to a follower and not acknowledged"""


# Access to a member of an enumeration by name costs as much as a call.
_FOLLOWER, _CANDIDATE, _LEADER = Role.FOLLOWER, Role.CANDIDATE, Role.LEADER


class Consensus:
    """The consensus state of one node."""

    def __init__(
        self,
        *,
        name: str,
        peers: Sequence[str],
        timing: Timing,
        rng: random.Random,
        durable: Durable,
        now_ns: int,
    ) -> None:
        self.name = name
        self.peers = tuple(sorted(set(peers) - {name}))
        self.quorum = self.majority()
        self.role = _FOLLOWER
        self.leader: str | None = None
        self.term = durable.ballot.term
        self.vote = durable.ballot.vote
        self.snapshot = durable.snapshot
        self.log = Log(durable.snapshot.index, durable.snapshot.term, durable.entries)
        self.commit = self.applied = durable.snapshot.index
        self._timing = timing
        self._rng = rng
        self._heard_ns = now_ns
        self._pre = False
        self._votes: list[str] = []
        self._next: dict[str, int] = {}
        self._match: dict[str, int] = {}
        self._acked_ns: dict[str, int] = {}
        self._install_ns: dict[str, int] = {}
        self._beat_ns = 0
        self._quorum_ns = 0
        self._moved = False
        self._saves: list[Save] = []
        self._sends: list[tuple[str, Message]] = []
        self._ready: list[tuple[int, Entry] | Snapshot] = []
        self._election_ns = 0
        self._restart_election(now_ns)

    @property
    def due_ns(self) -> int:
        """When `tick` has to be called next."""
        return self._beat_ns if self.role is _LEADER else self._election_ns

    def tick(self, now_ns: int) -> None:
        """Handles timeouts: starts an election, or a leader without a quorum steps down."""
        if self.role is not _LEADER:
            if now_ns >= self._election_ns:
                self._campaign(now_ns, pre=True)
            return
        if now_ns >= self._quorum_ns:
            self._check_quorum(now_ns)

    def propose(self, command: Command) -> tuple[int, int] | None:
        """Appends a command; its (index, term), or None if this node does not lead.

        It is committed only once it is in `ready` with the same index *and* term.
        """
        if self.role is not _LEADER:
            return None
        self._extend((Entry(term=self.term, command=command),))
        return self.log.last, self.term

    def majority(self) -> int:
        """The votes that elect a leader, and the copies that commit an entry."""
        return (len(self.peers) + 1) // 2 + 1

    def presses(self, reply: Appended) -> bool:
        """Whether it requires a step: one more copy of what a majority has can wait for the next
        step, which a leader takes at its next heartbeat at the latest."""
        return not (
            reply.ok
            and reply.term == self.term
            and reply.index <= self.commit
            and self._next.get(reply.sender, 0) > self.log.last
        )

    def step(self, now_ns: int, message: Message) -> None:
        """Handles one message; it may be late, duplicated or out of order."""
        if type(message) is Appended:
            self._on_appended(now_ns, message)
        elif type(message) is Append:
            self._on_append(now_ns, message)
        elif type(message) is AskVote:
            self._on_ask_vote(now_ns, message)
        elif type(message) is GiveVote:
            self._on_give_vote(now_ns, message)
        elif type(message) is Install:
            self._on_install(now_ns, message)

    def take(self, now_ns: int) -> Effects:
        """The effects to carry out now, once; a leader's appends are collected here."""
        if self.role is _LEADER:
            if self._moved:
                self._moved = False
                self._advance()
            self._replicate(now_ns)
        if self.applied < self.commit:
            first, self.applied = self.applied + 1, self.commit
            self._ready += enumerate(self.log.slice(first, self.commit - first + 1), first)
        saves, sends, ready = self._saves, self._sends, self._ready
        if not (saves or sends or ready):
            return NOTHING_TO_DO
        self._saves, self._sends, self._ready = [], [], []
        return Effects(saves=tuple(saves), sends=tuple(sends), ready=tuple(ready))

    def compact(self, state: object) -> None:
        """Drops the entries up to the last applied one; `state` replaces them as a snapshot."""
        index = self.applied
        self.snapshot = Snapshot(index=index, term=self.log.term(index), state=state)
        self.log.forget(index, self.snapshot.term)
        self._save_all()

    # Elections

    def _campaign(self, now_ns: int, *, pre: bool) -> None:
        self.role, self.leader, self._pre = _CANDIDATE, None, pre
        if not pre:
            self.term, self.vote = self.term + 1, self.name
            self._saves.append(Ballot(term=self.term, vote=self.vote))
        self._votes = [self.name]
        self._restart_election(now_ns)
        for peer in self.peers:
            ask = AskVote(
                sender=self.name,
                term=self.term + 1 if pre else self.term,
                pre=pre,
                last_index=self.log.last,
                last_term=self.log.term(self.log.last),
            )
            self._sends.append((peer, ask))
        self._count_votes(now_ns)

    def _count_votes(self, now_ns: int) -> None:
        if len(self._votes) < self.quorum:
            return
        if self._pre:
            self._campaign(now_ns, pre=False)
            return
        self.role, self.leader = _LEADER, self.name
        self._next = dict.fromkeys(self.peers, self.log.last + 1)
        self._match = dict.fromkeys(self.peers, 0)
        self._acked_ns = dict.fromkeys(self.peers, now_ns)
        self._install_ns = dict.fromkeys(self.peers, now_ns)
        self._beat_ns = self._quorum_ns = now_ns
        # Entries of earlier terms are only committed together with one of this term.
        self._extend((Entry(term=self.term, command=None),))

    def _on_ask_vote(self, now_ns: int, ask: AskVote) -> None:
        leads = self.role is _LEADER
        heard = self.leader is not None and now_ns - self._heard_ns < self._timing.election_ns
        if ask.term > self.term and (leads or heard):
            return
        if ask.term > self.term and not ask.pre:
            self._follow(ask.term, None, now_ns)
        mine = (self.log.term(self.log.last), self.log.last)
        given = (ask.last_term, ask.last_index) >= mine and (
            ask.term > self.term
            if ask.pre
            else ask.term == self.term and self.vote in ("", ask.sender)
        )
        if given and not ask.pre:
            self.vote = ask.sender
            self._saves.append(Ballot(term=self.term, vote=self.vote))
            self._restart_election(now_ns)
        reply = GiveVote(
            sender=self.name,
            term=ask.term if given else self.term,
            pre=ask.pre,
            given=given,
        )
        self._sends.append((ask.sender, reply))

    def _on_give_vote(self, now_ns: int, reply: GiveVote) -> None:
        if not reply.given:
            if reply.term > self.term:
                self._follow(reply.term, None, now_ns)
            return
        asked = self.term + 1 if self._pre else self.term
        if self.role is not _CANDIDATE or reply.pre != self._pre or reply.term != asked:
            return
        if reply.sender in self.peers and reply.sender not in self._votes:
            self._votes.append(reply.sender)
            self._count_votes(now_ns)

    def _follow(self, term: int, leader: str | None, now_ns: int) -> None:
        assert term >= self.term, "a term never goes back"
        if term > self.term:
            self.term, self.vote = term, ""
            self._saves.append(Ballot(term=term, vote=""))
        if self.role is not _FOLLOWER or leader is not None:
            self._restart_election(now_ns)
        self.role, self.leader = _FOLLOWER, leader
        if leader is not None:
            self._heard_ns = now_ns

    def _restart_election(self, now_ns: int) -> None:
        wait_ns = self._timing.election_ns
        self._election_ns = now_ns + wait_ns + int(wait_ns * self._rng.random())

    # The leader's side of the log

    def _extend(self, entries: tuple[Entry, ...]) -> None:
        self._saves.append(Tail(first=self.log.last + 1, entries=entries))
        self.log.extend(entries)
        self._moved = True

    def _check_quorum(self, now_ns: int) -> None:
        """Steps down if too few followers responded lately; else records when to check next."""
        if self.quorum == 1:
            return
        heard = sorted(self._acked_ns.values(), reverse=True)
        self._quorum_ns = heard[self.quorum - 2] + 2 * self._timing.election_ns
        if now_ns >= self._quorum_ns:
            self._follow(self.term, None, now_ns)

    def _advance(self) -> None:
        # The leader has all entries: a quorum has what quorum - 1 of the others have.
        others = self.quorum - 1
        index = sorted(self._match.values())[-others] if others else self.log.last
        if index > self.commit and self.log.term(index) == self.term:
            self.commit = index

    def _replicate(self, now_ns: int) -> None:
        """Sends missing entries, and a heartbeat to all if nothing was sent to all lately."""
        beat, sent = now_ns >= self._beat_ns, 0
        log, following = self.log, self._next
        last, base = log.last, log.base
        append: Append | None = None
        for peer in self.peers:
            first = following[peer]
            if first > last and not beat:
                continue
            if first <= base:
                self._send_snapshot(peer, now_ns)
            waiting_for_snapshot = following[peer] <= base
            first = max(first, base + 1)
            room = self._match[peer] + WINDOW - first + 1
            count = 0 if waiting_for_snapshot else max(0, min(BATCH, room, last - first + 1))
            if not count and not beat:
                continue
            # Followers with the same next index get the same message.
            if append is None or append.prev_index != first - 1 or len(append.entries) != count:
                append = self._append(first, count)
            self._sends.append((peer, append))
            sent += 1
            if count:
                following[peer] = first + count
        if beat or sent == len(self.peers):
            self._beat_ns = now_ns + self._timing.heartbeat_ns

    def _send_snapshot(self, peer: str, now_ns: int) -> None:
        """Sends a snapshot in place of dropped entries, unless it did so lately."""
        if now_ns >= self._install_ns[peer]:
            install = Install(sender=self.name, term=self.term, snapshot=self.snapshot)
            self._sends.append((peer, install))
            self._next[peer] = self.log.base + 1
            self._install_ns[peer] = now_ns + self._timing.election_ns

    def _append(self, first: int, count: int) -> Append:
        return Append(
            sender=self.name,
            term=self.term,
            prev_index=first - 1,
            prev_term=self.log.term(first - 1),
            entries=self.log.slice(first, count) if count else (),
            commit=self.commit,
        )

    def _on_appended(self, now_ns: int, reply: Appended) -> None:
        if reply.term > self.term:
            self._follow(reply.term, None, now_ns)
        peer = reply.sender
        if self.role is not _LEADER or reply.term < self.term or peer not in self._match:
            return
        self._acked_ns[peer] = now_ns
        if reply.ok:
            if reply.index > self._match[peer]:
                self._match[peer] = reply.index
                self._moved = True
                if self._next[peer] <= reply.index:
                    self._next[peer] = reply.index + 1
        else:
            self._next[peer] = max(self._match[peer] + 1, min(self._next[peer], reply.index + 1))

    # The follower's side of the log

    def _on_append(self, now_ns: int, append: Append) -> None:
        if append.term < self.term:
            self._answer(append.sender, ok=False, index=0)
            return
        assert self.role is not _LEADER or append.term > self.term, "two leaders in one term"
        if append.term == self.term and append.sender == self.leader:
            # The common case: the same leader, only the time of its last message changes.
            self._heard_ns = now_ns
            self._restart_election(now_ns)
        else:
            self._follow(append.term, append.sender, now_ns)
        prev, entries = append.prev_index, append.entries
        if prev < self.log.base:
            # Entries of the snapshot are committed, and so the same in every log.
            entries = entries[self.log.base - prev :]
            prev = self.log.base
        elif prev > self.log.last:
            self._answer(append.sender, ok=False, index=self.log.last)
            return
        elif self.log.term(prev) != append.prev_term:
            self._answer(append.sender, ok=False, index=self.log.start_of_term(prev) - 1)
            return
        if entries:
            self._merge(prev + 1, entries)
        agreed = prev + len(entries)
        if append.commit > self.commit:
            self.commit = max(self.commit, min(append.commit, agreed))
        self._answer(append.sender, ok=True, index=agreed)

    def _merge(self, first: int, entries: tuple[Entry, ...]) -> None:
        if first > self.log.last:
            self._extend(entries)
            return
        for n, entry in enumerate(entries):
            index = first + n
            if index <= self.log.last and self.log.term(index) == entry.term:
                continue
            if index <= self.log.last:
                assert index > self.commit, "a committed entry would be overwritten"
                self.log.cut(index)
            self._extend(entries[n:])
            return

    def _on_install(self, now_ns: int, install: Install) -> None:
        if install.term < self.term:
            self._answer(install.sender, ok=False, index=0)
            return
        self._follow(install.term, install.sender, now_ns)
        snapshot = install.snapshot
        if snapshot.index > self.commit:
            self.snapshot = snapshot
            self.log.forget(snapshot.index, snapshot.term)
            self.commit = self.applied = snapshot.index
            self._save_all()
            # Entries committed before it, and not yet returned, are part of the snapshot.
            self._ready.append(snapshot)
        self._answer(install.sender, ok=True, index=max(snapshot.index, self.log.base))

    def _save_all(self) -> None:
        ballot = Ballot(term=self.term, vote=self.vote)
        kept = self.log.slice(self.log.base + 1, self.log.last - self.log.base)
        self._saves.append(Durable(ballot=ballot, snapshot=self.snapshot, entries=kept))

    def _answer(self, leader: str, *, ok: bool, index: int) -> None:
        self._sends.append((leader, Appended(sender=self.name, term=self.term, ok=ok, index=index)))
