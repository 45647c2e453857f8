"""The trace of a service: what each node did, as plain values, one event per step of a node.

A step is what a node does between two looks at its inputs: it makes its saves durable, then sends,
applies and answers. So an event stands for a step whose saves are on the disk; a crash inside the
write leaves `Torn`, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Entries = tuple[tuple[int, Mapping[str, object] | None], ...]
"""(term, command) of consecutive entries of the log; None opens a leader's term"""
LockView = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], int]
"""holds (attempt, token, session, ttl_ns, renewed, renewals), waiters (session, seq, passed), and
`closed` of one lock"""

SessionView = tuple[int, int, int, Mapping[int, Mapping[str, object]], int]
"""ttl_ns, beat, done and the kept answers of one session, and how many holds and waits it counts"""


class Save(NamedTuple):
    """A write to the disk. what: "ballot" (term, vote); "entries" (from `first` on); "all", which
    replaces the disk: ballot, a snapshot of all up to `base` (its term: base_term), entries."""

    what: str
    term: int = 0
    vote: str = ""
    first: int = 0
    entries: Entries = ()
    base: int = 0
    base_term: int = 0


class Said(NamedTuple):
    """A message about which there is a rule. what: "ask-vote" (place and term of its last
    entry), "give-vote", "has" (an acknowledgement of all entries up to `at`)."""

    what: str
    to: str
    term: int
    at: int = 0
    at_term: int = 0


class TableView(NamedTuple):
    """The whole table that a node has loaded. by their names and numbers."""

    at: int
    locks: Mapping[str, LockView]
    sessions: Mapping[int, SessionView]
    token: int
    newest: Mapping[str, int]


class Applied(NamedTuple):
    """One command applied by a node: its answer, and all locks after it."""

    at: int
    answer: Mapping[str, object]
    locks: Mapping[str, LockView]


class Boot(NamedTuple):
    """A node has started from its disk. quorum: the votes that it needs; 0: not told."""

    node: str
    t_ns: int
    now_ns: int
    disk: Save
    done: tuple[TableView | Applied, ...]
    quorum: int = 0


class Begun(NamedTuple):
    """A write of a step to the disk has begun: told by a process, which can die in it. A reader of
    its trace finds out how much became durable, and makes it `Torn`."""

    node: str
    t_ns: int
    saves: tuple[Save, ...]


class Torn(NamedTuple):
    """A node died in a write; of it this much is durable."""

    node: str
    t_ns: int
    saves: tuple[Save, ...]


class Step(NamedTuple):
    """One step of a node.

    t_ns, now_ns   the run's time, and the node's own monotonic clock
    leads          whether it leads after the step
    said           its votes and acknowledgements, in order
    committed      (index, term) of what it now takes as committed, in order
    done           the tables it loaded and the commands it applied, in order
    asked          (connection, frame) of the clients' requests that it read
    replies        (connection, frame) of its answers and notices
    """

    node: str
    t_ns: int
    now_ns: int
    leads: bool
    saves: tuple[Save, ...]
    said: tuple[Said, ...]
    committed: tuple[tuple[int, int], ...]
    done: tuple[TableView | Applied, ...]
    asked: tuple[tuple[int, Mapping[str, object]], ...]
    replies: tuple[tuple[int, Mapping[str, object]], ...]


Event = Boot | Torn | Step
