"""Traces of the service: a node that tells each of its steps to the specification.

A traced node is a subclass, made only for a run that asks for it: a node without a trace executes
nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from random import Random
from typing import cast

from holdfast.clusters.systems.reference.consensus.messages import (
    Append,
    Appended,
    AskVote,
    Ballot,
    Durable,
    Entry,
    GiveVote,
    Message,
    Save,
    Snapshot,
    Tail,
)
from holdfast.clusters.systems.reference.consensus.raft import Role
from holdfast.clusters.systems.reference.locks.state import Answer, Command, Event, Lock
from holdfast.clusters.systems.reference.locks.state_machine import Locks
from holdfast.clusters.systems.reference.options import ReferenceOptions
from holdfast.clusters.systems.reference.service.node import Asked, Input, LockNode, NodeEffects
from holdfast.clusters.systems.reference.specification import trace

# Access to a member of an enumeration by name costs as much as a call.
_LEADER = Role.LEADER
_HOLD = attrgetter("attempt", "token", "session", "ttl_ns", "renewal", "renewals")
_WAITER = attrgetter("session", "seq", "passed")
_Told = tuple[
    int,
    bool,
    tuple[trace.Save, ...],
    tuple[trace.Said, ...],
    tuple[tuple[int, int], ...],
    tuple[trace.TableView | trace.Applied, ...],
    tuple[tuple[int, Mapping[str, object]], ...],
    tuple[tuple[int, Mapping[str, object]], ...],
]
"""The fields of a `Step` after its time."""


class ServiceTracer:
    """What one boot of a node tells. emit: appends an event to the trace of the run.

    pending     a step whose saves are on their way to the disk, without its node and time
    committed   (index, term) of what the present step takes as committed
    done        tables loaded and commands applied in the present step
    """

    def __init__(
        self, node: str, emit: Callable[[trace.Event | trace.Begun], None], now: Callable[[], int]
    ) -> None:
        self.node, self.now = node, now
        self._emit = emit
        self.done: list[trace.TableView | trace.Applied] = []
        self.committed: list[tuple[int, int]] = []
        self.pending: _Told | None = None
        self._has = (0, 0)

    def boot(self, now_ns: int, durable: Durable, quorum: int) -> None:
        """The node has started."""
        disk, done = _save(durable), tuple(self.done)
        self.done.clear()
        self._emit(trace.Boot(self.node, self.now(), now_ns, disk, done, quorum))

    def step(self, now_ns: int, leads: bool, inputs: Sequence[Input], effects: NodeEffects) -> None:
        """A step, told at once if it saves nothing, else by `durable`."""
        sent = self._said(effects.sends) if effects.sends else ()
        asked = tuple([(one.connection, one.frame) for one in inputs if type(one) is Asked])
        if not (effects.saves or sent or self.committed or self.done or asked or effects.replies):
            return
        saves, committed, done = effects.saves, tuple(self.committed), tuple(self.done)
        fields = (now_ns, leads, tuple(map(_save, saves)), sent, committed, done, asked)
        self.committed.clear()
        self.done.clear()
        if saves:
            self.pending = (*fields, effects.replies)
        else:
            self._emit(trace.Step(self.node, self.now(), *fields, effects.replies))

    def begins(self) -> None:
        """The saves of the present step are about to be written."""
        if self.pending is not None:
            self._emit(trace.Begun(self.node, self.now(), self.pending[2]))

    def durable(self) -> None:
        """The saves of the present step are on the disk."""
        if self.pending is not None:
            fields, self.pending = self.pending, None
            self._emit(trace.Step(self.node, self.now(), *fields))

    def torn(self, saves: Iterable[Save]) -> None:
        """The node dies in a write, of which this much is on the disk."""
        self.pending = None
        self._emit(trace.Torn(self.node, self.now(), tuple(map(_save, saves))))

    def _said(self, sends: Sequence[tuple[str, Message]]) -> tuple[trace.Said, ...]:
        sent = []
        for to, one in sends:
            if type(one) is Append:
                continue
            if isinstance(one, Appended):
                if one.ok and (one.term, one.index) > self._has:
                    self._has = one.term, one.index
                    sent.append(trace.Said("has", to, one.term, one.index))
            elif isinstance(one, AskVote) and not one.pre:
                sent.append(trace.Said("ask-vote", to, one.term, one.last_index, one.last_term))
            elif isinstance(one, GiveVote) and one.given and not one.pre:
                sent.append(trace.Said("give-vote", to, one.term))
        return tuple(sent)


class _TracedLocks(Locks):
    """Locks that tell each command that they apply."""

    tracer: ServiceTracer

    def apply(self, index: int, command: Command | None) -> tuple[Answer, list[Event]]:
        answer, events = super().apply(index, command)
        self.tracer.done.append(trace.Applied(index, answer, _locks(self)))
        return answer, events


class _LocksOf:
    """Makes the locks of one node, in place of their type."""

    def __init__(self, kind: type[Locks], tracer: ServiceTracer) -> None:
        self._kind, self._tracer = _traced_locks(kind), tracer

    def __call__(self, *, order: str, delays: bool) -> Locks:
        return self._told(self._kind(order=order, delays=delays))

    def load(self, state: Mapping[str, object]) -> Locks:
        """Tells the table that it loads."""
        table = self._kind.load(state)
        sessions = {
            number: (one.ttl_ns, one.beat, one.done, dict(one.answers), one.busy)
            for number, one in table.sessions.items()
        }
        tokens = table.tokens
        self._tracer.done.append(
            trace.TableView(table.index, _locks(table), sessions, tokens.last, dict(tokens.newest))
        )
        return self._told(table)

    def _told(self, locks: Locks) -> Locks:
        assert isinstance(locks, _TracedLocks), "a table is loaded as what it was saved"
        locks.tracer = self._tracer
        return locks


class _TracedNode(LockNode):
    """A node that tells each of its steps."""

    def __init__(
        self,
        *,
        tracer: ServiceTracer,
        name: str,
        peers: Sequence[str],
        options: ReferenceOptions,
        rng: Random,
        durable: Durable,
        now_ns: int,
    ) -> None:
        self.tracer = tracer
        self.locks_type = cast("type[Locks]", _LocksOf(self.locks_type, tracer))
        super().__init__(
            name=name, peers=peers, options=options, rng=rng, durable=durable, now_ns=now_ns
        )
        self.tracer.boot(now_ns, durable, self.consensus.quorum)

    def step(self, now_ns: int, inputs: Sequence[Input] = ()) -> NodeEffects:
        effects = super().step(now_ns, inputs)
        self.tracer.step(now_ns, self.consensus.role is _LEADER, inputs, effects)
        return effects

    def _apply(self, now_ns: int, ready: tuple[int, Entry] | Snapshot) -> None:
        self.tracer.committed.append(_place(ready))
        super()._apply(now_ns, ready)


def traced(kind: type[LockNode], tracer: ServiceTracer) -> Callable[..., LockNode]:
    """Makes the same node, told step by step."""
    return partial(_traced_node(kind), tracer=tracer)


_NODES: dict[type[LockNode], type[_TracedNode]] = {}
_LOCKS: dict[type[Locks], type[_TracedLocks]] = {}
"""One type for all nodes of a kind: the interpreter remembers where a type has an attribute, at
each place that reads it, and forgets where several types come to one place in turns."""


def _traced_node(kind: type[LockNode]) -> type[_TracedNode]:
    if kind not in _NODES:
        _NODES[kind] = type("Traced", (_TracedNode, kind), {})
    return _NODES[kind]


def _traced_locks(kind: type[Locks]) -> type[_TracedLocks]:
    if kind not in _LOCKS:
        _LOCKS[kind] = type("Traced", (_TracedLocks, kind), {})
    return _LOCKS[kind]


def _locks(locks: Locks) -> dict[str, trace.LockView]:
    return {name: _lock(lock) for name, lock in locks.locks.items()}


def _lock(lock: Lock) -> trace.LockView:
    return tuple(map(_HOLD, lock.holds)), tuple(map(_WAITER, lock.queue)), lock.closed


def _place(ready: tuple[int, Entry] | Snapshot) -> tuple[int, int]:
    if isinstance(ready, Snapshot):
        return ready.index, ready.term
    return ready[0], ready[1].term


def _entries(entries: Iterable[Entry]) -> trace.Entries:
    return tuple([(entry.term, entry.command) for entry in entries])


def _save(save: Save) -> trace.Save:
    if isinstance(save, Ballot):
        return trace.Save("ballot", save.term, save.vote)
    if isinstance(save, Tail):
        return trace.Save("entries", 0, "", save.first, _entries(save.entries))
    ballot, snapshot = save.ballot, save.snapshot
    return trace.Save(
        "all",
        ballot.term,
        ballot.vote,
        entries=_entries(save.entries),
        base=snapshot.index,
        base_term=snapshot.term,
    )
