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
    line        line of its invocation; `end_line` of its completion, 0 for none
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
    line: int = 0
    end_line: int = 0


@dataclass(frozen=True, kw_only=True)
class ForeignHistory:
    """All operations of a file in order of their begin. name: for messages, usually its path."""

    name: str
    ops: Sequence[ForeignOp]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Invocation or completion of an operation in a file; kind is invoke, ok, fail or info."""

    line: int
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
    if not ops or not all(_of_a_pair(op) for op in ops):
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
    told = op.told_value and answer is not None
    return replace(op, key=key, value=value, result=answer, told_value=told)


class Malformed(Exception):
    """An error in a file, with its line; the caller adds the file's name."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


class Pairing:
    """Makes operations of events, in the order of the file.

    Malformed if an event is impossible: a completion without its invocation, a second invocation
    before the completion of the first, time that goes backwards within one process.
    """

    def __init__(self) -> None:
        self._open: dict[int | str, tuple[Event, int]] = {}
        self._seen: dict[int | str, tuple[int, int]] = {}
        self._done: list[ForeignOp] = []
        self._events = 0

    def add(self, event: Event) -> None:
        """Take the next event."""
        self._check_time(event)
        number = self._events
        self._events += 1
        waiting = self._open.get(event.process)
        if event.kind == "invoke":
            if waiting is not None:
                raise Malformed(
                    event.line,
                    f"process {brief(event.process)} invokes {brief(event.f)}"
                    f" while its {brief(waiting[0].f)} of line {waiting[0].line}"
                    " is still open: two concurrent invocations",
                )
            self._open[event.process] = (event, number)
            return
        if waiting is None:
            raise Malformed(
                event.line,
                f"process {brief(event.process)} completes {brief(event.f)}:"
                " a completion without invocation",
            )
        asked, begin = waiting
        if asked.f != event.f or (event.keyed and event.key != asked.key):
            raise Malformed(
                event.line,
                f"process {brief(event.process)} completes {_named(event)},"
                f" but line {asked.line} invoked {_named(asked)}",
            )
        del self._open[event.process]
        self._done.append(_paired(asked, event, begin, number))

    def _check_time(self, event: Event) -> None:
        if event.time is None:
            return
        last = self._seen.get(event.process)
        if last is not None and event.time < last[0]:
            raise Malformed(
                event.line,
                f"time goes backwards: process {brief(event.process)} is at {event.time},"
                f" and was at {last[0]} on line {last[1]}",
            )
        self._seen[event.process] = (event.time, event.line)

    def close(self, name: str) -> ForeignHistory:
        """The history; an operation without a completion has an unknown outcome."""
        for asked, begin in self._open.values():
            self._done.append(_paired(asked, None, begin, OPEN))
        if not self._done:
            raise Malformed(1, "no operation of a client")
        return ForeignHistory(name=name, ops=tuple(sorted(self._done, key=lambda op: op.begin)))


STATUS = {"ok": Status.OK, "fail": Status.FAIL, "info": Status.INFO}


def _paired(asked: Event, told: Event | None, begin: int, end: int) -> ForeignOp:
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
        line=asked.line,
        end_line=told.line if told is not None else 0,
    )


def _named(event: Event) -> str:
    return brief(event.f) + ("" if event.key is None else f" of {brief(event.key)}")


def brief(value: Hashable) -> str:
    """A value of a file for a message: on one line, shortened."""
    text = str(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
