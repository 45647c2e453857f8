"""Planted bugs of the service's functions beyond a simple lock, one error each.

The catalogue of mutants lists what each breaks. None of them is loaded unless a run requests it.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.clusters.systems.reference.locks import sequencers
from holdfast.clusters.systems.reference.locks.state import (
    EXCLUSIVE,
    SHARED,
    Answer,
    Command,
    Event,
    Hold,
    Lock,
    Waiter,
)
from holdfast.clusters.systems.reference.locks.state_machine import Locks

# Read-write locks


class WriterBesideReaders(Locks):
    """Grants to a writer as soon as no other writer holds."""

    def following(self, lock: Lock) -> Waiter | None:
        writing = any(hold.mode == EXCLUSIVE for hold in lock.holds)
        return lock.queue[0] if lock.queue and not writing else None


class GreedyReaders(Locks):
    """Grants to a reader beside readers, however long a writer has waited."""

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        beside = waiter.mode == SHARED and lock.admits(waiter)
        return beside or super().lets_in(lock, waiter)


# Semaphores


class OnePermitMore(Locks):
    """Grants while any permit is free, whatever the number requested."""

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        return super().lets_in(lock, replace(waiter, permits=1))

    def following(self, lock: Lock) -> Waiter | None:
        if not lock.queue or not lock.admits(replace(lock.queue[0], permits=1)):
            return None
        return lock.queue[0]


# Reentry


class OuterRelease(Locks):
    """Frees the lock with the first release, whatever the number of its owner's entries."""

    def end(self, index: int, hold: Hold, reason: str) -> None:
        entries = self.locks[hold.lock].holds
        for other in [h for h in entries if h != hold and h.token == hold.token]:
            if reason == "released":
                super().end(index, other, reason)
        super().end(index, hold, reason)


class ReleasedTwice(Locks):
    """Ends another entry of the same owner when a release is retried."""

    def _again(self, index: int, command: Command, known: Answer) -> Answer:
        if command["op"] == "release" and known["is"] == "released":
            lock = self.locks.get(command["lock"], Lock())
            for hold in [h for h in lock.holds if h.session == command["session"]][:1]:
                self.end(index, hold, "released")
        return super()._again(index, command, known)


class FullyReleased(Locks):
    """Reports every release as the last one, and ends one entry."""

    def _release(self, index: int, command: Command) -> Answer:
        answer = super()._release(index, command)
        return {**answer, "left": 0} if answer["is"] == "released" else answer


class ReentryByName(Locks):
    """Grants reentry to any client with the holder's name."""

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        named = bool(lock.holds) and lock.holds[0].owner == waiter.owner
        return (waiter.reenter and named) or super().lets_in(lock, waiter)


# Renewals, conditions, queries


class ShortExtension(Locks):
    """Responds to a renewal with the requested lease, and keeps half of the old one."""

    def _renew(self, index: int, command: Command) -> Answer:
        answer = super()._renew(index, {**command, "ttl_ns": command["ttl_ns"] // 2})
        renewed = answer["is"] == "renewed"
        return {**answer, "ttl_ns": command["ttl_ns"]} if renewed else answer


class UncheckedCondition(Locks):
    """Checks the newest token when a request arrives, but not when its turn comes."""

    def _settle(self, waiter: Waiter, index: int) -> None:
        super()._settle(replace(waiter, newest=-1), index)


class PlaceFromTheEnd(Locks):
    """Counts the waiters behind."""

    def _holder(self, index: int, command: Command) -> Answer:
        answer = super()._holder(index, command)
        place = answer["place"]
        return {**answer, "place": answer["length"] - 1 - place if place >= 0 else -1}


class LengthWithHolder(Locks):
    """Counts the holder as a waiter."""

    def _holder(self, index: int, command: Command) -> Answer:
        answer = super()._holder(index, command)
        return {**answer, "length": answer["length"] + (answer["is"] == "held-by")}


class LengthWithoutFirst(Locks):
    """Does not count the first of the queue."""

    def _holder(self, index: int, command: Command) -> Answer:
        answer = super()._holder(index, command)
        return {**answer, "length": max(0, answer["length"] - 1)}


class FormerHolder(Locks):
    """Returns the previous holder, like a cache that is updated too late."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._seen: dict[str, Answer] = {}

    def _holder(self, index: int, command: Command) -> Answer:
        answer = super()._holder(index, command)
        before = self._seen.get(command["lock"], answer)
        self._seen[command["lock"]] = answer
        return {**before, "place": answer["place"], "length": answer["length"]}


class StaleMetadata(Locks):
    """Keeps the text of a lock's first hold in all later ones."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._texts: dict[str, str] = {}

    def _holder(self, index: int, command: Command) -> Answer:
        answer = super()._holder(index, command)
        if "metadata" not in answer:
            return answer
        return {**answer, "metadata": self._texts.setdefault(command["lock"], answer["metadata"])}


class EverySequencer(Locks):
    """Reports a sequencer as in force if its generation ever existed."""

    def _check(self, index: int, command: Command) -> Answer:
        lock, generation = sequencers.read(command["sequencer"]) or ("", -1)
        given = 0 < generation <= self.tokens.newest.get(lock, 0)
        return {"is": "in-force" if given else "not-in-force"}


class NoLockDelay(Locks):
    """Opens a lock as soon as the session of its holder has ended."""

    def end(self, index: int, hold: Hold, reason: str) -> None:
        delays, self.delays = self.delays, False
        super().end(index, hold, reason)
        self.delays = delays


# Order


class LastComeFirst(Locks):
    """Serves the last request first."""

    def following(self, lock: Lock) -> Waiter | None:
        return lock.queue[-1] if lock.queue and lock.admits(lock.queue[-1]) else None


class ReversedQueue(Locks):
    """Reverses its queues with the first entry of each leader."""

    def apply(self, index: int, command: Command | None) -> tuple[Answer, list[Event]]:
        for lock in self.locks.values() if command is None else ():
            lock.queue.reverse()
        return super().apply(index, command)


class NamesFirst(Locks):
    """Breaks ties of priority by the name of the client, not by arrival."""

    def following(self, lock: Lock) -> Waiter | None:
        if self.order != "priority" or not lock.queue:
            return super().following(lock)
        first = min(lock.queue, key=lambda one: (-one.priority - one.passed, one.owner))
        return first if lock.admits(first) or lock.reentered_by(first) else None


class NoAging(Locks):
    """Uses the priority alone: a waiter that is passed over does not gain priority."""

    def _settle(self, waiter: Waiter, index: int) -> None:
        super()._settle(waiter, index)
        lock = self.locks.get(waiter.lock, Lock())
        lock.queue[:] = [replace(other, passed=0) for other in lock.queue]


# Subtrees


class ParentOnly(Locks):
    """Checks only one level up and one level down a path."""

    def line(self, name: str) -> Lock:
        whole = super().line(name)
        near = [hold for hold in whole.holds if abs(_depth(hold.lock) - _depth(name)) <= 1]
        return replace(whole, holds=near) if near != whole.holds else whole


class ForgottenDescendants(Locks):
    """Checks the ancestors of a path, but not its descendants."""

    def line(self, name: str) -> Lock:
        whole = super().line(name)
        above = [hold for hold in whole.holds if len(hold.lock) <= len(name)]
        return replace(whole, holds=above) if above != whole.holds else whole


def _depth(path: str) -> int:
    return path.count("/")


# Several locks at once


class BlindToCycles(Locks):
    """Lets every request wait, without deadlock detection."""

    def cycle(self, waiter: Waiter) -> Answer | None:
        return None


LOCKS: dict[str, type[Locks]] = {
    "writer-beside-readers": WriterBesideReaders,
    "greedy-readers": GreedyReaders,
    "one-permit-more": OnePermitMore,
    "outer-release": OuterRelease,
    "fully-released": FullyReleased,
    "released-twice": ReleasedTwice,
    "reentry-by-name": ReentryByName,
    "short-extension": ShortExtension,
    "unchecked-condition": UncheckedCondition,
    "place-from-the-end": PlaceFromTheEnd,
    "length-with-holder": LengthWithHolder,
    "length-without-first": LengthWithoutFirst,
    "former-holder": FormerHolder,
    "last-come-first": LastComeFirst,
    "reversed-queue": ReversedQueue,
    "no-aging": NoAging,
    "names-first": NamesFirst,
    "stale-metadata": StaleMetadata,
    "every-sequencer": EverySequencer,
    "no-lock-delay": NoLockDelay,
    "parent-only": ParentOnly,
    "forgotten-descendants": ForgottenDescendants,
    "blind-to-cycles": BlindToCycles,
}
"""name -> the locks with that bug"""
