"""The planted bugs of what the service offers beyond a plain lock, each one thing done wrong.

The front door's table says of each what it breaks. None of this is loaded unless a run asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.clusters.systems.reference.locks import sequencers
from holdfast.clusters.systems.reference.locks.state import (
    EXCLUSIVE,
    SHARED,
    Answer,
    Hold,
    Lock,
    Waiter,
)
from holdfast.clusters.systems.reference.locks.state_machine import Locks

# Read-write locks


class WriterBesideReaders(Locks):
    """Lets a writer in as soon as no other writer holds."""

    def following(self, lock: Lock) -> Waiter | None:
        writing = any(hold.mode == EXCLUSIVE for hold in lock.holds)
        return lock.queue[0] if lock.queue and not writing else None


class GreedyReaders(Locks):
    """Lets a reader in beside readers, however long a writer has waited."""

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        beside = waiter.mode == SHARED and lock.admits(waiter)
        return beside or super().lets_in(lock, waiter)


# Semaphores


class OnePermitMore(Locks):
    """Lets in whoever comes as long as fewer are taken than there are, however many it wants."""

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        return super().lets_in(lock, replace(waiter, permits=1))

    def following(self, lock: Lock) -> Waiter | None:
        if not lock.queue or not lock.admits(replace(lock.queue[0], permits=1)):
            return None
        return lock.queue[0]


# Coming in again


class OuterRelease(Locks):
    """Frees the lock with the first release, however often its owner has come in."""

    def end(self, index: int, hold: Hold, reason: str) -> None:
        entries = self.locks[hold.lock].holds
        for other in [h for h in entries if h != hold and h.token == hold.token]:
            if reason == "released":
                super().end(index, other, reason)
        super().end(index, hold, reason)


class FullyReleased(Locks):
    """Says of every release that it was the last, and ends one entry."""

    def _release(self, index: int, command: Mapping[str, Any]) -> Answer:
        answer = super()._release(index, command)
        return {**answer, "left": 0} if answer["is"] == "released" else answer


class ReentryByName(Locks):
    """Lets in again whoever bears the holder's name."""

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        named = bool(lock.holds) and lock.holds[0].owner == waiter.owner
        return (waiter.reenter and named) or super().lets_in(lock, waiter)


# Renewals, conditions, questions


class ShortExtension(Locks):
    """Answers a renewal with the lease that was asked for, and keeps the one it had, halved."""

    def _renew(self, index: int, command: Mapping[str, Any]) -> Answer:
        answer = super()._renew(index, {**command, "ttl_ns": command["ttl_ns"] // 2})
        renewed = answer["is"] == "renewed"
        return {**answer, "ttl_ns": command["ttl_ns"]} if renewed else answer


class UncheckedCondition(Locks):
    """Looks at the newest token when somebody comes, and no more when its turn comes."""

    def _settle(self, waiter: Waiter, index: int) -> None:
        super()._settle(replace(waiter, newest=-1), index)


class PlaceFromTheEnd(Locks):
    """Counts those who wait behind."""

    def _holder(self, index: int, command: Mapping[str, Any]) -> Answer:
        answer = super()._holder(index, command)
        place = answer["place"]
        return {**answer, "place": answer["length"] - 1 - place if place >= 0 else -1}


class LengthWithHolder(Locks):
    """Counts who holds among those who wait."""

    def _holder(self, index: int, command: Mapping[str, Any]) -> Answer:
        answer = super()._holder(index, command)
        return {**answer, "length": answer["length"] + (answer["is"] == "held-by")}


class LengthWithoutFirst(Locks):
    """Takes the first of a queue for one who has left it."""

    def _holder(self, index: int, command: Mapping[str, Any]) -> Answer:
        answer = super()._holder(index, command)
        return {**answer, "length": max(0, answer["length"] - 1)}


class FormerHolder(Locks):
    """Names the holder before, as a cache that is filled too late would."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._seen: dict[str, Answer] = {}

    def _holder(self, index: int, command: Mapping[str, Any]) -> Answer:
        answer = super()._holder(index, command)
        before = self._seen.get(command["lock"], answer)
        self._seen[command["lock"]] = answer
        return {**before, "place": answer["place"], "length": answer["length"]}


class StaleMetadata(Locks):
    """Keeps the text of a lock's first hold, whoever holds it by now."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._texts: dict[str, str] = {}

    def _holder(self, index: int, command: Mapping[str, Any]) -> Answer:
        answer = super()._holder(index, command)
        if "metadata" not in answer:
            return answer
        return {**answer, "metadata": self._texts.setdefault(command["lock"], answer["metadata"])}


class EverySequencer(Locks):
    """Takes a sequencer for in force if its generation was ever given out."""

    def _check(self, index: int, command: Mapping[str, Any]) -> Answer:
        lock, generation = sequencers.read(command["sequencer"]) or ("", -1)
        given = 0 < generation <= self.tokens.newest.get(lock, 0)
        return {"is": "in-force" if given else "not-in-force"}


class NoLockDelay(Locks):
    """Opens a lock as soon as the session of its holder has died."""

    def end(self, index: int, hold: Hold, reason: str) -> None:
        delays, self.delays = self.delays, False
        super().end(index, hold, reason)
        self.delays = delays


# Order


class LastComeFirst(Locks):
    """Serves whoever came last."""

    def following(self, lock: Lock) -> Waiter | None:
        return lock.queue[-1] if lock.queue and lock.admits(lock.queue[-1]) else None


class NoAging(Locks):
    """Goes by priority alone: who is passed over is no more urgent for it."""

    def _settle(self, waiter: Waiter, index: int) -> None:
        super()._settle(waiter, index)
        lock = self.locks.get(waiter.lock, Lock())
        lock.queue[:] = [replace(other, passed=0) for other in lock.queue]


# Subtrees


class ParentOnly(Locks):
    """Looks one step up and one step down a path, and no further."""

    def line(self, name: str) -> Lock:
        whole = super().line(name)
        near = [hold for hold in whole.holds if abs(_depth(hold.lock) - _depth(name)) <= 1]
        return replace(whole, holds=near) if near != whole.holds else whole


class ForgottenDescendants(Locks):
    """Looks up a path, and never at what lies below it."""

    def line(self, name: str) -> Lock:
        whole = super().line(name)
        above = [hold for hold in whole.holds if len(hold.lock) <= len(name)]
        return replace(whole, holds=above) if above != whole.holds else whole


def _depth(path: str) -> int:
    return path.count("/")


# Several locks at once


class BlindToCycles(Locks):
    """Lets everybody wait for whatever they want."""

    def cycle(self, waiter: Waiter) -> Answer | None:
        return None


LOCKS: dict[str, type[Locks]] = {
    "writer-beside-readers": WriterBesideReaders,
    "greedy-readers": GreedyReaders,
    "one-permit-more": OnePermitMore,
    "outer-release": OuterRelease,
    "fully-released": FullyReleased,
    "reentry-by-name": ReentryByName,
    "short-extension": ShortExtension,
    "unchecked-condition": UncheckedCondition,
    "place-from-the-end": PlaceFromTheEnd,
    "length-with-holder": LengthWithHolder,
    "length-without-first": LengthWithoutFirst,
    "former-holder": FormerHolder,
    "last-come-first": LastComeFirst,
    "no-aging": NoAging,
    "stale-metadata": StaleMetadata,
    "every-sequencer": EverySequencer,
    "no-lock-delay": NoLockDelay,
    "parent-only": ParentOnly,
    "forgotten-descendants": ForgottenDescendants,
    "blind-to-cycles": BlindToCycles,
}
"""name -> the locks with that bug"""
