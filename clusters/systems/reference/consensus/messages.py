"""Messages between consensus nodes, and their durable state, with JSON encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

Command = Mapping[str, Any] | None
"""One entry for the state machine, JSON; None is the entry that opens a leader's term."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of the log."""

    term: int
    command: Command


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The state machine after entry `index` of `term`. `state` is JSON."""

    index: int
    term: int
    state: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class AskVote:
    """RequestVote; with `pre` only asks whether a vote would be granted, and changes nothing."""

    sender: str
    term: int
    pre: bool
    last_index: int
    last_term: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GiveVote:
    """Response to AskVote. `term` of a granted pre-vote is as requested, else the voter's."""

    sender: str
    term: int
    pre: bool
    given: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Append:
    """AppendEntries after `prev_index`, from the leader of `term`; without entries a heartbeat."""

    sender: str
    term: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...]
    commit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    """Response to Append and Install. ok: the logs agree up to `index`; else they may."""

    sender: str
    term: int
    ok: bool
    index: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Install:
    """InstallSnapshot, for a follower that needs entries that are no longer kept."""

    sender: str
    term: int
    snapshot: Snapshot


Message = AskVote | GiveVote | Append | Appended | Install


@dataclass(frozen=True, kw_only=True, slots=True)
class Ballot:
    """Durable: the term and the candidate that got this node's vote in it ("" for none)."""

    term: int
    vote: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """Durable: these entries from index `first` on, replacing all entries there."""

    first: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Durable:
    """A node's whole durable state at its start; as a save it replaces everything."""

    ballot: Ballot
    snapshot: Snapshot
    entries: tuple[Entry, ...]


Save = Ballot | Tail | Durable

NOTHING = Durable(
    ballot=Ballot(term=0, vote=""), snapshot=Snapshot(index=0, term=0, state=None), entries=()
)
"""The durable state of a node that has never run."""

_KINDS: dict[str, type[Message]] = {
    "ask-vote": AskVote,
    "give-vote": GiveVote,
    "append": Append,
    "appended": Appended,
    "install": Install,
}
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in _KINDS.values()}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_SCALARS = {"sender": str, "term": int, "index": int, "commit": int, "pre": bool, "given": bool}
_SCALARS |= {"ok": bool, "last_index": int, "last_term": int, "prev_index": int, "prev_term": int}


def pack(message: Message) -> dict[str, object]:
    """The message as a JSON object."""
    packed: dict[str, object] = {"kind": _NAMES[type(message)]}
    for name in _FIELDS[type(message)]:
        value = getattr(message, name)
        if name == "entries":
            value = [[entry.term, entry.command] for entry in value]
        elif name == "snapshot":
            value = [value.index, value.term, value.state]
        packed[name] = value
    return packed


def unpack(frame: Mapping[str, Any]) -> Message:
    """The message of a JSON object. Raises ValueError if it is not one."""
    kind = _KINDS.get(str(frame.get("kind")))
    if kind is None:
        raise ValueError(f"no such message: {frame.get('kind')!r}")
    values: dict[str, Any] = {}
    for name in _FIELDS[kind]:
        value = frame.get(name)
        if name == "entries":
            value = _entries(value)
        elif name == "snapshot":
            value = _snapshot(value)
        elif type(value) is not _SCALARS[name]:
            raise ValueError(f"{frame['kind']}: {name} is {value!r}")
        values[name] = value
    return kind(**values)


def _entries(value: Any) -> tuple[Entry, ...]:
    try:
        pairs = [(term, command) for term, command in value]
    except (TypeError, ValueError):
        raise ValueError("append: entries are pairs of term and command") from None
    for term, command in pairs:
        if type(term) is not int or not (command is None or isinstance(command, dict)):
            raise ValueError(f"append: [{term!r}, ...] is no entry")
    return tuple(Entry(term=term, command=command) for term, command in pairs)


def _snapshot(value: object) -> Snapshot:
    if not (isinstance(value, list) and len(value) == 3 and isinstance(value[2], dict)):
        raise ValueError("install: a snapshot is index, term and state")
    index, term, state = value
    if type(index) is not int or type(term) is not int:
        raise ValueError("install: index and term are whole numbers")
    return Snapshot(index=index, term=term, state=state)
