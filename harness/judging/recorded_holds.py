"""Derives who held which lock, in the servers' own order, from the events of their record.

When the server did something is known within bounds, on the run's clock: it was done before it was
read, and after every call whose effect has an earlier place in the record was made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from holdfast.harness.core.clock import LARGEST
from holdfast.harness.recording.server_record import (
    BEGUN,
    ENDED,
    EXPIRED,
    GAP,
    GONE,
    PUT,
    SEEN,
    STATE,
    RecordEvent,
)
from holdfast.harness.verdicts.judged import Gap

OPEN, ENDS, IN_GAP, UNSEEN = "open", "ends", "in gap", "unseen"
"""State of a hold at the end of the record: it goes on; it ends; it ended within a gap; its end
was not seen."""


@dataclass(kw_only=True, slots=True)
class RecordedHold:
    """One hold. It began from `after_ns` to `before_ns`, and ended from `ends_after_ns` to
    `ends_before_ns`, which are the largest number while it goes on.

    at, ends_at   places of its begin and its end in the record
    """

    lock: str
    owner: str
    token: int
    at: int
    after_ns: int
    before_ns: int
    state: str = OPEN
    ends_at: int = -1
    ends_after_ns: int = LARGEST
    ends_before_ns: int = LARGEST


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedHolds:
    """A record as holds. Everything done until `until_ns` is in it, gaps excepted.

    double   pairs of a hold and the owner that got its entry before it ended
    """

    source: str
    events: int
    holds: Sequence[RecordedHold]
    double: Sequence[tuple[RecordedHold, RecordedHold]]
    gaps: Sequence[Gap]
    until_ns: int
    whole: bool

    def covers(self, from_ns: int, to_ns: int) -> bool:
        """Whether all that was done in a span is in the record."""
        if to_ns > self.until_ns:
            return False
        return all(gap.to_ns < from_ns or to_ns < gap.from_ns for gap in self.gaps)


@dataclass(slots=True)
class _Locks:
    """The entries of all locks, by rank, and their holders."""

    entries: dict[str, dict[int, RecordEvent]] = field(default_factory=dict)
    holders: dict[str, RecordedHold] = field(default_factory=dict)
    holds: list[RecordedHold] = field(default_factory=list)
    double: list[tuple[RecordedHold, RecordedHold]] = field(default_factory=list)
    unseen: dict[str, RecordedHold] = field(default_factory=dict)
    """Lock -> its holder before the last gap, until the state after it is known."""

    def change(self, event: RecordEvent, after_ns: int) -> None:
        """Applies one event of an entry, done after a time."""
        entries = self.entries.setdefault(event.lock, {})
        before = entries.get(event.rank)
        if event.event == GONE:
            gone = [event.rank] if event.rank else list(entries)
            for rank in gone:
                entries.pop(rank, None)
        elif event.owner:
            entries[event.rank] = event
        if event.event == STATE:
            self._found(event)
        double = event.event == PUT and before is not None and before.owner != event.owner
        self._follow(event, after_ns, double=double)

    def gap(self) -> None:
        """Forgets everything: it may have changed."""
        for hold in self.holders.values():
            hold.state, hold.ends_after_ns = UNSEEN, hold.after_ns
        self.unseen.update(self.holders)
        self.entries.clear()
        self.holders.clear()

    def _found(self, event: RecordEvent) -> None:
        """A lock after a gap: the holder before it goes on, or has ended within the gap."""
        hold = self.unseen.pop(event.lock, None)
        if hold is None:
            return
        if event.owner == hold.owner:
            hold.state, hold.ends_after_ns = OPEN, LARGEST
            self.holders[event.lock] = hold
        else:
            hold.state, hold.ends_at, hold.ends_before_ns = IN_GAP, event.at, event.t_ns

    def _follow(self, event: RecordEvent, after_ns: int, *, double: bool) -> None:
        """Ends the holder of a lock and begins the next, if the event changed it."""
        entries, holder = self.entries[event.lock], self.holders.get(event.lock)
        first = entries[min(entries)] if entries else None
        if holder is not None and first is not None and first.owner == holder.owner:
            return
        if holder is not None:
            # An end that the server does not announce may be any time since the begin.
            ended_ns = holder.after_ns if event.reason == EXPIRED else after_ns
            holder.state, holder.ends_at = ENDS, event.at
            holder.ends_after_ns, holder.ends_before_ns = ended_ns, event.t_ns
            del self.holders[event.lock]
        if first is None:
            return
        hold = RecordedHold(
            lock=event.lock,
            owner=first.owner,
            token=first.token,
            at=event.at,
            after_ns=0 if event.event == STATE else after_ns,
            before_ns=event.t_ns,
        )
        self.holders[event.lock] = hold
        self.holds.append(hold)
        if holder is not None and double:
            self.double.append((holder, hold))


def derived(events: Iterable[RecordEvent], called: Mapping[str, int]) -> RecordedHolds:
    """The holds of a record. called: owner -> when its acquire was called."""
    segments = _segments(events)
    locks, gaps, source, count = _Locks(), list[Gap](), "", 0
    until_ns, whole = 0, False
    for segment in segments:
        done_after, called_ns = _floors(segment), 0
        for event in segment:
            if event.event == BEGUN:
                source = event.reason
            elif event.event == GAP:
                locks.gap()
                gaps.append(Gap(from_ns=event.from_ns, to_ns=event.t_ns, reason=event.reason))
            elif event.event == ENDED:
                until_ns, whole = max(until_ns, event.t_ns), True
            elif event.event in (PUT, GONE, STATE):
                count += 1
                if event.event == PUT:
                    called_ns = max(called_ns, called.get(event.owner, 0))
                after_ns = max(called_ns, done_after(event.at))
                until_ns = max(until_ns, after_ns)
                locks.change(event, after_ns)
    return RecordedHolds(
        source=source,
        events=count,
        holds=locks.holds,
        double=locks.double,
        gaps=gaps,
        until_ns=until_ns,
        whole=whole,
    )


def _segments(events: Iterable[RecordEvent]) -> list[list[RecordEvent]]:
    """The events in parts: a gap begins the next one, with places of another order perhaps."""
    segments: list[list[RecordEvent]] = [[]]
    for event in events:
        if event.event == GAP:
            segments.append([])
        segments[-1].append(event)
    return segments


def _floors(segment: Iterable[RecordEvent]) -> Callable[[int], int]:
    """Place of an event -> a time after which it was done, by the `seen` events with an earlier
    place; 0 if there are none.

    A `seen` that comes after events with later places is not used: the servers may have gone back
    to an earlier state, which only the next gap will show.
    """
    newest, seen = 0, list[tuple[int, int]]()
    for event in segment:
        if event.event in (PUT, GONE, STATE):
            newest = max(newest, event.at)
        elif event.event == SEEN and event.at >= newest:
            seen.append((event.at, event.t_ns))
    seen.sort()
    places = [at for at, _ in seen]
    latest = [0, *accumulate((t_ns for _, t_ns in seen), max)]
    return lambda at: latest[bisect_left(places, at)]
