"""The one form in which a foreign history is held: operations with a begin and an end.

Order is the order of the events in the file. A begin or an end is the number of its event, so that
all of them differ, and an operation whose outcome is unknown never ends.
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

    process     who called; its calls never overlap
    f           what it did: "acquire", "release", "read", "write", "cas", "put" ...
    key         lock or register it is about; None where the history has one only
    value       what was asked: the value written, [old new] of a cas
    result      what was answered: the value read; FAIL in `status` where it surely had no effect
    begin, end  event numbers, `end` OPEN where the outcome is unknown
    status      OK, FAIL, NOT_OWNER or INFO
    told_value  False where a completion said nothing of a value (nil, null or no field)
    token       fencing token that came with it, NO_TOKEN for none
    attempt     identity of the acquire that it belongs to, None where the history names none
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
    """One edge of an operation as a reader found it; kind is invoke, ok, fail or info."""

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
    """A boolean of a history that equals no number: Python takes True for 1."""

    value: bool

    def __repr__(self) -> str:
        return repr(self.value)


def distinct(value: Hashable) -> Hashable:
    """The value in a form that equals another only where the values of the file are equal."""
    if isinstance(value, bool):
        return Truth(value)
    if isinstance(value, tuple):
        return tuple(map(distinct, value))
    if isinstance(value, frozenset):
        return frozenset(map(distinct, value))
    return value


def keyed_apart(ops: Sequence[ForeignOp]) -> Sequence[ForeignOp]:
    """The same operations, with a key of their own where their values are tuples [key value].

    Jepsen's `independent` tests many registers or locks in one history, and says which one in the
    value of every operation. A history is taken for one of those if it names no key and every
    invocation carries a pair, which its answer repeats, a cas one whose second half is a pair: the
    read of a single register carries nothing, its cas two plain values.
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
    """What is wrong with a file, and on which line; the caller knows the file's name."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


class Pairing:
    """Makes operations of events, in the order of the file.

    Malformed where an event cannot be: a completion without its invocation, a second invocation
    before the first was answered, time that goes backwards within one process.
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
        """The history; what was never answered has an unknown outcome."""
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
    """A word of a file as a message can show it: on one line, and not a long one."""
    text = str(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
