"""Planted bugs of the service's node, one error each.

The catalogue of mutants lists what each breaks. None of them is loaded unless a run requests it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from holdfast.clusters.systems.reference.consensus.messages import (
    Append,
    AskVote,
    Ballot,
    Save,
    Tail,
)
from holdfast.clusters.systems.reference.consensus.raft import Consensus, Effects
from holdfast.clusters.systems.reference.locks.hold_age import Ages
from holdfast.clusters.systems.reference.locks.state import (
    Command,
    Event,
    Hold,
    Lock,
    Started,
)
from holdfast.clusters.systems.reference.locks.state_machine import Locks
from holdfast.clusters.systems.reference.locks.tokens import TokenCounter
from holdfast.clusters.systems.reference.mutants.lock_api import LOCKS
from holdfast.clusters.systems.reference.mutants.request_identity import ASKING
from holdfast.clusters.systems.reference.mutants.sessions import CLOCKS, ENDINGS
from holdfast.clusters.systems.reference.service.node import LockNode, expiry, hold_name
from holdfast.clusters.systems.reference.service.timers import Timers

# The locks


class ReleaseByLock(Locks):
    """Checks only the name of the lock."""

    def held(self, command: Command) -> Hold | None:
        lock = self.locks.get(command["lock"])
        return lock.holds[0] if lock and lock.holds else None


class LostWakeUp(Locks):
    """Grants to the next in the queue only after a release."""

    def end(self, index: int, hold: Hold, reason: str) -> None:
        if reason != "expired":
            super().end(index, hold, reason)
            return
        lock = self.locks[hold.lock]
        queue, lock.queue = lock.queue, []
        super().end(index, hold, reason)
        if queue:
            self.locks[hold.lock] = Lock(queue=queue)


class TokenReset(Locks):
    """Does not restore the counter of tokens."""

    @classmethod
    def load(cls, state: Mapping[str, object]) -> Locks:
        locks = super().load(state)
        locks.tokens = TokenCounter()
        return locks


class ForgottenHolder(Locks):
    """Does not restore the holders."""

    @classmethod
    def load(cls, state: Mapping[str, object]) -> Locks:
        locks = super().load(state)
        locks.locks = {name: lock for name, lock in locks.locks.items() if lock.queue}
        for lock in locks.locks.values():
            lock.holds.clear()
        return locks


# Consensus


class LoneCommit(Consensus):
    """Commits what it has appended itself."""

    def _advance(self) -> None:
        self.commit = self.log.last


class BlindVote(Consensus):
    """Accepts every candidate's log as up to date."""

    def _on_ask_vote(self, now_ns: int, ask: AskVote) -> None:
        last = self.log.last
        longest = replace(ask, last_index=max(ask.last_index, last), last_term=1 << 40)
        super()._on_ask_vote(now_ns, longest)


class CountedOldTerms(Consensus):
    """Sends entries of one term at a time, and counts the copies of those of former terms too."""

    def _append(self, first: int, count: int) -> Append:
        append = super()._append(first, count)
        same = [one for one in append.entries if one.term == append.entries[0].term]
        return replace(append, entries=append.entries[: len(same)])

    def _advance(self) -> None:
        counted = sorted(self._match.values())[1 - self.quorum :] if self.quorum > 1 else []
        self.commit = max(self.commit, min(counted, default=self.log.last))


class UnsavedVote(Consensus):
    """Does not persist its vote and its term."""

    def take(self, now_ns: int) -> Effects:
        effects = super().take(now_ns)
        return replace(effects, saves=tuple(s for s in effects.saves if not isinstance(s, Ballot)))


class SmallQuorum(Consensus):
    """Computes the majority of the members without the last two."""

    def majority(self) -> int:
        return (len(self.peers) - 1) // 2 + 1


LATE_NS = 1_000_000_000


class LateDisk(Consensus):
    """Acknowledges entries at once and writes them to disk together, once a second."""

    _late: tuple[Save, ...] = ()
    _since_ns = 0

    def take(self, now_ns: int) -> Effects:
        effects = super().take(now_ns)
        if not self._late:
            self._since_ns = now_ns
        saves = (*self._late, *effects.saves)
        waits = now_ns - self._since_ns < LATE_NS and all(isinstance(s, Tail) for s in saves)
        self._late, saves = (saves, ()) if waits else ((), saves)
        return Effects(saves=saves, sends=effects.sends, ready=effects.ready)


# The leader's clocks and connections


class EarlyExpiry(LockNode):
    """Sets the timer of a lease a fifth too early."""

    def _on_event(self, now_ns: int, event: Event) -> None:
        super()._on_event(now_ns, event)
        if isinstance(event, Started):
            seen = expiry(event.hold)
            self._timers.set(hold_name(event.hold), now_ns + event.hold.ttl_ns * 4 // 5, seen)


class ImpatientLeader(LockNode):
    """Expires every lease when it begins to lead."""

    def _reign(self, now_ns: int) -> None:
        super()._reign(now_ns)
        for lock in self.locks.locks.values():
            for hold in lock.holds if self.serving else ():
                self._on_due(expiry(hold))


class AgesSinceRenewal(Ages):
    """Counts the age from the last renewal."""

    def counted(self, hold: Hold, now_ns: int) -> None:
        super().counted(replace(hold, renewals=0), now_ns)


class AgeSinceRenewal(LockNode):
    """Reports the age of a hold since its last renewal."""

    ages_type = AgesSinceRenewal


class WallClock(LockNode):
    """Counts leases, waits and sessions on the wall clock."""

    def timers(self) -> Timers:
        return WallTimers(self)

    def ahead_ns(self) -> int:
        """By how much the wall clock is ahead of the monotonic one."""
        return self.clocks["wall"]() - self.clocks["monotonic"]()


class WallTimers(Timers):
    """Deadlines on the wall clock, for callers with times of the monotonic one."""

    def __init__(self, node: WallClock) -> None:
        super().__init__()
        self._node = node

    def set(self, name: Hashable, due_ns: int, what: object) -> None:
        super().set(name, due_ns + self._node.ahead_ns(), what)

    def due(self, now_ns: int) -> list[object]:
        return super().due(now_ns + self._node.ahead_ns())

    def next_ns(self) -> int | None:
        next_ns = super().next_ns()
        return None if next_ns is None else next_ns - self._node.ahead_ns()


def _locks(kind: type[Locks]) -> type[LockNode]:
    return type(kind.__name__, (LockNode,), {"locks_type": kind})


def _agreeing(kind: type[Consensus]) -> type[LockNode]:
    return type(kind.__name__, (LockNode,), {"consensus_type": kind})


NODES: dict[str, type[LockNode]] = {
    "release-by-lock": _locks(ReleaseByLock),
    "lost-wake-up": _locks(LostWakeUp),
    "token-reset": _locks(TokenReset),
    "forgotten-holder": _locks(ForgottenHolder),
    "wall-clock": WallClock,
    "early-expiry": EarlyExpiry,
    "impatient-leader": ImpatientLeader,
    "age-since-renewal": AgeSinceRenewal,
    "lone-commit": _agreeing(LoneCommit),
    "blind-vote": _agreeing(BlindVote),
    "unsaved-vote": _agreeing(UnsavedVote),
    "counted-old-terms": _agreeing(CountedOldTerms),
    "small-quorum": _agreeing(SmallQuorum),
    "late-disk": _agreeing(LateDisk),
    **{name: _locks(kind) for name, kind in (LOCKS | ASKING | ENDINGS).items()},
    **CLOCKS,
}
"""name -> the node with that bug"""
