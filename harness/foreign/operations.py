"""The common data model of imported histories: operations with a begin and an end.

The order is that of the events in the file. A begin or an end is the number of its event, so that
all of them differ, and an operation of unknown outcome never ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from holdfast.harness.core.operations import NO_TOKEN, Status

OPEN = (1 << 62) - 1
"""The end of an operation that may take effect at any time after its begin."""
LONGEST_SHOWN = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignOp:
    """One call by one client.

    process     the caller; its calls never overlap
    f           the operation: "acquire", "release", "read", "write", "cas", "put" ...
    key         its lock or register; None if the history has only one
    value       the arguments: the value written, [old new] of a cas
    result      the return value: the value read; FAIL in `status` if it certainly had no effect
    begin, end  event numbers, `end` OPEN if the outcome is unknown
    status      OK, FAIL, NOT_OWNER or INFO
    told_value  False if a completion has no value (nil, null or no field)
    token       its fencing token, NO_TOKEN for none
    attempt     identity of its acquire, None if the history names none
    shared      a reader's acquire or release of a read-write lock
    lease_ns    the lease that it asks for, 0 for none
    line        line of its invocation; `end_line` of its completion, 0 for none
    event       number of its invocation among the events of a document whose lines do not tell
                them apart, else 0; `end_event` of its completion
    """

    process: int | str
    f: str
    key: Hashable
    value: Hashable
    result: Hashable
    begin: int
    end: int
    status: Status
    told_value: bool
    token: int = NO_TOKEN
    attempt: int | str | None = None
    shared: bool = False
    lease_ns: int = 0
    line: int = 0
    end_line: int = 0
    event: int = 0
    end_event: int = 0

    @property
    def unit(self) -> str:
        """What `place` counts."""
        return "event" if self.event else "line"

    @property
    def place(self) -> int:
        """Where the invocation stands in the file."""
        return self.event or self.line

    @property
    def end_place(self) -> int:
        """Where the completion stands, 0 for none."""
        return self.end_event or self.end_line

    @property
    def where(self) -> str:
        """Where the invocation stands, as text."""
        return f"{self.unit} {self.place}"


@dataclass(frozen=True, kw_only=True)
class ForeignHistory:
    """All operations of a file in order of their begin. name: for messages, usually its path."""

    name: str
    ops: Sequence[ForeignOp]

    @property
    def unit(self) -> str:
        """What the places of its operations count: lines, or events of a document."""
        return self.ops[0].unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Invocation or completion of an operation in a file; kind is invoke, ok, fail or info.

    number   its place among all events of a document, from 1; 0 where a line has one event
    """

    line: int
    number: int = 0
    process: int | str
    kind: str
    f: str
    key: Hashable = None
    value: Hashable = None
    time: int | None = None
    token: int = NO_TOKEN
    attempt: int | str | None = None
    shared: bool = False
    not_owner: bool = False
    keyed: bool = False
    lease_ns: int = 0


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean of a history that equals no number: in Python True == 1."""

    value: bool

    def __repr__(self) -> str:
        return repr(self.value)


def distinct(value: Hashable) -> Hashable:
    """The value in a form that equals another only if the values of the file are equal."""
    if isinstance(value, bool):
        return Truth(value)
    if isinstance(value, tuple):
        return tuple(map(distinct, value))
    if isinstance(value, frozenset):
        return frozenset(map(distinct, value))
    return value


def keyed_apart(ops: Sequence[ForeignOp]) -> Sequence[ForeignOp]:
    """The same operations, with a separate key if their values are tuples [key value].

    Jepsen's `independent` tests many registers or locks in one history, and names the one in the
    value of every operation. A history counts as one of those if it names no key and every
    invocation has a pair, which its completion repeats, a cas one whose second half is a pair: the
    read of a single register has no value, its cas two plain values.
    """
    # The first alone first: of columns only it is made an object then.
    if not ops or not _of_a_pair(ops[0]) or not all(_of_a_pair(op) for op in ops):
        return ops
    return [_unpacked(op) for op in ops]


def _of_a_pair(op: ForeignOp) -> bool:
    if op.key is not None or not isinstance(op.value, tuple) or len(op.value) != 2:
        return False
    inner, answer = op.value[1], op.result
    if op.status is Status.OK and answer is not None and answer is not False:
        if not isinstance(answer, tuple) or len(answer) != 2:
            return False
        if distinct(answer[0]) != distinct(op.value[0]):
            return False
    return op.f != "cas" or (isinstance(inner, tuple) and len(inner) == 2)


def _unpacked(op: ForeignOp) -> ForeignOp:
    assert isinstance(op.value, tuple)
    key, value = op.value
    answer = op.result
    if isinstance(answer, tuple) and len(answer) == 2:
        answer = answer[1]
    has_value = op.told_value and answer is not None
    return replace(op, key=key, value=value, result=answer, told_value=has_value)


class Malformed(Exception):
    """An error in a file, with its line; the caller adds the file's name.

    event   the number of the event in a document whose lines do not tell events apart, else 0
    """

    def __init__(self, line: int, reason: str, event: int = 0) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason
        self.event = event

    @property
    def where(self) -> str:
        """The place of the error as text."""
        return f"event {self.event}, line {self.line}" if self.event else f"line {self.line}"


class Pairing:
    """Makes operations of events, in the order of the file.

    Malformed if an event is impossible: a completion without its invocation, a second invocation
    before the completion of the first, time that goes backwards within one process. Processes may
    have clocks of their own: between them only the order of the file counts.

    by_event   places are numbers of events, whatever the lines; else only if two share a line
    """

    def __init__(self, *, by_event: bool = False) -> None:
        self._open: dict[int | str, tuple[Event, int]] = {}
        self._seen: dict[int | str, Event] = {}
        self._done: list[tuple[Event, Event | None, int, int]] = []
        self._events = 0
        self._last_line = 0
        self._by_event = by_event

    def add(self, event: Event) -> None:
        """Take the next event."""
        self._by_event |= event.number > 0 and event.line == self._last_line
        self._last_line = event.line
        self._check_time(event)
        number = self._events
        self._events += 1
        waiting = self._open.get(event.process)
        if event.kind == "invoke":
            if waiting is not None:
                raise self._impossible(
                    event,
                    f"process {brief(event.process)} invokes {brief(event.f)}"
                    f" while its {brief(waiting[0].f)} of {self._where(waiting[0])}"
                    " is still open: two concurrent invocations",
                )
            self._open[event.process] = (event, number)
            return
        if waiting is None:
            raise self._impossible(
                event,
                f"process {brief(event.process)} completes {brief(event.f)}:"
                " a completion without invocation",
            )
        asked, begin = waiting
        if asked.f != event.f or (event.keyed and event.key != asked.key):
            raise self._impossible(
                event,
                f"process {brief(event.process)} completes {_named(event)},"
                f" but {self._where(asked)} invoked {_named(asked)}",
            )
        del self._open[event.process]
        self._done.append((asked, event, begin, number))

    def _where(self, event: Event) -> str:
        return f"event {event.number}" if self._by_event else f"line {event.line}"

    def _impossible(self, event: Event, reason: str) -> Malformed:
        return Malformed(event.line, reason, event.number if self._by_event else 0)

    def _check_time(self, event: Event) -> None:
        if event.time is None:
            return
        last = self._seen.get(event.process)
        if last is not None and last.time is not None and event.time < last.time:
            on = "at" if self._by_event else "on"
            raise self._impossible(
                event,
                f"time goes backwards: process {brief(event.process)} is at {event.time},"
                f" and was at {last.time} {on} {self._where(last)}",
            )
        self._seen[event.process] = event

    def close(self, name: str) -> ForeignHistory:
        """The history; an operation without a completion has an unknown outcome."""
        for asked, begin in self._open.values():
            self._done.append((asked, None, begin, OPEN))
        if not self._done:
            raise Malformed(1, "no operation of a client")
        self._done.sort(key=lambda done: done[2])
        ops = tuple(_paired(*done, by_event=self._by_event) for done in self._done)
        return ForeignHistory(name=name, ops=ops)


STATUS = {"ok": Status.OK, "fail": Status.FAIL, "info": Status.INFO}


def _paired(
    asked: Event, told: Event | None, begin: int, end: int, *, by_event: bool = False
) -> ForeignOp:
    status = STATUS[told.kind] if told is not None else Status.INFO
    if status is Status.FAIL and told is not None and told.not_owner:
        status = Status.NOT_OWNER
    token, attempt = asked.token, asked.attempt
    if told is not None:
        token = told.token if told.token != NO_TOKEN else token
        attempt = told.attempt if told.attempt is not None else attempt
    return ForeignOp(
        process=asked.process,
        f=asked.f,
        key=asked.key,
        value=asked.value,
        result=told.value if told is not None else None,
        begin=begin,
        end=end if status is not Status.INFO else OPEN,
        status=status,
        told_value=told is not None and told.value is not None,
        token=token,
        attempt=attempt,
        shared=asked.shared,
        lease_ns=asked.lease_ns,
        line=asked.line,
        end_line=told.line if told is not None else 0,
        event=asked.number if by_event else 0,
        end_event=told.number if by_event and told is not None else 0,
    )


def _named(event: Event) -> str:
    return brief(event.f) + ("" if event.key is None else f" of {brief(event.key)}")


def brief(value: Hashable) -> str:
    """A value of a file for a message: on one line, shortened."""
    text = str(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
