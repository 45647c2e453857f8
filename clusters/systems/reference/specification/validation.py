"""Validation of a trace: whether every step of every node is one that the specification allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from holdfast.clusters.systems.reference.specification import locks
from holdfast.clusters.systems.reference.specification.replication import Departs, Replication
from holdfast.clusters.systems.reference.specification.trace import (
    Applied,
    Boot,
    Event,
    LockView,
    TableView,
    Torn,
)
from holdfast.harness.verdicts.departure import Departure


class Validation:
    """One cluster, event by event, in the order of time.

    outcomes   what each committed command does, by its index; 0 is the empty table
    views      all locks after each command, as nodes tell them
    past       (lock, token, attempt) -> reason, of all holds that ended
    applied    node -> index of the last command that it applied
    """

    def __init__(self, nodes: int, order: locks.Order, *, delays: bool) -> None:
        self.log = Replication(nodes)
        self.order, self.delays = order, delays
        self.outcomes = [locks.Outcome(locks.EMPTY, {}, [], {})]
        self.views: list[Mapping[str, LockView]] = [{}]
        self.past: dict[tuple[str, int, int], str] = {}
        self.applied: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """One event. Departs, if it is not allowed."""
        if isinstance(event, Torn):
            self.log.torn(event)
            return
        if isinstance(event, Boot):
            self.log.boot(event)
            self.applied[event.node] = self.log.disks[event.node].base
        else:
            self.log.step(event)
        agreed = self.log.agreed
        while len(self.outcomes) < len(agreed):
            self._commit(len(self.outcomes), agreed[len(self.outcomes)])
        for done in event.done:
            if isinstance(done, TableView):
                self._loads(event.node, done)
            else:
                self._applies(event.node, done)

    def _commit(self, index: int, term: int) -> None:
        """The next command of the log, applied to the table of the specification."""
        command = cast("locks.Command | None", self.log.made[index, term][1])
        before = self.outcomes[-1].table
        outcome = locks.after(
            before, index, command, order=self.order, delays=self.delays, past=self.past
        )
        self.past.update(outcome.ended)
        self.outcomes.append(outcome)
        now, view = outcome.table.locks, self.views[-1]
        if now != before.locks:
            same = {name: view[name] for name in view if now.get(name) is before.locks[name]}
            view = {name: same.get(name) or _view(lock) for name, lock in now.items()}
        self.views.append(view)

    def _applies(self, node: str, done: Applied) -> None:
        index, last = done.at, self.applied.get(node, 0)
        if index != last + 1 or index > self.log.disks[node].committed:
            raise Departs(
                "committed commands are applied once, in order",
                f"applied to {last}, committed to {self.log.disks[node].committed}",
                f"to apply {last + 1} once it is committed",
                f"applies {index}",
            )
        self.applied[node] = index
        wanted = self.outcomes[index]
        if not matches(wanted.answer, done.answer):
            raise Departs(
                f"the answer to {self._told(index)}",
                self._locks_before(index),
                f"{dict(wanted.answer)}",
                f"{dict(done.answer)}",
            )
        if self.views[index] != done.locks:
            raise Departs(
                f"the locks after {self._told(index)}",
                self._locks_before(index),
                described(self.views[index]),
                described(done.locks),
            )

    def _loads(self, node: str, found: TableView) -> None:
        """A snapshot: it has everything that the table had at its index."""
        self.applied[node] = found.at
        table, view = self.outcomes[found.at].table, self.views[found.at]
        sessions = {number: tuple(session) for number, session in found.sessions.items()}
        wanted = {number: tuple(session) for number, session in table.sessions.items()}
        if (view, table.token, table.newest) != (found.locks, found.token, found.newest):
            raise Departs(
                "a snapshot has the whole table",
                f"snapshot of entry {found.at}",
                f"{described(view)}; last token {table.token}; newest {dict(table.newest)}",
                f"{described(found.locks)}; last token {found.token}; newest {dict(found.newest)}",
            )
        if wanted.keys() != sessions.keys() or any(
            wanted[n][:3] != sessions[n][:3]
            or table.sessions[n].answers.keys() != found.sessions[n][3].keys()
            or not all(
                matches(answer, found.sessions[n][3][seq])
                for seq, answer in table.sessions[n].answers.items()
            )
            for n in wanted
        ):
            raise Departs(
                "a snapshot has every session and its answers",
                f"snapshot of entry {found.at}",
                f"{wanted}",
                f"{sessions}",
            )

    def _told(self, index: int) -> str:
        command = self.log.made[index, self.log.agreed[index]][1]
        text = "the empty command" if command is None else f"{dict(command)}"
        return f"entry {index}: {text}"

    def _locks_before(self, index: int) -> str:
        return described(self.views[index - 1])


def matches(wanted: Mapping[str, object], found: Mapping[str, object]) -> bool:
    """Whether an answer says what it must; it may say more."""
    return all(name in found and found[name] == value for name, value in wanted.items())


def _view(lock: locks.Lock) -> LockView:
    return (
        tuple(hold[:6] for hold in lock.holds),
        tuple(request[:3] for request in lock.queue),
        lock.closed,
    )


def described(view: Mapping[str, LockView]) -> str:
    """All locks in words."""
    told = []
    for name, (holds, queue, closed) in view.items():
        held = ", ".join(
            f"attempt {hold[0]} of session {hold[2]} with token {hold[1]}"
            f" (renewed {hold[5]} times, last by entry {hold[4]})"
            for hold in holds
        )
        waits = ", ".join(f"request {seq} of session {session}" for session, seq, _ in queue)
        shut = f", closed since entry {closed}" if closed else ""
        told.append(f"{name}: held by {held or 'none'}; waiting {waits or 'none'}{shut}")
    return "; ".join(told) or "no lock is in use"


def validate(
    events: Iterable[object], *, nodes: int, options: Mapping[str, str]
) -> Departure | None:
    """The first event of a run that is not allowed, None if all are."""
    order = cast("locks.Order", options.get("queue", "fifo"))
    state = Validation(nodes, order, delays=options.get("delay_ms", "0") != "0")
    for event in cast("Iterable[Event]", events):
        try:
            state.take(event)
        except Departs as wrong:
            return Departure(
                node=event.node,
                t_ns=event.t_ns,
                rule=wrong.rule,
                before=wrong.before,
                allows=wrong.allows,
                happened=wrong.happened,
            )
    return None
